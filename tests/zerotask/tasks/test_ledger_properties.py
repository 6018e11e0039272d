"""Tests the ledger under random orders of events and a random clock, on both task tables; checks follow each event."""

from __future__ import annotations

import random

import pytest
from memory_task_table import MemoryTaskTable

from zerotask.errors import RpcError
from zerotask.storage import schema
from zerotask.storage.task_table import SqlTaskTable
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import ENDED, EXPIRED, FAILED, FINISHED, LIVE, QUEUED, RETURNS_FREE, Options, Submission
from zerotask.wire.jsonrpc import encode

NODES, TASKS, EVENTS = 4, 6, 400
MAY_FOLLOW = {
    QUEUED: {QUEUED, *LIVE, *ENDED},
    "assigned": {*LIVE, QUEUED, *ENDED},
    "running": {*LIVE, QUEUED, *ENDED},
    FINISHED: {FINISHED, EXPIRED},
    FAILED: {FAILED, EXPIRED, QUEUED},  # queued by an operator's retry alone
    EXPIRED: {EXPIRED},
}


class Play:
    """Plays the same random events on two ledgers; nodes have leases that are replaced when they lapse."""

    def __init__(self, seed: int) -> None:
        self.dice, self.now, self.next_lease = random.Random(seed), 0.0, 1
        connection = schema.connect(":memory:")
        connection.executescript(schema.SCHEMA)
        chances = random.Random(seed).random, random.Random(seed).random
        self.memory = Ledger(MemoryTaskTable(), chances[0], encode)
        self.sql = Ledger(SqlTaskTable(connection, cached=seed % 3), chances[1], encode)
        self.connection = connection
        self.leases = {f"n{n}": self._lease() for n in range(NODES)}
        self.claims: dict[str, int] = {}
        self.ends: dict[str, tuple[str, bytes]] = {}

    def _lease(self) -> int:
        self.next_lease += 1
        return self.next_lease

    def both(self, name: str, *args: object) -> tuple[object, RpcError | None]:
        """Call both ledgers, which must say the same, and return the answer."""
        said = [self._said(ledger, name, args) for ledger in (self.memory, self.sql)]
        assert [str(one) for one in said[0]] == [str(one) for one in said[1]], (name, args)
        return said[0]

    @staticmethod
    def _said(ledger: Ledger, name: str, args: tuple[object, ...]) -> tuple[object, RpcError | None]:
        try:
            value = getattr(ledger, name)(*args)
        except RpcError as error:
            return None, error
        return ((value[0].id, value[0].attempts, value[1]) if name == "claim" and value else value), None

    def event(self) -> None:
        dice = self.dice
        task, node = f"t{dice.randrange(TASKS)}", f"n{dice.randrange(NODES)}"
        lease = self.leases[node]
        options = Options(
            dice.randrange(10), dice.choice([0.0, 3.0]), dice.choice([5.0, 900.0]), dice.randrange(1, 5), 40.0
        )
        big = b'["' + b"x" * dice.choice([1, 3000]) + b'"]'
        error = {"code": dice.randrange(9), "message": "m"}
        events = [
            ("submit", Submission(task, "c", "", "m", big, options), self.now),
            ("claim", task, node, lease, self.now),
            ("report", task, node, lease, "s", {"x": 1}, self.now),
            ("finish", task, node, big, self.now),
            ("fail", task, node, error, dice.random() < 0.8, self.now),
            ("lapse", lease, self.now),
            ("release", lease, self.now),
            ("adopt", node, lease, [task, "none"], self.now),
            ("overrun", self.now),
            ("expire", self.now),
            ("cancel", task, self.now, "c"),
            ("retry", task, self.now),
        ]
        name, *args = dice.choices(events, [8, 20, 8, 6, 8, 3, 2, 3, 2, 2, 1, 2])[0]
        value, _ = self.both(name, *args)
        if name in ("lapse", "release"):
            self.leases[node] = self._lease()
        if name == "claim" and value is not None:
            self.claims[task] = self.claims.get(task, 0) + 1
        if (name == "retry" and value) or (name == "submit" and value):
            self.claims[task] = 0
            self.ends.pop(task, None)
        self.now += dice.choice([0.0, 0.1, 1.0, 7.5, 30.0])

    def check(self, before: dict[str, str]) -> None:
        kept: MemoryTaskTable = self.memory.table
        for task_id, task in kept.tasks.items():
            assert self.sql.table.find(task_id).state == task.state
            assert task.state in MAY_FOLLOW[before.get(task_id, QUEUED)], (before.get(task_id), task.state)
            assert (task.lease > 0) == (task.state in LIVE)
            assert (task.node is None) == (task.state == QUEUED) or task.state in (FAILED, EXPIRED)
            assert task.attempts == self.claims.get(task_id, 0)
            assert task.failures <= task.max_attempts and task.losses <= task.max_attempts
            assert 0 <= task.returned <= RETURNS_FREE and task.losses >= 0 and task.failures >= 0
            assert task.state != QUEUED or (task.failures < task.max_attempts and task.losses < task.max_attempts)
            assert (task.expires > 0) == (task.state in (*ENDED, EXPIRED))
            if task.state in ENDED:
                # The first end wins: what was told once is never told otherwise.
                told = task.state, task.outcome
                assert self.ends.setdefault(task_id, told) == told
                assert self.sql.table.outcome(self.sql.table.find(task_id)) == task.outcome
        assert _told(self.memory) == _told(self.sql)
        self.memory.notices, self.sql.notices = [], []


def _told(ledger: Ledger) -> list[tuple[object, ...]]:
    """Return the notices without bodies, which SQLite's table keeps apart when they are big."""
    return [(n.task.id, n.task.state, n.task.due, n.holder, n.stop) for n in ledger.notices]


@pytest.mark.parametrize("seed", range(24))
def test_whatever_happens(seed):
    """A task changes its state only as allowed, never fails or gets lost too often, and has a lease exactly while held.
    The first end stands, attempts are claims, and SQLite's table says what a dict would say.
    """
    play = Play(seed)
    for _ in range(EVENTS):
        before = {task_id: task.state for task_id, task in play.memory.table.tasks.items()}
        play.event()
        play.check(before)
    states = {task.state for task in play.memory.table.tasks.values()}
    play.connection.close()
    assert states


@pytest.mark.parametrize("seed", range(6))
def test_every_task_ends_if_some_node_goes_on(seed):
    """A node that claims and finishes what is due brings every task to its end, after any history."""
    play = Play(seed)
    for _ in range(EVENTS // 4):
        play.event()
    for node, lease in play.leases.items():
        play.both("lapse", lease, play.now)
        play.leases[node] = play._lease()
    play.now += 1000.0
    for task_id in list(play.memory.table.tasks):
        play.both("claim", task_id, "n0", play.leases["n0"], play.now)
        play.both("finish", task_id, "n0", b"1", play.now)
    play.connection.close()
    assert {task.state for task in play.memory.table.tasks.values()} <= {FINISHED, FAILED, EXPIRED}
