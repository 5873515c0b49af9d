"""The script of mininet/README.md does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import sandbox

README = Path(__file__).parents[2] / "mininet/README.md"
(SCRIPT,) = re.findall(r"(?ms)^```python\n(.*?)^```$", README.read_text())


@pytest.mark.netns
@pytest.mark.switch
def test_a_test_bed_from_python(tmp_path: Path) -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    script = tmp_path / "pings.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    times = re.findall(r"^(none|weir) rtt min/avg/max/mdev = ([\d.]+)/", done.stdout, re.MULTILINE)
    assert [scheme for scheme, _ in times] == ["none", "weir"], done.stdout + done.stderr
    # A millisecond at each of two ports.
    assert all(float(least_ms) > 2 for _, least_ms in times)
