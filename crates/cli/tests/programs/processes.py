"""Processes that share a socket: `serve ADDRESS PORT CHILDREN`, `ask ADDRESS PORT COUNT CHILDREN`.

The parent serves some before it has children; then they serve all that comes, each until it is told to end.
"""

import os
import socket
import sys

BY_PARENT = 20
END = b"end"


def answer_one(server):
    data, address = server.recvfrom(2000)
    if data != END:
        server.sendto(data[::-1], address)
    return data != END


def serve(address, port, children):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, port))
    print(sum(answer_one(server) for _ in range(BY_PARENT)), "by the parent", flush=True)
    ends = []
    for _ in range(children):
        reader, writer = os.pipe()
        if os.fork() == 0:
            served = 0
            while answer_one(server):
                served += 1
            os.write(writer, served.to_bytes(4, "big"))
            os._exit(0)
        ends.append(reader)
    served = sum(int.from_bytes(os.read(reader, 4), "big") for reader in ends)
    assert all(os.wait()[1] == 0 for _ in ends)
    print(served, "by", children, "children")


def ask(address, port, count, children):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(1)
    client.connect((address, port))
    right = wrong = missing = 0
    for number in range(count):
        data = (f"question {number} " * (1 + number % 50)).encode()
        client.send(data)
        try:
            is_right = client.recv(2000) == data[::-1]
            right, wrong = right + is_right, wrong + (not is_right)
        except TimeoutError:
            missing += 1
            if missing > 2:
                break
    for _ in range(children):
        client.send(END)
    print(f"{right} right, {wrong} wrong, {missing} missing")


role, address, port, *rest = sys.argv[1:]
(serve if role == "serve" else ask)(address, int(port), *map(int, rest))
