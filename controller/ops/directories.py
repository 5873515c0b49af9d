"""Directories that systemd names."""

import os
from collections.abc import Mapping
from pathlib import Path


def state(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where what outlasts a restart is kept; None without systemd (systemd.exec(5))."""
    directory = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(directory) if directory else None
