"""DCTCP (RFC 8257): hosts that estimate how much is marked, and queues that mark.

Its parts belong together: hosts alone, or queues alone, are Reno.
"""

import re

from experiments.schemes import FAMILIES, QUEUE, SCHEMES, Scheme
from testbed import dctcp
from testbed.config import HostSettings
from testbed.shaping import FULL_FRAME_BYTES

# The best of 18 pairs for barrier reads at 100 Mb/s and 64 KiB: experiments/bench/dctcp/sweep.csv
# (`make bench-dctcp`). LTTP's authors found K = 4 and g = 0.15, by simulation (section V).
TUNED_FRAMES, TUNED_GAIN = 2, 0.15

_NAME = re.compile(r"dctcp_k(?P<frames>\d+)_g(?P<gain>0\.\d+)")


def named(frames: int, gain: float) -> str:
    """Return the name of DCTCP with these parameters, which ``scheme`` knows."""
    return f"dctcp_k{frames}_g{gain:g}"


def with_parameters(name: str, label: str, about: str, frames: int, gain: float | None) -> Scheme:
    """Return DCTCP whose queues mark from a length of so many full-size ``frames`` on (K), and
    whose estimate has this ``gain`` (g; None: 1/16)."""
    return Scheme(
        name,
        label,
        about,
        HostSettings(congestion_control=dctcp.NAME, ecn=True, dctcp_gain=gain),
        QUEUE | dctcp.MARKING | {"ecn-threshold": str(frames * FULL_FRAME_BYTES)},
    )


def _family(name: str) -> Scheme | None:
    said = _NAME.fullmatch(name)
    if said is None:
        return None
    frames, gain = int(said["frames"]), float(said["gain"])
    label, about = f"DCTCP {frames}/{gain:g}", f"DCTCP with K = {frames} frames and g = {gain:g}"
    return with_parameters(name, label, about, frames, gain)


FAMILIES.append(_family)
SCHEMES.add(
    with_parameters(
        "dctcp",
        "DCTCP",
        "DCTCP (RFC 8257), queues that mark from 20 full-size frames on",
        dctcp.K_BYTES // FULL_FRAME_BYTES,
        None,
    )
)
SCHEMES.add(
    with_parameters(
        "dctcp_tuned",
        "DCTCP, tuned",
        f"the same for 64 KiB: queues that mark from {TUNED_FRAMES} frames on, g = {TUNED_GAIN:g}",
        TUNED_FRAMES,
        TUNED_GAIN,
    )
)
