"""`budgets`: what switches may copy to the controller, and how often they are audited."""

from typing import Annotated

from pydantic import Field

from controller.config.fields import Section, Time

Pps = Annotated[int, Field(gt=0, le=10**7)]


class BudgetsSection(Section):
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
