"""The command `weir-controller`, and the only place that knows how Ryu is started.

Ryu 4.34, the last release, needs three things to run today: Eventlet's monkey patch before anything
else is imported (it walks through all objects there are, which Pydantic's do not bear), a name that
newer Eventlets no longer have, and options set from here, because its own command line is not ours.
"""

import argparse
import contextlib
import logging
import os
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from controller import __version__

if TYPE_CHECKING:
    from controller.config import Config

LOG = logging.getLogger("weir")

_EXIT_FAILED = 1
_EXIT_UNUSABLE = 2
_FAILED = b"\0"

_EPILOG = """\
Without --config the controller listens on 127.0.0.1:6653. What links and buffers can take it hears
from the switches' egress queues. A configuration says what it cannot know, for example:

    openflow:
      listen: "0.0.0.0:6653"
    fabric:
      link_capacity: 1 Gbit/s         # of ports that tell neither queue nor speed
      egress_buffer: 128 KiB          # of ports that tell no queue
      rtt: 200 us                     # between hosts, without queues, until it was measured
      queues:                         # what is known better of single ports
        - {switch: 1, port: s1-eth3, capacity: 100 Mbit/s, egress_buffer: 64 KiB}
    regulation:
      scheme: weir                    # or sdtcp: the paper as printed; or none: only watch
      floor_segments: 2               # least window of weir; 1 is slow with delayed ACKs
    policies:                         # the first one that fits decides; those that exempt go first
      - {subnet: 10.9.0.0/16, treatment: exempt}        # neither regulated nor counted
      - {port: 80, treatment: protect}                  # never a background flow
      - {subnet: 10.1.0.0/24, port: 873, treatment: background}
    log:
      events: events.jsonl            # one JSON object per notice, window, host, ...
      connections: true               # and per connection; not where there are 100,000 a second

Connect a switch with
    ovs-vsctl set bridge s1 protocols=OpenFlow13 fail-mode=secure
    ovs-vsctl set-controller s1 tcp:127.0.0.1:6653
An unpatched switch works, too: it forwards and is monitored, but not regulated.

It ends with status 0 on SIGTERM or SIGINT, 2 if it cannot start as told, 1 if it fails. Forwarding
goes on without it; windows are released when their time to live is over.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the controller until a signal comes; returns the exit status."""
    options = _options(argv)
    prepare_ryu()
    from controller.config import ConfigError, load

    try:
        config = load(options.config)
    except ConfigError as error:
        return _unusable(str(error))
    if options.check:
        print(f"{options.config or 'the default configuration'} is valid")
        return 0
    try:
        return _run(config)
    except OSError as error:
        return _unusable(str(error))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="weir-controller",
        description="OpenFlow controller that keeps TCP incast from collapsing a fabric.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="configuration, in YAML")
    parser.add_argument("--check", action="store_true", help="only check the configuration")
    parser.add_argument("--version", action="version", version=f"weir-controller {__version__}")
    return parser.parse_args(argv)


def _unusable(reason: str) -> int:
    print(f"weir-controller: {reason}", file=sys.stderr)
    return _EXIT_UNUSABLE


def prepare_ryu() -> None:
    """Make Ryu importable. Nothing of Ryu may be imported before."""
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    import eventlet

    eventlet.monkey_patch()
    import eventlet.wsgi

    if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
        eventlet.wsgi.ALREADY_HANDLED = []
    import ryu.base.app_manager  # first, or Ryu's modules import each other in a circle
    from ryu.cfg import CONF

    assert ryu.base.app_manager
    CONF([], project="weir", default_config_files=[])
    # A switch that has silently gone is noticed after three unanswered echoes; by default never.
    CONF.set_override("echo_request_interval", 5.0)
    CONF.set_override("maximum_unreplied_echo_requests", 3)


def _run(config: "Config") -> int:
    """Raises OSError, told for a human, if a file or the port cannot be opened."""
    _log_to_stderr(config.log.level)
    from ryu.base.app_manager import AppManager
    from ryu.lib import hub

    from controller.app import Weir
    from controller.eventlog import EventLog
    from controller.southbound.channel import Handshake

    event_log = EventLog(config.log.events)
    with _listen(*config.openflow.listen) as listening, contextlib.closing(event_log):
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_reader, False)
        os.set_blocking(wake_writer, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(wake_writer)

        manager = AppManager.get_instance()
        handshake = manager.instantiate(Handshake)
        weir = manager.instantiate(
            Weir,
            config,
            event_log,
            clock_ns=time.monotonic_ns,
            wall_s=time.time,
            secret=os.urandom(16),
            fail=lambda: os.write(wake_writer, _FAILED),
        )
        handshake.start()
        weir.start()
        hub.spawn(weir.serve, listening)
        host, port = config.openflow.listen
        scheme = config.regulation.scheme.value
        LOG.info(
            "weir-controller %s: scheme %s, listening on %s:%d", __version__, scheme, host, port
        )
        weir.record("start", {"version": __version__, "scheme": scheme, "listen": f"{host}:{port}"})
        woken_by = os.read(wake_reader, 1)
        if woken_by == _FAILED:
            weir.record("stop", {"reason": "failure"})
            return _EXIT_FAILED
        name = signal.Signals(woken_by[0]).name
        LOG.info("ending on %s; switches go on forwarding", name)
        weir.record("stop", {"reason": name})
        return 0


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Not Eventlet's: that one shares the port with whoever has it already."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
        )
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; "
            "set openflow.listen to another HOST:PORT, or end what listens there"
        ) from error


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        force=True,
    )
    LOG.setLevel(level.upper())


if __name__ == "__main__":
    sys.exit(main())
