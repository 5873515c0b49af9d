"""Weir for ``mn``, Mininet's own command:

    mn --custom mininet/custom.py --topo fig8,8 --switch weir --link weir --controller weir

``mn`` runs this file and makes every name in it a global of its own, so what is not meant for it
begins with an underscore. The first thing done here is to start ``mn`` once more, in a sandbox of
its own (testbed.sandbox) and with the Python that Weir is installed for.
"""

import sys as _sys
from pathlib import Path as _Path

# Run by exec(), this file has no __file__.
_HERE = _Path(_sys._getframe().f_code.co_filename).resolve().parent
_sys.path.insert(0, str(_HERE))

from testbed import sandbox as _sandbox  # noqa: E402


def _enter_sandbox() -> int:
    python = _HERE.parent / "build/venv/bin/python"
    if not python.exists():
        print(f"weir: no {python}: run 'make venv'", file=_sys.stderr)
        return 1
    try:
        return _sandbox.run([str(python), *_sys.argv])
    except _sandbox.SandboxError as lacking:
        print(f"weir: {lacking}", file=_sys.stderr)
        return 1


if not _sandbox.is_first_process():
    _sys.exit(_enter_sandbox())

import mininet.link as _link  # noqa: E402
import mininet.net as _net  # noqa: E402

from testbed import builds as _builds  # noqa: E402
from testbed import iperf as _iperf  # noqa: E402
from testbed import mn as _mn  # noqa: E402
from testbed.topologies import TOPOLOGIES as _TOPOLOGIES  # noqa: E402

_sandbox.become_first_process()
# Mininet would raise limits of the whole machine.
_net.Mininet.inited = True
_iperf.install()
_builds.add_programs_to_path()

topos = {_name: _mn.Incast(_name) for _name in _TOPOLOGIES}
switches = {"weir": _mn.Switch}
controllers = {"weir": _mn.Controller}
# mn 2.3.0 adds to all of its tables but this one, for want of a comma, and takes it as it is.
LINKS = {"default": _link.Link, "tc": _link.TCLink, "weir": _mn.Link}


def cleanup() -> None:
    """What ``mn`` calls after an error. Its own would kill processes and remove files of others;
    the sandbox ends with ``mn``, and all that is in it."""
