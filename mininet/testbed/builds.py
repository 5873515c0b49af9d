"""Where builds are kept that checkouts share: ovs-patches/build and transport/build make them."""

import os
import sys
from pathlib import Path

TRANSPORT_PREFIX_VARIABLE = "WEIR_TRANSPORT_PREFIX"


def cache() -> Path:
    """$WEIR_CACHE, else what the XDG base directories say."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("WEIR_CACHE") or Path(base) / "weir")


def latest(name: str) -> Path | None:
    """The complete build of this name that was made or asked for last (tools/prepare), if any."""
    built = [mark.parent for mark in cache().glob(f"{name}-*/.complete")]
    return max(built, key=lambda prefix: (prefix / ".complete").stat().st_mtime, default=None)


def transport() -> Path | None:
    """Where the coded transports are: $WEIR_TRANSPORT_PREFIX, else the build asked for last."""
    given = os.environ.get(TRANSPORT_PREFIX_VARIABLE)
    return Path(given) if given else latest("transport")


def add_programs_to_path() -> None:
    """Have the processes that are started from here find Weir's programs by their names."""
    folders = [Path(sys.executable).parent]
    built = transport()
    if built is not None:
        folders.append(built / "bin")
    os.environ["PATH"] = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
