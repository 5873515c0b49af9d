"""The units of fountain's services: systemd understands them, and they are shut in."""

import re
import subprocess
from pathlib import Path

import pytest

DEBIAN = Path(__file__).resolve().parents[2] / "packaging/debian"
NAMES = ("fountain-serve", "fountain-recv")
# Of systemd's 10, which is a service without any restriction.
MOST_EXPOSED = 2.0


@pytest.fixture
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A unit by its installed name, with a program that is there."""
    text = (DEBIAN / f"weir-fountain.{request.param}.service").read_text()
    assert f"/usr/bin/fountain {request.param.removeprefix('fountain-')} --config" in text
    path = tmp_path / f"{request.param}.service"
    path.write_text(text.replace("/usr/bin/fountain", "/bin/true"))
    return path


def analyze(*argv: str) -> str:
    command = ["systemd-analyze", "--no-pager", *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("unit", NAMES, indirect=True)
def test_systemd_finds_no_fault(unit: Path) -> None:
    assert analyze("verify", "--man=no", str(unit)) == ""


@pytest.mark.parametrize("unit", NAMES, indirect=True)
def test_a_service_is_shut_in(unit: Path) -> None:
    told = analyze("security", "--offline=true", str(unit))
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", told)
    assert exposure and float(exposure[1]) < MOST_EXPOSED, told


@pytest.mark.parametrize("name", NAMES)
def test_a_service_has_a_user_of_its_own(name: str) -> None:
    text = (DEBIAN / f"weir-fountain.{name}.service").read_text()
    assert f"\nUser={name}\nGroup={name}\n" in text
    assert f"\nu {name} - " in "\n" + (DEBIAN / "weir-fountain.sysusers").read_text()
    assert f"\nLoadCredential=identity.pem:{name}.pem\n" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_service_may_call_openat2(name: str) -> None:
    """Which systemd forbids with RestrictSUIDSGID=, and that comes with DynamicUser=."""
    text = (DEBIAN / f"weir-fountain.{name}.service").read_text()
    assert not re.search(r"(?m)^(DynamicUser|RestrictSUIDSGID)=", text)
