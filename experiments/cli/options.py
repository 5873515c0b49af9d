"""Options that several commands share, and how they are read."""

import argparse
from pathlib import Path
from typing import Any

from experiments import runner
from experiments.hosts import HOSTS, USUAL, hosts

Commands = Any
"""What argparse's ``add_subparsers`` returns."""

_LEAST, _MOST = 1, 65_535
_MOST_SCALE = 14


def add_where(command: argparse.ArgumentParser, out: str, more: str = "") -> None:
    """Add the options for the output folder, of whose help ``more`` is the end, and the switch."""
    add = command.add_argument
    add(
        "--out", type=Path, default=Path(out), metavar="DIR",
        help=f"where to write (default %(default)s{more})",
    )  # fmt: skip
    add(
        "--ovs", metavar="PREFIX",
        help="the patched switch (default: $WEIR_OVS_PREFIX, else the build asked for last)",
    )  # fmt: skip


def words(written: str) -> list[str]:
    """Return the words of a list with commas."""
    return [word.strip() for word in written.split(",") if word.strip()]


def numbers(written: str) -> list[int]:
    """Return the whole numbers of a list with commas. Raises ArgumentTypeError for another word."""
    found = words(written)
    if not found or not all(word.lstrip("-").isdecimal() for word in found):
        raise argparse.ArgumentTypeError(f"{written!r} is not N or N,N,...")
    return list(map(int, found))


def folder(path: Path) -> Path:
    """Return ``path`` as a folder, made if it is not there. Raises ValueError if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise ValueError(f"cannot write into --out {path}: {refused.strerror}") from refused
    return path


def add_receive_buffer(command: argparse.ArgumentParser) -> None:
    """Add the option that limits the receive buffer of the hosts."""
    command.add_argument(
        "--receive-buffer", type=int, default=runner.RECEIVE_BUFFER_BYTES, metavar="BYTES",
        help="largest receive buffer of the hosts, from which their window scale follows; "
        "0 leaves this kernel's own (default %(default)s: scale 7)",
    )  # fmt: skip


def receive_buffer(args: argparse.Namespace) -> int | None:
    """Return it in bytes, None for the kernel's own. Raises ValueError if it is negative."""
    if args.receive_buffer < 0:
        raise ValueError(f"--receive-buffer must be 0 or more bytes, not {args.receive_buffer}")
    return args.receive_buffer or None


def add_hosts(command: argparse.ArgumentParser) -> Any:
    """Add the options for the hosts' TCP; return their group."""
    group = command.add_argument_group(
        "hosts",
        "Linux's own settings, unless one of these is given; what the scheme sets prevails. The "
        "record of a run has them",
    )
    add = group.add_argument
    add(
        "--hosts", choices=HOSTS, default=USUAL, metavar="NAME",
        help="settings that go together, before those below: "
        + "; ".join(f"{one.name} ({one.about})" for one in HOSTS.values())
        + " (default %(default)s)",
    )  # fmt: skip
    add("--quickack", action="store_true", help="acknowledge every segment at once")
    add("--initial-window", type=int, metavar="N", help="segments that a connection begins with")
    add("--least-rto", type=int, metavar="MS", help="least retransmission timeout")
    add("--mss", type=int, metavar="BYTES", help="largest segment to be announced")
    add("--no-timestamps", action="store_true", help="no TCP timestamps (RFC 7323)")
    add("--no-sack", action="store_true", help="no selective acknowledgements (RFC 2018)")
    scale = group.add_mutually_exclusive_group()
    scale.add_argument("--no-window-scaling", action="store_true", help="windows of 64 KiB at most")
    scale.add_argument(
        "--window-scale", type=int, metavar="N",
        help="0 to 14: has the receive buffer and the largest window that lead to it",
    )  # fmt: skip
    return group


def host_changes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of HostSettings that options ask for."""
    numbers = {
        "initcwnd": ("--initial-window", args.initial_window),
        "rto_min_ms": ("--least-rto", args.least_rto),
        "mss_bytes": ("--mss", args.mss),
    }
    for option, value in numbers.values():
        if value is not None and not _LEAST <= value <= _MOST:
            raise ValueError(f"{option} must be {_LEAST} to {_MOST}, not {value}")
    changes = hosts(args.hosts).changes
    changes |= {name: value for name, (_, value) in numbers.items() if value is not None}
    if args.quickack:
        changes["quickack"] = True
    for name in ("timestamps", "sack", "window_scaling"):
        if getattr(args, f"no_{name}"):
            changes[name] = False
    if args.window_scale is not None:
        if not 0 <= args.window_scale <= _MOST_SCALE:
            raise ValueError(f"--window-scale must be 0 to {_MOST_SCALE}, not {args.window_scale}")
        # Linux takes the least scale in which its largest window can be written.
        changes["rmem_max_bytes"] = 65_536 << args.window_scale
        changes["window_clamp_bytes"] = 65_535 << args.window_scale
    return changes
