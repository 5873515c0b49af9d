"""Where builds are kept that checkouts share: ovs-patches/build and transport/build make them."""

import os
from pathlib import Path


def cache() -> Path:
    """$WEIR_CACHE, else what the XDG base directories say."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("WEIR_CACHE") or Path(base) / "weir")


def newest(name: str) -> Path | None:
    """The newest complete build of this name, if there is any."""
    built = [mark.parent for mark in cache().glob(f"{name}-*/.complete")]
    return max(built, key=lambda prefix: (prefix / ".complete").stat().st_mtime, default=None)
