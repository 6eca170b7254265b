"""Stores values by UDP and reads them again: `ADDRESS PORT COUNT`. Frames as in memcached's doc/protocol.txt."""

import random
import socket
import struct
import sys

HEADER = struct.Struct("!HHHH")


def ask(client, number, request):
    client.send(HEADER.pack(number, 0, 1, 0) + request)
    parts, total = {}, 1
    while len(parts) < total:
        data = client.recv(2000)
        answered, part, total, _ = HEADER.unpack_from(data)
        if answered == number:
            parts[part] = data[HEADER.size :]
    return b"".join(parts[part] for part in range(total))


address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(2)
client.connect((address, port))
random.seed(1)
right = 0
for number in range(count):
    value = random.randbytes(1 + number * 5)
    size = len(value)
    stored = ask(client, 2 * number, b"set k%d 0 0 %d\r\n%s\r\n" % (number, size, value))
    got = ask(client, 2 * number + 1, b"get k%d\r\n" % number)
    right += stored == b"STORED\r\n" and got == b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (number, size, value)
print(f"{right} right, {count - right} wrong")
