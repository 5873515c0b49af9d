"""What the controller and the API's process cost without a browser, with one, and with many.

One is a real browser, that goes from view to view. The many are stand-ins that ask what it was seen
to ask, for a machine with two processors cannot run them: a fifth of them in each view.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from experiments.page.browser import Looking, browsing
from experiments.page.recorded import Question, questions, written
from experiments.page.stand_ins import Settings
from experiments.page.watched import ORIGIN, PORT, Watched, watched
from testbed.dashboard import find_page

_SETTLE_S = 5.0
_END_S = 10.0
# The views that are asked for, by the ends of their addresses.
_VIEWS = ("#/", "#/fabric", "#/port/{port}", "#/flows", "#/events")


def run(
    progress: Callable[[str], None],
    *,
    windows: int,
    window_s: float,
    recorded_s: float,
    count: int,
    small: bool,
) -> dict[str, object]:
    """Measure; see ``experiments.bench``."""
    page = find_page()
    with watched(progress, page, small=small) as all_of_it:
        time.sleep(_SETTLE_S)
        figures: dict[str, Any] = _shares(all_of_it, "0", windows, window_s)
        progress(f"no browser: {_told(figures, '0')}")
        with browsing() as browser:
            looking = Looking(browser, ORIGIN, all_of_it.secret)
            views = [_record(looking, view, recorded_s) for view in _addresses(all_of_it)]
            figures |= {"questions_per_s": [round(_rate(view), 2) for view in views]}
            figures |= _shares(all_of_it, "1", windows, window_s)
            progress(f"one browser: {_told(figures, '1')}")
            looking.close()
        settings = Settings(PORT, all_of_it.secret, count, [written(view) for view in views])
        told: dict[str, Any] = {}
        with _standing_in(settings, told):
            time.sleep(_SETTLE_S)
            figures |= _shares(all_of_it, str(count), windows, window_s)
            progress(f"{count} browsers: {_told(figures, str(count))}")
        figures |= {f"stand_ins_{name}": value for name, value in told.items()}
        for what in ("controller", "api"):
            none, many = (figures[f"{what}_share_{n}_browsers"] for n in (0, count))
            figures[f"{what}_share_of_{count}_browsers"] = many - none
        controller_mb, api_mb = all_of_it.memory_mb()
        figures |= {"controller_mb": controller_mb, "api_mb": api_mb}
    return figures


def _addresses(all_of_it: Watched) -> list[str]:
    told = all_of_it.ask("/v1/overview")["congested"][0]
    port = f"{told['datapath_id']}/{told['port']}"
    return [view.format(port=port) for view in _VIEWS]


def _record(looking: Looking, view: str, for_s: float) -> list[Question]:
    """What a view asks for."""
    asked: list[tuple[float, str]] = []

    def note(request: Any) -> None:
        asked.append((time.time(), request.url))

    looking.page.on("request", note)
    looking.page.evaluate("hash => { location.hash = hash }", view)
    looking.page.wait_for_timeout(1000 * for_s)
    looking.page.remove_listener("request", note)
    return questions(asked)


def _rate(view: Sequence[Question]) -> float:
    return sum(1 / one.period_s for one in view if one.period_s)


def _shares(all_of_it: Watched, who: str, windows: int, window_s: float) -> dict[str, object]:
    taken = [all_of_it.shares_of(window_s) for _ in range(windows)]
    figures: dict[str, object] = {}
    for n, what in enumerate(("controller", "api")):
        shares = [one[n] for one in taken]
        figures[f"{what}_share_{who}_browsers"] = statistics.median(shares)
        figures[f"{what}_share_{who}_browsers_samples"] = [round(share, 3) for share in shares]
    return figures


def _told(figures: dict[str, Any], who: str) -> str:
    controller, api = (figures[f"{what}_share_{who}_browsers"] for what in ("controller", "api"))
    return f"the controller takes {controller:.1%} of a core, the API {api:.1%}"


@contextmanager
def _standing_in(settings: Settings, told: dict[str, Any]) -> Iterator[None]:
    """Stand-ins; ``told`` gets what they say at the end."""
    command = [sys.executable, "-m", "experiments.page.stand_ins", settings.written()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError("the stand-ins have ended at once")
            yield
            process.stdin.close()
            told |= json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(_END_S)
