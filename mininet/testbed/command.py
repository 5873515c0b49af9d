"""Run commands of the system; a failure is an exception.

Mininet runs its commands in a shell and goes on when they fail, which is how a test bed comes to
measure a network that was never built. Here every failure is an exception with the command in it.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence


class CommandError(RuntimeError):
    """A command ended with an error: what was run, and all that it said."""

    def __init__(self, argv: Sequence[str], returncode: int | None, output: str) -> None:
        ended = "did not end in time" if returncode is None else f"ended with status {returncode}"
        super().__init__(f"{shlex.join(argv)} {ended}: {output.strip() or '(no output)'}")
        self.argv = list(argv)
        self.returncode = returncode
        self.output = output


def in_network(pid: int, argv: Sequence[str]) -> list[str]:
    """Return ``argv`` as a command in the network namespace of process ``pid``."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *argv]


def run(
    argv: Sequence[str],
    *,
    pid: int | None = None,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> str:
    """Run ``argv`` (in the network namespace of process ``pid``, if given); return its output.

    Raises CommandError if it does not end with status 0 within ``timeout_s``.
    """
    if pid is not None:
        argv = in_network(pid, argv)
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=None if env is None else dict(env),
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise CommandError(argv, None, str(late)) from late
    except OSError as missing:
        raise CommandError(argv, 127, str(missing)) from missing
    if done.returncode != 0:
        raise CommandError(argv, done.returncode, done.stderr + done.stdout)
    return done.stdout


def wait_until(
    condition: Callable[[], bool],
    *,
    timeout_s: float,
    what: str,
    poll_s: float = 0.02,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Poll ``condition`` until it holds; raise TimeoutError naming ``what`` after ``timeout_s``."""
    deadline = clock() + timeout_s
    while not condition():
        if clock() >= deadline:
            raise TimeoutError(f"{what}: not so after {timeout_s:g} s")
        time.sleep(poll_s)
