"""What an operator does wrong is answered with what is wrong, and what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import mistakes
from certificates import Pair
from controller.ha.election import Heartbeat, Rank
from experiments import cli
from experiments.traffic import fountain
from mistakes import (
    Bridge,
    Changed,
    Check,
    Command,
    Doing,
    Fountain,
    Http,
    Logged,
    OverTls,
    Peer,
    Program,
    Queue,
    Said,
    Scripted,
    Start,
    Twin,
)
from mistakes_lab import Lab, opened
from testbed import lab as weir_lab


class Mistake(NamedTuple):
    """`names` is in the answer and says what is wrong: the key, the place, the value. `remedy` is
    in it as well, says what to do, and is nothing that the mistake itself consists of."""

    does: Doing
    names: str
    remedy: str


TLS = "openflow: {listen: 'ssl:{free}'}\ntls: "
STANDBY = "standby: {name: a, peers: {b: 'h:1'}, listen: 'tcp:{free}'"
API = "northbound: {api: {tokens: @/tokens.yaml, listen: '127.0.0.1:0'"

CONFIGURATION = [
    # Keys
    Mistake(Check("regulation: {schema: weir}"), "regulation.schema", "did you mean scheme?"),
    Mistake(Check("regulaton: {}"), "regulaton: unknown key", "did you mean regulation?"),
    Mistake(Check("fabric: {queues: [{switch: 1, prot: 3}]}"), "queues.0.prot", "mean port?"),
    Mistake(Check("fabric: {queues: [{switch: 1}]}"), "fabric.queues.0.port: is missing", "add it"),
    Mistake(Check("fabric: 5"), "fabric: ", "should hold keys: link_capacity"),
    Mistake(Check("fabric: {rtt: 1 ms, rtt: 2 ms}"), "'rtt' stands twice", "write it once"),
    Mistake(Check("fabric:\n\trtt: 1 ms"), "line 3", "spaces"),
    Mistake(Check("log: {levels: {sesion: debug}}"), "log.levels.sesion", "did you mean session?"),
    # Units and values
    Mistake(Check("fabric: {rtt: 500}"), "500 s is no RTT", "write e.g. 500 us"),
    Mistake(Check("fabric: {rtt: soon}"), "fabric.rtt: 'soon'", "a number with a unit like 500 us"),
    Mistake(Check("fabric: {link_capacity: 1 Gb}"), "the unit 'Gb'", "Gbit/s"),
    Mistake(Check("fabric: {egress_buffer: 64 kb}"), "egress_buffer: '64 kb'", "like 64 KiB"),
    Mistake(Check("fabric: {lldp_interval: 5 s}"), "link_timeout", "longer than lldp_interval"),
    Mistake(Check("regulation: {scheme: wier}"), "scheme: 'wier'", "did you mean weir?"),
    Mistake(Check("regulation: {buffer_share: 90%}"), "buffer_share: '90%'", "write 0.9"),
    Mistake(Check("regulation: {buffer_share: 2}"), "buffer_share: 2", "at most 1"),
    Mistake(Check("regulation: {background_share: 12.5}"), "background_share", "write e.g. 0.125"),
    Mistake(
        Check("regulation: {max_hold: 2 s}"), "regulation.max_hold: 2000 ms", "below the least"
    ),
    Mistake(Check("regulation: {window_ttl: 1 ms}"), "window_ttl: 0.001 s", "at least 0.1 s"),
    Mistake(
        Check("regulation: {repeat_notices: maybe}"), "repeat_notices: 'maybe'", "true or false"
    ),
    Mistake(Check("bandwidth: {reserved: 30}"), "bandwidth.reserved: 30", "less than 1"),
    Mistake(Check("bandwidth: {reserved_dscp: 64}"), "reserved_dscp: 64", "at most 63"),
    Mistake(Check("budgets: {syn: lots}"), "budgets.syn: 'lots'", "no whole number; write one"),
    Mistake(Check("log: {level: loud}"), "log.level: 'loud'", "'warning'"),
    Mistake(Check("log: {format: jason}"), "log.format: 'jason'", "did you mean json?"),
    # Ids
    Mistake(
        Check("fabric: {queues: [{switch: 011, port: 1}]}"), "011 has leading", "leave them out"
    ),
    Mistake(
        Check("fabric: {queues: [{switch: br0, port: 1}]}"),
        "'br0' is no datapath",
        "16 hexadecimal",
    ),
    Mistake(
        Check("regulation: {schemes: [{switch: 1, scheme: none}, {switch: 1, scheme: weir}]}"),
        "regulation.schemes: number 1",
        "keep one",
    ),
    # Policies
    Mistake(Check("policies: [{port: http, treatment: exempt}]"), "'http'", "e.g. 80"),
    Mistake(
        Check("policies: [{port: 80, treatment: ban}]"), "policies.0.treatment: 'ban'", "'protect'"
    ),
    Mistake(Check("policies: [{treatment: exempt}]"), "policies.0: neither", "name at least one"),
    Mistake(
        Check("policies: [{port: 1, treatment: protect}, {port: 2, treatment: exempt}]"),
        "policies: number 1 exempts",
        "put it before those that do not",
    ),
    Mistake(
        Check("policies: [{subnet: 10.1.2.3/8, treatment: exempt}]"),
        "'10.1.2.3/8' has bits set",
        "write 10.0.0.0/8",
    ),
    Mistake(
        Check("policies: [{subnet: 0.0.0.0/0, treatment: exempt}]"), "every address", "leave it out"
    ),
    Mistake(Check("policies: [{subnet: here, treatment: exempt}]"), "'here'", "e.g. 10.1.0.0/16"),
    # Endpoints and addresses
    Mistake(Check("openflow: {listen: 6653}"), "openflow.listen: 6653", "write ssl:HOST:PORT"),
    Mistake(Check("openflow: {listen: 'tcp:a:99999'}"), "'a:99999'", "write e.g. 127.0.0.1:6653"),
    Mistake(Check("openflow: {listen: 'ssl::6653'}"), "':6653'", "HOST:PORT"),
    Mistake(Check("openflow: {listen: 'ssl:0.0.0.0:6653'}"), "needs tls.key", "write tcp:0.0.0.0"),
    Mistake(Check("northbound: {metrics: 9464}"), "metrics: 9464", "write e.g. 127.0.0.1:9464"),
    Mistake(Check("northbound: {socket: run/s}"), "'run/s'", "controller.sock, or off"),
    Mistake(Check("northbound: {api: on}"), "northbound.api", "should hold keys: listen, tokens"),
    Mistake(Check("northbound: {api: {}}"), "northbound.api.tokens: is missing", "add it"),
    Mistake(
        Check("northbound: {api: {tokens: @/tokens.yaml, listen: '10.0.0.1:8181'}}"),
        "key and certificate are missing",
        "or listen on 127.0.0.1",
    ),
    Mistake(
        Check(API.replace(":0'", ":8181'") + ", origins: ['*']}}"),
        "'*' is no origin",
        "https://dash",
    ),
    # TLS
    Mistake(Check(TLS + "{key: @/own-key.pem}"), "certificate and ca missing", "go together"),
    Mistake(
        Check(
            TLS + "{key: @/own-key.pem, certificate: @/own.pem, ca: @/ca.pem, minimum_version: 1.1}"
        ),
        "tls.minimum_version: 1.1",
        "'1.2'",
    ),
    Mistake(
        Check(TLS + "{key: @/own-key.pem, certificate: @/own.pem, ca: @/ca.pem, switches: some}"),
        "tls.switches: 'some'",
        "'named'",
    ),
    # Standby
    Mistake(Check("standby: {name: a}"), "peers is missing", "{NAME: HOST:PORT}"),
    Mistake(Check(STANDBY + "}"), "standby: secret is missing", "tells peers from strangers"),
    Mistake(Check(STANDBY.replace("b:", "a:") + "}"), "this controller itself", "leave it out"),
    Mistake(Check(STANDBY.replace("tcp:", "ssl:") + "}"), "standby.listen: ssl:", "write tcp:"),
    Mistake(
        Check(STANDBY + ", secret: @/secret, timeout: 200 ms}"), "timeout", "three times heartbeat"
    ),
]


def tls(key: str = "own-key.pem", certificate: str = "own.pem", ca: str = "ca.pem", more: str = ""):
    return Check(f"{TLS}{{key: @/{key}, certificate: @/{certificate}, ca: @/{ca}{more}}}")


FILES = [
    Mistake(Command("check @/none.yaml"), "none.yaml: No such file", "name another"),
    Mistake(Command("check @"), "Is a directory", "name another"),
    Mistake(tls(key="none.pem"), "tls.key: @/none.pem: No such file", "make it"),
    Mistake(tls(key="own.pem", certificate="own-key.pem"), "tls.key, tls.certificate", "swapped?"),
    Mistake(tls(key="other-key.pem"), "other-key.pem is not the key of", "take the one"),
    Mistake(
        tls(key="locked-key.pem"), "tls.key: @/locked-key.pem is encrypted", "give one that is"
    ),
    Mistake(tls(key="nothing.pem"), "nothing.pem and", "in PEM"),
    Mistake(tls("expired-key.pem", "expired.pem"), "certificate CN=expired", "replace it"),
    Mistake(tls(ca="nothing.pem"), "tls.ca: @/nothing.pem", "certificate of an authority"),
    Mistake(tls(ca="own-key.pem"), "tls.ca: @/own-key.pem", "certificate of an authority"),
    Mistake(tls(more=", crl: @/ca.pem"), "tls.crl: @/ca.pem", "holds no revocation list"),
    Mistake(
        Check(tls().written, "--user nobody"), "tls.key: @/own-key.pem cannot be read", "chmod 0640"
    ),
    Mistake(Check("log: {}", "--user wier"), "no user wier", "name one"),
    Mistake(Check(STANDBY + ", secret: @/short}"), "holds 5 bytes", "it should be 16 to 64"),
    Mistake(Check(STANDBY + ", secret: @/none}"), "standby.secret: @/none: No such", "make it"),
    Mistake(
        Check("northbound: {api: {tokens: @/none.yaml}}"),
        "northbound.api.tokens: @/none.yaml",
        "weir-controller token",
    ),
    Mistake(
        Check("northbound: {api: {tokens: @/expired-tokens.yaml}}"),
        "token expired of",
        "replace it",
    ),
    Mistake(
        Check("northbound: {api: {tokens: @/nothing.pem}}"), "nothing.pem", "weir-controller token"
    ),
    Mistake(
        Check(
            "northbound: {api: {tokens: @/tokens.yaml, key: @/own.pem, certificate: @/own-key.pem}}"
        ),
        "northbound.api.key, northbound.api.certificate",
        "swapped?",
    ),
    Mistake(Check("log: {events: @/none/events.jsonl}"), "there is no directory @/none", "make it"),
    Mistake(Check("log: {events: @}"), "log.events: @ is a directory", "name a file"),
]

START = [
    Mistake(Start(""), "openflow.listen: ssl:127.0.0.1:6653 needs", "write tcp:127.0.0.1:6653"),
    Mistake(
        Start("openflow: {listen: 'tcp:{taken}'}"),
        "Address already in use",
        "end what listens there",
    ),
    Mistake(
        Start("openflow: {listen: 'tcp:192.0.2.1:6653'}"),
        "cannot listen on tcp:192.0.2.1:6653",
        "set openflow.listen to another address",
    ),
    Mistake(
        Start("openflow: {listen: 'tcp:{free}'}\nnorthbound: {metrics: '{taken}'}"),
        "cannot serve metrics",
        "set northbound.metrics to another",
    ),
    Mistake(
        Start("openflow: {listen: 'tcp:{free}'}\nnorthbound: {socket: '{socket}'}"),
        "another controller listens at",
        "set northbound.socket to another path",
    ),
    Mistake(
        Start("openflow: {listen: 'tcp:{free}'}\nlog: {events: @/none/events.jsonl}"),
        "log.events: cannot write",
        "make its directory",
    ),
    Mistake(
        Start(
            "openflow: {listen: 'tcp:{free}'}\n"
            "standby: {name: a, peers: {b: 'h:1'}, listen: 'tcp:{taken}', secret: @/secret}"
        ),
        "cannot listen on tcp:127.0.0.1",
        "set standby.listen",
    ),
]

AT = "--socket {socket}"
COMMANDS = [
    Mistake(Command("port"), "no command 'port'", "did you mean ports?"),
    Mistake(Command("xyzzy"), "no command 'xyzzy'", "there are run, check"),
    Mistake(Command("--confg weir.yaml"), "--confg", "did you mean --config?"),
    Mistake(Command("--config"), "--config", "expected one argument"),
    Mistake(Command(f"flows --hots 10.0.0.1 {AT}"), "--hots", "did you mean --host?"),
    Mistake(Command(f"flows --class fast {AT}"), "--class: invalid choice: 'fast'", "'background'"),
    Mistake(Command(f"flows --limit many {AT}"), "--limit: 'many'", "write a number"),
    Mistake(Command(f"flows --limit 5000 {AT}"), "limit: 5000", "from 1 to 1000"),
    Mistake(Command(f"flows --host here {AT}"), "host: 'here'", "write e.g. 10.0.0.1"),
    Mistake(Command(f"flows --tcp-port http {AT}"), "--tcp-port: 'http'", "write a number"),
    Mistake(
        Command(f"flows --switch br0 {AT}"), "'br0' is no datapath id", "16 hexadecimal digits"
    ),
    Mistake(
        Command(f"flows --switch 011 {AT}"), "'011' is no datapath id", "16 hexadecimal digits"
    ),
    Mistake(Command(f"flows --switch 11 {AT}"), "no switch 000000000000000b", "0000000000000001"),
    Mistake(Command(f"ports --switch 17 {AT}"), "no switch 0000000000000011", "there are 0"),
    Mistake(Command(f"switches --switch 17 {AT}"), "no switch 0000000000000011", "there are 0"),
    Mistake(Command(f"off --port eth2 {AT}"), "--port", "needs --switch"),
    Mistake(Command(f"off --switch 17 {AT}"), "no switch 0000000000000011", "there are 0"),
    Mistake(Command(f"off --switch 1 --port eth999 {AT}"), "no port eth999", "it has 1 eth1"),
    Mistake(Command(f"off --for soon {AT}"), "--for: 'soon'", "with a unit like 30 min"),
    Mistake(Command(f"off --for 3y {AT}"), "the unit 'y'", "30 min"),
    Mistake(Command(f"off --for 0 {AT}"), "--for", "from 1 second to 365 days"),
    Mistake(Command(f"bandwidth 10.0.0.1 {AT}"), "DST", "required"),
    Mistake(Command(f"bandwidth here there {AT}"), "src: 'here'", "write e.g. 10.0.0.1"),
    Mistake(Command(f"bandwidth 10.0.0.1 10.9.9.9 {AT}"), "10.9.9.9", "has to send something"),
    Mistake(Command(f"ask prots {AT}"), "no method 'prots'", "did you mean ports?"),
    Mistake(Command(f"ask ports swich=1 {AT}"), "swich: unknown parameter", "known are switch"),
    Mistake(Command(f"ask ports 1 {AT}"), "'1'", "NAME=VALUE"),
    Mistake(Command(f"ask ports switch=1 switch=2 {AT}"), "stands twice", "write it once"),
    Mistake(Command(f"top --interval fast {AT}"), "--interval: 'fast'", "number of seconds"),
    Mistake(Command(f"top --interval 0 {AT}"), "--interval", "from 0.1 to 3600 seconds"),
    Mistake(Command("switches --socket @/none.sock"), "no socket @/none.sock", "with --socket"),
    Mistake(Command("switches --socket @/secret"), "nobody listens at @/secret", "start one"),
    Mistake(Command("check"), "FILE", "required"),
    Mistake(Command("token @/new.yaml dash/board"), "NAME: 'dash/board'", "A-Z a-z 0-9 . _ -"),
    Mistake(Command("token @/tokens.yaml reader"), "has a token reader", "remove its line"),
    Mistake(Command("token @/none/tokens.yaml a"), "there is no directory @/none", "make it"),
    Mistake(Command("token @/nothing.pem a"), "nothing.pem", "another file"),
    Mistake(Command("token @/new.yaml a --scope write"), "--scope: invalid choice", "'announce'"),
    Mistake(Command("token @/new.yaml a --days soon"), "--days: 'soon'", "write a number"),
    Mistake(Command("token @/new.yaml a --days 0"), "--days", "from 1 to 36500 days"),
]

FLOW = {"src": "10.0.0.1", "dst": "10.0.0.2"}
HTTP = [
    Mistake(Http("GET /v1/ports", 401, None), "takes a token", "Authorization: Bearer TOKEN"),
    Mistake(Http("GET /v1/ports", 401, "made-up"), "not known", "weir-controller token"),
    Mistake(Http("GET /v1/ports", 401, "expired"), "has expired", "weir-controller token"),
    Mistake(Http("GET /v1/ports", 403, "sender"), "the scope read", "--scope read"),
    Mistake(Http("PUT /v1/bypasses", 403, "reader", {}), "the scope regulate", "--scope regulate"),
    Mistake(Http("GET /v1/swiches", 404), "/v1/swiches", "/v1/openapi.json"),
    Mistake(Http("POST /v1/ports", 405), "POST", "it takes GET"),
    Mistake(Http("GET /v1/ports?switch=br0", 422), "switch: 'br0'", "16 hexadecimal digits"),
    Mistake(Http("GET /v1/ports?swich=1", 422), "swich: unknown parameter", "known are switch"),
    Mistake(Http("GET /v1/flows?limit=0", 422), "limit: '0' is out of range", "from 1 to 1000"),
    Mistake(Http("GET /v1/flows?class=fast", 422), "class: 'fast'", "one of burst, background"),
    Mistake(Http("GET /v1/flows?host=here", 422), "host: 'here' is no address", "write e.g."),
    Mistake(Http("GET /v1/bandwidth?src=10.0.0.1", 422), "dst: is missing", "add it"),
    Mistake(
        Http("GET /v1/bandwidth?src=10.0.0.1&dst=10.9.9.9", 404),
        "10.9.9.9",
        "has to send something",
    ),
    Mistake(
        Http("PUT /v1/bypasses", 422, "operator", {"port": "eth2"}), "switch: is missing", "add it"
    ),
    Mistake(
        Http("PUT /v1/bypasses", 404, "operator", {"switch": 17}),
        "no switch 0000000000000011",
        "are 0",
    ),
    Mistake(
        Http("PUT /v1/bypasses", 422, "operator", {"switch": 1, "for_s": 0}),
        "for_s: 0",
        "from 1 to",
    ),
    Mistake(
        Http("PUT /v1/fountains/f", 422, "sender", content=b"src=10.0.0.1"),
        "no JSON",
        "Content-Type: application/json",
    ),
    Mistake(
        Http("PUT /v1/fountains/f", 422, "sender", {**FLOW, "most_bps": "fast"}),
        "most_bps: 'fast'",
        "whole number from 1",
    ),
    Mistake(Http("PUT /v1/fountains/a%20b", 422, "sender", FLOW), "flow: 'a b'", "A-Z a-z 0-9"),
    Mistake(Http("PATCH /v1/fountains/gone", 404, "sender", {}), "flow gone", "announce it again"),
    Mistake(Http("DELETE /v1/fountains/gone", 404, "sender"), "flow gone", "not any more"),
    Mistake(
        Http("PUT /v1/fountains/f", 413, "sender", content=b"x" * 100_000),
        "a body",
        "at most 65536",
    ),
]

HELLO_1_0 = bytes.fromhex("01000008 00000001")
FEATURES_1_0 = bytes.fromhex("01060008 00000001")
CLIENT_HELLO = bytes.fromhex("160301 0200 010001fc 0303") + bytes(506)
NO_SWITCH = Heartbeat("b", Rank.STANDBY, 1, 100)
AT_WORK = [
    Mistake(Said("TLS where there is none", CLIENT_HELLO), "it speaks TLS", "write ssl: there"),
    Mistake(
        Said("a browser", b"GET / HTTP/1.1\r\n\r\n"), "does not speak OpenFlow", "the port right"
    ),
    Mistake(Said("OpenFlow 1.0 alone", HELLO_1_0), "OpenFlow 1.3", "protocols=OpenFlow13"),
    Mistake(Twin(), "claims to be switch 0000000000000001", "set its other-config:datapath-id"),
    Mistake(Bridge("protocols=OpenFlow10"), "does not offer OpenFlow 1.3", "set bridge BRIDGE"),
    Mistake(
        Changed('fabric: {"rtt": "soon"}', "not reloaded"),
        "fabric.rtt: 'soon'",
        "a unit like 500 us",
    ),
    Mistake(
        Changed('openflow: {"listen": "tcp:127.0.0.1:1"}', "cannot be changed"),
        "openflow.listen",
        "restart",
    ),
    Mistake(
        Changed('northbound: {"metrics": "{taken}"}', "not reloaded"),
        "cannot serve metrics on 127.0.0.1",
        "to another HOST:PORT",
    ),
    Mistake(
        Changed("tokens: [{name: a}]", "tokens are not read again", into="api-tokens.yaml"),
        "tokens.0.sha256",
        "weir-controller token",
    ),
    Mistake(
        Changed("nothing", "new TLS files are refused", "secure", "secure/certificate.pem"),
        "certificate.pem",
        "in PEM",
    ),
    # Other controllers
    Mistake(
        Peer("another secret", NO_SWITCH, b"another secret!!"),
        "not know the secret",
        "same standby.s",
    ),
    Mistake(
        Peer("its own name", NO_SWITCH._replace(name="a")),
        "calls itself a",
        "a standby.name of its own",
    ),
    Mistake(Peer("a name of nobody", NO_SWITCH._replace(name="c")), "itself c", "in standby.peers"),
    Mistake(
        Logged("a peer that is not there", "standby", "controller b cannot be reached"),
        "Connection refused",
        "is its address in standby.peers right?",
    ),
    # Switches of another kind
    Mistake(
        Scripted("unpatched", mistakes.without_extension),
        "lacks Weir's extension of OpenFlow",
        "install weir-switch",
    ),
    Mistake(
        Scripted("of another release", mistakes.of_another_version),
        "does not speak version",
        "must be of the same release",
    ),
    # Certificates
    Mistake(Said("plain TCP", HELLO_1_0, "secure"), "does not speak TLS", "connect by ssl:"),
    Mistake(OverTls("no certificate", lambda _: None), "shown no certificate", "set-ssl"),
    Mistake(
        OverTls("of a stranger", lambda lab: lab.stranger.issue("0000000000000011")),
        "its certificate is refused: unable to get local issuer",
        "an authority in tls.ca",
    ),
    Mistake(
        OverTls("expired", lambda lab: lab.authority.issue("0000000000000011", days=-1)),
        "certificate has expired",
        "give it a new one",
    ),
    Mistake(
        OverTls("revoked", lambda lab: Pair(lab.file("revoked.key"), lab.file("revoked.crt"))),
        "certificate revoked",
        "it is on the list in tls.crl",
    ),
    Mistake(
        OverTls("another id", lambda lab: lab.authority.issue("12"), says=mistakes.as_switch),
        "its certificate names 12",
        "switch 0000000000000011",
    ),
    Mistake(
        OverTls(
            "trusts a stranger",
            lambda lab: lab.authority.issue("0000000000000011"),
            "stranger.pem",
        ),
        "does not trust the authority of this controller's certificate",
        "set-ssl",
    ),
    Mistake(
        OverTls("peer", lambda lab: lab.authority.issue("c"), says=mistakes.as_peer, peers=True),
        "its certificate is not for b, but for c",
        "its CN must be its standby.name",
    ),
    Mistake(
        Bridge("protocols=OpenFlow13", "secure", "stranger.pem"),
        "does not trust the authority",
        "give it that authority's certificate",
    ),
]

PROGRAMS = [
    Mistake(Program(weir_lab.main, "--topology ring"), "'ring'", "fat-tree"),
    Mistake(Program(weir_lab.main, "--topolgy star"), "--topolgy", "did you mean --topology?"),
    Mistake(Program(weir_lab.main, "--rate 0"), "--rate must be more than 0", "Mb/s"),
    Mistake(Program(weir_lab.main, "--scheme wier"), "--scheme: invalid choice: 'wier'", "'weir'"),
    Mistake(
        Program(weir_lab.main, "--topology star --shape k=4"), "star has no k", "no --shape options"
    ),
    Mistake(Program(cli.main, "dmeo"), "'dmeo'", "'demo'"),
    Mistake(Program(cli.main, "demo --sendres 8"), "--sendres", "did you mean --senders?"),
    Mistake(Program(cli.main, "demo --senders 0"), "senders", "at least 1"),
    Mistake(Program(cli.main, "run --scheme wier"), "'wier'", "did you mean weir?"),
    Mistake(
        Program(cli.main, "run --scheme weir --out /dev/null/x"),
        "--out /dev/null/x",
        "Not a directory",
    ),
    Mistake(Program(cli.main, "bench incast --group n3"), "--group n3", "incast has n1, n2"),
]


def by(text: str) -> Fountain:
    return Fountain(text, fountain.find_fountain)


SEND = "send --insecure --retry 0 --silence 2 "
FOUNTAIN = [
    Mistake(by("sevre @"), "'sevre'", "a similar subcommand exists: 'serve'"),
    Mistake(by("serve @/none-such"), "cannot serve @/none-such", "No such file or directory"),
    Mistake(
        by("serve @ --insecure --listen {taken}"), "cannot listen on 127.0.0.1", "another address"
    ),
    Mistake(by("fetch 127.0.0.1:1"), "names no file", "write HOST:PATH"),
    Mistake(by("fetch 127.0.0.1:1/x"), "give the --fingerprint", "--accept-new to trust"),
    Mistake(by("fetch --fingerprint 12 127.0.0.1:1/x"), '"12" is no fingerprint', "64 hexadecimal"),
    Mistake(by(SEND + "127.0.0.1 @/secret"), "--rate-from URL", "say how fast to send"),
    Mistake(by(SEND + "--rate 95X 127.0.0.1 @/secret"), '"95X" is not a rate', "e.g. 95M or 2.5G"),
    Mistake(
        by(SEND + "--rate-from http://10.0.0.1:8181 --token-file @/secret 127.0.0.1 @/short"),
        "http://10.0.0.1:8181",
        "write https://",
    ),
    Mistake(
        by(SEND + "--rate-from https://{api} --token-file @/secret 127.0.0.1 @/short"),
        "there is no TLS there",
        "write http:// if it is on this machine",
    ),
]

QUEUES = [
    Mistake(Queue("type=wier"), "ports without a queue of type weir", "the switch's log says what"),
    Mistake(
        Queue("type=weir other-config:max-rate=1G"),
        "1 (p1)",
        "the switch's log says what is wrong with it",
    ),
]

TABLE = [
    *(*CONFIGURATION, *FILES, *START, *COMMANDS, *HTTP, *AT_WORK, *PROGRAMS),
]

RIGHT: list[Doing] = [
    Check("regulation: {scheme: sdtcp}\nfabric: {rtt: 500 us, link_capacity: 1 Gbit/s}"),
    Check("fabric: {queues: [{switch: 0000000000000011, port: 1}]}"),
    Check("northbound: {api: {tokens: @/tokens.yaml, listen: '{free}'}}"),
    Check(STANDBY + ", secret: @/secret}"),
    tls(more=", crl: @/crl.pem"),
    *(Command(f"{words} {AT}") for words in ("switches", "ports --switch 1", "flows --limit 5")),
    *(Command(f"{words} {AT}") for words in ("bandwidth 10.0.0.1 10.0.0.2", "ask ports switch=1")),
    Command("token @/right.yaml a --days 30"),
    Http("GET /v1/ports?switch=0000000000000001", 200),
    Http("PUT /v1/fountains/right", 200, "sender", FLOW),
    Program(weir_lab.main, "--help"),
]


def _id(doing: object) -> str:
    return f"{type(doing).__name__}: {getattr(doing, 'written', doing)}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, stock_prefix: Path) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("mistakes")
    with opened(directory, stock_prefix) as made:
        yield made


def judge(mistake: Mistake, lab: Lab) -> None:
    answer = mistake.does(lab)
    named, remedy = lab.written(mistake.names), lab.written(mistake.remedy)
    assert answer.failed, answer.text
    assert named in answer.text, answer.text
    assert remedy in answer.text, answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: _id(mistake.does))
def test_a_mistake_is_named_with_what_to_do(mistake: Mistake, lab: Lab) -> None:
    judge(mistake, lab)


@pytest.mark.netns
def test_mistakes_with_fountain_are_named_with_what_to_do(lab: Lab) -> None:
    for mistake in FOUNTAIN:
        judge(mistake, lab)


@pytest.mark.switch
@pytest.mark.parametrize("mistake", QUEUES, ids=lambda mistake: _id(mistake.does))
def test_a_mistake_with_a_queue_is_named_with_what_to_do(mistake: Mistake, lab: Lab) -> None:
    judge(mistake, lab)


@pytest.mark.parametrize("doing", RIGHT, ids=_id)
def test_what_is_right_is_done(doing: Doing, lab: Lab) -> None:
    answer = doing(lab)
    assert not answer.failed, answer.text


def test_the_table_is_long_and_no_row_is_empty() -> None:
    rows = [*TABLE, *FOUNTAIN, *QUEUES]
    assert len(rows) >= 60
    assert len({repr(row.does) for row in rows}) == len(rows)
    for row in rows:
        assert len(row.names) > 2 and len(row.remedy) > 3
        assert row.names not in row.remedy and row.remedy not in row.names
        # Nobody is told what he has written himself.
        assert row.remedy not in repr(row.does), row.remedy
