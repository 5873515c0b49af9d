"""The controller's answers as tables for people."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from controller.cli import words

Row = Mapping[str, Any]


class Column(NamedTuple):
    """`cell` makes the text of a row. A column that `shrinks` is cut in a narrow terminal, others
    have room for their title and for `least` characters."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    shrinks: bool = False
    least: int = 0


def table(columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis" if column.shrinks else "crop",
            min_width=None if column.shrinks else max(len(column.title), column.least),
        )
    for row in rows:
        cells = [Text(words.plain(column.cell(row))) for column in columns]
        made.add_row(*cells, style=_style(row))
    return made


def with_regulation(ports: Iterable[Row], regulation: Iterable[Row]) -> list[dict[str, Any]]:
    """The ports, each with its regulation under the key `regulation`."""
    by_port = {(row["switch"], row["port"]): row for row in regulation}
    return [{**row, "regulation": by_port.get((row["switch"], row["port"]))} for row in ports]


def queue(row: Row) -> Row:
    """The egress queue of a port that its regulation goes by; empty without any."""
    return max(row["queues"], key=lambda of: of["queue_bytes"], default={})


def _queue(key: str, write: Callable[[Any], str]) -> Callable[[Row], str]:
    return lambda row: write(queue(row)[key]) if queue(row) else words.NOTHING


def _regulation(write: Callable[[Row], str]) -> Callable[[Row], str]:
    return lambda row: write(row["regulation"]) if row["regulation"] else words.NOTHING


def window(cls: str) -> Callable[[Row], str]:
    def write(told: Row) -> str:
        n_bytes = told["holds"].get(cls, {}).get("window_bytes")
        return words.size(n_bytes) if n_bytes else words.NOTHING

    return _regulation(write)


def _notice(told: Row) -> str:
    return "off" if told["scheme"] == "none" else told["notice"] or words.NOTHING


def account(row: Row) -> Row:
    """The account of credit of a port's egress queue; empty without any."""
    return queue(row).get("account") or {}


def _share(part: str, whole: str) -> Callable[[Row], str]:
    def write(row: Row) -> str:
        told = account(row)
        return words.percent(told[part], told[whole]) if told else words.NOTHING

    return write


def _held(row: Row) -> str:
    """The part of the requests that was held; "never" where the switch cannot hold any."""
    if queue(row) and not queue(row)["can_have_account"]:
        return "never"
    return _share("held_requests", "requests")(row)


def _held_for(row: Row) -> str:
    """The time below which 99 % of the held segments were held."""
    told = account(row)
    counts = told.get("held_counts", ())
    if not sum(counts):
        return words.NOTHING
    number = 0
    for bound_s, held in zip(told["held_bounds_s"], counts, strict=False):
        number += held
        if number >= 0.99 * sum(counts):
            return f"<{words.duration(bound_s)}"
    return words.duration(told["max_held_s"])


def _state(row: Row) -> str:
    if not row["connected"]:
        return "away"
    if row["role"] == "slave":
        return "standby"
    return "ready" if row["ready"] else "starting"


def _entries(row: Row) -> str:
    """How many entries are in force, of how many that should be."""
    return f"{row['entries_confirmed']}/{row['entries_wanted']}"


def _leads_to(row: Row) -> str:
    if not row["up"]:
        return "down"
    if row["peer"]:
        where = f"to {row['peer']}{' by tunnel' if row['tunnel'] else ''}"
    else:
        where = f"{row['hosts']} hosts" if row["hosts"] != 1 else "1 host"
    bond = f"bond {'+'.join(map(str, row['bond']))}" if row["bond"] else ""
    return ", ".join(filter(None, (where, bond, *row["tunnels"])))


def _end(side: str) -> Callable[[Row], str]:
    def write(row: Row) -> str:
        address = f"[{row[side]}]" if ":" in row[side] else row[side]
        vlan = f" (VLAN {row['vlan']})" if row.get("vlan") and side == "src" else ""
        return f"{address}:{row[f'{side}_port']}{vlan}"

    return write


def _style(row: Row) -> str:
    """Make what needs attention stand out."""
    if row.get("connected") is False or row.get("up") is False:
        return "dim"
    if row.get("regulation") and row["regulation"]["notice"]:
        return "yellow"
    return ""


