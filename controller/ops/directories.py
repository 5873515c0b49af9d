"""Directories that systemd names, and files there that are replaced as a whole."""

import os
from collections.abc import Mapping
from pathlib import Path


def state(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where what outlasts a restart is kept; None without systemd (systemd.exec(5))."""
    directory = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(directory) if directory else None


def replace(path: Path, text: str) -> None:
    """Write a file so that after a crash there is the former text or the new one. Raises
    OSError."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    new.replace(path)
