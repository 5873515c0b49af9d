"""What one types at the prompts of ``weir-lab`` and ``mn``: Mininet's commands and Weir's."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import builds
from testbed.topologies import TOPOLOGIES

CUSTOM = Path(__file__).parents[2] / "mininet" / "custom.py"
LAB = Path(sys.executable).parent / "weir-lab"
TIMEOUT_S = 120

pytestmark = [pytest.mark.netns, pytest.mark.switch]


def typed(argv: list[str], *lines: str) -> str:
    """What the prompt says to these lines."""
    done = subprocess.run(
        argv,
        input="".join(f"{line}\n" for line in (*lines, "exit")),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def mn(*args: str) -> list[str]:
    parts = ("--switch", "weir", "--link", "weir", "--controller", "weir")
    return ["mn", "--custom", str(CUSTOM), *parts, *args]


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize(
    "argv",
    [[str(LAB), "--senders", "2"], mn("--topo", "fig8,2")],
    ids=["weir-lab", "mn"],
)
def test_iperf_and_the_controllers_commands(argv: list[str]) -> None:
    said = typed(
        argv, "h1 ping -c 1 r1", "iperf h1 r1", "iperfudp 10M h2 r1", "sh weir-controller ports"
    )
    tcp, udp = (
        ast.literal_eval(line.split(" ", 2)[2]) for line in said.splitlines() if "Results" in line
    )
    assert all(80 < float(rate.removesuffix(" Mbits/sec")) < 97 for rate in tcp)
    assert udp[0] == "10M"
    assert float(udp[1].removesuffix(" Mbits/sec")) == pytest.approx(10, rel=0.1)
    assert "s1-eth1" in said.partition("LEADS TO")[2]


def test_commands_need_no_terminal(tmp_path: Path) -> None:
    """From a file, where Mininet would give a host's command the lines behind it; and by -c."""
    lines = ("h1 ping -c 1 r1", "nodes")
    file = tmp_path / "lines"
    file.write_text("".join(f"{line}\n" for line in lines))
    lab = [str(LAB), "--senders", "1", "--rate", "50", "--buffer", "32", "--scheme", "sdtcp"]
    with file.open() as stdin:
        read = subprocess.run(lab, stdin=stdin, capture_output=True, text=True, check=True)
    asked = subprocess.run(
        [*lab, "-c", lines[0], "-c", lines[1]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    for done in (read, asked):
        said = done.stdout + done.stderr
        assert "topology fig8, 1 senders, 50 Mb/s, 32 KiB at the bottleneck s1-eth1" in said
        assert "regulation scheme sdtcp; hosts' TCP: " in said
        assert "1 packets transmitted, 1 received" in said
        assert "available nodes are" in said


def test_iperf_says_what_is_wrong() -> None:
    said = typed([str(LAB), "--senders", "1"], "link s1 s2 down", "iperf h1 r1")
    assert "*** iperf: " in said


def test_fountain_is_at_hand() -> None:
    if builds.transport() is None:
        pytest.skip("the transports are not built: make transport")
    assert "symbols" in typed([str(LAB), "--senders", "1"], "sh fountain --help")


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_each_topology_starts_as_it_comes(name: str) -> None:
    said = typed([str(LAB), "--topology", name], "nodes")
    assert "available nodes are" in said
