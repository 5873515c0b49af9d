"""Man pages and completions have all that the programs have. Those of fountain its crate tests."""

import argparse
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from manpage import every, page
from programs import parsers

TOP = Path(__file__).resolve().parents[2]
PARSERS = parsers()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual")
    subprocess.run([sys.executable, TOP / "tools/manual", folder, "1.2.3"], cwd=TOP, check=True)
    return folder


def words(parser: argparse.ArgumentParser) -> set[str]:
    """Names of commands, and options, of a program."""
    commands = {word for each in every(parser) for word in each.prog.split()}
    options = {
        option
        for each in every(parser)
        for action in each._actions
        for option in action.option_strings
        if not isinstance(action, argparse._HelpAction)
    }
    return commands | options


def test_reading_them_off_leaves_this_process_alone() -> None:
    before = signal.getsignal(signal.SIGPIPE)
    parsers()
    assert signal.getsignal(signal.SIGPIPE) == before == signal.SIG_IGN


def test_all_programs_are_known() -> None:
    assert {*PARSERS} == {"weir-controller", "weir-lab", "weir-experiment"}
    assert {"flows", "--tcp-port", "--supervise", "-f"} < words(PARSERS["weir-controller"])
    assert {"bench", "incast"} < words(PARSERS["weir-experiment"])


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_and_option_is_in_the_man_page(written: Path, name: str) -> None:
    text = (written / f"man/{name}.8").read_text().replace("\\", "")
    assert [word for word in words(PARSERS[name]) if word not in text] == []
    assert f'.TH {name.upper()} 8 "" "Weir 1.2.3"' in text


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_every_command_and_option_is_completed(written: Path, name: str, shell: str) -> None:
    file = written / "completions" / shell / (name if shell == "bash" else f"_{name}")
    assert [word for word in words(PARSERS[name]) if word not in file.read_text()] == []
    if shutil.which(shell):
        subprocess.run([shell, "-n", file], check=True)


def test_bash_offers_what_fits(written: Path) -> None:
    script = f"""
        source {written}/completions/bash/weir-controller
        COMP_WORDS=(weir-controller flows --tcp); COMP_CWORD=2
        _shtab_weir_controller
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--tcp-port"]


@pytest.mark.parametrize("name", PARSERS)
def test_pages_are_clean(written: Path, name: str) -> None:
    argv = ["groff", "-man", "-Tutf8", "-ww", "-z", str(written / f"man/{name}.8")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_what_troff_would_read_as_its_own_stays_text() -> None:
    parser = argparse.ArgumentParser("try", description="'quoted'.\n.dotted\nback\\slash\n")
    text = page(parser, 8, "1")
    assert "\n\\&.dotted\nback\\eslash\n" in text
    assert "\n\\&'quoted'.\n" in text
