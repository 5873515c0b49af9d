"""Stands for the command ``fountain`` where none has been built: the same words and messages, over
plain TCP. A path that begins with "fail" ends it with an error, one that begins with "hang" never.
"""

import argparse
import json
import signal
import socket
import sys
import threading
import time
from pathlib import Path


def serve(folder: str, listen: str, fingerprint: str | None) -> None:
    address, _, port = listen.rpartition(":")
    signal.signal(signal.SIGTERM, stop)
    listener = socket.create_server((address, int(port)))
    say(event="listening", addr=listen, fingerprint=fingerprint)
    while True:
        threading.Thread(
            target=answer, args=(listener.accept()[0], Path(folder)), daemon=True
        ).start()


def stop(*_: object) -> None:
    say(event="stopped")
    sys.exit(0)


def answer(sock: socket.socket, folder: Path) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for line in sock.makefile():
        say(event="served", path=line.strip())
        file = folder / line.strip()
        sock.sendall(file.stat().st_size.to_bytes(8, "big"))
        with file.open("rb") as data:
            sock.sendfile(data)


def fetch(sources: list[str], rounds: int, symbol_bytes: int) -> None:
    path = sources[0].partition("/")[2]
    if path.startswith("fail"):
        sys.exit("fountain: the server has gone")
    if path.startswith("hang"):
        time.sleep(600)
    socks = []
    for source in sources:
        address, _, port = source.partition("/")[0].rpartition(":")
        socks.append(socket.create_connection((address, int(port))).makefile("rwb"))
    done = []
    for number in range(rounds):
        begun = time.monotonic()
        for sock in socks:
            sock.write(f"{path}\n".encode())
            sock.flush()
        got = 0
        for sock in socks:
            size = int.from_bytes(sock.read(8), "big")
            while size:
                size -= len(part := sock.read(min(size, 1 << 20)))
                got += len(part)
        done.append({"seconds": time.monotonic() - begun, "bytes": got})
        say(event="round", round=number)
    needed = -(-sum(one["bytes"] for one in done) // symbol_bytes)
    say(
        event="done", rounds=done, bytes=sum(one["bytes"] for one in done), servers=[],
        symbols_received=needed + needed // 20, symbols_needed=needed, symbols_lost=7,
    )  # fmt: skip


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    server, client = commands.add_parser("serve"), commands.add_parser("fetch")
    for command in (server, client):
        command.add_argument("--insecure", action="store_true")
        command.add_argument("--json", action="store_true", required=True)
    server.add_argument("folder")
    server.add_argument("--listen", required=True)
    client.add_argument("sources", nargs="+")
    client.add_argument("--fingerprint", action="append", default=[])
    client.add_argument("--discard", action="store_true", required=True)
    client.add_argument("--rounds", type=int, required=True)
    client.add_argument("--barrier", action="store_true", required=True)
    client.add_argument("--pacing", choices=("client", "tfrc"), required=True)
    client.add_argument("--symbol-bytes", required=True)
    args = parser.parse_args()
    if args.command == "serve":
        serve(args.folder, args.listen, None if args.insecure else "f00d")
    else:
        if args.insecure == bool(args.fingerprint):
            parser.error("a fingerprint for every server, or --insecure")
        symbol_bytes = 1440 if args.symbol_bytes == "mtu" else int(args.symbol_bytes)
        fetch(args.sources, args.rounds, symbol_bytes)


if __name__ == "__main__":
    main()
