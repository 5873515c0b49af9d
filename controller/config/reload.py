"""A new configuration for a controller that is at work: what of it can take effect, what cannot."""

from typing import NamedTuple

from pydantic import BaseModel

from controller.config.schema import Config

_WARM = frozenset(
    {
        *("classifier", "regulation", "policies", "budgets", "bandwidth", "protection"),
        *("northbound", "tls"),
        *("log.level", "log.levels", "log.format", "log.connections"),
    }
)


class Change(NamedTuple):
    """`config` is to be in use from now on: the new one, but for the keys `kept`."""

    config: Config
    changed: list[str]
    kept: list[str]


def is_live(path: str) -> bool:
    """Whether a key takes effect without a restart."""
    return path in _WARM or path.partition(".")[0] in _WARM


def merge(old: Config, new: Config) -> Change:
    """What of `new` can take the place of `old` without a restart. Raises ConfigError if what comes
    of it does not fit together."""
    changed: list[str] = []
    kept: list[str] = []
    update: dict[str, object] = {}
    for section in Config.model_fields:
        before, after = getattr(old, section), getattr(new, section)
        if before == after:
            continue
        if not isinstance(before, BaseModel):
            (changed if is_live(section) else kept).append(section)
            update[section] = after if is_live(section) else before
            continue
        back: dict[str, object] = {}
        for key in type(before).model_fields:
            if getattr(before, key) == getattr(after, key):
                continue
            path = f"{section}.{key}"
            if is_live(path):
                changed.append(path)
            else:
                kept.append(path)
                back[key] = getattr(before, key)
        update[section] = after.model_copy(update=back)
    config = old.model_copy(update=update)
    config.require_transport()
    return Change(config, changed, kept)
