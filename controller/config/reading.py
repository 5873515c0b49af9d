"""Reads a configuration from YAML. Every error names its key, and what would be right."""

import difflib
import re
from collections.abc import Hashable
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.config.sections.fabric import QueueSection
from controller.config.sections.northbound import ApiSection
from controller.config.sections.policies import PolicyRule
from controller.config.sections.regulation import SchemeSection

_SWITCH_ID = re.compile(r"[0-9a-fA-F]{16}")
_LEADING_ZEROS = re.compile(r"[-+]?0[0-7_]+")


def load(path: Path | None) -> Config:
    """Read a configuration to run with; without a path, the defaults. Raises ConfigError."""
    try:
        config = Config() if path is None else parse(path.read_text(encoding="utf-8"))
        config.require_transport()
        return config
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    except ConfigError as error:
        first, *others = error.problems
        raise ConfigError(f"{path or 'without --config'}: {first}", *others) from error


def parse(text: str) -> Config:
    """Raises ConfigError."""
    try:
        written = yaml.load(text, _Loader)
    except Exception as error:
        # PyYAML raises other errors, too, such as ValueError for a 30th of February.
        raise ConfigError(f"is not YAML: {error}") from error
    return validate({} if written is None else written)


def validate(written: object) -> Config:
    """A configuration from what YAML has made of it. Raises ConfigError."""
    try:
        return Config.model_validate(written)
    except ValidationError as error:
        raise ConfigError(*(_explain(detail) for detail in error.errors())) from error


class _Loader(yaml.SafeLoader):
    """YAML, but a key that stands twice is an error: one of the two would be ignored."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
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


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole)


def _explain(error: ErrorDetails) -> str:
    """`key.path: what is wrong; what would be right`."""
    path = [part for part in error["loc"] if not (part in ("int", "str") and len(error["loc"]) > 3)]
    path = [part for part in path if part != "[key]"]
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
            return f"{where}: is missing"
        case "value_error":
            return f"{where}: {error['msg'].removeprefix('Value error, ')}"
        case "enum" | "literal_error":
            expected = error.get("ctx", {}).get("expected", "")
            return f"{where}: {error['input']!r} is not one of {expected}"
    message = error["msg"][0].lower() + error["msg"][1:]
    return f"{where}: {error['input']!r}: {message}"


def _keys_of(path: list[int | str]) -> list[str]:
    """The keys that a section knows."""
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
            section = named.get(part) or type(section.model_fields[part].default)
    return list(section.model_fields)
