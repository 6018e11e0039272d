"""Counts calls of Python's own functions that a report costs on its way through Helen: exact and bounded, on any
machine.

All parts are real and connected by wiring.py; the threads of the journal have nothing to do, and what they would is
done here. A figure that grows is a slower Helen: find out what has come in, before it is raised.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from call_counts import Counting
from helen_parts import WALL, Transport
from twisted.internet.task import Clock

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from helen import wiring
from helen.journal.stored import stored_result
from helen.journal.values import Batch, Change, Entry, Origin, StoredChange
from helen.journal.writer import Writer
from helen.parts import Parts
from helen.sessions.connection import AgentConnection
from helen.settings.settings import Settings
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.model import Rule

DOCUMENT = json.dumps(
    {
        "status": "ok", "summary": "/ used 40.2 %",
        "metrics": [
            {"name": name, "value": 1.5, "unit": "%", "kind": "gauge", "labels": {"path": "/"}, "warn": "80"}
            for name in ("used", "free")
        ],
        "check": "disk", "code": "c" * 64, "started": WALL, "took_ms": 3.5,
    }
).encode()  # fmt: skip
EACH = 200  # results of one count: a batch more or less is then a fraction of a call


class Inert(Clock):
    """Is a reactor whose threads do nothing, so that all that is counted is done in this one; no time
    passes in a turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = itertools.repeat(0.0).__next__  # type: ignore[method-assign]  # no call of Python, as in Helen
        self.asked: deque[tuple[Any, ...]] = deque()  # by other threads: the list of a Clock is sorted by this one

    def callFromThread(self, *asked: Any) -> None:
        self.asked.append(asked)

    def advance(self, amount: float) -> None:
        """Make the calls that were asked for, in the order in which they were."""
        while self.asked:
            self.callLater(0, *self.asked.popleft())
        super().advance(amount)

    def callInThread(self, function: Any, *given: Any) -> None:
        """Do nothing."""

    def getThreadPool(self) -> Any:
        return self

    callInThreadWithCallback = callInThread


class Wire(Transport):
    """Keeps what is written without a call of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.write = self.sent.extend


class Wired:
    """Builds a whole Helen with agents that are connected in memory, without TLS."""

    def __init__(self, folder: Path) -> None:
        self.clock = Inert()
        # Nothing is encrypted here, and an agent is who it says it is.
        chosen = Settings(folder, insecure_plaintext=True)
        self.parts: Parts = wiring.wire(self.clock, chosen, print, print).parts
        # All clocks stand still: however slow the machine, no slice ends and no clock is looked at anew.
        watch, still = self.parts.clock, itertools.repeat(1_000.0).__next__
        watch._wall, watch._steady = itertools.repeat(WALL).__next__, still
        watch.begin()
        self.parts.sessions.steady = lambda: 1_000.0
        self.parts.evaluator._steady = still
        self.at = 100
        self.sequence = 0
        self.batches: list[Batch] | None = None  # kept, if it is a list, instead of being given to all that read them
        hand_over: Any = self.parts.journal._writer._hand_over  # type: ignore[union-attr]
        hand_over._steady = still
        hand_over._on_durable = hand_over._digest.__self__._on_durable = self.durable
        self.hand_over(self.change("helen_start", {}))

    def change(self, kind: str, document: dict[str, Any], agent: str | None = None) -> StoredChange:
        self.at += 1
        said = document if agent is None else {"agent": agent, **document}
        return StoredChange(self.at, Change(kind, WALL, agent, None, json.dumps(said).encode()))

    def hand_over(self, *records: Any) -> None:
        """Give durable records to all that read them, and let the reactor turn until they have."""
        self.parts.journal._on_durable(Batch(records=records))
        for _ in range(3):
            self.clock.advance(0)

    def agent(self, name: str) -> AgentConnection:
        connection = AgentConnection(self.parts.sessions, encrypted=False)
        connection.makeConnection(Wire())
        connection.dataReceived(Conversation(Role.EQUUS).send(m.Hello(2, f"0.1.0;name={name}")))
        rules = AgentRules({}, {"disk": Rule(stale=600.0)})
        self.hand_over(self.change("rule", rules_to_json(rules), name), self.change("link", {"event": "up"}, name))
        self.take()
        return connection

    def write(self, entries: list[Any]) -> None:
        """Have the journal take results, write them, and hand them back."""
        journal = self.parts.journal
        for entry in entries:
            journal.append(entry)
        writer = journal._writer
        assert writer is not None and writer._commit(self.take())
        while writer._hand_over._records:
            self.clock.advance(0)

    def durable(self, batch: Batch) -> None:
        """Give a batch to all that read it, or keep it."""
        if self.batches is None:
            self.parts.journal._on_durable(batch)
        else:
            self.batches.append(batch)

    def take(self) -> list[Any]:
        """Take what was queued for the journal's writer, which does not run."""
        return self.parts.journal._intake.take(2**40, 10**6)

    def entries(self, agents: int) -> list[Any]:
        """Return the next results, of all agents in turn."""
        made = []
        for number in range(EACH):
            if number % agents == 0:
                self.sequence += 1
            name = f"a-{number % agents}"
            made.append(Entry(name, "disk", None, "s", self.sequence, Origin.SCHEDULED, WALL + 0.1, DOCUMENT))
        return made

    def batch(self, agents: int) -> tuple[Any, ...]:
        """Return the next results as they come back from the disk."""
        made = []
        for entry in self.entries(agents):
            self.at += 1
            made.append(stored_result(self.at, entry))
        return tuple(made)


