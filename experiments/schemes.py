"""What can be compared: a scheme is a setting of the controller and one of the hosts' TCP."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed import dctcp

# As many full-size frames as the DCTCP paper has at 1 Gb/s (Alizadeh et al., SIGCOMM 2010). Its
# K > C x RTT / 7 would allow less here, but DCTCP cannot go below two segments a sender.
DCTCP_K_BYTES = 20 * 1514

# The kernel's shaper runs a little faster than the queue in virtual time. Long transfers that are
# clocked by what the shaper lets out would fill that queue without end.
QUEUE = {"release": "thread"}
DCTCP_QUEUE = QUEUE | {"ecn-threshold": str(DCTCP_K_BYTES)}


@dataclass(frozen=True)
class Scheme:
    """``controller`` is the controller's regulation scheme; label and colour are for reports.

    A ``controller`` None means that there is none. ``queue`` adds to the settings of every switch
    port's queue, ``settings`` to the controller's configuration, by section.
    """

    name: str
    controller: str | None
    congestion_control: str
    label: str
    colour: str
    queue: Mapping[str, str] = field(default_factory=lambda: QUEUE)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ecn(self) -> bool:
        """Whether queues mark packets, and hosts are to ask for it."""
        return "ecn-threshold" in self.queue

    @property
    def reacts(self) -> bool:
        """Whether it does nothing before switches tell of congestion."""
        return self.controller == "sdtcp"


# The paper's Algorithm 1 by its letter: every level is told once until the queue has recovered.
_LETTER = {"regulation": {"repeat_notices": False}}


# Colours from Okabe and Ito's set, which stays distinct to colour-blind eyes.
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("reno", "none", "reno", "Reno", "#D55E00"),
        Scheme("weir", "weir", "reno", "Weir", "#0072B2"),
        Scheme("sdtcp", "sdtcp", "reno", "SDTCP", "#009E73"),
        Scheme("sdtcp_letter", "sdtcp", "reno", "SDTCP, letter", "#999999", settings=_LETTER),
        Scheme("fair", "none", "reno", "Fair queue", "#E69F00", QUEUE | {"scheduler": "drr"}),
        Scheme("fifo", None, "reno", "FIFO", "#56B4E9"),
        Scheme("dctcp", "none", dctcp.NAME, "DCTCP", "#CC79A7", DCTCP_QUEUE),
    )
}


def scheme(name: str) -> Scheme:
    """Return the scheme called ``name``; raises ValueError naming those there are."""
    if name not in SCHEMES:
        raise ValueError(f"no scheme {name!r}: there are {', '.join(SCHEMES)}")
    return SCHEMES[name]


def available(name: str, *, say: Callable[[str], None]) -> bool:
    """Whether this kernel can have the scheme ``name``; if not, ``say`` why.

    Raises DctcpError where it can, and something has not been built.
    """
    if scheme(name).congestion_control != dctcp.NAME:
        return True
    try:
        dctcp.require()
    except dctcp.KernelLacksError as lacking:
        say(f"going on without {scheme(name).label}: {lacking}")
        return False
    return True
