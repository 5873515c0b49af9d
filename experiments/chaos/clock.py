"""A clock that only one process sees, through libfaketime."""

from pathlib import Path

_LIBRARY = "faketime/libfaketime.so.1"
_DIRECTORIES = tuple(Path("/usr/lib").glob("*-linux-gnu"))


class ClockError(RuntimeError):
    """There is no such clock; the text says what is missing."""


class SteppedClock:
    """Clocks of a process that is started with ``environment``.

    With ``monotonic``, all of its clocks are stepped together, as when a virtual machine was halted
    and does not know; without, CLOCK_REALTIME alone, as by an operator or NTP.
    """

    def __init__(self, directory: Path) -> None:
        self.monotonic = False
        self._file = directory / "clock"
        self._library = _find()
        self._ahead_s = 0
        self._write()

    def environment(self, monotonic: bool) -> dict[str, str]:
        """The environment to start the process with; it starts with the right time."""
        self.monotonic = monotonic
        self._ahead_s = 0
        self._write()
        wanted = {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            # How long (s) it goes by what it read last.
            "FAKETIME_CACHE_DURATION": "1",
            "NO_FAKE_STAT": "1",
        }
        return wanted if monotonic else wanted | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def step(self, by_s: int) -> None:
        """Move the clock forward or back; the process sees it within a second."""
        self._ahead_s += by_s
        self._write()

    def _write(self) -> None:
        # Never empty for a moment: that would be an error on the other side.
        new = self._file.with_suffix(".new")
        new.write_text(f"{self._ahead_s:+d}\n")
        new.replace(self._file)


def _find() -> Path:
    found = next((d / _LIBRARY for d in _DIRECTORIES if (d / _LIBRARY).exists()), None)
    if found is None:
        raise ClockError("libfaketime is missing: apt-get install libfaketime")
    return found
