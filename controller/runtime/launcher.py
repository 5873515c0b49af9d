"""The command `weir-controller`. Only this module knows how Ryu is started.

Ryu 4.34, the last release, needs three things today. Eventlet patches the standard library before
anything else is imported, because the patch visits every object and breaks Pydantic's. A name that
newer versions of Eventlet have dropped is added again. Ryu's options are set here, because its
command line is not used.
"""

import argparse
import contextlib
import ctypes
import difflib
import faulthandler
import logging
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from controller import __version__, cli
from controller.cli.arguments import Parser
from controller.ops import logs

if TYPE_CHECKING:
    from controller.config.schema import Config

LOG = logging.getLogger("weir")

_EXIT_FAILED = 1
_EXIT_UNUSABLE = 2
_FAILED = b"\0"
_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES = -3, 128 * 1024

_EPILOG = f"""\
Beside `run`, which is what it does without a command:

{cli.SUMMARY}
Each one has a --help of its own.

The controller learns the capacities of links and buffers from the switches' egress queues. The
configuration says what it cannot learn; only how it listens is required. For example:

    openflow:
      listen: ssl:0.0.0.0:6653        # or tcp:127.0.0.1:6653, where nothing has to be protected
    tls:                              # PEM files; new ones are used as soon as they are there
      key: /etc/weir/key.pem
      certificate: /etc/weir/certificate.pem
      ca: /etc/weir/ca.pem            # whose certificates switches must have
      switches: named                 # by datapath id, in 16 hexadecimal digits; or any
    fabric:
      link_capacity: 1 Gbit/s         # of ports that tell neither queue nor speed
      egress_buffer: 128 KiB          # of ports that tell no queue
      rtt: 200 us                     # between hosts, without queues, until it was measured
      control_grace: 500 ms           # without its control channel a switch is then avoided
      host_age: 30 min                # a host that was silent so long is probed, then forgotten
      flood_rate: 100                 # broadcasts a second of one port that reach all the others
      queues:                         # for single ports that differ
        - {{switch: 1, port: s1-eth3, capacity: 100 Mbit/s, egress_buffer: 64 KiB}}
    regulation:
      scheme: weir                    # or sdtcp: the paper; or none: only watch
      floor_segments: 2               # least window of weir; 1 is slow with delayed ACKs
    bandwidth:                        # for senders with fountain codes that announce their flows
      reserved: 0.3                   # of every link, together; 0, the default: each as any other
      reserved_dscp: 11               # of the packets that the switches reserve it for
      spare: 0.01                     # of every link, left free
      expiry: 5 s                     # a flow that is not renewed is forgotten
    policies:                         # the first one that fits decides; those that exempt go first
      - {{subnet: 10.9.0.0/16, treatment: exempt}}        # neither regulated nor counted
      - {{port: 80, treatment: protect}}                  # never a background flow
      - {{subnet: 10.1.0.0/24, port: 873, treatment: background}}
    budgets:                          # packet-ins a second; a meter limits the copies, no traffic
      syn: 20000                      # of one port, SYN and SYN-ACK; fin_rst likewise
      neighbour: 200                  # of one port: ARP, IPv6 ND; unknown: 500, lldp: 20 likewise
      switch_segments: 200000         # what is read of one switch; switch_ends, switch_frames
      audit_interval: 5 min           # how often a switch is compared with what it should hold
    standby:                          # other controllers of the same switches; one is the master
      name: a
      listen: ssl:0.0.0.0:6654        # for their heartbeats; their certificates bear their names
      peers: {{b: 10.0.0.2:6654}}
    northbound:
      metrics: 127.0.0.1:9464         # for Prometheus; off by default
      socket: /run/weir/controller.sock   # for top, flows and so on; or off
      api:                            # the HTTP API; off by default
        listen: 10.0.0.1:8181         # 127.0.0.1:8181, the default, may do without TLS
        key: /etc/weir/api-key.pem
        certificate: /etc/weir/api-certificate.pem
        tokens: /etc/weir/tokens.yaml # as weir-controller token makes them
    log:
      format: json                    # or text, the default
      levels: {{session: debug}}        # also app, channel, eventlog, northbound
      events: events.jsonl            # one JSON object per notice, window, host, ...
      connections: true               # and per connection; not where there are 100,000 a second

Connect a switch with
    ovs-vsctl set bridge s1 protocols=OpenFlow13 fail-mode=secure
    ovs-vsctl set-ssl KEY CERTIFICATE CA
    ovs-vsctl set-controller s1 ssl:10.0.0.1:6653 ssl:10.0.0.2:6653
An unpatched switch works, too: it forwards and is monitored, but not regulated.

On SIGHUP it reads the configuration anew: policies, regulation, classifier, budgets, northbound,
log and tls change at once, what cannot is named, and a file with errors changes nothing. On SIGTERM
or SIGINT it ends, a master after it has handed over to a standby.

Exit status: 0 on SIGTERM or SIGINT, 1 if it has failed (start it again), 2 if it cannot start as
told (mend the configuration). With --supervise it starts itself again, after 1 s to 30 s.
Forwarding goes on without it; windows are released when their time to live is over.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the controller until a signal arrives, or run a command; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in cli.COMMANDS:
        return cli.main(argv)
    if argv and argv[0] != "run" and not argv[0].startswith("-"):
        return _unusable(_no_command(argv[0]))
    options = _options(argv[1:] if argv[:1] == ["run"] else argv)
    # NumPy would start a thread for each processor, for matrices that are not there.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare_ryu()
    from controller.config.errors import ConfigError
    from controller.config.reading import load

    try:
        config = load(options.config)
        if options.check:
            from controller.config.files import check

            check(config)
            print(f"{options.config} is valid")
            return 0
        if options.supervise:
            return _supervise(options.config)
        return _run(config, options.config)
    except (OSError, ConfigError) as error:
        return _unusable(str(error))


def _no_command(word: str) -> str:
    known = ["run", *cli.COMMANDS]
    close = difflib.get_close_matches(word, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return f"there is no command {word!r}; {hint}"


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="weir-controller",
        usage="%(prog)s [run] [--config FILE] [--check] | %(prog)s COMMAND ...",
        description="OpenFlow controller that keeps TCP incast from collapsing a fabric.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="configuration, in YAML")
    parser.add_argument(
        "--supervise", action="store_true", help="start it again whenever it has failed"
    )
    parser.add_argument("--check", action="store_true", help="only check the configuration")
    parser.add_argument("--version", action="version", version=f"weir-controller {__version__}")
    options: argparse.Namespace = parser.parse_args(argv)
    return options


def _supervise(file: Path | None) -> int:
    from controller.runtime.supervisor import Supervisor

    logs.configure(sys.stderr, "info", {}, False, time.monotonic)
    command = [sys.executable, "-m", "controller"]
    command += ["--config", str(file)] if file else []
    return Supervisor(command, final=(0, _EXIT_UNUSABLE)).run()


def _unusable(reason: str) -> int:
    print(f"weir-controller: {reason}", file=sys.stderr)
    return _EXIT_UNUSABLE


def prepare_ryu() -> None:
    """Make Ryu importable. Nothing of Ryu may be imported earlier."""
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
    # The channel logs a line for a message that Ryu cannot parse; Ryu would log all of its bytes,
    # four times.
    logging.getLogger("ryu.ofproto.ofproto_parser").setLevel(logging.CRITICAL)


def _run(config: "Config", file: Path | None) -> int:
    """Run the controller. Raises OSError or ConfigError, with a text for people, if it cannot
    start."""
    faulthandler.enable()
    _return_large_blocks()
    from controller.runtime.service import Service, configure_log

    configure_log(config)

    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_reader, False)
    os.set_blocking(wake_writer, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake_writer)

    with contextlib.ExitStack() as resources:
        service = Service(
            config, file, fail=lambda: os.write(wake_writer, _FAILED), resources=resources
        )
        service.start()
        while True:
            woken_by = os.read(wake_reader, 1)
            if woken_by == _FAILED:
                service.failed()
                return _EXIT_FAILED
            number = signal.Signals(woken_by[0])
            if number is signal.SIGHUP:
                service.reload()
            else:
                service.stop(number.name)
                return 0


def _return_large_blocks() -> None:
    """Make malloc return large tables to the system when they are freed.

    By default glibc no longer does once such a block has been freed (mallopt(3), M_MMAP_THRESHOLD).
    Then each growing table leaves a hole of its former size, and memory use climbs for weeks.
    """
    with contextlib.suppress(AttributeError):  # Another C library has no such function.
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
