"""The finished Helen as a server for a fleet without client certificates: one check and its result, again and again.

    python bench/exchange.py --port P --crt F --key F --conns N --window W [--seconds S]

Everything is Helen's own: TLS through Twisted, conversation, roster, version 1 checks, the journal with its syncs and
segments, live state. Three things are not: an agent is known by the number of its connection, since this fleet has no
certificates; all strangers of one address are let in at once; and each result at once asks for the next check, so that
W are always outstanding. It is what a side-by-side benchmark of servers starts, its {port}, {crt}, {key}, {conns} and
{window} filled in.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import tempfile
from pathlib import Path
from typing import Any

from cryptography import x509
from twisted.internet import reactor, ssl
from twisted.internet.task import LoopingCall
from twisted.protocols.tls import TLSMemoryBIOFactory

from equus_protocol import messages as m
from helen import listening
from helen.connection import AgentConnection
from helen.house import House
from helen.journal.journal import Journal
from helen.known_keys import Identity
from helen.listening import TICK_SECONDS, AgentDoor
from helen.roster import Agent
from helen.store import Store

FOREVER = 2.0**40  # unix seconds
CHECK, ARGS = "load", b"a" * 64


class Anybody:
    """In place of the authority: whoever comes gets the next number for a name."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        return Identity(f"a-{next(self._numbers)}", "0" * 64, FOREVER)

    def seen(self, identity: Identity, now: float) -> None:
        """Nobody has to be remembered."""

    def on_revoked(self, tell: Any) -> None:
        """Nobody is ever shut out."""


class Exchange(House):
    """Keeps W checks outstanding on each connection, once all have said hello."""

    conns, window, admitted = 1, 1, 0

    def _attached(self, agent: Agent) -> None:
        super()._attached(agent)
        self.admitted += 1
        if self.admitted == self.conns:
            reactor.callLater(0, self.begin)

    def begin(self) -> None:
        gc.collect()
        gc.freeze()
        for agent in self.roster.connected():
            for _ in range(self.window):
                self.again(agent.link)

    def again(self, connection: Any) -> None:
        connection.send(m.Check(CHECK, connection.next_id(), ARGS))

    def heard(self, connection: AgentConnection, message: m.Message) -> None:
        super().heard(connection, message)
        if not connection.closing:
            self.again(connection)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("port", "conns", "window"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("crt", "key"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    listening.MAX_STRANGERS = options.conns
    with tempfile.TemporaryDirectory(prefix="exchange-") as folder:
        state = Path(folder)
        store = Store(state, reactor.callFromThread)
        store.open(0.0)
        houses: list[Exchange] = []
        journal = Journal(
            state / "journal",
            state / "history",
            reactor.callFromThread,
            lambda batch: houses[0].on_durable(batch),
            print,
        )
        journal.open()
        anybody: Any = Anybody()
        house = Exchange(reactor, anybody, journal, store)
        houses.append(house)
        house.conns, house.window = options.conns, options.window
        house.door = AgentDoor(reactor, house)
        pem = options.key.read_text() + options.crt.read_text()
        context = ssl.PrivateCertificate.loadPEM(pem).options()
        factory = TLSMemoryBIOFactory(context, False, house.door)
        reactor.listenTCP(options.port, factory, interface="127.0.0.1", backlog=4096)
        LoopingCall(house.sweep).start(TICK_SECONDS)
        reactor.callLater(options.seconds, reactor.stop)
        reactor.run()
        journal.close()


if __name__ == "__main__":
    main()
