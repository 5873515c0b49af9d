"""Tables of figures, placed by their names."""

import re
from collections.abc import Mapping

from rich.table import Table

_GOODPUT = re.compile(r"(?P<scheme>\w+?)_goodput_mbps_n(?P<servers>\d+)_(?P<size_kb>\d+)k")


def goodputs(figures: Mapping[str, float]) -> Table | None:
    """Return goodputs by size and scheme, a column for each number of servers; None if there are
    none."""
    cells = {
        (int(found["size_kb"]), found["scheme"], int(found["servers"])): value
        for name, value in figures.items()
        if (found := _GOODPUT.fullmatch(name)) and not found["scheme"].endswith("_worst")
    }
    if not cells:
        return None
    columns = sorted({servers for _, _, servers in cells})
    table = Table("goodput, Mb/s", *map(str, columns), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    rows = dict.fromkeys((size_kb, scheme) for size_kb, scheme, _ in cells)
    for size_kb, scheme in sorted(rows, key=lambda row: row[0]):
        shown = [cells.get((size_kb, scheme, servers)) for servers in columns]
        values = ["-" if value is None else f"{value:.1f}" for value in shown]
        table.add_row(f"{size_kb} KiB {scheme}", *values)
    return table
