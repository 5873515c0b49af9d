"""Long flows: TCP connections that always have something to send, and a reader that reads at once.

    python -m experiments.traffic.bulk --sender-pid PID... --receiver-pid PID --receiver ADDRESS

A flow per ``--sender-pid``; all ends are in this process, each in its host's namespace. Says
``{"event": "connected"}``, sends until its stdin is closed, then says
``{"event": "done", "bytes": {...}, "flows": [...]}``: what was received, all flows over time and
each one's sum.
"""

import argparse
import json
import os
import select
import socket
import sys
from collections.abc import Sequence

from experiments.traffic.clock import ByteBins
from testbed.netns import network_of

PORT = 5001

Ends = tuple[socket.socket, socket.socket]


def connect(sender_pids: Sequence[int], receiver_pid: int, address: str) -> list[Ends]:
    """Return the two ends of every connection: the sending and the receiving one."""
    with network_of(receiver_pid):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, PORT), family=family)
    ends = []
    for pid in sender_pids:
        with network_of(pid):
            sender = socket.create_connection((address, PORT), timeout=10)
        receiver, _peer = listener.accept()
        ends.append((sender, receiver))
    listener.close()
    return ends


def pump(ends: Sequence[Ends]) -> tuple[ByteBins, list[int]]:
    """Keep every sender's buffer full and every receiver's empty until stdin is closed.

    Returns the bytes that all have received over time, and how many each has.
    """
    chunk, buffer = memoryview(bytes(256 * 1024)), bytearray(256 * 1024)
    bins, received = ByteBins(), [0] * len(ends)
    senders = {sender.fileno(): sender for sender, _ in ends}
    receivers = {receiver.fileno(): (flow, receiver) for flow, (_, receiver) in enumerate(ends)}
    poll = select.epoll()
    for sender, receiver in ends:
        sender.setblocking(False)
        receiver.setblocking(False)
        poll.register(sender.fileno(), select.EPOLLOUT)
        poll.register(receiver.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    while True:
        for fd, _events in poll.poll():
            if fd in receivers:
                flow, receiver = receivers[fd]
                count = receiver.recv_into(buffer)
                bins.add(count)
                received[flow] += count
            elif fd in senders:
                senders[fd].send(chunk)
            elif not os.read(sys.stdin.fileno(), 4096):
                return bins, received


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="Long flows to one receiver.")
    parser.add_argument("--sender-pid", type=int, action="append", required=True)
    parser.add_argument("--receiver-pid", type=int, required=True)
    parser.add_argument("--receiver", required=True)
    args = parser.parse_args()
    ends = connect(args.sender_pid, args.receiver_pid, args.receiver)
    print(json.dumps({"event": "connected"}), flush=True)
    bins, received = pump(ends)
    print(json.dumps({"event": "done", "bytes": bins.as_record(), "flows": received}), flush=True)


if __name__ == "__main__":
    main()
