"""The configuration: one typed YAML file. Every key has a default; unknown keys are errors."""

import difflib
import ipaddress
import re
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from controller.api.settings import ApiSettings
from controller.config import quantity
from controller.core.bandwidth.announced import BandwidthSettings
from controller.core.congestion.egress_ports import PortOverride
from controller.core.congestion.regulator import RegulatorSettings, Scheme, SchemeOverride
from controller.core.congestion.windows import CreditRules, PortLimits, WindowRules
from controller.core.engine import EngineSettings
from controller.core.flows.classifier import Classifier
from controller.core.flows.connections import ConnectionSettings
from controller.core.flows.policy import Rule, Treatment
from controller.core.hosts.resolution import ResolverSettings
from controller.model.values import switch_id

SOCKET = "/run/weir/controller.sock"

_LONGEST_RTT_NS = 10**9
_SWITCH_ID = re.compile(r"[0-9a-fA-F]{16}")
_LEADING_ZEROS = re.compile(r"[-+]?0[0-7_]+")
_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")

T = TypeVar("T")


class ConfigError(Exception):
    """A configuration that cannot be used; the message names every key and what would be right.

    `problems` are the same one by one.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _rate_bps(written: object) -> int:
    return round(quantity.parse(written, quantity.RATES_BPS, "bit/s", "100 Mbit/s"))


def _size_bytes(written: object) -> int:
    return round(quantity.parse(written, quantity.SIZES_BYTES, "bytes", "64 KiB"))


def _time_ns(written: object) -> int:
    return round(quantity.parse(written, quantity.TIMES_S, "seconds", "500 us") * 10**9)


def _rtt_ns(written: object) -> int:
    rtt_ns = _time_ns(written)
    if rtt_ns > _LONGEST_RTT_NS:
        raise ValueError(f"{rtt_ns / 10**9:g} s is no RTT of a fabric; write e.g. 500 us")
    return rtt_ns


def _share(written: object) -> object:
    if isinstance(written, str) and (number := _PERCENT.fullmatch(written)):
        raise ValueError(f"{written!r} is not a number; write {float(number[1]) / 100:g}")
    return written


def _tcp_port(written: object) -> object:
    if isinstance(written, str) and not written.isdecimal():
        raise ValueError(f"{written!r} is not a number; write the TCP port, e.g. 80 for http")
    return written


def _metrics(written: object) -> tuple[str, int]:
    return _endpoint(written, "127.0.0.1:9464 or [::1]:9464")


def _endpoint(written: object, example: str = "127.0.0.1:6653 or [::1]:6653") -> tuple[str, int]:
    host, colon, port = str(written).rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{written!r} is not HOST:PORT; write e.g. {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Listen(NamedTuple):
    """Where connections are accepted, and whether over TLS (`ssl`) or plainly (`tcp`)."""

    transport: Literal["ssl", "tcp"]
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.transport}:{host}:{self.port}"


def _listen(written: object) -> Listen:
    transport, _, endpoint = str(written).partition(":")
    if transport == "ssl":
        return Listen("ssl", *_endpoint(endpoint))
    if transport == "tcp":
        return Listen("tcp", *_endpoint(endpoint))
    raise ValueError(
        f"{written!r} does not say how; write ssl:HOST:PORT, or tcp:HOST:PORT for connections "
        "that nothing protects"
    )


def _switch_id(written: object) -> object:
    return switch_id(written) if isinstance(written, str) else written


def _switch_ids(written: object) -> object:
    return (written,) if isinstance(written, int | str) else written


def _or_off(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """`off`, which YAML takes for false, or what is read otherwise."""

    def read_or_off(written: object) -> T | None:
        return None if written is False or written is None else read(written)

    return read_or_off


def _socket_path(written: object) -> str:
    if not isinstance(written, str) or not written.startswith("/"):
        raise ValueError(f"{written!r} is not an absolute path; write e.g. {SOCKET}, or off")
    return written


def _subnet(written: object) -> tuple[bytes, int]:
    """Packed network and length of the prefix."""
    try:
        network = ipaddress.ip_network(str(written), strict=False)
    except ValueError:
        raise ValueError(
            f"{written!r} is not a subnet; write e.g. 10.1.0.0/16 or fd00::/8"
        ) from None
    if "/" in str(written) and str(network) != ipaddress.ip_interface(str(written)).with_prefixlen:
        raise ValueError(f"{written!r} has bits set past its prefix; write {network}")
    if not network.prefixlen:
        raise ValueError(f"{written!r} holds every address; leave it out")
    return network.network_address.packed, network.prefixlen


Rate = Annotated[int, BeforeValidator(_rate_bps), Field(gt=0)]
Size = Annotated[int, BeforeValidator(_size_bytes), Field(gt=0)]
Time = Annotated[int, BeforeValidator(_time_ns), Field(gt=0)]
Rtt = Annotated[int, BeforeValidator(_rtt_ns), Field(gt=0)]
Share = Annotated[float, BeforeValidator(_share)]
Subnet = Annotated[tuple[bytes, int], BeforeValidator(_subnet)]
Endpoint = Annotated[tuple[str, int], BeforeValidator(_endpoint)]
Listener = Annotated[Listen, PlainValidator(_listen)]
SwitchId = Annotated[int, BeforeValidator(_switch_id), Field(ge=0, lt=2**64)]
SwitchIds = Annotated[tuple[SwitchId, ...], BeforeValidator(_switch_ids)]
Name = Annotated[str, Field(min_length=1, max_length=64)]
MetricsOrOff = Annotated[tuple[str, int] | None, BeforeValidator(_or_off(_metrics))]
SocketOrOff = Annotated[str | None, BeforeValidator(_or_off(_socket_path))]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OpenFlow(_Section):
    listen: Listener = Listen("ssl", "127.0.0.1", 6653)


class TlsSection(_Section):
    """PEM files, and the switches that a certificate of the authority is good for.

    `switches`: `any`; or `named`: those whose datapath id, in 16 hexadecimal digits, is a name of
    the certificate (its CN or a DNS name); or the ids by name.
    """

    key: Path | None = None
    certificate: Path | None = None
    ca: Path | None = None
    crl: Path | None = None
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    switches: Literal["any", "named"] | dict[Name, SwitchIds] = "any"
    handshake_timeout: Time = 10 * 10**9

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        needed = ("key", "certificate", "ca")
        missing = [key for key in needed if getattr(self, key) is None]
        if missing and (len(missing) < len(needed) or self.crl):
            raise ValueError(
                f"{' and '.join(missing)} missing; key, certificate and ca go together"
            )
        return self

    @property
    def given(self) -> bool:
        return self.key is not None


class StandbySection(_Section):
    """The other controllers of the same switches; without peers there are none. All name all.

    `name` is this controller's own. Over `ssl` a peer's certificate must bear the peer's name, over
    `tcp` all must know the same secret. Who has more `priority` goes first, else by name.
    """

    name: Name | None = None
    peers: dict[Name, Endpoint] = Field(default={}, max_length=15)
    listen: Listener | None = None
    secret: Path | None = None
    priority: int = Field(default=100, ge=0, le=1000)
    heartbeat: Time = 150 * 10**6
    timeout: Time = 600 * 10**6

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if not self.peers:
            if self.model_fields_set:
                raise ValueError("peers is missing; name the other controllers: {NAME: HOST:PORT}")
            return self
        if self.name is None or self.listen is None:
            raise ValueError("name and listen are needed beside peers")
        if self.name in self.peers:
            raise ValueError(f"peers holds this controller itself, {self.name!r}; leave it out")
        if self.listen.transport == "tcp" and self.secret is None:
            raise ValueError("secret is missing; over tcp: it is what tells peers from strangers")
        if self.timeout < 3 * self.heartbeat:
            raise ValueError("timeout must be at least three times heartbeat")
        return self


class QueueSection(_Section):
    """The egress queue of one port, where it differs from the rest of the fabric."""

    switch: SwitchId
    port: int | str
    capacity: Rate | None = None
    egress_buffer: Size | None = None
    rtt: Rtt | None = None


class FabricSection(_Section):
    link_capacity: Rate = 10**8
    egress_buffer: Size = 64 * 2**10
    rtt: Rtt = 500_000
    lldp_interval: Time = 10**9
    link_timeout: Time = Field(default=4 * 10**9, le=65_535 * 10**9)
    control_grace: Time = 5 * 10**8
    switch_grace: Time = 60 * 10**9
    host_age: Time = 1800 * 10**9
    flood_rate: int = Field(default=100, ge=1, le=10**6)
    queues: tuple[QueueSection, ...] = ()

    @model_validator(mode="after")
    def _links_outlive_probes(self) -> Self:
        if self.link_timeout <= self.lldp_interval:
            raise ValueError("link_timeout must be longer than lldp_interval, best three times")
        return self


class ClassifierSection(_Section):
    background_bytes: Size = 10**6
    background_age: Time = 10**9
    poll_interval: Time = 5 * 10**8
    quiet: Time = 10 * 10**9
    expiry: Time = Field(default=1800 * 10**9, le=3600 * 10**9)
    counted_per_switch: int = Field(default=16_384, ge=0)


class SchemeSection(_Section):
    """The scheme of one port, by number or name; without a port, of a whole switch."""

    switch: SwitchId
    port: int | str | None = None
    scheme: Scheme


class RegulationSection(_Section):
    """`scheme` is that of all ports but those of `schemes`.

    `repeat_notices` is for scheme `sdtcp`: switches repeat notices while a port is congested,
    and windows follow the flows meanwhile; without it, that is the letter of the paper's
    Algorithm 1.

    `max_hold` is for how long a switch may hold a request for data until the port that the data
    will leave by has room; `background_share` what background flows keep of a congested port beside
    bursts. Both are for switches that keep accounts of credit, `buffer_share` and `floor_segments`
    for those that only lower windows.

    A host takes a request for lost that nobody acknowledges within its retransmission timeout, so
    `max_hold` must be below the least timeout of all hosts: Linux has 200 ms, FreeBSD 30 ms,
    Windows 20 ms.
    """

    scheme: Scheme = Scheme.WEIR
    schemes: tuple[SchemeSection, ...] = ()
    repeat_notices: bool = True
    window_ttl: Time = Field(default=3 * 10**9, ge=10**8, le=86_400 * 10**9)
    max_hold: Time = 160 * 10**6
    background_share: Share = 0.125
    buffer_share: Share = Field(default=0.9, gt=0, le=1)
    floor_segments: int = Field(default=2, ge=1)

    @field_validator("max_hold")
    @classmethod
    def _is_below_timeouts(cls, max_hold_ns: int) -> int:
        if not 10**6 <= max_hold_ns <= 10**9:
            raise ValueError(
                f"{max_hold_ns / 10**6:g} ms is not within 1 ms to 1 s; choose it below the least "
                "retransmission timeout of the hosts (Linux 200 ms, FreeBSD 30 ms, Windows 20 ms)"
            )
        return max_hold_ns

    @field_validator("background_share")
    @classmethod
    def _leaves_some_for_both(cls, share: float) -> float:
        if not 0.01 <= share <= 0.99:
            raise ValueError(f"{share:g} is not within 0.01 to 0.99; write e.g. 0.125")
        return share

    @field_validator("schemes")
    @classmethod
    def _each_place_once(cls, schemes: tuple[SchemeSection, ...]) -> tuple[SchemeSection, ...]:
        seen = set()
        for number, one in enumerate(schemes):
            if (one.switch, one.port) in seen:
                raise ValueError(f"number {number} is for the same place as one before; keep one")
            seen.add((one.switch, one.port))
        return schemes

    def credit_rules(self) -> CreditRules:
        """The shares as a ratio of weights, which are at most 99."""
        background = Fraction(self.background_share).limit_denominator(100)
        burst_weight = background.denominator - background.numerator
        return CreditRules(self.max_hold // 10**6, burst_weight, background.numerator)


class BandwidthSection(_Section):
    """Shares of the links' capacities: `spare` is given to no announced flow; `reserved` is for
    them together, whoever else sends (0: they count as any other flow). `reserved_dscp` is that of
    the QoS of the switches, which their senders are told to write into their packets."""

    spare: Share = Field(default=0.01, ge=0, le=0.5)
    reserved: Share = Field(default=0.0, ge=0, lt=1)
    reserved_dscp: int = Field(default=11, ge=1, le=63)
    expiry: Time = Field(default=5 * 10**9, ge=5 * 10**8, le=3600 * 10**9)


class PolicyRule(_Section):
    """What is done with the connections that have an end in the subnet, at the TCP port."""

    treatment: Literal["exempt", "protect", "background"]
    subnet: Subnet | None = None
    port: Annotated[int | None, BeforeValidator(_tcp_port)] = Field(default=None, ge=1, le=65_535)

    @model_validator(mode="after")
    def _says_of_whom(self) -> Self:
        if self.subnet is None and self.port is None:
            raise ValueError("neither subnet nor port; name at least one of them")
        return self

    def rule(self) -> Rule:
        return Rule(Treatment(self.treatment), *(self.subnet or (b"", 0)), self.port or 0)


Pps = Annotated[int, Field(gt=0, le=10**7)]


class BudgetsSection(_Section):
    """Packet-ins a second, and how often switches are audited.

    `syn` to `unknown` are of one port, `unmetered` of one switch, of what has no meter there:
    20,000 SYNs are 10,000 connections a second with both ends at the port. `switch_segments`,
    `switch_ends` (FIN and RST, when segments are over theirs) and `switch_frames` (each other
    class) bound what the controller reads of one switch, whatever its meters do: one processor can
    take some 500,000 segments a second of all switches.
    """

    syn: Pps = 20_000
    fin_rst: Pps = 20_000
    neighbour: Pps = 200
    lldp: Pps = 20
    unknown: Pps = 500
    unmetered: Pps = 20_000
    switch_segments: Pps = 200_000
    switch_ends: Pps = 20_000
    switch_frames: Pps = 5_000
    audit_interval: Time = Field(default=300 * 10**9, ge=10**9)


Level = Literal["debug", "info", "warning", "error"]
# fmt: off
Component = Literal["app", "channel", "eventlog", "northbound", "openflow", "peers", "refused",
                    "session", "standby"]
# fmt: on


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ApiSection(_Section):
    """The HTTP API. In clear it is served to this machine alone, and to nobody without a token.

    `origins` are those of web pages that may use it from within a browser, `rate` is how many
    requests a second each token may make.
    """

    listen: Endpoint = ("127.0.0.1", 8181)
    tokens: Path
    key: Path | None = None
    certificate: Path | None = None
    origins: tuple[str, ...] = ()
    rate: float = Field(default=100.0, gt=0, le=10**6)

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not re.fullmatch(r"https?://[^/*\s]+", origin):
                raise ValueError(f"{origin!r} is no origin; write e.g. https://dash.example.org")
        return origins

    @model_validator(mode="after")
    def _is_protected(self) -> Self:
        if (self.key is None) != (self.certificate is None):
            missing = "key" if self.key is None else "certificate"
            raise ValueError(f"{missing} is missing; key and certificate go together")
        if self.key is None and not _is_loopback(self.listen[0]):
            raise ValueError(
                f"key and certificate are missing: tokens would cross the network to "
                f"{self.listen[0]} in clear; add them, or listen on 127.0.0.1"
            )
        return self

    def settings(self) -> ApiSettings:
        """What the API's own process needs of it."""
        host, port = self.listen
        return ApiSettings(host=host, port=port, **self.model_dump(exclude={"listen"}))


