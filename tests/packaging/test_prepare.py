"""Programs that are installed to be tried start no service, neither now nor at boot."""

import os
import subprocess
from pathlib import Path

import pytest

from testbed import sandbox

TOP = Path(__file__).resolve().parents[2]

# Debian's own, which must not touch this machine.
_STUBS = {
    "dpkg-query": "exit 1",
    "apt-get": """
        [ "$1" = install ] || exit 0
        /usr/sbin/policy-rc.d nginx start || echo "policy $?" >>"$SAID"
        touch /etc/init.d/nginx /etc/init.d/nsd
        exit ${APT_STATUS:-0}""",
    "update-rc.d": 'echo "$*" >>"$SAID"',
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Folders in place of the machine's, with a service that was there before."""
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    for name in ("bin", "sbin", "init.d"):
        (tmp_path / name).mkdir()
    for name, text in _STUBS.items():
        stub = tmp_path / "bin" / name
        stub.write_text(f"#!/bin/sh\n{text}\n")
        stub.chmod(0o755)
    (tmp_path / "init.d/ssh").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("release", "name"),
    [
        (
            'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"',
            "Debian GNU/Linux 13",
        ),
        ('ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"', "Debian GNU/Linux forky/sid"),
        ('ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"', "Ubuntu 24.04.1 LTS"),
        ("", ""),
    ],
)
def test_another_system_is_refused_in_one_line(machine: Path, release: str, name: str) -> None:
    (machine / "os-release").write_text(release + "\n")
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            f"mount --bind {machine}/os-release /etc/os-release; exec {TOP}/tools/prepare packages",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"weir: needs Debian 12 (this is {name}")
    assert len(done.stderr.splitlines()) == 1


def prepare(machine: Path, **env: str) -> tuple[int, list[str]]:
    """Run the step; return its status, and what became of services."""
    said = machine / "said"
    said.touch()
    script = (
        f"mount --bind {machine}/sbin /usr/sbin && mount --bind {machine}/init.d /etc/init.d && "
        f"exec {TOP}/tools/prepare apps"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script],
        env=os.environ | env | {"PATH": f"{machine}/bin:/usr/bin:/bin", "SAID": str(said)},
        capture_output=True,
        check=False,
    )
    return done.returncode, said.read_text().splitlines()


def test_nothing_starts_and_what_was_there_stays(machine: Path) -> None:
    assert prepare(machine) == (0, ["policy 101", "nginx disable", "nsd disable"])
    assert not (machine / "sbin/policy-rc.d").exists()


def test_a_failure_leaves_no_policy_behind(machine: Path) -> None:
    status, said = prepare(machine, APT_STATUS="100")
    assert status == 1
    assert said[-1] == "nsd disable"
    assert not (machine / "sbin/policy-rc.d").exists()


def test_a_policy_of_the_machine_is_kept(machine: Path) -> None:
    own = machine / "sbin/policy-rc.d"
    own.write_text("#!/bin/sh\nexit 104\n")
    own.chmod(0o755)
    assert prepare(machine)[1][0] == "policy 104"
    assert own.exists()
