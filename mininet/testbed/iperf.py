"""Mininet's command ``iperf``, by iperf3.

Mininet 2.3.0 waits for ever for what iperf 2.1 does not print: a second rate, of the connection
by which it has found out that the server listens.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from mininet.log import error, output
from mininet.net import Mininet
from mininet.node import Host

_LISTENING_S = 5.0
_CONNECT_MS = 5000


class IperfError(RuntimeError):
    """iperf3 does not run, or says what went wrong."""


def install() -> None:
    """Have every Mininet network use iperf3: the prompt's ``iperf`` and ``iperfudp`` as well."""
    Mininet.iperf = iperf


def iperf(
    net: Mininet,
    hosts: Sequence[Host] | None = None,
    l4Type: str = "TCP",  # noqa: N803
    udpBw: str = "10M",  # noqa: N803
    fmt: str | None = None,
    seconds: int = 5,
    port: int = 5001,
) -> list[str]:
    """In place of ``Mininet.iperf``, whose parameters these are: the client is the first of two
    hosts, by default the first and the last there are.

    Returns the server's and the client's rate, for UDP after the one asked for; nothing if it
    fails, which it says.
    """
    client, server = hosts or (net.hosts[0], net.hosts[-1])
    output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
    udp = ["-u", "-b", udpBw] if l4Type == "UDP" else []
    try:
        end = _measure(client, server, [*udp, "-t", str(seconds)], port)
    except IperfError as failed:
        error(f"*** iperf: {failed}\n")
        return []
    # Of UDP there is one sum, and what the server has missed.
    sent = end["sum_sent"] if "sum_sent" in end else end["sum"]
    received = end["sum_received"] if "sum_received" in end else end["sum"]
    rates = [_in_words(received["bits_per_second"], fmt), _in_words(sent["bits_per_second"], fmt)]
    results = [udpBw, *rates] if l4Type == "UDP" else rates
    output(f"*** Results: {results}\n")
    return results


def _measure(client: Host, server: Host, options: Sequence[str], port: int) -> dict[str, Any]:
    """What iperf3 says at its end."""
    listens = ["iperf3", "--server", "--one-off", "--port", str(port)]
    serving = server.popen(listens, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _await_listening(server, serving, port)
        asks = ["iperf3", "--client", server.IP(), "--port", str(port), "--json", *options]
        asks += ["--connect-timeout", str(_CONNECT_MS)]
        asking = client.popen(asks, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            said, wrong = asking.communicate()
        finally:
            asking.kill()
    finally:
        serving.kill()
        serving.communicate()
    try:
        told = json.loads(said)
    except json.JSONDecodeError:
        raise IperfError(wrong.strip() or said.strip() or "it has said nothing") from None
    if "error" in told:
        raise IperfError(told["error"])
    end: dict[str, Any] = told["end"]
    return end


def _await_listening(server: Host, serving: "subprocess.Popen[str]", port: int) -> None:
    until = time.monotonic() + _LISTENING_S
    while not server.cmd(f"ss -Hltn sport = :{port}").strip():
        if serving.poll() is not None:
            said = serving.stdout.read() if serving.stdout else ""
            raise IperfError(f"the server ended: {said.strip()}")
        if time.monotonic() > until:
            raise IperfError(f"the server does not listen after {_LISTENING_S:g} s")
        time.sleep(0.05)


def _in_words(bps: float, fmt: str | None) -> str:
    """As iperf writes rates: ``fmt`` is k, m or g for bits, K, M or G for bytes a second."""
    units = {"k": (1e3, "Kbits"), "m": (1e6, "Mbits"), "g": (1e9, "Gbits")}
    units |= {"K": (8e3, "KBytes"), "M": (8e6, "MBytes"), "G": (8e9, "GBytes")}
    usual = "g" if bps >= 1e9 else "m" if bps >= 1e6 else "k"
    size, unit = units[fmt if fmt in units else usual]
    return f"{bps / size:.3g} {unit}/sec"
