"""The memory of the process that shows a page.

A process of the browser maps the browser's own program, as all others of it do, and this is most
of its resident set. So the same is taken of an empty page of the same browser, and beside the
resident set (RSS) there are the proportional one (PSS: what n processes share counts by 1/n) and
what is the process's own.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

_MB = 1e6
_KB_PER_MB = 1e3
_MARK_BYTES = 96_000_000
_PATIENCE_S, _LOOK_EVERY_S = 10.0, 0.1
_MARK = "(size) => { window.weirMark = new Uint8Array(size).fill(1); }"
_UNMARK = "() => { delete window.weirMark; }"


class Memory(NamedTuple):
    """Of a process, in MB of a million bytes."""

    rss_mb: float
    pss_mb: float
    private_mb: float


def parsed(rollup: str) -> Memory:
    """What the text of `/proc/PID/smaps_rollup` says."""
    kb = {}
    for line in rollup.splitlines()[1:]:
        name, _, value = line.partition(":")
        kb[name] = float(value.split()[0])
    private = kb["Private_Clean"] + kb["Private_Dirty"]
    return Memory(*(value / _KB_PER_MB * 1.024 for value in (kb["Rss"], kb["Pss"], private)))


def memory_of(pid: int) -> Memory:
    """Of a running process. Raises ProcessLookupError or FileNotFoundError if it has ended."""
    return parsed(Path(f"/proc/{pid}/smaps_rollup").read_text())


def heap_mb(page: Any) -> float:
    """The JavaScript heap in use, without what may be collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    return float(next(m["value"] for m in metrics if m["name"] == "JSHeapUsedSize")) / _MB


def renderer_of(page: Any) -> int:
    """The process that shows the page: nothing says which one that is, so the page takes a lot of
    memory for a moment, and the process that grows is the one. Raises TimeoutError."""
    before = _renderers()
    page.evaluate(_MARK, _MARK_BYTES)
    try:
        end_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            for pid, rss in _renderers().items():
                if rss - before.get(pid, rss) > 0.9 * _MARK_BYTES:
                    return pid
            time.sleep(_LOOK_EVERY_S)
    finally:
        page.evaluate(_UNMARK)
        heap_mb(page)
    raise TimeoutError("no process of the browser has grown with its page")


def of_blank(browser: Any) -> dict[str, float]:
    """Figures of an empty page, with the same names as those of the page, after `blank_`."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        pid = renderer_of(page)
        page.wait_for_timeout(2000)
        rss, pss, private = memory_of(pid)
        return {
            "blank_renderer_mb": rss,
            "blank_renderer_pss_mb": pss,
            "blank_renderer_private_mb": private,
            "blank_heap_mb": heap_mb(page),
        }
    finally:
        context.close()


def _renderers() -> dict[int, int]:
    """The resident set of each, in bytes."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                found[process.pid] = process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found
