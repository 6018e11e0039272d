"""Stores tasks, policies and schedules in the tables of SQLite.

One connection, used by one thread at a time. Big params and outcomes lie in tables of their own, because SQLite
rewrites a whole row for each change of state, and they may have megabytes.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter

from attrs import field, frozen
from msgspec import Struct
from msgspec.structs import replace

from zerotask.storage.faults import BodyMissing
from zerotask.storage.task_clock import KeptClock
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import COLUMNS, Task

INLINE = 1_024  # bytes of params or outcome that lie in the task's own row; more would spill over its page
CACHED_TASKS = 4_096  # rows kept as values: a task on its way is read four times within milliseconds
MISSED_KEPT = 1_000  # missed runs of one schedule that stay on record

_FIND = f"SELECT {', '.join(COLUMNS)} FROM tasks"
_ADDED = COLUMNS[1:]
_ADD = f"INSERT INTO tasks ({', '.join(_ADDED)}) VALUES ({', '.join('?' * len(_ADDED))})"
_added = attrgetter(*_ADDED)
# The columns that change after the submission.
_CHANGING = (
    *("due", "state", "attempts", "node", "lease", "claimed", "updated", "status", "detail", "lost_by", "failed_by"),
    *("expires", "params", "outcome", "returned", "losses"),
)
_SAVE = f"UPDATE tasks SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE seq = ?"
_saved = attrgetter(*_CHANGING, "seq")
_QUEUED = "id, method, priority, seq, due, losses"


class QueuedTask(Struct, frozen=True):
    """Describes a queued task as far as the ready window needs it. `due`: task-clock seconds.

    A suspect was held by a node that was lost: it may be what ended the node.
    """

    id: str
    method: str
    priority: int
    seq: int
    due: float
    losses: int = 0

    @property
    def suspect(self) -> bool:
        """Return True if a node was lost with it."""
        return self.losses > 0


@frozen
class Schedule:
    """Holds a cron line and the task that it submits.

    `done`: unix seconds up to which its runs are dealt with. `ahead`: how far that was once, under a clock that was
    ahead; 0 if it never was. `begun`: unix seconds from which it is to be run; 0 before the first look at it.
    """

    name: str
    line: str
    zone: str
    method: str
    params: bytes
    options: bytes
    catch_up: bool = field(converter=bool)
    done: float
    ahead: float = 0.0
    begun: float = 0.0


class SqlTaskTable:
    """Stores tasks, policies and schedules in SQLite; the TaskTable of the ledger.

    It begins and ends no transaction. Every method raises sqlite3.Error if the database fails.
    """

    def __init__(self, connection: sqlite3.Connection, cached: int = CACHED_TASKS) -> None:
        self.connection = connection
        self._sql = connection.execute
        self._cache: OrderedDict[str, Task] = OrderedDict()
        self._cached = cached

    def _keep(self, task: Task) -> None:
        if self._cached:
            self._cache[task.id] = task
            if len(self._cache) > self._cached:
                self._cache.popitem(last=False)

    # -------------------------------------------------------------------------------- for the ledger

    def find(self, task_id: str) -> Task | None:
        """Return the task of this id, without bodies that have a row of their own; None if there is none."""
        task = self._cache.get(task_id)
        if task is None:
            row = self._sql(f"{_FIND} WHERE id = ?", (task_id,)).fetchone()
            task = None if row is None else Task(*row)
        return task

    def add(self, task: Task) -> Task:
        """Insert a task and return it with its seq."""
        params, big = task.params, len(task.params or b"") > INLINE
        task = replace(task, params=None) if big else task
        cursor = self._sql(_ADD, _added(task))
        task = replace(task, seq=cursor.lastrowid)
        if big:
            self._sql("INSERT INTO params VALUES (?, ?)", (task.seq, params))
        self._keep(task)
        return task

    def save(self, task: Task) -> None:
        """Update the row of a task."""
        self._sql(_SAVE, _saved(task))
        self._keep(task)

    def save_ended(self, task: Task) -> None:
        """Update the row of a task and store its outcome."""
        outcome = task.outcome
        if len(outcome or b"") > INLINE:
            task = replace(task, outcome=None)
            self._sql("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (task.seq, outcome))
        self.save(task)

    def save_expired(self, task: Task) -> None:
        """Update the row of a task and delete its params and outcome."""
        self.save(task)
        self._drop_bodies(task)

    def delete(self, task: Task) -> None:
        """Delete a task with its params and outcome."""
        self._sql("DELETE FROM tasks WHERE seq = ?", (task.seq,))
        self._drop_bodies(task)
        self._cache.pop(task.id, None)

    def _drop_bodies(self, task: Task) -> None:
        self._sql("DELETE FROM params WHERE seq = ?", (task.seq,))
        self._sql("DELETE FROM outcomes WHERE seq = ?", (task.seq,))

    def params(self, task: Task) -> bytes:
        """Return the params of a task as JSON."""
        if task.params is not None:
            return task.params
        return self._body(task, "SELECT params FROM params WHERE seq = ?")

    def outcome(self, task: Task) -> bytes:
        """Return the outcome of an ended task as JSON."""
        if task.outcome is not None:
            return task.outcome
        return self._body(task, "SELECT outcome FROM outcomes WHERE seq = ?")

    def _body(self, task: Task, query: str) -> bytes:
        row = self._sql(query, (task.seq,)).fetchone()
        if row is None:
            raise BodyMissing(f"a part of task {task.id} is missing")
        return bytes(row[0])

    def is_lost(self, task_id: str) -> bool:
        """Return True if a task was lost when the database was damaged."""
        return self._sql("SELECT 1 FROM damaged WHERE id = ?", (task_id,)).fetchone() is not None

    def has_suspect(self, lease: int, losses: int, since: float) -> bool:
        """Return True if a task that lost at least so many nodes is held under a lease, claimed after `since`.

        `since`: task-clock seconds.
        """
        query = "SELECT 1 FROM tasks WHERE lease = ? AND lease > 0 AND losses >= ? AND claimed > ? LIMIT 1"
        return self._sql(query, (lease, losses, since)).fetchone() is not None

    def under_lease(self, lease: int, limit: int) -> Iterable[Task]:
        """Return the tasks that are held under a lease, oldest first."""
        return self._tasks("WHERE lease = ? AND lease > 0 ORDER BY seq LIMIT ?", lease, limit)

    def overrun(self, now: float, grace: float, limit: int) -> Iterable[Task]:
        """Return held tasks that exceed their time limit by `grace` seconds at `now` (task-clock seconds)."""
        return self._tasks("WHERE lease > 0 AND claimed + time_limit + ? <= ? ORDER BY seq LIMIT ?", grace, now, limit)

    def move_claims(self, seconds: float) -> None:
        """Move the claim of all held tasks by `seconds`, and with it the end of their time limits."""
        self._sql("UPDATE tasks SET claimed = claimed + ? WHERE lease > 0", (seconds,))
        self._cache.clear()

    def expired(self, now: float, limit: int) -> Iterable[Task]:
        """Return tasks with a result, or an id, that has come to its end at `now` (task-clock seconds)."""
        return self._tasks("WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT ?", now, limit)

    def _tasks(self, where: str, *values: float) -> list[Task]:
        return [Task(*row) for row in self._sql(f"{_FIND} {where}", values)]

    # -------------------------------------------------------------------------------- for the broker

    def leases(self) -> list[tuple[int, str]]:
        """Return each lease under which tasks are held, with its node."""
        return list(self._sql("SELECT DISTINCT lease, node FROM tasks WHERE lease > 0 ORDER BY lease"))

    def queued_methods(self, limit: int) -> list[str]:
        """Return the methods of queued tasks, due or not.

        The query steps from one method to the next in the index, so it costs nothing for the tasks in between.
        """
        rows = self._sql(
            "WITH RECURSIVE waiting (method) AS ("
            " SELECT min(method) FROM tasks INDEXED BY tasks_queue WHERE state = 'queued' UNION ALL"
            " SELECT (SELECT min(method) FROM tasks INDEXED BY tasks_queue WHERE state = 'queued'"
            " AND method > waiting.method) FROM waiting WHERE waiting.method IS NOT NULL LIMIT ?"
            ") SELECT method FROM waiting WHERE method IS NOT NULL",
            (limit,),
        )
        return [row[0] for row in rows]

    def due_tasks(self, method: str, now: float, limit: int) -> list[QueuedTask]:
        """Return the first queued tasks of a method that are due, in the order of work. `now`: task-clock seconds."""
        rows = self._sql(
            f"SELECT {_QUEUED} FROM tasks INDEXED BY tasks_queue"
            " WHERE state = 'queued' AND method = ? AND due <= ? ORDER BY priority DESC, seq LIMIT ?",
            (method, now, limit),
        )
        return [QueuedTask(*row) for row in rows]

    def newly_due(self, after: tuple[float, int], now: float, limit: int) -> list[QueuedTask]:
        """Return delayed tasks that are due at `now` and come behind `after`, the (due, seq) of the last one seen.

        `now` and due are task-clock seconds.
        """
        rows = self._sql(
            f"SELECT {_QUEUED} FROM tasks INDEXED BY tasks_delayed"
            " WHERE state = 'queued' AND due > submitted AND (due, seq) > (?, ?) AND due <= ?"
            " ORDER BY due, seq LIMIT ?",
            (*after, now, limit),
        )
        return [QueuedTask(*row) for row in rows]

    def next_due(self, now: float) -> float | None:
        """Return when the next delayed task becomes due after `now`, None if there is none; both task-clock seconds."""
        row: tuple[float | None] = self._sql(
            "SELECT min(due) FROM tasks INDEXED BY tasks_delayed"
            " WHERE state = 'queued' AND due > submitted AND due > ?",
            (now,),
        ).fetchone()
        return row[0]

    def counts(self) -> dict[str, int]:
        """Return how many tasks there are in each state."""
        return dict(self._sql("SELECT state, count(*) FROM tasks GROUP BY state ORDER BY state"))

    def page(self, state: str | None, method: str | None, before: int, limit: int) -> list[Task]:
        """Return tasks with a smaller seq than `before`, newest first; None for a state or method means all."""
        values: list[str | int] = [before]
        where = "WHERE seq < ?"
        for column, value in (("state", state), ("method", method)):
            if value is not None:
                where += f" AND {column} = ?"
                values.append(value)
        rows = self._sql(f"{_FIND} {where} ORDER BY seq DESC LIMIT ?", [*values, limit])
        return [Task(*row) for row in rows]

    def clock(self) -> KeptClock | None:
        """Return what is kept of the clock, None in a new store."""
        row = self._sql("SELECT seen, ahead FROM clock WHERE id = 1").fetchone()
        return None if row is None else KeptClock(*row)

    def save_clock(self, clock: KeptClock) -> None:
        """Keep the clock for the next start."""
        self._sql("INSERT OR REPLACE INTO clock VALUES (1, ?, ?)", (clock.seen, clock.ahead))

    def move_delays(self, seconds: float) -> None:
        """Let delayed tasks come due `seconds` earlier: for so long the store was not in use, and its clock stood."""
        self._sql("UPDATE tasks SET due = due - ? WHERE state = 'queued' AND due > submitted", (seconds,))
        self._cache.clear()

    def policies(self) -> dict[str, bytes]:
        """Return the policy of each method as JSON."""
        return {method: bytes(policy) for method, policy in self._sql("SELECT method, policy FROM policies")}

    def save_policy(self, method: str, policy: bytes) -> None:
        """Store the policy of a method."""
        self._sql("INSERT OR REPLACE INTO policies VALUES (?, ?)", (method, policy))

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""
        rows = self._sql(
            "SELECT name, line, zone, method, params, options, catch_up, done, ahead, begun"
            " FROM schedules ORDER BY name"
        )
        return [Schedule(*row) for row in rows]

    def save_schedule(self, s: Schedule) -> None:
        """Store a schedule in place of the one with its name, if there is one."""
        row = (s.name, s.line, s.zone, s.method, s.params, s.options, int(s.catch_up), s.done, s.ahead, s.begun)
        self._sql("INSERT OR REPLACE INTO schedules VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def delete_schedule(self, name: str) -> bool:
        """Delete a schedule and the record of its missed runs; return False if there was none."""
        self._sql("DELETE FROM missed WHERE name = ?", (name,))
        return self._sql("DELETE FROM schedules WHERE name = ?", (name,)).rowcount > 0

    def missed(self, name: str) -> list[float]:
        """Return the times (unix seconds) at which a schedule should have run and did not, newest first."""
        return [row[0] for row in self._sql("SELECT due FROM missed WHERE name = ? ORDER BY due DESC", (name,))]

    def add_missed(self, name: str, due: Iterable[float], now: float) -> None:
        """Record missed runs that were found at `now`, and keep the newest MISSED_KEPT of the schedule.

        `now` and the times in `due` are unix seconds.
        """
        rows = [(name, time, now) for time in due][-MISSED_KEPT:]
        self.connection.executemany("INSERT OR IGNORE INTO missed VALUES (?, ?, ?)", rows)
        self._sql(
            "DELETE FROM missed WHERE name = ?1 AND due NOT IN"
            " (SELECT due FROM missed WHERE name = ?1 ORDER BY due DESC LIMIT ?2)",
            (name, MISSED_KEPT),
        )

    def delete_missed(self, name: str, due: float) -> None:
        """Take a run off the record of missed ones: it has been run after all. `due`: unix seconds."""
        self._sql("DELETE FROM missed WHERE name = ? AND due = ?", (name, due))

    def lost_tasks(self, limit: int) -> list[tuple[str, float]]:
        """Return the ids of tasks that were lost by damage, and when that was noticed (unix seconds), newest first."""
        return list(self._sql("SELECT id, noticed FROM damaged ORDER BY noticed DESC, id LIMIT ?", (limit,)))

    def count_lost(self) -> int:
        """Return how many tasks are on record as lost."""
        (count,) = self._sql("SELECT count(*) FROM damaged").fetchone()
        return int(count)

    def forget_lost(self) -> int:
        """Take all lost tasks off the record; return how many there were."""
        return int(self._sql("DELETE FROM damaged").rowcount)

    def probe(self, now: float) -> None:
        """Write a page, to find out if writing works. `now`: unix seconds."""
        self._sql("INSERT OR REPLACE INTO probe VALUES (1, ?)", (now,))


def sql_table(ledger: Ledger) -> SqlTaskTable:
    """Return the table of a ledger that works on SQLite: it has methods that the rules do not need."""
    assert isinstance(ledger.table, SqlTaskTable)
    return ledger.table
