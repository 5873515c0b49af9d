"""Every command of the operator's pages is played by packaging/first_day.py, or says why not."""

from pathlib import Path

import pytest

from first_day import MACHINES, FirstDay, merged
from pages import LANGUAGES, Block, blocks, operators, says, unfenced

PARTS = FirstDay({}, Path()).parts()
PLAYED = {(part.page, part.section) for part in PARTS}
BLOCKS = [block for page in operators() for block in blocks(page)]


def of(tmp_path: Path, text: str) -> list[Block]:
    page = tmp_path / "page.md"
    page.write_text(text)
    return blocks(page)


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.language == "sh"], ids=lambda block: block.place
)
def test_a_block_of_commands_is_played_or_says_why_not(block: Block) -> None:
    if block.skipped:
        assert not block.machines, f"{block.place}: not played, so no machine plays it"
        return
    assert block.machines, f"{block.place}: name the machine, or say why it is not played"
    assert {*block.machines} <= {*MACHINES}, block.place
    assert (block.page, block.section) in PLAYED, f"{block.place}: packaging/first_day.py lacks it"
    assert list(block.commands()), block.place


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_is_of_a_kind_that_is_known(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block.place}: one of {sorted(LANGUAGES)}"
    assert block.language != "text", f"{block.place}: what says this? No commands are before it"


@pytest.mark.parametrize("page", operators(), ids=lambda page: page.name)
def test_all_code_is_fenced(page: Path) -> None:
    assert unfenced(page) == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.page}#{part.section}")
def test_what_is_to_be_played_is_there(part: object) -> None:
    assert part.blocks()  # type: ignore[attr-defined]


def test_commands_have_their_lines(tmp_path: Path) -> None:
    (block,) = of(
        tmp_path,
        "# Title\n\n## A section\n\n```sh switch\none \\\n    --more\n\nfor i in 1 2; do\n"
        "    two $i\ndone\nthree   # remark\n```\n",
    )
    assert (block.section, block.machines) == ("a-section", ("switch",))
    assert [(c.place, c.text) for c in block.commands()] == [
        ("docs/page.md:6", "one \\\n    --more"),
        ("docs/page.md:9", "for i in 1 2; do\n    two $i\ndone"),
        ("docs/page.md:12", "three   # remark"),
    ]


def test_a_command_without_its_end_is_an_error(tmp_path: Path) -> None:
    (block,) = of(tmp_path, "```sh switch\nfor i in 1 2; do\n```\n")
    with pytest.raises(ValueError, match=r"docs/page.md:1: its last command is not complete"):
        list(block.commands())


def test_a_block_may_have_what_it_says_or_why_it_is_not_played(tmp_path: Path) -> None:
    shown, skipped, config = of(
        tmp_path,
        "```sh controller again\nask\n```\n\n```text\nan answer\n```\n\n"
        "<!-- not played: too long -->\n```sh\nwait\n```\n\n```yaml controller\na: 1\n```\n",
    )
    assert (shown.expected, shown.again, shown.machines) == ("an answer", True, ("controller",))
    assert (skipped.skipped, skipped.expected) == ("too long", None)
    assert (config.language, config.machines, config.skipped) == ("yaml", ("controller",), None)


def test_a_fence_in_a_list_is_found_and_code_without_one_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("* first:\n\n  ```sh switch\n  one\n  ```\n\nSecond:\n\n    two\n")
    assert [block.text for block in blocks(page)] == ["one"]
    assert unfenced(page) == ["docs/page.md:9"]


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("17 ready 1.07ms", "17  ready   12ms", True),
        ("17 ready 1.07ms", "17 away 1.07ms", False),
        ("4/1024", "12/1024", True),
        ("off for 0:30:00, by root", "off for 0:29:59, by root", True),
        ("eth1 1", "eth2 1", False),
        ("0000000000000011 5", "0000000000000012 5", False),
        ("10.0.0.11:54658", "10.0.0.11:40000", True),
        ("10.0.0.11:54658", "10.0.0.12:54658", False),
        ('target : "ssl:10.0.0.1:6653"', 'target : "ssl:10.0.0.1:6654"', False),
        ("from … to b", "from a and c to b", True),
        ("one\n…\ntwo", "one\nand\nmore\ntwo", True),
        ("one\ntwo", "one\nand\ntwo", False),
        ("one", "one\ntwo", False),
    ],
)
def test_output_is_as_shown_but_for_its_numbers(shown: str, said: str, same: bool) -> None:
    assert says(shown, said) == same


def test_what_a_page_shows_is_put_into_the_configuration() -> None:
    config = {"openflow": {"listen": "tcp:a:1"}, "log": {"level": "info"}}
    shown = {"openflow": {"listen": "ssl:b:2"}, "tls": {"key": "k"}}
    assert merged(config, shown) == {**shown, "log": {"level": "info"}}
