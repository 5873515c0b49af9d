"""The answers of the API as its description has them, as far as they are not views of the
northbound."""

from collections import Counter
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from controller.api.access.tokens import Scope, Token
from controller.api.names import is_name
from controller.api.sampling import Sample
from controller.model.values import PortId
from controller.northbound import views
from controller.rpc import methods


class Health(BaseModel):
    """`ready`: what the controller says can be relied on."""

    status: Literal["ready", "not ready"]
    version: str
    detail: str | None = None


class SignIn(BaseModel):
    """A token of the controller's token file."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, Field(min_length=1, max_length=256)]


class Session(BaseModel):
    """The token that is signed in: its name, what it may do, and when it expires."""

    name: str
    scopes: list[Scope]
    expires: AwareDatetime | None


class Nobody(BaseModel):
    """Nobody is signed in, or not any more."""

    name: None = None
    scopes: list[Scope] = []
    expires: None = None


_HISTORY_S = 600.0

Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]


class TimeQuery(methods.Parameters):
    """A time, in seconds since 1970: without a begin the 10 minutes before the end, without an end
    until now."""

    from_s: Seconds | None = Field(default=None, alias="from", description="since then")
    to_s: Seconds | None = Field(default=None, alias="to", description="until then")

    def interval(self, now_s: float) -> tuple[float, float]:
        """Begin and end, in seconds since 1970."""
        end_s = now_s if self.to_s is None else self.to_s
        return end_s - _HISTORY_S if self.from_s is None else self.from_s, end_s


class HistoryQuery(TimeQuery):
    """A port and a time: without a port all together."""

    switch: methods.Switch | None = Field(default=None, description="datapath id")
    port: Annotated[int, methods.Whole(1, 2**32 - 1)] | None = Field(
        default=None, description="OpenFlow port number"
    )

    def port_id(self) -> PortId | None:
        """Raises LookupError if only one half of a port is named, which the description of the API
        cannot forbid."""
        if self.switch is None and self.port is None:
            return None
        if self.switch is None or self.port is None:
            missing = "switch" if self.switch is None else "port"
            right = "name both, or neither for all ports together"
            raise LookupError(f"{missing}: is missing; {right}")
        return PortId(self.switch, self.port)


def _host(written: object) -> str:
    text = str(written)
    if is_name(text):
        return text
    try:
        return str(ip_address(text))
    except ValueError:
        right = "write e.g. 10.0.0.1, fd00::1 or web1.example"
        raise ValueError(f"{text[:64]!r} is no address and no name; {right}") from None


_HOSTS = [{"type": "string", "format": form} for form in ("ipv4", "ipv6", "hostname")]
Host = Annotated[str, BeforeValidator(_host), WithJsonSchema({"anyOf": _HOSTS})]


class NamedEnds(methods.Parameters):
    """From one host to another, each by its address, or by a name that the controller's machine
    can look up."""

    src: Host = Field(description="the host that sends: its address or name")
    dst: Host = Field(description="the host that receives: its address or name")


class Fountains(BaseModel):
    fountains: list[views.ShareView]


class Withdrawn(BaseModel):
    flow: str


class Switches(BaseModel):
    switches: list[views.SwitchView]


class Ports(BaseModel):
    ports: list[views.PortView]


class Regulated(BaseModel):
    scheme: str
    ports: list[views.RegulationView]


class Bypasses(BaseModel):
    bypasses: list[views.BypassView]


class AuditLog(BaseModel):
    """Newest first; `next_before` is the `before` of the next page, null at the end."""

    next_before: str | None
    entries: list[views.AuditEntryView]


class Flows(BaseModel):
    """A page of the flows, the largest volume first. Flows change between two pages."""

    total: int
    offset: int
    next_offset: int | None
    flows: list[views.FlowView]


class Events(BaseModel):
    """`next_after` is the `after` of the next request."""

    next_after: int
    events: list[dict[str, Any]]


class TopologyLink(BaseModel):
    """Both ends as "datapath_id:port". `loss` is the part of the packets that it loses from a to b,
    `loss_back` from b to a. Paths do not lead over protected links."""

    a: str
    b: str
    rtt_s: float | None
    protected: bool
    loss: float | None
    loss_back: float | None


class TopologySwitch(BaseModel):
    """`edge_ports` of its ports are up and lead to no switch; `hosts` are known behind them."""

    switch: int
    datapath_id: str
    connected: bool
    hosts: int
    edge_ports: int


class Topology(BaseModel):
    switches: list[TopologySwitch]
    links: list[TopologyLink]


def session(token: Token) -> Session:
    """What a token is and may do, without the secret."""
    return Session(name=token.name, scopes=sorted(token.scopes), expires=token.expires)


def topology(sample: Sample) -> Topology:
    """The topology, from a sample of switches and ports."""
    hosts: Counter[int] = Counter()
    edge_ports: Counter[int] = Counter()
    links: dict[frozenset[str], TopologyLink] = {}
    losses = {f"{port['datapath_id']}:{port['port']}": port["loss"] for port in sample.ports}
    for port in sample.ports:
        hosts[port["switch"]] += port["hosts"]
        edge_ports[port["switch"]] += port["up"] and not port["peer"]
        if port["peer"]:
            end = f"{port['datapath_id']}:{port['port']}"
            a, b = sorted((end, port["peer"]))
            links[frozenset((a, b))] = TopologyLink(
                a=a,
                b=b,
                rtt_s=port["link_rtt_s"],
                protected=port["protected"],
                loss=losses.get(a),
                loss_back=losses.get(b),
            )
    return Topology(
        switches=[
            TopologySwitch(
                switch=one["switch"],
                datapath_id=one["datapath_id"],
                connected=one["connected"],
                hosts=hosts[one["switch"]],
                edge_ports=edge_ports[one["switch"]],
            )
            for one in sample.switches
        ],
        links=list(links.values()),
    )
