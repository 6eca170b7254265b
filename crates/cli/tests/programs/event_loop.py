"""An echo over asyncio: `serve ADDRESS PORT`, `ask ADDRESS PORT COUNT`."""

import asyncio
import hashlib
import signal
import sys

AT_ONCE = 16
PATIENCE_S = 3


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


def question(number):
    body = hashlib.sha256(str(number).encode()).digest() * (1 + number % 40)
    return number.to_bytes(4, "big") + body


class Asker(asyncio.DatagramProtocol):
    def __init__(self, count):
        self.waiting, self.count, self.next = set(), count, 0
        self.right = self.wrong = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        for _ in range(AT_ONCE):
            self.ask()

    def ask(self):
        if self.next < self.count:
            self.waiting.add(self.next)
            self.transport.sendto(question(self.next))
            self.next += 1
        elif not self.waiting and not self.done.done():
            self.done.set_result(None)

    def datagram_received(self, data, address):
        number = int.from_bytes(data[:4], "big")
        is_right = number in self.waiting and data == question(number)
        self.right, self.wrong = self.right + is_right, self.wrong + (not is_right)
        self.waiting.discard(number)
        self.ask()

    def error_received(self, error):
        self.wrong += 1


async def serve(address, port):
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, local_addr=(address, port))
    end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()


async def ask(address, port, count):
    loop = asyncio.get_running_loop()
    _, asker = await loop.create_datagram_endpoint(lambda: Asker(count), remote_addr=(address, port))
    try:
        await asyncio.wait_for(asker.done, PATIENCE_S)
    except asyncio.TimeoutError:
        pass
    print(f"{asker.right} right, {asker.wrong} wrong, {len(asker.waiting)} missing")


role, address, port, *rest = sys.argv[1:]
asyncio.run(serve(address, int(port)) if role == "serve" else ask(address, int(port), int(rest[0])))
