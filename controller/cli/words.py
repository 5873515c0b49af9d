"""Numbers and names as people read them."""

from datetime import datetime
from typing import Any

from controller.model.values import datapath_id

NOTHING = "-"


def size(n_bytes: float) -> str:
    """`64K`: powers of 1024, three digits of it."""
    return _scaled(n_bytes, 1024)


def rate(bits_per_s: float) -> str:
    """`100M`: bits a second, powers of 1000."""
    return _scaled(bits_per_s, 1000)


def percent(part: float, whole: float) -> str:
    """`12%`, `0.4%`; NOTHING if the whole is 0."""
    if not whole:
        return NOTHING
    number = 100 * part / whole
    return f"{number:.0f}%" if number >= 10 else f"{number:.2g}%"


def duration(seconds: float) -> str:
    """`80us`, `1.5ms`, `12s`, `3:05`, `2:03:05`, `5d 02:03`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f}us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g}ms"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days}d {h:02}:{m:02}"
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def plain(text: object) -> str:
    """Text that is safe for a terminal: switches may name their ports anything."""
    return "".join(char if char.isprintable() else "\ufffd" for char in str(text))


def event(told: dict[str, Any]) -> str:
    """An event as a line: time, name, and the rest as key=value."""
    time = ""
    if isinstance(told.get("wall_s"), int | float):
        time = datetime.fromtimestamp(told["wall_s"]).astimezone().strftime("%H:%M:%S.%f")[:-3]
    rest = {
        key: value
        for key, value in told.items()
        if key not in ("event", "serial", "wall_s", "time_ns", "refresh", "windows")
    }
    if isinstance(rest.get("switch"), int):
        rest["switch"] = datapath_id(rest["switch"])
    words = [f"{key}={value}" for key, value in rest.items()]
    for window in told.get("windows", ()):
        held = f"{window['window_bytes']}B" if window["window_bytes"] else "released"
        if window["credit"]:
            held = f"credit:{window['credit']['weight']}"
        words.append(f"{window['port']}/{window['class']}={held}")
    return plain(" ".join([time, told.get("event", ""), *words]).strip())


def share(told: dict[str, Any]) -> str:
    """What a fountain flow may send, as a line."""
    if told["src"] is None:
        return plain(f"{told['flow']} is gone")
    may = "has no path" if told["rate_bps"] is None else f"may send {rate(told['rate_bps'])}bit/s"
    by = "" if told["narrowest"] is None else f", as {told['narrowest']} lets it"
    return plain(f"{told['flow']} {told['src']} to {told['dst']} {may}{by}")


def _scaled(number: float, step: int) -> str:
    prefix = ""
    for prefix in ("", "K", "M", "G", "T", "P", "E"):
        if number < step or prefix == "E":
            break
        number /= step
    places = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:.{places}f}"
    return (text.rstrip("0").rstrip(".") if places else text) + prefix
