"""A background flow: one TCP connection that always has something to send, and a reader that
reads at once.

    python -m experiments.workloads.bulk --sender-pid PID --receiver-pid PID --receiver ADDRESS

Both ends are in this process, each in its host's namespace. Says ``{"event": "connected"}``,
sends until its stdin is closed, then says ``{"event": "done", "bytes": {...}}``: what was
received, over time.
"""

import argparse
import json
import os
import select
import socket
import sys

from experiments.workloads.clock import ByteBins
from experiments.workloads.netns import network_of

PORT = 5001


def connect(
    sender_pid: int, receiver_pid: int, address: str
) -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection: the sending and the receiving one."""
    with network_of(receiver_pid):
        listener = socket.create_server((address, PORT))
    with network_of(sender_pid):
        sender = socket.create_connection((address, PORT), timeout=10)
    receiver, _peer = listener.accept()
    listener.close()
    return sender, receiver


def pump(sender: socket.socket, receiver: socket.socket) -> ByteBins:
    """Keep the sender's buffer full and the receiver's empty until stdin is closed."""
    chunk, buffer = memoryview(bytes(256 * 1024)), bytearray(256 * 1024)
    bins = ByteBins()
    poll = select.epoll()
    for sock, events in ((sender, select.EPOLLOUT), (receiver, select.EPOLLIN)):
        sock.setblocking(False)
        poll.register(sock.fileno(), events)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    while True:
        for fd, _events in poll.poll():
            if fd == receiver.fileno():
                bins.add(receiver.recv_into(buffer))
            elif fd == sender.fileno():
                sender.send(chunk)
            elif not os.read(sys.stdin.fileno(), 4096):
                return bins


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="A background flow.")
    parser.add_argument("--sender-pid", type=int, required=True)
    parser.add_argument("--receiver-pid", type=int, required=True)
    parser.add_argument("--receiver", required=True)
    args = parser.parse_args()
    ends = connect(args.sender_pid, args.receiver_pid, args.receiver)
    print(json.dumps({"event": "connected"}), flush=True)
    bins = pump(*ends)
    print(json.dumps({"event": "done", "bytes": bins.as_record()}), flush=True)


if __name__ == "__main__":
    main()
