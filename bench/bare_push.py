#!/usr/bin/env python3
"""Measures the limit of bench/push.py --bare: TLS connections that carry the bytes of a push, and mean nothing by them.

    python bench/bare_push.py --agents 1000 --pushes 8

A server and all its clients are two asyncio processes, as Helen and the agents of the benchmark are. For each push the
server sends every client as many bytes as `reload`, the manifest and one file take, and each is answered with as many
as the two requests and `loaded` take. Nothing is read, verified, kept or decided. So what a push takes more than this
is what it does. Prints JSON: seconds until half and 95 % had answered (`confirmation_p50`, `confirmation_p95`: medians
over the pushes), and the CPU seconds of both sides for one push.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from meter import allow_descriptors, cpu_of, make_certificate

# Bytes of `reload`, the manifest and a file of one check, and of the request, the other request and `loaded`.
SENT = (7, 1_900, 190)
ANSWERED = (11, 75, 700)
TOGETHER = 50  # handshakes under way


class Turns(asyncio.Protocol):
    """Answers each message of `heard` bytes with one of `said` bytes, the next in turn; with none for 0."""

    def __init__(self, heard: tuple[int, ...], said: tuple[int, ...]) -> None:
        self._heard, self._said = heard, said
        self._turn = self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        while self._bytes >= (wanted := self._heard[self._turn]):
            self._bytes -= wanted
            self._answer()

    def _answer(self) -> None:
        if self._said[self._turn]:
            self.transport.write(bytes(self._said[self._turn]))
        self._turn = (self._turn + 1) % len(self._heard)


class Served(Turns):
    """Serves one connection: it begins a push, and notes when the last answer has come."""

    def __init__(self, ended: list[float]) -> None:
        super().__init__(ANSWERED, (*SENT[1:], 0))
        self._ended = ended

    def _answer(self) -> None:
        super()._answer()
        if self._turn == 0:
            self._ended.append(time.monotonic())

    def begin(self) -> None:
        self.transport.write(bytes(SENT[0]))


async def connect(port: int, count: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    places = asyncio.Semaphore(TOGETHER)

    async def one() -> None:
        async with places:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: Turns(SENT, ANSWERED), "127.0.0.1", port, ssl=context)

    await asyncio.gather(*(one() for _ in range(count)))
    print("ready", flush=True)
    await asyncio.Event().wait()


async def measure(folder: Path, count: int, pushes: int) -> dict[str, float]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(folder))
    ended: list[float] = []
    served: list[Served] = []

    def meet() -> Served:
        served.append(Served(ended))
        return served[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(meet, "127.0.0.1", 0, ssl=context, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    words = [sys.executable, __file__, "--agents", str(count), "--port", str(port)]
    clients = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert clients.stdout is not None
    await clients.stdout.readline()
    took: list[list[float]] = []
    spent = time.process_time(), cpu_of(clients.pid)
    for _ in range(pushes):
        ended.clear()
        began = time.monotonic()
        for connection in served:
            connection.begin()
        while len(ended) < count:
            await asyncio.sleep(0.01)
        took.append(sorted(end - began for end in ended))
    spent = time.process_time() - spent[0], cpu_of(clients.pid) - spent[1]
    clients.kill()
    await clients.wait()
    return {
        "confirmation_p50": round(statistics.median(each[count // 2] for each in took), 2),
        "confirmation_p95": round(statistics.median(each[int(count * 0.95) - 1] for each in took), 2),
        "helen_cpu": round(spent[0] / pushes, 4),
        "agents_cpu": round(spent[1] / pushes, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--pushes", type=int, default=8)
    parser.add_argument("--port", type=int, help="be the clients of this port")
    options = parser.parse_args()
    allow_descriptors(options.agents)
    if options.port is not None:
        asyncio.run(connect(options.port, options.agents))
        return
    with tempfile.TemporaryDirectory(prefix="push-") as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), options.agents, options.pushes))))


if __name__ == "__main__":
    main()
