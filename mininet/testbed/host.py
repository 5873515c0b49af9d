"""A Mininet host whose TCP can be set, and read back.

By default a host has Linux's own settings. HostSettings change them for this host alone;
``Host.tcp_settings`` reads them back from the kernel, so that a report prints facts.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from mininet import node
from testbed import dctcp, netns
from testbed.command import CommandError, run
from testbed.config import HostSettings, route_attributes

# Hosts send nothing by themselves: without an address of IPv6's own making they look for no router
# and report no membership. IPv6 addresses set by hand still work.
_QUIET_IPV6 = {
    "net.ipv6.conf.default.addr_gen_mode": "1",
    "net.ipv6.conf.default.accept_ra": "0",
    "net.ipv6.conf.default.dad_transmits": "0",
}

_SYSCTLS = (
    "tcp_congestion_control", "tcp_rto_min_us", "tcp_rmem", "tcp_wmem", "tcp_sack",
    "tcp_timestamps", "tcp_window_scaling", "tcp_slow_start_after_idle", "tcp_ecn",
)  # fmt: skip


class HostError(RuntimeError):
    """A host cannot be set as asked for; the text, one line, says why."""


class Host(node.Host):
    """A host in a network namespace. ``settings`` is applied when its address is set.

    With ``ipv6`` it has an address of fd00::/64, whose last bytes are those of its IPv4 address.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: HostSettings | None = None,
        ipv6: bool = False,
        **params: Any,
    ) -> None:
        super().__init__(name, **params)
        self.ipv6 = ipv6
        self.settings = settings or HostSettings()
        self._sysctls: dict[str, str] = {}
        self._attributes: dict[str, str] = {}
        self._is_configured = False
        # A kernel without IPv6 has none of these.
        with self._refusals():
            netns.set_sysctls(self.pid, _QUIET_IPV6, known_only=True)

    def config(self, **params: Any) -> dict[str, Any]:
        """Called by Mininet once all links are there."""
        result: dict[str, Any] = super().config(**params)
        self._is_configured = True
        self.restore()
        return result

    def restore(self) -> None:
        """Set what the kernel forgets when the host's device goes down: attributes of the route,
        and IPv6 addresses. Nothing happens before the host is configured."""
        if not self._is_configured:
            return
        if self.ipv6:
            address = f"{self.address6()}/64"
            run(["ip", "-6", "addr", "replace", address, "dev", self._device()], pid=self.pid)
        self.apply(self.settings)

    def address6(self) -> str:
        """The IPv6 address that ``ipv6`` gives."""
        return str(IPv6Address((0xFD << 120) + int(IPv4Address(self.IP()))))

    def apply(self, settings: HostSettings) -> None:
        """Have new connections be as ``settings`` say.

        Sysctls and an MTU that they leave untouched stay as they are; the route has the attributes
        they ask for and no others. Raises HostError for what the kernel does not have or refuses,
        CommandError where that is of the route or the MTU.
        """
        self.settings = settings
        sysctls = settings.sysctls(self._tcp_rmem())
        attributes = settings.route_attributes()
        control = settings.congestion_control
        if control is not None and not self._defaults_to(control):
            del sysctls["tcp_congestion_control"]
            attributes["congctl"] = control
        if sysctls:
            self._set(sysctls)
        if attributes or self._attributes:
            words = [part for pair in attributes.items() for part in pair]
            try:
                run(["ip", "route", "change", *self._route(), *words], pid=self.pid)
            except CommandError as refused:
                if "congctl" in attributes and "congestion" in refused.output:
                    raise self._lacks(attributes["congctl"]) from refused
                raise
        self._sysctls, self._attributes = sysctls, attributes
        if settings.mtu_bytes is not None:
            for end in self._link_ends():
                mtu = ("mtu", str(settings.mtu_bytes))
                run(["ip", "link", "set", "dev", end.name, *mtu], pid=end.node.pid)

    def tcp_settings(self) -> dict[str, str]:
        """Read back from the kernel what TCP does on this host.

        Keys are the names of sysctls under net.ipv4 (those that this kernel has), ``mtu`` and
        ``route``, whose attributes prevail over them.
        """
        with self._refusals():
            found = netns.sysctls(self.pid, (f"net.ipv4.{name}" for name in _SYSCTLS))
        shown = {name.removeprefix("net.ipv4."): value for name, value in found.items()}
        shown["mtu"] = str(self._mtu(self.defaultIntf()))
        shown["route"] = run(["ip", "route", "show", "dev", self._device()], pid=self.pid).strip()
        return shown

    def congestion_control(self) -> str:
        """Return what new connections have; a route may name another than the host's default."""
        shown = self.tcp_settings()
        in_route = route_attributes(shown["route"]).get("congctl")
        return in_route or shown["tcp_congestion_control"]

    def route_attributes(self) -> dict[str, str]:
        """Return what the settings have made the host's route say of TCP."""
        return dict(self._attributes)

    def settings_faults(self, shown: Mapping[str, str] | None = None) -> list[str]:
        """Say where the kernel's settings differ from ``settings``; empty when they do not.

        ``shown`` are those that ``tcp_settings`` has just returned, if it has.
        """
        faults = []
        shown = shown or self.tcp_settings()
        for name, wanted in self._sysctls.items():
            found = shown.get(name)
            if found is None or found.split() != wanted.split():
                faults.append(f"{self.name}: {name} is {found}, asked for {wanted}")
        attributes = route_attributes(shown["route"])
        for name, wanted in self._attributes.items():
            found = attributes.get(name)
            if found != wanted:
                faults.append(f"{self.name}: route's {name} is {found}, asked for {wanted}")
        mtu_bytes = self.settings.mtu_bytes
        if mtu_bytes is not None:
            faults += [
                f"{end.name}: MTU is {self._mtu(end)}, asked for {mtu_bytes}"
                for end in self._link_ends()
                if self._mtu(end) != mtu_bytes
            ]
        return faults

    def _lacks(self, control: str) -> HostError:
        name = "net.ipv4.tcp_available_congestion_control"
        known = netns.sysctls(self.pid, [name])[name]
        return HostError(
            f"{self.name}: this kernel has no TCP congestion control {control!r}: it has "
            f"{', '.join(known.split())}; {dctcp.NAME} comes with the test bed"
        )

    def _defaults_to(self, control: str) -> bool:
        """Have connections use a congestion control by default; whether the kernel allows it.

        For a namespace it allows only those that are unrestricted on the whole machine. A route may
        name any.
        """
        try:
            self._set({"tcp_congestion_control": control})
        except HostError:
            return False
        return True

    def _set(self, sysctls: Mapping[str, str]) -> None:
        """Write sysctls below net.ipv4. Raises HostError where the kernel refuses one."""
        with self._refusals():
            netns.set_sysctls(self.pid, {f"net.ipv4.{k}": v for k, v in sysctls.items()})

    @contextmanager
    def _refusals(self, device: str = "") -> Iterator[None]:
        """Make what the kernel refuses a HostError that names this host, or a device at its
        link."""
        try:
            yield
        except OSError as refused:
            raise HostError(f"{device or self.name}: {refused}") from refused

    def _link_ends(self) -> tuple[Any, Any]:
        link = self.defaultIntf().link
        return link.intf1, link.intf2

    def _mtu(self, end: Any) -> int:
        with self._refusals(end.name):
            return netns.mtu_bytes(end.node.pid, end.name)

    def _device(self) -> str:
        name: str = self.defaultIntf().name
        return name

    def _route(self) -> list[str]:
        routes = json.loads(run(["ip", "-j", "route", "show", "dev", self._device()], pid=self.pid))
        (connected,) = (r for r in routes if r.get("protocol") == "kernel")
        return [
            connected["dst"], "dev", self._device(), "proto", "kernel",
            "scope", connected["scope"], "src", connected["prefsrc"],
        ]  # fmt: skip

    def _tcp_rmem(self) -> str:
        return netns.sysctls(self.pid, ["net.ipv4.tcp_rmem"])["net.ipv4.tcp_rmem"]