def _rtt(row: Row) -> str:
    return words.NOTHING if row["control_rtt_s"] is None else words.duration(row["control_rtt_s"])


SWITCH = Column("SWITCH", lambda row: row["datapath_id"], least=16)
PORT = (
    SWITCH,
    Column("PORT", lambda row: str(row["port"]), right=True),
    Column("NAME", lambda row: row["name"], shrinks=True),
)
LEADS_TO = Column("LEADS TO", _leads_to, shrinks=True)
LENGTH = Column("QUEUE", _queue("queue_bytes", words.size), right=True)
LIMIT = Column("LIMIT", _queue("limit_bytes", words.size), right=True)
DROPS = Column("DROPS", _queue("dropped_packets", str), right=True)
MARKS = Column("MARKS", _queue("marked_packets", str), right=True)
BURST = Column("BURST", _regulation(lambda told: str(told["burst_flows"])), right=True)
BACKGROUND = Column("BACK", _regulation(lambda told: str(told["background_flows"])), right=True)
NOTICE = Column("NOTICE", _regulation(_notice))
WINDOW = Column("WINDOW", window("burst"), right=True)
HELD = Column("HELD", _held, right=True)
HELD_FOR = Column("FOR", _held_for, right=True)
GIVEN_BACK = Column("UNUSED", _share("given_back_bytes", "charged_bytes"), right=True)

PORTS = (
    *(*PORT, LEADS_TO, LENGTH, LIMIT, DROPS, MARKS),
    *(BURST, BACKGROUND, NOTICE, WINDOW, HELD, HELD_FOR, GIVEN_BACK),
)

SWITCHES = (
    SWITCH,
    Column("STATE", _state),
    Column("ADDRESS", lambda row: row["address"] or words.NOTHING, shrinks=True),
    Column("PORTS", lambda row: str(row["ports"]), right=True),
    Column("ENTRIES", _entries, right=True),
    Column("REGISTERS", lambda row: f"{row['registers_used']}/{row['registers']}", right=True),
    Column("RTT", _rtt, right=True),
    Column("WAITING", lambda row: words.size(row["waiting_bytes"]), right=True),
    Column("MISSED", lambda row: str(row["notices_missed"]), right=True),
    Column("LOST", lambda row: str(row["disconnections"]), right=True),
)

GROUPS = (
    Column("GROUP", lambda row: row["group"]),
    Column("VLAN", lambda row: str(row["vlan"] or words.NOTHING), right=True),
    Column("MEMBERS AT", lambda row: " ".join(row["ports"]) or words.NOTHING, shrinks=True),
)

FLOWS = (
    Column("FROM", _end("src"), shrinks=True),
    Column("TO", _end("dst"), shrinks=True),
    Column("CLASS", lambda row: row["class"]),
    Column(
        "VOLUME",
        lambda row: words.size(row["volume_bytes"]) if row["counted"] else words.NOTHING,
        right=True,
    ),
    Column("AGE", lambda row: words.duration(row["age_s"]), right=True),
    Column("LEAVES BY", lambda row: " ".join(row["ports"]) or words.NOTHING, shrinks=True),
)


def _measured(key: str) -> Callable[[Row], str]:
    return lambda row: words.NOTHING if row[key] is None else words.rate(row[key])


def _loss(row: Row) -> str:
    return words.NOTHING if row["loss"] is None else words.percent(row["loss"], 1)


LINKS = (
    Column("LINK", lambda row: row["link"]),
    Column("CAPACITY", _measured("capacity_bps"), right=True),
    Column("USED", _measured("used_bps"), right=True),
    Column("+-", _measured("error_bps"), right=True),
    Column("LOSS", _loss, right=True),
)

FOUNTAINS = (
    Column("FLOW", lambda row: row["flow"], shrinks=True),
    Column("FROM", lambda row: row["src"], shrinks=True),
    Column("TO", lambda row: row["dst"], shrinks=True),
    Column("WANTS", _measured("most_bps"), right=True),
    Column("RATE", _measured("rate_bps"), right=True),
    Column("NARROWEST", lambda row: row["narrowest"] or words.NOTHING),
)
