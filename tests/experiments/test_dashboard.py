"""The operator's page is served to look at, from inside of a sandbox to the outside."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from testbed.command import wait_until
from testbed.dashboard import PREFIX_VARIABLE

ADDRESS = "127.0.0.1:8190"
LAB = [sys.executable, "-m", "testbed.lab", "--senders", "2", "--dashboard", ADDRESS]
DASHBOARD = [sys.executable, "-m", "experiments.cli", "dashboard", "--address", ADDRESS]
SMALL = ["--topology", "star", "--senders", "2"]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built page."""
    (tmp_path / "index.html").write_text("<!doctype html><title>a page</title>")
    monkeypatch.setenv(PREFIX_VARIABLE, str(tmp_path))
    return tmp_path


@contextmanager
def started(argv: list[str]) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, and the URL and the token that it prints."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        head = "dashboard: "
        told = next(line for line in process.stdout if line.startswith(head))
        url, _, token = told.removeprefix(head).strip().partition(", sign in with ")
        yield process, url, token
        process.terminate()


def ask(url: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


@pytest.mark.netns
@pytest.mark.switch
@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("argv", [LAB, [*DASHBOARD, *SMALL]], ids=["weir-lab", "weir-experiment"])
def test_page_and_api_are_reached_from_outside(argv: list[str]) -> None:
    with started(argv) as (process, url, token):
        with urllib.request.urlopen(url, timeout=60) as response:
            assert "a page" in response.read().decode()

        def seen() -> bool:
            told = ask(f"{url}v1/overview", token)
            return bool(told["controller"]["ready"] and told["switches"]["ready"])

        wait_until(seen, timeout_s=60, what="the switch is in the overview")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


@pytest.mark.netns
@pytest.mark.switch
@pytest.mark.usefixtures("page")
def test_there_is_something_to_look_at() -> None:
    with started([*DASHBOARD, *SMALL]) as (_, url, token):
        wait_until(
            lambda: bool(ask(f"{url}v1/overview", token)["totals"]["sent_bps"]),
            timeout_s=60,
            what="traffic",
        )


def test_a_page_that_is_not_built_is_told(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (page / "index.html").unlink()
    assert cli.main(["dashboard", "--address", ADDRESS]) == 1
    assert "run 'make page'" in capsys.readouterr().err


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("address", ["8181", "127.0.0.1:", "127.0.0.1:http", ":99999"])
def test_an_address_that_is_none_is_told(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dashboard", "--address", address]) == 2
    assert "is no address; write e.g. 127.0.0.1:8181" in capsys.readouterr().err


@pytest.mark.usefixtures("page")
def test_an_address_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert cli.main(["dashboard", "--address", address]) == 1
    assert f"cannot serve the dashboard at {address}: Address already in use" in (
        capsys.readouterr().err
    )
