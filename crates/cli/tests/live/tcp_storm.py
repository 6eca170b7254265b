"""Three connections to the other end, on each of which a thread writes and another one reads, checks what comes, and has it given back to the kernel now and then.
Several processes have them one after another, each the child of the one before."""
import os
import socket
import sys
import threading
import time

role, address = sys.argv[1:3]
port, total_bytes, seed, processes = (int(word) for word in sys.argv[3:])
PERIOD_BYTES = 1000003
failed = []
WRITES = (1, 1, 10, 100, 100, 1000, 1448, 1449, 5000, 20000, 70000, 300000)
READS = (1, 10, 100, 1000, 5000, 20000, 70000, 1 << 20)


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


class Way:
    """A connection, how much of it is done, and until where this process goes."""

    def __init__(self, connection, seed):
        self.connection = connection
        self.chances = Chance(seed), Chance(seed + 1)
        self.written = self.received = 0

    def write(self, until):
        chance = self.chances[0]
        while self.written < until:
            size = min(WRITES[chance.below(len(WRITES))], until - self.written)
            self.connection.sendall(piece(self.written, size))
            self.written += size
            if chance.below(10) < 6:
                give_back(self.connection)
            if chance.below(50) == 0:
                time.sleep(0.005)
        if until == total_bytes:
            self.connection.shutdown(socket.SHUT_WR)

    def read(self, until):
        chance = self.chances[1]
        while self.received < until or until == total_bytes:
            got = self.connection.recv(READS[chance.below(len(READS))])
            if not got:
                break
            if got != piece(self.received, len(got)):
                raise ValueError(f"{len(got)} bytes at {self.received} differ")
            self.received += len(got)
            # What comes meanwhile fills the buffers.
            if chance.below(50) == 0:
                time.sleep(0.02)
            if chance.below(10) < 6:
                give_back(self.connection)
        if self.received < until or self.received > total_bytes:
            raise ValueError(f"the stream ended after {self.received} bytes")


def do(what, until):
    try:
        what(until)
    except Exception as error:
        failed.append(f"{what.__name__}: {error!r}")


def move(ways, until):
    threads = [threading.Thread(target=do, args=(what, until)) for way in ways for what in (way.write, way.read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


family = socket.AF_INET6 if ":" in address else socket.AF_INET
if role == "server":
    listener = socket.create_server((address, port), family=family)
    connections = [listener.accept()[0] for _ in range(3)]
else:
    connections = [socket.socket(family) for _ in range(3)]
    for connection in connections:
        connection.connect((address, port))
ways = [Way(connection, seed + 2 * at) for at, connection in enumerate(connections)]
for process in range(1, processes + 1):
    move(ways, total_bytes * process // processes)
    if failed or process == processes:
        break
    child = os.fork()
    if child:
        for connection in connections:
            connection.close()
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(failed or "all is the same", flush=True)
sys.exit(bool(failed))
