"""docs/log.md has every line of the log that an operator should act on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "log.md").read_text()
LEVELS = {"warning", "error", "critical", "exception"}
_CONVERSION = re.compile(r"%[-+ #0-9.]*[a-zA-Z]")


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((TOP / "controller").rglob("*.py")):
        yield path, ast.parse(path.read_text())


def texts(tree: ast.Module) -> Iterator[ast.expr]:
    """The first argument of each call that logs at these levels, and the text of each `Warn`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(ast.Name("LOG"), level) if level in LEVELS:
                yield node.args[0]
            case ast.Name("Warn"):
                yield node.args[1]


def template(text: ast.expr, tree: ast.Module) -> list[str]:
    """The forms of a text, with … for what changes. A name stands for all that is assigned to it,
    or given to its function, in the same module."""
    match text:
        case ast.Constant(str(written)):
            return [_CONVERSION.sub("…", written)]
        case ast.JoinedStr(parts):
            joined = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts
            )
            return [joined]
        case ast.Name(name):
            assigned = [
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign)
                and any(isinstance(to, ast.Name) and to.id == name for to in node.targets)
            ]
            told = [
                node.args[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "_tell_once"
            ]
            return [form for value in [*assigned, *told] for form in template(value, tree)]
    return []


def shown() -> set[str]:
    """What the page has, in the form that `squeezed` gives."""
    return {squeezed(line) for line in re.findall(r"`([^`]+)`", PAGE)}


def squeezed(line: str) -> str:
    """Without what formats: addresses are …:… in the code and … on the page."""
    return re.sub(r"[…:\s]*…[…:\s]*", "…", line).strip("… ")


def test_every_line_is_on_the_page() -> None:
    page = shown()
    missing = {
        f"{path.relative_to(TOP)}: {form}"
        for path, tree in sources()
        for text in texts(tree)
        for form in template(text, tree)
        if squeezed(form) and squeezed(form) not in page
    }
    assert missing == set()


def test_there_are_lines_to_look_for() -> None:
    found = [form for _, tree in sources() for text in texts(tree) for form in template(text, tree)]
    assert len(found) > 40
    assert "disconnected" in found
