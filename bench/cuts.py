"""Connects to a Helen and cuts the connection at a random byte, 10,000 times: what is left of memory and descriptors.

    python bench/cuts.py [--rounds 10000] [--transport stock]

A connection is cut before its first byte, within the handshake, after it, or within a report of an admitted agent;
half of the ends are resets. Memory and descriptors of Helen's process are read after each tenth of the rounds, once
nobody is connected: the first tenth warms up, the others show what a connection leaves behind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import socket
import ssl
import struct
import sys
import tempfile
import time
from pathlib import Path

import meter
from senders import Identities

from helen.cli.local.processes import Local

AT_ONCE = 8
PARTS = 10
RESET = struct.pack("ii", 1, 0)
KINDS = ("before the first byte", "in the handshake", "after the handshake", "in a report")
REPORT = b"hello 2 bench\nreport s 1 disk %d\n%b\n" % (len(meter.DOCUMENT), meter.DOCUMENT)


class Cut:
    """Cut one connection somewhere."""

    def __init__(self, context: ssl.SSLContext, kind: str, chance: random.Random) -> None:
        self._into, self._out_of = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._into, self._out_of, server_hostname="localhost")
        self._kind, self._chance = kind, chance

    async def run(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as connected:
            connected.setblocking(False)
            await loop.sock_connect(connected, ("127.0.0.1", port))
            if self._kind != KINDS[0]:
                await self._talk(loop, connected)
            if self._chance.random() < 0.5:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    async def _talk(self, loop: asyncio.AbstractEventLoop, connected: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        hello = self._out_of.read()
        if self._kind == KINDS[1]:
            await loop.sock_sendall(connected, hello[: self._chance.randrange(1, len(hello))])
            return
        await loop.sock_sendall(connected, hello)
        while True:
            self._into.write(await loop.sock_recv(connected, 65_536))
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        await loop.sock_sendall(connected, self._out_of.read())
        if self._kind == KINDS[3]:
            self._tls.write(REPORT)
            records = self._out_of.read()
            await loop.sock_sendall(connected, records[: self._chance.randrange(1, len(records))])


async def rounds(port: int, contexts: list[ssl.SSLContext], count: int, chance: random.Random) -> None:
    """Make so many cuts, AT_ONCE at a time; the agents take turns, as a name may be connected once."""

    async def lane(context: ssl.SSLContext) -> None:
        for _ in range(count // AT_ONCE):
            with contextlib.suppress(ConnectionError):
                await Cut(context, chance.choice(KINDS), chance).run(port)

    await asyncio.gather(*map(lane, contexts))


def settle(pid: int, usual: int) -> int:
    """Wait until Helen has no more descriptors than before, for a minute at most; return how many it has."""
    until = time.monotonic() + 60
    while (now := len(os.listdir(f"/proc/{pid}/fd"))) > usual and time.monotonic() < until:
        time.sleep(0.1)
    return now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--transport", choices=("hub", "stock"), default="hub")
    options = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="cuts-") as name:
        local = Local(Path(name))
        (local.state / "checks").mkdir(parents=True)
        local.start_helen("127.0.0.1:0", "off", "--transport", options.transport)
        try:
            local.wait_for_helen()
            identities = Identities(local, Path(name))
            contexts = [identities.context(f"cut-{number}") for number in range(AT_ONCE)]
            pid, port = int(local.run["pid"]), int(local.run["agents"].rpartition(":")[2])
            usual = len(os.listdir(f"/proc/{pid}/fd"))
            print(f"--transport {options.transport}; Python {meter.interpreter_of(sys.executable)}")
            print(f"{'cuts':>8}{'MiB':>8}{'descriptors':>14}\n{0:>8}{meter.rss_of(pid) / 2**20:>8.1f}{usual:>14}")
            for part in range(1, PARTS + 1):
                asyncio.run(rounds(port, contexts, options.rounds // PARTS, chance))
                left = settle(pid, usual)
                done = options.rounds // PARTS * part
                print(f"{done:>8}{meter.rss_of(pid) / 2**20:>8.1f}{left:>14}", flush=True)
        finally:
            local.stop()


if __name__ == "__main__":
    main()
