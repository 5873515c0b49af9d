"""What can be compared, in modules by what they are about. A new scheme is a few lines in one of
them, or a new module here.

A scheme is what the hosts' TCP, the queues of the switches' ports, and the controller are set to.
What the controller does with queues and flows is its regulation scheme, one part of it.
``weir-experiment run`` and the benchmarks know every scheme that a module passes to
``SCHEMES.add``. ``Bed(scheme("dctcp").on(BedConfig(...)))`` is a network under one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# Not by its own name: a module of this package is called so, too.
import testbed.dctcp
from experiments.traffic.fountain import AtpMode, Mode
from testbed.config import BedConfig, HostSettings
from testbed.registry import Registry

# The kernel's shaper runs a little faster than the queue in virtual time. Long transfers that are
# clocked by what the shaper lets out would fill that queue without end.
QUEUE = {"release": "thread"}
USUAL_CONTROL = "reno"
"""The congestion control of hosts where neither the scheme nor the run says which."""


@dataclass(frozen=True)
class Scheme:
    """``label`` is what reports call it, ``about`` a line for help texts.

    ``host`` is what the hosts' TCP is set to, whatever else a run wants of it (``hosts``);
    ``queue`` what the queue of every switch port is set to (ovs-vswitchd.conf.db(5), QoS type
    weir). ``regulation`` is the controller's regulation scheme: weir, sdtcp, none; with None there
    is no controller, and switches learn by themselves. ``controller`` has more of the controller's
    configuration, by section. ``fetch`` says that LTTP or ATP carries the data, and how; None means
    TCP. ``acc`` is what TCP-ACC's layer beneath the TCP of all hosts codes (``fountain acc up
    --coding``); None: there is no such layer.
    """

    name: str
    label: str
    about: str
    host: HostSettings = field(default_factory=HostSettings)
    queue: Mapping[str, str] = field(default_factory=lambda: QUEUE)
    regulation: str | None = "none"
    controller: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fetch: Mode | AtpMode | None = None
    acc: str | None = None

    def hosts(self, wanted: HostSettings) -> HostSettings:
        """Return hosts that are ``wanted``, under this scheme. Where both say something the scheme
        prevails.

        Raises ValueError if both name a congestion control, each another one: results under this
        scheme's name would be those of another.
        """
        own, theirs = self.host.congestion_control, wanted.congestion_control
        if own is not None and theirs not in (None, own):
            raise ValueError(
                f"scheme {self.name} is congestion control {own}: hosts cannot have {theirs}. "
                f"Those that leave it open are {', '.join(over_any_control())}"
            )
        made = self.host.over(wanted)
        return replace(made, congestion_control=made.congestion_control or USUAL_CONTROL)

    def on(self, config: BedConfig) -> BedConfig:
        """Return the test bed ``config`` under this scheme: all of its parts, or none.

        Where both say something of queues or controller, the scheme prevails; of hosts, see
        ``hosts``.
        """
        sections = {
            name: {**config.controller.get(name, {}), **self.controller.get(name, {})}
            for name in (*config.controller, *self.controller)
        }
        return replace(
            config,
            scheme=self.regulation,
            queue={**config.queue, **self.queue},
            host=self.hosts(config.host),
            controller=sections,
        )

    @property
    def reacts(self) -> bool:
        """Whether it only acts once switches report congestion."""
        return self.regulation == "sdtcp"


SCHEMES: Registry[Scheme] = Registry("scheme", __name__)


FAMILIES: list[Callable[[str], Scheme | None]] = []
"""Each makes a scheme of a name that says its parameters, if it knows the kind: for sweeps."""


def scheme(name: str) -> Scheme:
    """Return the scheme called ``name``, or of the family that it names. Raises ValueError naming
    those that there are."""
    if name not in SCHEMES:
        for family in FAMILIES:
            if made := family(name):
                return made
    return SCHEMES.named(name)


def carried_by_tcp(name: str) -> Scheme:
    """Return the scheme called ``name``, under which workloads, which are over TCP, can run.

    Raises ValueError if there is none, or if something else carries its data: a workload would run
    as plain TCP, and be called by the scheme's name.
    """
    found = scheme(name)
    if found.fetch is not None:
        raise ValueError(
            f"TCP carries nothing under {name}, so no workload can run there: "
            "see 'weir-experiment bench'"
        )
    return found


def over_tcp() -> list[str]:
    """Return the names of the schemes whose data TCP carries."""
    return [name for name, one in SCHEMES.items() if one.fetch is None]


def over_any_control() -> list[str]:
    """Return the names of the schemes over TCP under which hosts may have any congestion
    control."""
    return [name for name in over_tcp() if SCHEMES[name].host.congestion_control is None]


def over_lttp() -> list[str]:
    """Return the names of the schemes whose data LTTP carries."""
    return [name for name, one in SCHEMES.items() if isinstance(one.fetch, Mode)]


def over_atp() -> list[str]:
    """Return the names of the schemes whose data ATP carries."""
    return [name for name, one in SCHEMES.items() if isinstance(one.fetch, AtpMode)]


def without_regulation() -> list[str]:
    """Return the names of the schemes over TCP that are the same without a controller."""
    return [name for name in over_tcp() if SCHEMES[name].regulation in (None, "none")]


def described(names: Iterable[str]) -> str:
    """Return a line for each of these schemes, for the help of a command."""
    return "\n".join(f"  {name:<12} {scheme(name).about}" for name in names)


def available(name: str, *, say: Callable[[str], None]) -> bool:
    """Whether this kernel supports the scheme ``name``; if not, ``say`` why.

    Raises DctcpError if it does, but something has not been built.
    """
    if scheme(name).host.congestion_control != testbed.dctcp.NAME:
        return True
    try:
        testbed.dctcp.require()
    except testbed.dctcp.KernelLacksError as lacking:
        say(f"going on without {scheme(name).label}: {lacking}")
        return False
    return True
