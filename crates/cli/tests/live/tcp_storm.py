"""Three connections to the other end, on each of which a thread writes and another one reads, checks what comes, and has it given back to the kernel now and then."""
import socket
import sys
import threading
import time

role, address, port, total_bytes, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
PERIOD_BYTES = 1000003
failed = []
WRITES = (1, 100, 1448, 5000, 70000, 300000)
READS = (1, 100, 5000, 70000, 1 << 20)


class Chance:
    """Hosts in emulation have no module for it."""

    def __init__(self, seed):
        self.state = seed

    def below(self, most):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % most


def pattern():
    chance = Chance(7)
    words = (chance.below(1 << 31).to_bytes(4, "little") for _ in range(PERIOD_BYTES // 4 + 1))
    return b"".join(words)[:PERIOD_BYTES]


repeated = pattern() * 3


def piece(at, size):
    at %= PERIOD_BYTES
    return repeated[at : at + size]


def give_back(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 4)


def write(connection, seed):
    chance, at = Chance(seed), 0
    while at < total_bytes:
        size = min(WRITES[chance.below(len(WRITES))], total_bytes - at)
        connection.sendall(piece(at, size))
        at += size
        if chance.below(10) < 3:
            give_back(connection)
        if chance.below(50) == 0:
            time.sleep(0.005)
    connection.shutdown(socket.SHUT_WR)


def read(connection, seed):
    chance, at = Chance(seed), 0
    while got := connection.recv(READS[chance.below(len(READS))]):
        if got != piece(at, len(got)):
            raise ValueError(f"{len(got)} bytes at {at} differ")
        at += len(got)
        # What comes meanwhile fills the buffers.
        if chance.below(50) == 0:
            time.sleep(0.02)
        if chance.below(10) < 3:
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
    connections = [socket.socket() for _ in range(3)]
    for connection in connections:
        connection.connect((address, port))
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
