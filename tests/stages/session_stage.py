"""Holds the sessions of agents with a journal, an authority, a store and a library that are lists in memory."""

from __future__ import annotations

from typing import Any

from helen_parts import WALL, Peer
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from equus_protocol import manifest
from helen.assignments.schedule import CheckTable
from helen.identity.authority import Identity
from helen.identity.enrolment_documents import Enrolled
from helen.identity.given_labels import GivenLabels
from helen.journal.stored import stored_result
from helen.journal.values import Ack, Batch, Entry
from helen.library.published import Published
from helen.quotas.quotas import Quotas, read_quotas
from helen.sessions.session_service import SessionService


class FakeJournal:
    """Keeps what it is given until `fsync` says that it is durable."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.changes: list[Any] = []
        self.floors: list[Any] = []
        self.full = self.behind = False
        self.takes = True
        self.house: SessionService | None = None
        self._own = 0

    @property
    def is_behind(self) -> bool:
        return self.full or self.behind

    def append(self, entry: Entry) -> bool:
        if self.takes:
            self.entries.append(entry)
        return self.takes

    def append_own(
        self, agent: str, check_id: str, check: str, origin: Any, received: float, blob: bytes, ahead: Any = None
    ) -> int | None:
        self._own += 1
        entry = Entry(agent, check_id, check, "helen", self._own, origin, received, blob, ahead)
        return self._own if self.append(entry) else None

    def change(self, kind: str, document: dict[str, Any], agent: str | None = None) -> None:
        self.changes.append((kind, document["event"], agent))

    def forget_below(self, agent: str, spool: str, first: int) -> None:
        self.floors.append((agent, spool, first))

    def fsync(self) -> None:
        """Make all of the journal durable: acks first, then the records."""
        entries, self.entries = self.entries, []
        high = {(e.agent, e.spool): e.sequence for e in entries if e.spool != "helen"}
        self.house.results.on_durable(Batch(acks=tuple(Ack(*key, sequence) for key, sequence in high.items())))
        stored = [stored_result(n, e) for n, e in enumerate(entries)]
        self.house.results.on_durable(Batch(records=tuple(stored)))


class FakeAuthority:
    """Grants what it is told to grant."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: Any = Enrolled("CERT", "CA", 5)
        self.conflicts = 0
        self.closed = ""
        self.given = GivenLabels(None, ())  # type: ignore[arg-type]

    def on_revoked(self, tell: Any) -> None:
        self.tell_revoked = tell

    def identify(self, certificate: Any, now: float) -> Identity:
        return Identity("web-1", "key", WALL + 1e6)

    def seen(self, identity: Identity, now: float) -> None: ...

    def conflict(self, name: str, address: str, now: float) -> None:
        self.conflicts += 1

    def enrol(self, *words: Any) -> Deferred[Any]:
        self.asked.append(words)
        return self.answer if isinstance(self.answer, Deferred) else succeed(self.answer)

    renew = enrol


class FakeStore:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.answer: Any = None

    def call(self, work: Any, *args: Any) -> Deferred[Any]:
        self.calls.append((work.__name__, *args))
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(None)


class FakeLibrary:
    """Stands in for the library: it has one published set."""

    def __init__(self, **contents: bytes) -> None:
        self.releases = self
        self.ring = None
        self.contents = {manifest.entry(content).sha256: content for content in contents.values()}
        files = {f"{name}.lua": manifest.entry(content) for name, content in contents.items()}
        document = manifest.ManifestDocument(1, WALL, WALL + 1e6, files, "digest-1")
        self.set: Published | None = Published(b"envelope", document, {"cpu": CheckTable("cpu", 10.0)})

    def offered(self, agent: str) -> Published | None:
        return self.set

    def file(self, sha256: str) -> bytes | None:
        return self.contents.get(sha256)

    def tick(self, now: float, connected: Any) -> None: ...


class Home:
    """Builds one SessionService whose journal, authority, store and library are in memory."""

    def __init__(self, clock: Clock, *quotas: str) -> None:
        self.clock = clock
        self.quotas: Quotas = read_quotas(quotas)
        self.journal, self.authority, self.store = FakeJournal(), FakeAuthority(), FakeStore()
        self.library, self.pinned = FakeLibrary(cpu=b"return {}"), ("", "")
        self.house = SessionService(
            clock, self.authority, self.journal, self.store, self.library,  # type: ignore[arg-type]
            add_statements=lambda published: published.envelope, pinned=lambda: self.pinned, minimum=(0, 1),
            quotas=self.quotas, wall=lambda: WALL + clock.seconds(), steady=clock.seconds,
        )  # fmt: skip
        self.journal.house = self.house
        self.targets: list[tuple[str, str]] = []
        self.ended = 0

    def agent(self, name: str = "web-1", version: int = 2) -> Peer:
        peer = Peer(self.house, self.clock, name, version).hello()
        peer.conversation.speaks_v2 = version == 2  # its schedule is on its way
        self.clock.advance(0)
        return peer

    def turn(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)

    def ask(self, *patterns: str, timeout: float = 10.0, check: str = "cpu") -> None:
        agents = self.house.roster.matching(patterns)
        self.house.ask(check, agents, {}, timeout, self.target, self.end)
        self.turn()

    def target(self, target: Any) -> None:
        self.targets.append((target.agent, target.outcome))

    def end(self) -> None:
        self.ended += 1
