"""Three connections to the other end, on each of which a thread writes and another one reads, checks what comes, and has it given back to the kernel now and then."""
import random
import socket
import sys
import threading
import time

role, address, port, total_bytes, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
PERIOD_BYTES = 1000003
repeated = random.Random(7).randbytes(PERIOD_BYTES) * 3
failed = []


def piece(at, size):
    at %= PERIOD_BYTES
    return repeated[at : at + size]


def give_back(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 4)


def write(connection, seed):
    chance, at = random.Random(seed), 0
    while at < total_bytes:
        size = min(chance.choice((1, 100, 1448, 5000, 70000, 300000)), total_bytes - at)
        connection.sendall(piece(at, size))
        at += size
        if chance.random() < 0.3:
            give_back(connection)
        if chance.random() < 0.02:
            time.sleep(0.005)
    connection.shutdown(socket.SHUT_WR)


def read(connection, seed):
    chance, at = random.Random(seed), 0
    while got := connection.recv(chance.choice((1, 100, 5000, 70000, 1 << 20))):
        if got != piece(at, len(got)):
            raise ValueError(f"{len(got)} bytes at {at} differ")
        at += len(got)
        # What comes meanwhile fills the buffers.
        if chance.random() < 0.02:
            time.sleep(0.02)
        if chance.random() < 0.3:
            give_back(connection)
    if at != total_bytes:
        raise ValueError(f"the stream ended after {at} bytes")


def do(what, connection, seed):
    try:
        what(connection, seed)
    except Exception as error:
        failed.append(f"{what.__name__}: {error!r}")


if role == "server":
    listener = socket.create_server((address, port))
    connections = [listener.accept()[0] for _ in range(3)]
else:
    connections = [socket.create_connection((address, port)) for _ in range(3)]
threads = []
for connection in connections:
    for what in (write, read):
        seed += 1
        threads.append(threading.Thread(target=do, args=(what, connection, seed)))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed or "all is the same", flush=True)
sys.exit(bool(failed))
