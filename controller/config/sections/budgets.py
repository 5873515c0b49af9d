"""`budgets`: what switches may copy to the controller, and how often they are audited."""

from typing import Annotated

from pydantic import Field

from controller.config.fields import Section, Time

Pps = Annotated[int, Field(gt=0, le=10**7)]


class BudgetsSection(Section):
    """Packet-ins a second, and how often switches are audited.

    `syn` to `unknown` are of one port, `broadcast` of the frames themselves. `unmetered` is of one
    switch, of what has no meter there: 20,000 SYNs are 10,000 connections a second with both ends
    at the port. `switch_segments`, `switch_ends` (FIN and RST, when segments are over theirs) and
    `switch_frames` (each other class) bound what the controller reads of one switch, whatever its
    meters do: one processor can take some 500,000 segments a second of all switches.
    """

    syn: Pps = Field(
        default=20_000,
        description="copies of SYNs of one port a second that reach the controller",
    )
    fin_rst: Pps = Field(
        default=20_000,
        description="copies of FINs and RSTs of one port a second that reach the controller",
    )
    neighbour: Pps = Field(
        default=200,
        description="copies of ARP and ND of one port a second that reach the controller",
    )
    broadcast: Pps = Field(
        default=1_000,
        description="frames of one port a second to groups and to everybody that switches flood",
    )
    lldp: Pps = Field(
        default=20,
        description="copies of LLDP of one port a second that reach the controller",
    )
    unknown: Pps = Field(
        default=500,
        description="copies of what fits no entry, of one port a second, that reach the controller",
    )
    unmetered: Pps = Field(
        default=20_000,
        description="copies of a switch a second, of what has no meter of its own",
    )
    switch_segments: Pps = Field(
        default=200_000,
        description=(
            "segments that the controller reads of one switch a second, whatever the "
            "switch's meters do"
        ),
    )
    switch_ends: Pps = Field(
        default=20_000,
        description=(
            "FINs and RSTs that the controller reads of one switch a second when its "
            "segments are over theirs"
        ),
    )
    switch_frames: Pps = Field(
        default=5_000,
        description="frames of each other class that the controller reads of one switch a second",
    )
    audit_interval: Time = Field(
        default=300 * 10**9,
        ge=10**9,
        description="how often a switch's entries are compared with what it should hold",
    )
