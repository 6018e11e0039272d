#!/usr/bin/env python3
"""Agents that confirm each set of checks and do nothing else about it: the floor of bench/push.py --floor.

    python bench/confirming.py --state HELEN_STATE --folder DIR --count N

All are in one asyncio process, with TLS and client certificates. Each reports once a second, asks for the manifest and
for the file that is new to it, and says that it has loaded them; it verifies nothing and keeps nothing. So what a push
takes with them is what Helen and two TLS connections take. Prints `ready` when all are connected; ends with SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import ssl
import time
from pathlib import Path

from meter import DOCUMENT, allow_descriptors
from senders import Identities, Sender

from equus_protocol.manifest import read_unverified
from helen.cli.local.processes import Local

TOGETHER = 8  # handshakes under way: one address may have 20 strangers, and two such processes are run


class Confirming(Sender):
    """Speaks as one such agent."""

    def __init__(self, name: str) -> None:
        super().__init__(name, 1)
        self._code, self._digest = "", ""
        self._document = json.loads(DOCUMENT) | {"check": "pulse"}
        self._sent = 0

    async def serve(self) -> None:
        """Answer what Helen says until it hangs up."""
        self._ask()
        while line := await self.reader.readline():
            kind, *words = line.split()
            blob = b""
            if kind in (b"schedule", b"manifest", b"file"):
                blob = (await self.reader.readexactly(int(words[-1]) + 1))[:-1]
            if kind == b"ping":
                self.writer.write(b"pong " + words[0] + b"\n")
            elif kind == b"reload":
                self._ask()
            elif kind == b"manifest":
                self._take(blob)
            elif kind == b"file":
                self._confirm()
            elif kind == b"error":
                raise SystemExit(f"{self.name}: {line.decode()}")

    async def report(self, _count: int = 0) -> None:
        """Report once a second, at a phase of its own."""
        await asyncio.sleep(int(hashlib.sha256(self.name.encode()).hexdigest()[:4], 16) / 65_536)
        while True:
            if self._code:
                self._sent += 1
                self._document |= {"started": round(time.time(), 3), "code": self._code}
                blob = json.dumps(self._document, separators=(",", ":")).encode()
                self.writer.write(b"report s %d pulse %d\n%b\n" % (self._sent, len(blob), blob))
            await asyncio.sleep(1)

    def _ask(self) -> None:
        self.writer.write(b"manifest %d\n" % next(self._sequences))

    def _take(self, delivered: bytes) -> None:
        manifest = read_unverified(delivered)
        [self._code] = [entry.sha256 for entry in manifest.files.values()]
        self._digest = manifest.digest
        self.writer.write(b"fetch %d %b\n" % (next(self._sequences), self._code.encode()))

    def _confirm(self) -> None:
        files = {"pulse.lua": {"sha256": self._code, "state": "active"}}
        blob = json.dumps({"files": files, "labels": {}, "host": {}, "equus": "bench", "isolation": "strong"}).encode()
        self.writer.write(b"loaded %b %d\n%b\n" % (self._digest.encode(), len(blob), blob))


async def run(state: Path, folder: Path, count: int, first: int) -> None:
    local = Local(state.parent)
    port = int(json.loads((state / "run.json").read_text())["agents"].rpartition(":")[2])
    identities, places = Identities(local, folder), asyncio.Semaphore(TOGETHER)
    agents = [Confirming(f"a-{number:04d}") for number in range(first, first + count)]
    contexts = [identities.context(agent.name) for agent in agents]
    tasks: list[asyncio.Future[None]] = []

    async def begin(agent: Confirming, context: ssl.SSLContext) -> None:
        async with places:
            await agent.connect(port, context, hello=True)
        tasks.extend(map(asyncio.ensure_future, (agent.serve(), agent.report())))

    await asyncio.gather(*map(begin, agents, contexts))
    print("ready", flush=True)
    await asyncio.gather(*tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="a Helen's state directory")
    parser.add_argument("--folder", type=Path, required=True, help="where their certificates are kept")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="the number of the first: for fleets of several processes")
    options = parser.parse_args()
    allow_descriptors(options.count)
    asyncio.run(run(options.state, options.folder, options.count, options.first))


if __name__ == "__main__":
    main()
