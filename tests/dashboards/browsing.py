"""Fixtures: the built page, a browser, the fake API, and a page of it in the browser."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_api import FakeApi
from fake_api import Served as ServedFake
from looking import Looking, chromium


@pytest.fixture(scope="session")
def built_page() -> Path:
    """The built page."""
    told = os.environ.get("WEIR_PAGE_PREFIX")
    build = Path(__file__).resolve().parents[2] / "dashboards/web/build"
    prefix = told or subprocess.check_output([build, "--prefix"], text=True).strip()
    if not (Path(prefix) / "index.html").exists():
        pytest.skip("the page is not built: make page")
    return Path(prefix)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser without windows."""
    with chromium() as started:
        yield started


@pytest.fixture
def served(built_page: Path) -> Iterator[ServedFake]:
    with ServedFake(FakeApi(built_page)).running() as served:
        yield served


@pytest.fixture
def looking(browser: Any, served: ServedFake) -> Iterator[Looking[ServedFake]]:
    looking = Looking(browser, served)
    yield looking
    looking.context.close()
    assert looking.errors == []
    assert looking.off_origin() == []


@pytest.fixture
def expect() -> Any:
    """What waits until something is so."""
    return pytest.importorskip("playwright.sync_api").expect
