"""The settings: keys of the configuration that are shown to whoever may read, and those among them
that can be changed at work. Values are text, as they stand in the file.

All of it is read off the schema. What decides who may connect or ask, where, and with which files,
is no setting: that is the file's alone.
"""

import difflib
import enum
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.config import reading, reload
from controller.config.errors import ConfigError
from controller.config.fields import quantity_of
from controller.config.schema import Config

Kind = Literal["duration", "size", "rate", "number", "boolean", "choice", "text", "list"]

# Sections and keys that are no settings: names, addresses, files and secrets, and who may connect.
_HIDDEN = frozenset(
    {
        *("openflow", "tls", "northbound", "log.events"),
        *("standby.name", "standby.peers", "standby.listen", "standby.secret"),
    }
)
_LONGEST = 64
_LONGEST_LIST = 6000
_SHOWN = 64


class Setting(NamedTuple):
    """`key` is `SECTION.NAME`, or the section alone; `default` is text as in the file. Those that
    are not `live` only change with a restart."""

    key: str
    kind: Kind
    choices: tuple[str, ...] | None
    description: str
    default: str
    live: bool

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]


def text(config: Config, key: str) -> str:
    """The value of a setting, as it may stand in the file."""
    section, _, name = key.partition(".")
    owner: BaseModel = getattr(config, section) if name else config
    field = name or section
    written = owner.model_dump(mode="json", include={field}, exclude_none=True)[field]
    if isinstance(written, bool):
        return str(written).lower()
    if isinstance(written, list | dict):
        flow = yaml.safe_dump(
            written, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True
        )
        return flow.strip()
    return str(written).removesuffix(".0") if isinstance(written, float) else str(written)


def same(one: Config, other: Config, key: str) -> bool:
    """Whether a setting has the same value in both."""
    return _value(one, key) == _value(other, key)


def overlay(
    config: Config, changes: Mapping[str, str], kept: Mapping[str, str] | None = None
) -> Config:
    """The configuration with other values for these settings, and for those that were changed
    before and are `kept`. Raises ConfigError with the key, and what would be right, if one of them
    is none or cannot be changed at work, or if the values are not valid together."""
    written = {
        section: getattr(config, section).model_dump(
            mode="json", exclude_unset=True, exclude_none=True
        )
        for section in _LIVE_SECTIONS
    }
    written.update(config.model_dump(mode="json", include=set(_LIVE_LISTS), exclude_none=True))
    problems: list[str] = []
    for key, value in {**(kept or {}), **changes}.items():
        section, _, name = key.partition(".")
        try:
            require_live(key)
            if key in changes:
                _require_short(key, value)
            target = written[section] if name else written
            is_list = SETTINGS[key].kind == "list"
            target[name or section] = reading.parse_value(key, value) if is_list else value
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    made = reading.validate(written)
    return config.model_copy(
        update={section: getattr(made, section) for section in (*_LIVE_SECTIONS, *_LIVE_LISTS)}
    )


def require_live(key: str) -> Setting:
    """The setting of this key. Raises ConfigError with what would be right if it cannot be changed
    at work."""
    setting = SETTINGS.get(key)
    if setting is None:
        within = [one for one in SETTINGS if one.startswith(f"{key}.")]
        if within:
            raise ConfigError(f"{key}: is a section; name one of its keys: {', '.join(within)}")
        if _is_key(key):
            raise ConfigError(
                f"{key}: cannot be changed here; change it in the configuration file, then reload "
                "or restart the controller"
            )
        close = difflib.get_close_matches(key[:_SHOWN], SETTINGS, 1)
        right = f"did you mean {close[0]}?" if close else "weir-controller settings lists all"
        raise ConfigError(f"{key[:_SHOWN]}: there is no such setting; {right}")
    if not setting.live:
        raise ConfigError(
            f"{key}: cannot be changed while the controller runs; change it in the configuration "
            "file, then restart the controller"
        )
    return setting


def _require_short(key: str, value: str) -> None:
    """What somebody writes is not too long. What is kept was written out, and may be longer. Raises
    ConfigError."""
    longest = _LONGEST_LIST if SETTINGS[key].kind == "list" else _LONGEST
    if len(value) > longest:
        raise ConfigError(f"{key}: has {len(value)} characters; write at most {longest}")


def _value(config: Config, key: str) -> object:
    section, _, name = key.partition(".")
    owner = getattr(config, section)
    return getattr(owner, name) if name else owner


def _is_key(key: str) -> bool:
    """Whether the configuration has such a key, or one that holds it."""
    section, _, name = key.partition(".")
    if section not in Config.model_fields:
        return False
    keys = type(Config.model_fields[section].default).model_fields if name else ()
    return not name or name.partition(".")[0] in keys


def _all() -> Iterator[Setting]:
    defaults = Config()
    for section, field in Config.model_fields.items():
        held = field.default
        if not isinstance(held, BaseModel):
            yield _setting(defaults, section, field)
            continue
        for name, inner in type(held).model_fields.items():
            if section not in _HIDDEN and f"{section}.{name}" not in _HIDDEN:
                yield _setting(defaults, f"{section}.{name}", inner)


def _setting(defaults: Config, key: str, field: FieldInfo) -> Setting:
    kind, choices = _kind(field)
    description = field.description or ""
    return Setting(key, kind, choices, description, text(defaults, key), reload.is_live(key))


def _kind(field: FieldInfo) -> tuple[Kind, tuple[str, ...] | None]:
    """The kind of a field, and its choices."""
    match quantity_of(field):
        case "duration" | "size" | "rate" as quantity:
            return quantity, None
    told = field.annotation
    if isinstance(told, type) and issubclass(told, enum.Enum):
        return "choice", tuple(str(one.value) for one in told)
    origin = typing.get_origin(told)
    if origin is Literal:
        return "choice", tuple(map(str, typing.get_args(told)))
    if origin in (tuple, list, dict):
        return "list", None
    if told is bool:
        return "boolean", None
    if told in (int, float):
        return "number", None
    assert told is str or origin in (types.UnionType, typing.Union), field
    return "text", None


SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in _all()}
_LIVE = [setting for setting in SETTINGS.values() if setting.live]
_LIVE_SECTIONS = list(dict.fromkeys(one.section for one in _LIVE if "." in one.key))
_LIVE_LISTS = [one.key for one in _LIVE if "." not in one.key]
