"""Runs clients of Scale0 that ask agents all the time, whatever is broken: `python asking.py AGENTS FRONTEND...`.

One client for each frontend, which knows the others too. SIGTERM ends the asking; once every request has ended (they
have TIMEOUT) one line of JSON says what became of them: how many were asked, how many ended, by which codes, and
whether a FINAL came twice.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from collections import Counter
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import LoopingCall

from scale0.client import Client, RequestFailed

EVERY = 0.05  # seconds between two requests of one client
TIMEOUT = 5.0  # seconds of a request
LAST_WORDS = 20.0  # seconds after the end in which every request must have ended


class Asking(Client):
    """Counts what it is told."""

    def __init__(self, name: str, brokers: list[str]) -> None:
        super().__init__(reactor, name, brokers)
        self.asked = 0
        self.ended: Counter[str] = Counter()
        self.finals: Counter[str] = Counter()

    def _heard(self, command: str, o: Any, body: Any) -> None:
        if command == "FINAL":
            self.finals[o.id] += 1
        super()._heard(command, o, body)

    def ask(self, agents: int) -> None:
        self.asked += 1
        name = f"equus.a-{random.randrange(agents):04d}"
        asked = self.request(name, b"pulse", timeout=TIMEOUT)
        asked.addCallbacks(lambda reply: self.end(str(reply.code)), self.failed)

    def failed(self, failure: Any) -> None:
        failure.trap(RequestFailed)
        self.end(f"{failure.value.code} {failure.value.reason}")

    def end(self, how: str) -> None:
        self.ended[how] += 1


def main() -> None:
    agents, frontends = int(sys.argv[1]), sys.argv[2:]
    clients = [Asking(f"desk-{n}", frontends[n:] + frontends[:n]) for n in range(len(frontends))]
    loops = [LoopingCall(client.ask, agents) for client in clients]

    def begin() -> None:
        for client, loop in zip(clients, loops, strict=True):
            client.startService()
            loop.start(EVERY)

    def finish(tries: int = int(LAST_WORDS / EVERY)) -> None:
        for loop in loops:
            if loop.running:
                loop.stop()
        if tries and any(client.asked != sum(client.ended.values()) for client in clients):
            reactor.callLater(EVERY, finish, tries - 1)
            return
        told = {
            "asked": sum(client.asked for client in clients),
            "ended": sum((client.ended for client in clients), Counter()),
            "twice": [number for client in clients for number, count in client.finals.items() if count > 1],
        }
        print(json.dumps(told), flush=True)
        reactor.stop()

    signal.signal(signal.SIGTERM, lambda *_: reactor.callFromThread(finish))
    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)


if __name__ == "__main__":
    main()
