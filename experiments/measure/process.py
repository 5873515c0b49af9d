"""The resources that a process uses."""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Footprint:
    """The resources of a process at one moment."""

    rss_kb: int
    descriptors: int
    threads: int


def footprint(pid: int) -> Footprint:
    """Look at a running process. Raises ProcessLookupError if it has ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            found = Footprint(
                process.memory_info().rss // 1024, process.num_fds(), process.num_threads()
            )
    except psutil.NoSuchProcess as gone:
        raise ProcessLookupError(f"process {pid} has ended") from gone
    if not found.rss_kb:
        raise ProcessLookupError(f"process {pid} has no memory: it has ended")
    return found


def processor_s(pid: int) -> float:
    """Return the processor time that a process has had."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def ended_children_s() -> float:
    """Return the processor time of the children of this process that have ended."""
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)
