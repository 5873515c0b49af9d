"""A Mininet host whose TCP is what it is said to be.

By default a host is Linux as it comes. What an experiment wants otherwise stands in HostSettings,
is set per namespace, and can be read back (``Host.tcp_settings``), so that a report prints facts.
"""

import json
from typing import Any

from mininet import node
from testbed.command import run
from testbed.config import HostSettings, route_attributes

# Nothing is to be on the wire that the experiment did not put there: no address is made up, so no
# router is sought and no membership reported. IPv6 addresses set by hand still work.
_QUIET_IPV6 = (
    "net.ipv6.conf.default.addr_gen_mode=1",
    "net.ipv6.conf.default.accept_ra=0",
    "net.ipv6.conf.default.dad_transmits=0",
)

_SYSCTLS = (
    "tcp_congestion_control", "tcp_rto_min_us", "tcp_rmem", "tcp_wmem", "tcp_sack",
    "tcp_timestamps", "tcp_window_scaling", "tcp_slow_start_after_idle", "tcp_ecn",
)  # fmt: skip


class Host(node.Host):
    """A host in a network namespace. ``settings`` is applied when its address is set."""

    def __init__(self, name: str, *, settings: HostSettings | None = None, **params: Any) -> None:
        super().__init__(name, **params)
        self.settings = settings or HostSettings()
        # -e: a kernel without IPv6 has none of these, and no noise either.
        run(["sysctl", "-e", "-q", "-w", *_QUIET_IPV6], pid=self.pid)

    def config(self, **params: Any) -> dict[str, Any]:
        """Called by Mininet once all links are there."""
        result: dict[str, Any] = super().config(**params)
        wanted = self.settings.sysctls(self._sysctl("tcp_rmem") or "")
        if wanted:
            run(
                ["sysctl", "-q", "-w", *(f"net.ipv4.{k}={v}" for k, v in wanted.items())],
                pid=self.pid,
            )
        attributes = [part for pair in self.settings.route_attributes().items() for part in pair]
        if attributes:
            run(["ip", "route", "change", *self._route(), *attributes], pid=self.pid)
        return result

    def tcp_settings(self) -> dict[str, str]:
        """Read back from the kernel what TCP does on this host.

        Keys are the names of sysctls under net.ipv4 and ``route``, whose attributes prevail over
        them.
        """
        shown = {name: value for name in _SYSCTLS if (value := self._sysctl(name)) is not None}
        shown["route"] = run(["ip", "route", "show", "dev", self._device()], pid=self.pid).strip()
        return shown

    def settings_faults(self) -> list[str]:
        """Say where the kernel's settings differ from ``settings``; empty when they do not."""
        faults = []
        for name, wanted in self.settings.sysctls(self._sysctl("tcp_rmem") or "").items():
            found = self._sysctl(name)
            if found is None or found.split() != wanted.split():
                faults.append(f"{self.name}: {name} is {found}, asked for {wanted}")
        attributes = route_attributes(self.tcp_settings()["route"])
        for name, wanted in self.settings.route_attributes().items():
            found = attributes.get(name)
            if found != wanted:
                faults.append(f"{self.name}: route's {name} is {found}, asked for {wanted}")
        return faults

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

    def _sysctl(self, name: str) -> str | None:
        """Return net.ipv4's ``name`` in this namespace, None if this kernel has no such setting."""
        shown = run(["sysctl", "-e", "-n", f"net.ipv4.{name}"], pid=self.pid).strip()
        return " ".join(shown.split()) or None
