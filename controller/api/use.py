"""What each port with a queue sends, in columns, from the last sample. Pure.

A page that draws thousands of links every second needs no more of each than this.
"""

import math
from typing import Literal

from pydantic import BaseModel

from controller.api.sampling import Sample
from controller.rpc.spans import by_port, queue_of


class PortUse(BaseModel):
    """Columns of as many ports with a queue as there are, of the sample of `at_s`, in seconds since
    1970. `ids` are "datapath_id:port", `levels` 0 without congestion and 1 to 3 at L, M and H;
    `sent_bps` is null where it is not known; `rate_bps` is what the queue can send."""

    at_s: float
    ids: list[str]
    names: list[str]
    levels: list[Literal[0, 1, 2, 3]]
    sent_bps: list[int | None]
    rate_bps: list[int]


def use(sample: Sample) -> PortUse:
    """The use of all ports."""
    rates = sample.sampled.rates
    rows = by_port(sample.ports)
    sent = [rates[port].sent_bps if port in rates else math.nan for port in rows]
    return PortUse.model_construct(
        at_s=sample.at_s,
        ids=[f"{row['datapath_id']}:{row['port']}" for row in rows.values()],
        names=[row["name"] for row in rows.values()],
        levels=[queue_of(row)["level"] for row in rows.values()],
        sent_bps=[None if math.isnan(bps) else round(bps) for bps in sent],
        rate_bps=[queue_of(row)["rate_bps"] for row in rows.values()],
    )
