"""What a page asks for, from what it was seen to ask. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

STREAM = "/v1/events/stream"
_FROM = "from"
# The page's Past asks for what is new since its last answer: of these the first one is longer.
_LATEST = 2


@dataclass(frozen=True)
class Question:
    """``path`` is asked for every ``period_s``, or once if that is None; ``from_ago_s`` is how long
    ago the time `from` of it is, if it has one."""

    path: str
    period_s: float | None
    from_ago_s: float | None = None

    def at(self, now_s: float) -> str:
        """The path, as it is asked for now."""
        if self.from_ago_s is None:
            return self.path
        mark = "&" if "?" in self.path else "?"
        return f"{self.path}{mark}{_FROM}={now_s - self.from_ago_s:.3f}"


def questions(asked: Sequence[tuple[float, str]]) -> list[Question]:
    """From the times of day and addresses of requests. The stream is not a question."""
    times: dict[str, list[float]] = {}
    ago: dict[str, list[float]] = {}
    for at_s, url in asked:
        parts = urlsplit(url)
        if not parts.path.startswith("/v1/") or parts.path == STREAM:
            continue
        query = parse_qsl(parts.query, keep_blank_values=True)
        rest = [(name, value) for name, value in query if name != _FROM]
        path = f"{parts.path}?{urlencode(rest)}" if rest else parts.path
        times.setdefault(path, []).append(at_s)
        for name, value in query:
            if name == _FROM:
                ago.setdefault(path, []).append(at_s - float(value))
    return [
        Question(
            path,
            (at[-1] - at[0]) / (len(at) - 1) if len(at) > _LATEST else None,
            min(ago[path]) if path in ago else None,
        )
        for path, at in times.items()
    ]


def written(found: Sequence[Question]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(one) for one in found]
