"""The commands of docs/ as a reader meets them: by page, section and machine.

A fence's first word is its language, the others are for us and are shown to nobody:

    ```sh switch               commands for the machine `switch`; several names: for each of them
    ```sh controller again     the last command is to be repeated until it says what it should
    ```yaml controller         goes into the configuration of the controller
    ```text                    what the last command of the block before it says

`<!-- not played: REASON -->` before a block of commands says why nobody plays it.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
# For those who change Weir: their examples have tests of their own.
_DEVELOPERS = {
    "architecture.md", "experiments.md", "extending.md", "glossary.md", "sdtcp.md",
}  # fmt: skip
LANGUAGES = {"sh", "yaml", "text"}
_SKIPPED = re.compile(r"<!-- not played: (.+) -->")
_FENCE = re.compile(r"( *)```(.*)")
_AGAIN = "again"
# A number with its unit, but no part of a name or an address; "…" stands for anything.
_VARIES = re.compile(r"(?<![\w.:-])\d+(?:[.,:]\d+)*(?:[a-z]{1,2})?(?![\w.:-]*\w)|…")
# Digits that say which switch it is.
_DATAPATH_ID = re.compile(r"[0-9a-f]{16}")
# Whose port, where it stands alone, is the client's.
_ADDRESS = re.compile(r"(\d+\.\d+\.\d+\.\d+)(:\d+)?")


@dataclass(frozen=True)
class Command:
    """What is typed at one prompt."""

    place: str
    text: str


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, what it is for, and what it says."""

    page: str
    line: int
    section: str
    language: str
    machines: tuple[str, ...]
    again: bool
    text: str
    skipped: str | None = None
    expected: str | None = None

    @property
    def place(self) -> str:
        return f"docs/{self.page}:{self.line}"

    def commands(self) -> Iterator[Command]:
        """The commands, each with its line: a shell's loop is one, and so is a continued line."""
        held: list[str] = []
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            held.append(line)
            written = "\n".join(held)
            if line.endswith("\\") or not _is_complete(written):
                continue
            if written.strip():
                yield Command(f"docs/{self.page}:{number - len(held) + 1}", written)
            held = []
        if held:
            raise ValueError(f"{self.place}: its last command is not complete")


def operators() -> list[Path]:
    """The pages for people who operate Weir."""
    return sorted(page for page in DOCS.glob("*.md") if page.name not in _DEVELOPERS)


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found: list[Block] = []
    section, skipped = "", None
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    for number, line in lines:
        if heading := re.fullmatch(r"#+ (.*)", line):
            section = anchor(heading[1])
        elif reason := _SKIPPED.fullmatch(line.strip()):
            skipped = reason[1]
        elif fence := _FENCE.fullmatch(line):
            indent, told = fence[1], fence[2].split()
            text = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                text.append(inner.removeprefix(indent))
            block = Block(
                page.name, number, section, told[0] if told else "",
                tuple(word for word in told[1:] if word != _AGAIN), _AGAIN in told,
                "\n".join(text), skipped,
            )  # fmt: skip
            if block.language == "text" and found and found[-1].language == "sh":
                found[-1] = replace(found[-1], expected=block.text)
            else:
                found.append(block)
            skipped = None
    return found


def unfenced(page: Path) -> list[str]:
    """Where a page has code without a fence: nobody can say which machine it is for."""
    text = re.sub(r"(?ms)^( *)```.*?^\1```$", lambda fenced: "\n" * fenced[0].count("\n"),
                  page.read_text())  # fmt: skip
    lines = text.splitlines()
    return [
        f"docs/{page.name}:{number}"
        for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), 1)
        if line.startswith("    ") and not before.strip()
    ]


def anchor(heading: str) -> str:
    """What a link to a heading ends with."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def says(expected: str, output: str) -> bool:
    """Whether a command says what a page shows: names and states are the same, numbers may differ.

    A line "…" stands for any number of lines.
    """
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else _pattern(line) + r"\n"
        for line in expected.splitlines()
        if line.strip()
    )
    said = "".join(f"{_squeezed(line)}\n" for line in output.splitlines() if line.strip())
    return re.fullmatch(pattern, said) is not None


def _pattern(line: str) -> str:
    return " ".join(_word_pattern(word) for word in _squeezed(line).split(" "))


def _word_pattern(word: str) -> str:
    if _DATAPATH_ID.fullmatch(word):
        return word
    if address := _ADDRESS.fullmatch(word):
        return re.escape(address[1]) + (r":\d+" if address[2] else "")
    made, end = "", 0
    for varies in _VARIES.finditer(word):
        made += re.escape(word[end : varies.start()])
        made += ".*" if varies[0] == "…" else r"\d+(?:[.,:]\d+)*(?:[a-z]{1,2})?"
        end = varies.end()
    return made + re.escape(word[end:])


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _is_complete(script: str) -> bool:
    return subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True,
                          check=False).returncode == 0  # fmt: skip
