"""What the northbound asks of the controller, and the errors by which it is told why not."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from controller.northbound.views import (
    AuditPage,
    BypassView,
    ChangeView,
    ControllerView,
    EventView,
    ExcessView,
    ExpiryView,
    FlowDetailView,
    FlowPage,
    GroupView,
    HistogramView,
    OffView,
    OnView,
    PathView,
    PortView,
    RegulationView,
    SettingsView,
    ShareView,
    SnoopingView,
    SwitchView,
    TablesView,
)
from controller.rpc.methods import FlowEnds, FlowQuery


class UnknownError(LookupError):
    """There is no such host, path, flow, switch or port; the message says which."""


class NotOwnerError(Exception):
    """It is somebody else's; the message says whose."""


class ConflictError(Exception):
    """Something has changed meanwhile; the message says what."""


class FailedError(Exception):
    """What was asked for could not be done. The message says what is so now."""


class ValueRefusedError(ValueError):
    """A value cannot be used; the message has its key, and what would be right."""


class Source(Protocol):
    """Returns the state of the controller. Iterators may be resumed while the controller goes
    on."""

    def controller(self) -> ControllerView: ...

    def tables(self) -> TablesView: ...

    def known(self) -> set[int]:
        """All switches that were ever connected."""

    def switches(self) -> Iterator[SwitchView]:
        """The same, with what there is to tell of each."""

    def excesses(self, switch: int | None = None) -> Iterator[ExcessView]:
        """Ports and classes that ever exceeded their budget."""

    def ports(self, switch: int | None = None) -> Iterator[PortView]:
        """All ports, or those of a switch."""

    def regulation(self, switch: int | None = None) -> Iterator[RegulationView]:
        """The regulation of all ports, or of those of a switch."""

    def flows(self, query: FlowQuery, checkpoint: Callable[[], None]) -> FlowPage:
        """Calls `checkpoint` often, so that the controller can go on."""

    def flow(self, ends: FlowEnds) -> FlowDetailView:
        """Raises UnknownError."""

    def events_after(self, serial: int) -> list[EventView]:
        """The recent events after this serial number, oldest first. Serial numbers have no gaps."""

    def last_event(self) -> int:
        """The serial number of the latest event, 0 without any."""

    def run(self) -> str:
        """Names this run of the controller: another one counts its events anew."""

    def control_delay(self) -> HistogramView:
        """The time from a notice to the windows that it sets."""

    def loop_lag(self) -> HistogramView:
        """How late the main loop gives timers their turn."""

    def loop_turns(self) -> HistogramView:
        """How long the main loop works between two looks at its input."""

    def events(self) -> dict[str, int]:
        """The number of events so far, by name."""

    def groups(self) -> Iterator[GroupView]:
        """The multicast groups that are followed."""

    def snooping(self) -> SnoopingView: ...

    def path_bandwidth(self, src: str, dst: str) -> PathView:
        """Raises UnknownError."""

    def shares(self) -> Iterator[ShareView]:
        """The shares of all announced flows."""

    def follow_shares(self) -> Iterator[list[ShareView]]:
        """All announced flows, then each change at once. Without a change, an empty list comes
        now and then."""

    def expiries(self) -> list[ExpiryView]:
        """When the certificates, revocation lists and tokens that the controller uses expire."""

    def not_ready(self) -> str | None:
        """Why the controller is not ready; None if it is."""


class Bypassing(Protocol):
    """Turns regulation off and on."""

    def off(self, switch: int | None, port: str | None, for_s: float | None, by: str) -> OffView:
        """Turn regulation off at a place, for so many seconds or until it is turned on. Raises
        UnknownError."""

    def on(self, switch: int | None, port: str | None, by: str) -> OnView:
        """Turn regulation on at a place and within it. Raises UnknownError."""

    def bypasses(self) -> Iterator[BypassView]:
        """All bypasses."""


class Changing(Protocol):
    """Changes settings at work, and knows who has changed what."""

    def settings(self) -> SettingsView:
        """All settings."""

    def change(
        self, version: int | None, changes: Mapping[str, str | None], only_try: bool, by: str
    ) -> ChangeView:
        """Give settings other values, or, with None, the file's. Raises ConflictError if this is
        not the present version or another change is on its way, ValueRefusedError, and
        FailedError."""

    def undo(self, entry: str, by: str) -> ChangeView:
        """Take the latest change back. Raises ConflictError if it is another one, and
        FailedError."""

    def audit(self, limit: int, before: str | None) -> AuditPage:
        """The latest entries of the audit log, or the latest before another one."""


class Announcing(Protocol):
    """Takes the announcements of fountain flows. A flow is its owner's, and the operator's, who is
    the owner None; to others all of these raise NotOwnerError."""

    def announce(
        self, flow: str, src: str, dst: str, most_bps: float | None, owner: str | None = None
    ) -> ShareView:
        """Announce a flow, or change its maximum rate. Raises UnknownError."""

    def renew(self, flow: str, sends_bps: float | None, owner: str | None = None) -> ShareView:
        """Keep a flow announced; it sends no more than this. Raises UnknownError."""

    def withdraw(self, flow: str, owner: str | None = None) -> None:
        """End an announced flow. Raises UnknownError."""
