"""Runs the finished Helen as a server for a fleet without client certificates: one check and its result, again and
again.

    python bench/exchange_server.py --port P --crt F --key F --conns N --window W [--seconds S] [--transport stock]

All of it is Helen's own: TLS, conversation, roster, version 1 checks, the journal with its syncs and segments, live
state. Four things are not: an agent is known by the number of its connection, since this fleet has no certificates;
its quotas are without an end, since one connection brings the results of a fleet; a segment is sealed every 2 s, so
that sealing is part of what is measured; and each result at once asks for the next check, so that W are always
outstanding. bench/exchange.py starts it, and so does any side-by-side benchmark of servers.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import tempfile
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from twisted.internet import reactor
from twisted.internet.task import LoopingCall

from equus_protocol import messages as m
from helen.agents.roster import Agent
from helen.identity.tls import ServerTLS
from helen.journal.journal import Journal
from helen.journal.limits import Limits
from helen.keys.ca_files import Material
from helen.quotas.quotas import read_quotas
from helen.sessions import open_connections
from helen.sessions.connection import AgentConnection
from helen.sessions.listener import TICK_SECONDS, AgentListener, TLSListener
from helen.sessions.session_service import SessionService
from helen.sessions.tls_hub import TLSHub
from helen.storage.database import Store
from helen.storage.enrolled_keys import Identity
from helen.turn_rotation import TurnRotation

FOREVER = 2.0**40  # unix seconds
CHECK, ARGS = "load", b"a" * 64
ENDLESS = ["results=9000000000/9000000000", "bytes=900000GiB/900000GiB", "disk=900000GiB/900000GiB"]
SEGMENT_SECONDS = 2.0


class Anybody:
    """Stands for the authority: each certificate is of an agent whose name is the next number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.given = NoLabels()

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        return Identity(f"a-{next(self._numbers)}", "0" * 64, FOREVER)

    def seen(self, identity: Identity, now: float) -> None:
        """Keep no time of a last connection: no page shows it here."""

    def on_revoked(self, tell: Any) -> None:
        """Subscribe to no revocation: none is made here."""


class NoLabels:
    """In place of the labels that operators give."""

    def of(self, name: str) -> dict[str, str]:
        return {}

    def ephemeral(self, name: str) -> None:
        """Let no agent end with its connection."""

    def on_changed(self, tell: Any) -> None:
        """Nothing ever changes."""


class NoSets:
    """In place of the library: nothing is published."""

    def offered(self, agent: str) -> None:
        """Offer nothing."""

    def tick(self, now: float, here: Any) -> None:
        """Have no rollout."""


class Exchange(SessionService):
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
        connection.check(CHECK, ARGS)

    def answered(self, connection: AgentConnection, result: m.Result) -> None:
        self.results.result(connection, result)
        if not connection.closing:
            self.again(connection)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("port", "conns", "window"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("crt", "key"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--transport", choices=("hub", "stock"), default="hub")
    options = parser.parse_args()
    open_connections.MAX_STRANGERS = options.conns
    with tempfile.TemporaryDirectory(prefix="exchange-") as folder:
        state = Path(folder)
        store = Store(state, reactor.callFromThread)
        store.open(0.0)
        services: list[Exchange] = []
        rotation = TurnRotation(reactor, reactor.seconds)
        journal = Journal(
            state / "journal",
            state / "history",
            reactor.callFromThread,
            lambda batch: services[0].results.on_durable(batch),
            print,
            limits=Limits(segment_seconds=SEGMENT_SECONDS),
            later=rotation.soon,
            slice_seconds=rotation.slice_seconds,
        )
        journal.open()
        anybody: Any = Anybody()
        library: Any = NoSets()
        sessions = Exchange(
            reactor, anybody, journal, store, library, add_statements=bytes, pinned=lambda: ("", ""),
            quotas=read_quotas([*ENDLESS, "strangers=200"]), rotation=rotation,
        )  # fmt: skip
        services.append(sessions)
        sessions.conns, sessions.window = options.conns, options.window
        sessions.result = sessions.answered
        listener = AgentListener(reactor, sessions, sessions.connections)
        key: Any = load_pem_private_key(options.key.read_bytes(), None)
        shown = x509.load_pem_x509_certificate(options.crt.read_bytes())
        tls = ServerTLS(Material(shown, key, shown, key))
        if options.transport == "stock":
            factory = TLSListener(tls, listener, sessions.fair_turns)
            reactor.listenTCP(options.port, factory, interface="127.0.0.1", backlog=4096)
        else:
            port = reactor.listenTCP(options.port, listener, interface="127.0.0.1", backlog=4096)
            TLSHub(reactor, port, tls, listener, sessions.fair_turns).startReading()
        LoopingCall(sessions.sweep).start(TICK_SECONDS)
        reactor.callLater(options.seconds, reactor.stop)
        reactor.run()
        journal.close()


if __name__ == "__main__":
    main()
