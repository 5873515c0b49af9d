"""A host's part in tests of multicast: joins a group, counts what comes to its cable, or sends.

    python tests/system/group_host.py join GROUP DEVICE ADDRESS
    python tests/system/group_host.py count GROUP DEVICE ADDRESS
    python tests/system/group_host.py send GROUP DEVICE ADDRESS COUNT MARK

To join lasts until the end of standard input; ``count`` says on each line how many datagrams have
come, by their mark, in JSON, whenever a line comes in. The kernel does IGMP and MLD.
"""

import json
import socket
import sys
import threading
import time
from collections import Counter

PORT = 5007
_PER_S = 100


def join(group: str, device: str, address: str) -> None:
    if ":" in group:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        place = socket.if_nametoindex(device).to_bytes(4, sys.byteorder)
        sock.setsockopt(
            socket.IPPROTO_IPV6,
            socket.IPV6_JOIN_GROUP,
            socket.inet_pton(sock.family, group) + place,
        )
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        joined = socket.inet_aton(group) + socket.inet_aton(address)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
    print("joined", flush=True)
    sys.stdin.read()


def count(group: str, device: str, _address: str) -> None:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.bind((device, 0))
    packed = socket.inet_pton(socket.AF_INET6 if ":" in group else socket.AF_INET, group)
    at = 14 + (24 if ":" in group else 16)
    came: Counter[str] = Counter()

    def listen() -> None:
        while True:
            frame, (_, _, kind, *_) = raw.recvfrom(2048)
            if kind != 4 and frame[at : at + len(packed)] == packed and b"mark:" in frame:
                came[frame.partition(b"mark:")[2].split()[0].decode()] += 1

    threading.Thread(target=listen, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(came), flush=True)


def send(group: str, device: str, address: str, n: str, mark: str) -> None:
    if ":" in group:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        index = socket.if_nametoindex(device)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 4)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 4)
    for _ in range(int(n)):
        sock.sendto(f"mark:{mark} ".encode(), (group, PORT))
        time.sleep(1 / _PER_S)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "join":
        join(*rest)
    elif what == "count":
        count(*rest)
    else:
        send(*rest)