class Northbound(_Section):
    """Metrics are off unless told where: two controllers on a machine must not be in each other's
    way. That is no harm for the socket, which is done without if it cannot be had and was not
    asked for."""

    metrics: MetricsOrOff = None
    socket: SocketOrOff = SOCKET
    api: ApiSection | None = None

    @property
    def socket_must(self) -> bool:
        """Whether the operator has asked for the socket."""
        return "socket" in self.model_fields_set


class Log(_Section):
    """`levels` are those of single components."""

    level: Level = "info"
    levels: dict[Component, Level] = {}
    format: Literal["text", "json"] = "text"
    events: str | None = None
    connections: bool = False


class Config(_Section):
    """Rates are in bit/s, sizes in bytes, times in nanoseconds, once they are read."""

    openflow: OpenFlow = OpenFlow()
    fabric: FabricSection = FabricSection()
    classifier: ClassifierSection = ClassifierSection()
    regulation: RegulationSection = RegulationSection()
    policies: tuple[PolicyRule, ...] = ()
    budgets: BudgetsSection = BudgetsSection()
    bandwidth: BandwidthSection = BandwidthSection()
    northbound: Northbound = Northbound()
    log: Log = Log()
    tls: TlsSection = TlsSection()
    standby: StandbySection = StandbySection()

    @field_validator("policies")
    @classmethod
    def _exemptions_first(cls, policies: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        """The switches let exempted connections by before anything else is looked at."""
        exempts = [policy.treatment == "exempt" for policy in policies]
        late = next((i for i in range(1, len(exempts)) if exempts[i] and not exempts[i - 1]), None)
        if late is not None:
            raise ValueError(f"number {late} exempts; put it before those that do not")
        return policies

    def require_transport(self) -> None:
        """Raises ConfigError if it asks for TLS and does not say with what."""
        for key, listen in (
            ("openflow.listen", self.openflow.listen),
            ("standby.listen", self.standby.listen),
        ):
            if listen is not None and listen.transport == "ssl" and not self.tls.given:
                raise ConfigError(
                    f"{key}: {listen} needs tls.key, tls.certificate and tls.ca; "
                    f"where nothing is to be protected, write tcp:{str(listen)[4:]}"
                )

    def engine_settings(self) -> EngineSettings:
        """What the core needs of it."""
        fabric, classifier, regulation = self.fabric, self.classifier, self.regulation
        limits = PortLimits(fabric.link_capacity, fabric.rtt, fabric.egress_buffer)
        return EngineSettings(
            connections=ConnectionSettings(
                Classifier(
                    classifier.background_bytes,
                    classifier.background_age,
                    # The paper knows no way back.
                    None if regulation.scheme is Scheme.SDTCP else classifier.quiet,
                ),
                classifier.poll_interval,
                classifier.expiry,
                classifier.counted_per_switch,
                self.log.connections,
            ),
            regulator=RegulatorSettings(
                regulation.scheme,
                regulation.window_ttl,
                WindowRules(regulation.buffer_share, regulation.floor_segments),
                regulation.credit_rules(),
                regulation.repeat_notices,
                tuple(
                    SchemeOverride(one.scheme, one.switch, one.port) for one in regulation.schemes
                ),
            ),
            limits=limits,
            overrides=tuple(
                PortOverride(
                    queue.switch, queue.port, queue.capacity, queue.rtt, queue.egress_buffer
                )
                for queue in fabric.queues
            ),
            link_timeout_ns=fabric.link_timeout,
            control_grace_ns=fabric.control_grace,
            switch_grace_ns=fabric.switch_grace,
            audit_interval_ns=self.budgets.audit_interval,
            policies=tuple(policy.rule() for policy in self.policies),
            resolver=ResolverSettings(fabric.host_age, fabric.flood_rate),
            bandwidth=BandwidthSettings(
                self.bandwidth.spare,
                self.bandwidth.reserved or None,
                self.bandwidth.expiry,
                self.bandwidth.reserved_dscp if self.bandwidth.reserved else None,
            ),
        )


def load(path: Path | None) -> Config:
    """Read a configuration to run with; without a path, the defaults. Raises ConfigError."""
    try:
        config = Config() if path is None else parse(path.read_text(encoding="utf-8"))
        config.require_transport()
        return config
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name another file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    except ConfigError as error:
        first, *others = error.problems
        raise ConfigError(f"{path or 'without --config'}: {first}", *others) from error


def parse(text: str) -> Config:
    """Raises ConfigError."""
    try:
        written = yaml.load(text, _Loader)
    except Exception as error:
        # PyYAML raises other errors, too, such as ValueError for a 30th of February.
        raise ConfigError(f"is not YAML: {_explain_yaml(error)}") from error
    return validate({} if written is None else written)


def validate(written: object) -> Config:
    """A configuration from what YAML has made of it. Raises ConfigError."""
    try:
        return Config.model_validate(written)
    except ValidationError as error:
        details = [detail for detail in error.errors() if not _is_other_form(detail)]
        raise ConfigError(*map(_explain, details)) from error


class _Loader(yaml.SafeLoader):
    """YAML, but a key that stands twice is an error: one of the two would be ignored."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice; write it once", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_whole(self, node: yaml.ScalarNode) -> int | str:
        """A number. YAML would take one with leading zeros for octal, which nobody means."""
        written = self.construct_scalar(node)
        if _SWITCH_ID.fullmatch(written):
            return written
        if _LEADING_ZEROS.fullmatch(written):
            raise yaml.constructor.ConstructorError(
                None, None, f"{written} has leading zeros; leave them out", node.start_mark
            )
        number: int = self.construct_yaml_int(node)
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole)


def _explain_yaml(error: Exception) -> str:
    """In one line: where, what is wrong, what would be right."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    mark = error.problem_mark
    hint = "; indent with spaces" if "'\\t'" in str(error.problem) else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{hint}"


def _is_other_form(error: ErrorDetails) -> bool:
    """Whether it is about a form of `tls.switches` that was not meant: a word, or a map."""
    if not any(_is_form(part) for part in error["loc"]):
        return False
    is_map = isinstance(error["input"], dict)
    return error["type"] == "literal_error" if is_map else error["type"] == "dict_type"


def _is_form(part: int | str) -> bool:
    """Whether a part of a path is no key, but what Pydantic calls one of several forms."""
    return isinstance(part, str) and part.startswith(("literal[", "dict[", "[key]"))


def _did_you_mean(written: object, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(written), list(words), 1)
    return f"; did you mean {close[0]}?" if close else ""


def _explain(error: ErrorDetails) -> str:
    """`key.path: what is wrong; what would be right`."""
    path = [part for part in error["loc"] if not (part in ("int", "str") and len(error["loc"]) > 3)]
    path = [part for part in path if not _is_form(part)]
    where = ".".join(str(part) for part in path) or "the file"
    match error["type"]:
        case "extra_forbidden":
            known = _keys_of(path[:-1])
            close = difflib.get_close_matches(str(path[-1]), known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            return f"{where}: unknown key; {hint}"
        case "model_type" | "model_attributes_type":
            return f"{where}: should hold keys: {', '.join(_keys_of(path))}"
        case "missing":
            return f"{where}: is missing; add it"
        case "value_error":
            return f"{where}: {error['msg'].removeprefix('Value error, ')}"
        case "enum" | "literal_error":
            expected = error.get("ctx", {}).get("expected", "")
            hint = _did_you_mean(error["input"], re.findall("'([^']*)'", expected))
            return f"{where}: {error['input']!r} is not one of {expected}{hint}"
        case "bool_parsing" | "bool_type":
            return f"{where}: {error['input']!r} is neither; write true or false"
        case "int_parsing" | "int_type" | "int_from_float":
            return f"{where}: {error['input']!r} is no whole number; write one"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{where}: {_out_of_range(path, error)}"
    message = error["msg"][0].lower() + error["msg"][1:]
    return f"{where}: {error['input']!r}: {message}"


_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _out_of_range(path: list[int | str], error: ErrorDetails) -> str:
    """The value and its bound; times, which are held in nanoseconds, in seconds."""
    key, words = _BOUNDS[error["type"]]
    numbers = [error["input"], error.get("ctx", {})[key]]
    field = _section_of(path[:-1]).model_fields.get(str(path[-1]))
    readers = [getattr(one, "func", None) for one in field.metadata] if field else []
    if _time_ns in readers or _rtt_ns in readers:
        numbers = [f"{number / 10**9:g} s" for number in numbers]
    return f"{numbers[0]} is out of range; write {words} {numbers[1]}"


def _keys_of(path: list[int | str]) -> list[str]:
    """The keys that a section knows."""
    return list(_section_of(path).model_fields)


def _section_of(path: list[int | str]) -> type[BaseModel]:
    section: type[BaseModel] = Config
    # Of these the default does not tell.
    named: dict[str, type[BaseModel]] = {
        "queues": QueueSection,
        "schemes": SchemeSection,
        "policies": PolicyRule,
        "api": ApiSection,
    }
    for part in path:
        if isinstance(part, str) and part in section.model_fields:
            found = named.get(part) or type(section.model_fields[part].default)
            if issubclass(found, BaseModel):
                section = found
    return section
