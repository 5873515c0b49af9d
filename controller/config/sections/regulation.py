"""`regulation`: the scheme, and how windows are set."""

from fractions import Fraction

from pydantic import Field, field_validator

from controller.config.fields import Section, Share, SwitchId, Time
from controller.core.congestion.regulator import Scheme
from controller.core.congestion.windows import CreditRules


class SchemeSection(Section):
    """The scheme of one port, by number or name; without a port, of a whole switch."""

    switch: SwitchId
    port: int | str | None = None
    scheme: Scheme


class RegulationSection(Section):
    """`scheme` is that of all ports but those of `schemes`.

    `repeat_notices` is for scheme `sdtcp`: switches repeat notices while a port is congested,
    and windows follow the flows meanwhile; without it, that is the letter of the paper's
    Algorithm 1.

    `max_hold` is for how long a switch may hold a request for data until the port that the data
    will leave by has room; `background_share` what background flows keep of a congested port beside
    bursts. Both are for switches that keep accounts of credit, `buffer_share` and `floor_segments`
    for those that only lower windows. Without `accounts`, all switches do that.

    A host takes a request for lost that nobody acknowledges within its retransmission timeout, so
    `max_hold` must be below the least timeout of all hosts: Linux has 200 ms, FreeBSD 30 ms,
    Windows 20 ms.
    """

    scheme: Scheme = Field(
        default=Scheme.WEIR,
        description="weir; sdtcp: the paper; none: only watch",
    )
    schemes: tuple[SchemeSection, ...] = Field(
        default=(),
        description=(
            "switches and ports with another scheme: switch, port (left out: the whole "
            "switch), scheme"
        ),
    )
    repeat_notices: bool = Field(
        default=True,
        description=(
            "scheme sdtcp only: switches repeat notices while a port is congested, and "
            "windows follow the flows"
        ),
    )
    window_ttl: Time = Field(
        default=3 * 10**9,
        ge=10**8,
        le=86_400 * 10**9,
        description="how long a window stands that is not renewed",
    )
    accounts: bool = Field(
        default=True,
        description=(
            "scheme weir only: switches that can keep accounts of credit do; without, ports have "
            "standing windows, a share of the buffer for each connection"
        ),
    )
    max_hold: Time = Field(
        default=160 * 10**6,
        description=(
            "how long a switch may hold a request for data until the port that the data "
            "will leave by has room; below the least retransmission timeout of all hosts"
        ),
    )
    background_share: Share = Field(
        default=0.125,
        description=(
            "part of a congested port that background flows keep beside bursts, where the "
            "switch keeps accounts of credit"
        ),
    )
    buffer_share: Share = Field(
        default=0.9,
        gt=0,
        le=1,
        description=(
            "part of a buffer that standing windows may fill, where the switch keeps no "
            "accounts of credit"
        ),
    )
    floor_segments: int = Field(
        default=2,
        ge=1,
        description=(
            "least window of scheme weir, in segments, where the switch keeps no accounts of credit"
        ),
    )

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