@pytest.fixture
def wired(tmp_path: Path, no_threads: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wired]:
    monkeypatch.setattr(Writer, "start", lambda self: None)
    monkeypatch.setattr(Writer, "join", lambda self, seconds: True)
    made = Wired(tmp_path)
    yield made
    made.parts.journal.close()
    made.parts.store.close()


def each(counts: Counting) -> dict[str, int]:
    """Return the functions that ran at least once for each result, and how often."""
    return {name: round(number / EACH) for name, number in counts.names.items() if number >= EACH}


def report(sequence: int) -> bytes:
    return b"report s %d disk %d\n%b\n" % (sequence, len(DOCUMENT), DOCUMENT)


@pytest.mark.parametrize(("at_once", "most"), [(1, 12.5), (EACH // 4, 12.5)])
def test_from_the_bytes_to_the_queue(wired: Wired, at_once: int, most: int) -> None:
    """Reports in records of one, and in reads of many, cost so many calls in protocol, quotas and the
    journal's queue.
    """
    connection = wired.agent("a-0")
    take = connection.recordReceived if at_once == 1 else connection.dataReceived
    chunks = [
        b"".join(report(first + number) for number in range(at_once))
        for first in range(1, 2 * EACH + 1, at_once)
    ]  # fmt: skip
    half = len(chunks) // 2
    for chunk in chunks[:half]:
        take(chunk)
    with Counting() as counts:
        for chunk in chunks[half:]:
            take(chunk)
    assert len(wired.take()) == 2 * EACH
    assert counts.all / EACH <= most, counts.names.most_common()


def test_from_a_check_to_the_queue(wired: Wired) -> None:
    """A result of a check that Helen asked for costs so many calls to the journal's queue, with the next check written
    at once.
    """
    connection = wired.agent("a-0")
    for _ in range(2):
        with Counting() as counts:
            for _ in range(EACH):
                number = connection.check("disk", b"{}")
                connection.recordReceived(b"result %d disk %d\n%b\n" % (number, len(DOCUMENT), DOCUMENT))
        assert len(wired.take()) == EACH
    assert counts.all / EACH <= 22.5, counts.names.most_common()


@pytest.mark.parametrize("agents", [1, EACH])
def test_from_the_queue_to_the_rows(wired: Wired, agents: int) -> None:
    """A result costs so many calls in the journal: counted, made durable, acknowledged, decoded once, put among the
    rows.
    """
    wired.batches = []
    wired.write(wired.entries(agents))
    entries = wired.entries(agents)
    with Counting() as counts:
        wired.write(entries)
    assert sum(len(batch.records) for batch in wired.batches) == 2 * EACH
    expected = {
        "append": 1, "entry": 1, "add": 1, "encode_entry": 1, "push": 1, "_stored": 1,
        "stored_result": 1, "read_document": 1, "_read_plain": 1, "_complete": 1, "done": 1,
    }  # fmt: skip
    acks = {"__init__": 1} if agents == EACH else {}
    assert each(counts) == expected | acks
    assert counts.all / EACH <= sum((expected | acks).values()) + 1.5, counts.names.most_common()


def test_from_the_disk_to_the_states(wired: Wired) -> None:
    """An unchanged result costs so many calls on its way through roster, timeline, gates, telemetry and events."""
    for number in range(EACH):
        wired.agent(f"a-{number}")
    for _ in range(3):
        wired.hand_over(*wired.batch(EACH))
    batch = wired.batch(EACH)
    with Counting() as counts:
        wired.hand_over(*batch)
    assert wired.parts.evaluator.at == wired.at
    assert wired.parts.evaluator.timeline.states["a-0", "disk"].seen.sequence == wired.sequence
    assert each(counts) == {
        "_estimate_clock": 1, "record_of": 1, "calm": 1,
        "__init__": 4,  # Result, Newest, Seen, State
    }  # fmt: skip
    assert counts.all / EACH <= 7.5, counts.names.most_common()


def test_from_the_disk_to_the_agent(wired: Wired) -> None:
    """An acknowledgement for each report costs so many calls: found, written, and sent in the next turn."""
    connections = [wired.agent(f"a-{number}") for number in range(EACH)]
    for connection in connections:
        connection.transport.sent.clear()
    acks = Counter[str]()
    wired.batches = []
    wired.write(wired.entries(EACH))
    with Counting() as counts:
        for batch in wired.batches:
            wired.parts.sessions.results.on_durable(Batch(acks=batch.acks))
        wired.clock.advance(0)
    for connection in connections:
        acks[connection.transport.sent.decode()] += 1
    assert acks == {"ack s 1\n": EACH}
    assert counts.all / EACH <= 6, counts.names.most_common()
