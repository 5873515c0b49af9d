"""Where the built page is."""

import os
import subprocess
from pathlib import Path

_BUILD = Path(__file__).resolve().parents[2] / "dashboards/web/build"


def built_page() -> Path:
    """Raises RuntimeError if it is not built."""
    told = os.environ.get("WEIR_PAGE_PREFIX")
    prefix = Path(told or subprocess.check_output([_BUILD, "--prefix"], text=True).strip())
    if not (prefix / "index.html").exists():
        raise RuntimeError(f"{prefix} has no page; build it with make page")
    return prefix
