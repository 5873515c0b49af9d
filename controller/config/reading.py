"""Reads a configuration from YAML. Every error names its key, and what would be right."""

import difflib
import logging
import re
from collections.abc import Hashable, Iterable
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from controller.config.errors import ConfigError
from controller.config.fields import is_time
from controller.config.schema import Config
from controller.config.sections.fabric import QueueSection
from controller.config.sections.northbound import ApiSection
from controller.config.sections.policies import PolicyRule
from controller.config.sections.regulation import SchemeSection

LOG = logging.getLogger("weir.app")

_SWITCH_ID = re.compile(r"[0-9a-fA-F]{16}")
_LEADING_ZEROS = re.compile(r"[-+]?0[0-7_]+")


def load(path: Path | None) -> Config:
    """Read a configuration to run with; without a path, the defaults. Raises ConfigError."""
    try:
        config = Config() if path is None else parse(path.read_text(encoding="utf-8"))
        config.require_transport()
        return config
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name another file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    except ConfigError as error:
        first, *others = error.problems
        raise ConfigError(f"{path or 'without --config'}: {first}", *others) from error
    except Exception as error:
        # A running controller goes on with its former configuration.
        LOG.exception("reading the configuration has failed; please report this")
        raise ConfigError(
            f"{path}: cannot be read, by an error in Weir: {error!r}; take back what was changed"
        ) from error


def parse(text: str) -> Config:
    """Raises ConfigError."""
    try:
        written = yaml.load(text, _Loader)
    except Exception as error:
        # PyYAML raises other errors, too, such as ValueError for a 30th of February.
        raise ConfigError(f"is not YAML: {_explain_yaml(error)}") from error
    return validate({} if written is None else written)


def parse_value(key: str, text: str) -> object:
    """One value as it stands behind its key, for `validate`. Raises ConfigError."""
    try:
        return yaml.load(text, _ValueLoader)
    except Exception as error:
        raise ConfigError(f"{key}: is not YAML: {_explain_yaml(error)}") from error


def validate(written: object) -> Config:
    """A configuration from what YAML has made of it. Raises ConfigError."""
    try:
        return Config.model_validate(written)
    except ValidationError as error:
        details = [detail for detail in error.errors() if not _is_other_form(detail)]
        raise ConfigError(*map(_explain, details)) from error


class _Loader(yaml.SafeLoader):
    """YAML, but a key that stands twice is an error: one of the two would be ignored."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice; write it once", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_whole(self, node: yaml.ScalarNode) -> int | str:
        """A number. YAML would take one with leading zeros for octal, which nobody means."""
        written = self.construct_scalar(node)
        if _SWITCH_ID.fullmatch(written):
            return written
        if _LEADING_ZEROS.fullmatch(written):
            raise yaml.constructor.ConstructorError(
                None, None, f"{written} has leading zeros; leave them out", node.start_mark
            )
        number: int = self.construct_yaml_int(node)
        return number


class _ValueLoader(_Loader):
    """The same without aliases: a few of them can stand for more than fits into memory."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(
                None, None, "an alias; write out what it stands for", mark
            )
        return super().compose_node(parent, index)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole)


def _explain_yaml(error: Exception) -> str:
    """In one line: where, what is wrong, what would be right."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    mark = error.problem_mark
    hint = "; indent with spaces" if "'\\t'" in str(error.problem) else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{hint}"


def _is_other_form(error: ErrorDetails) -> bool:
    """Whether it is about a form of `tls.switches` that was not meant: a word, or a map."""
    if not any(_is_form(part) for part in error["loc"]):
        return False
    is_map = isinstance(error["input"], dict)
    return error["type"] == "literal_error" if is_map else error["type"] == "dict_type"


def _is_form(part: int | str) -> bool:
    """Whether a part of a path is no key, but what Pydantic calls one of several forms."""
    return isinstance(part, str) and part.startswith(("literal[", "dict[", "[key]"))


def _did_you_mean(written: object, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(written), list(words), 1)
    return f"; did you mean {close[0]}?" if close else ""


def _explain(error: ErrorDetails) -> str:
    """`key.path: what is wrong; what would be right`."""
    path = [part for part in error["loc"] if not (part in ("int", "str") and len(error["loc"]) > 3)]
    path = [part for part in path if not _is_form(part)]
    where = ".".join(str(part) for part in path) or "the file"
    match error["type"]:
        case "extra_forbidden":
            known = _keys_of(path[:-1])
            close = difflib.get_close_matches(str(path[-1]), known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            return f"{where}: unknown key; {hint}"
        case "model_type" | "model_attributes_type":
            return f"{where}: should hold keys: {', '.join(_keys_of(path))}"
        case "missing":
            return f"{where}: is missing; add it"
        case "value_error":
            return f"{where}: {error['msg'].removeprefix('Value error, ')}"
        case "enum" | "literal_error":
            expected = error.get("ctx", {}).get("expected", "")
            hint = _did_you_mean(error["input"], re.findall("'([^']*)'", expected))
            return f"{where}: {error['input']!r} is not one of {expected}{hint}"
        case "bool_parsing" | "bool_type":
            return f"{where}: {error['input']!r} is neither; write true or false"
        case "int_parsing" | "int_type" | "int_from_float":
            return f"{where}: {error['input']!r} is no whole number; write one"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{where}: {_out_of_range(path, error)}"
    message = error["msg"][0].lower() + error["msg"][1:]
    return f"{where}: {error['input']!r}: {message}"


_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _out_of_range(path: list[int | str], error: ErrorDetails) -> str:
    """The value and its bound; times, which are held in nanoseconds, in seconds."""
    key, words = _BOUNDS[error["type"]]
    numbers = [error["input"], error.get("ctx", {})[key]]
    field = _section_of(path[:-1]).model_fields.get(str(path[-1]))
    if field is not None and is_time(field):
        numbers = [_seconds(number) for number in numbers]
    return f"{numbers[0]} is out of range; write {words} {numbers[1]}"


def _seconds(time: object) -> object:
    """A time in seconds: nanoseconds are whole, and what is not was not read yet."""
    if isinstance(time, int):
        return f"{time / 10**9:g} s"
    return f"{time:g} s" if isinstance(time, float) else repr(time)


def _keys_of(path: list[int | str]) -> list[str]:
    """The keys that a section knows."""
    return list(_section_of(path).model_fields)


def _section_of(path: list[int | str]) -> type[BaseModel]:
    section: type[BaseModel] = Config
    # Of these the default does not tell.
    named: dict[str, type[BaseModel]] = {
        "queues": QueueSection,
        "schemes": SchemeSection,
        "policies": PolicyRule,
        "api": ApiSection,
    }
    for part in path:
        if isinstance(part, str) and part in section.model_fields:
            found = named.get(part) or type(section.model_fields[part].default)
            if issubclass(found, BaseModel):
                section = found
    return section
