"""The broker: texts in, texts out, and what time does. It opens no socket and reads no clock of its own.

`receive` takes one text of one connection; its answer goes out through `send` when all of it is known, which for most
methods is after the store's commit. `tick` has to be called every TICK seconds: leases lapse, delayed tasks come due,
announcements repeat, results expire. `now` is monotonic time, `wall` is UNIX time; only tasks live by the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from msgspec import Raw
from twisted.logger import Logger

from zerotask import client_calls, cron, errors, jsonrpc, methods, node_calls, operator_calls
from zerotask.board import SERVED_MOST
from zerotask.errors import RpcError
from zerotask.jsonrpc import Call, Fault
from zerotask.ledger import FINISHED, LIVE, QUEUED, SWEEP, Ledger, Notice, Task
from zerotask.office import Invocation, Office, Send
from zerotask.roster import BEAT, Caller, Leases
from zerotask.shelf import SqlShelf, Waiting
from zerotask.store import Recovery, Store

TICK = 0.25  # seconds; how late a lapse, a delay or a backoff may come
REPEAT = 1.0  # seconds between announcements of what nobody has claimed
BUNDLE = 256 * 1024  # bytes of notifications in one message
SWEEP_EVERY = 5.0  # seconds between looks for expired results and overrun time limits
CRON_MOST = 60.0  # seconds between looks at the schedules, however far the next run is: clocks are set now and then
STOCK_EVERY = 300.0  # seconds between looks at all that waits, for what a clock set back may have kept off the board
WAKE_MOST = 1_000  # delayed tasks that come due in one read of the store

Publish = Callable[[bytes], None]


class Broker:
    """One store, one set of names, one board.

    `send(line, text)` says whether the line is still there; `publish(text)` is heard by whoever listens.
    """

    _log = Logger()

    def __init__(self, store: Store, found: Recovery, send: Send, publish: Publish, now: float, wall: float) -> None:
        leases = Leases(1 + max((lease for lease, _ in found.leases), default=0))
        for lease, node in found.leases:
            leases.orphan(lease, node, now)
        self.office = Office(store, send, leases, node_calls.policies_of(found.policies))
        self._publish, self._now, self._wall = publish, now, wall
        self._calls = {
            **client_calls.calls(self.office),
            **node_calls.calls(self.office),
            **operator_calls.calls(self.office),
        }
        self._woken: tuple[float, int] = (wall - TICK, 0)  # due and seq of the last delayed task that was let in
        self._wake: float | None = wall  # when to look for the next
        self._due = {self._repeat: now, self._beat: now, self._sweep: now, self._look_again: now + STOCK_EVERY}
        self.office.cron_due = now
        store.on_notices, store.on_trouble = self._noticed, self._troubled
        self._take_stock()

    # ----------------------------------------------------------------------------------------- calls come

    def receive(self, caller: Caller, text: bytes, now: float, wall: float) -> None:
        """One text of a connection."""
        self._now, self._wall = now, wall
        incoming = jsonrpc.parse(text)
        wanted = sum(isinstance(entry, Fault) or entry.id is not None for entry in incoming.entries)
        reply = _Reply(wanted, incoming.batch, lambda answer: self._reply(caller, answer))
        for entry in incoming.entries:
            if isinstance(entry, Fault):
                reply.put(entry.id, None, entry.error)
            else:
                self._call(caller, entry, reply)

    def _call(self, caller: Caller, call: Call, reply: _Reply) -> None:
        def answer(value: Any, error: RpcError | None) -> None:
            if call.id is not None:
                reply.put(call.id, value, error)

        try:
            name, method = methods.find(call.method)
            if method.operator and not caller.operator:
                raise RpcError(errors.UNAUTHORISED, f"{name} is for operators; call it through the control socket")
            args = methods.bind(name, method, call.params)
            self._calls[name](Invocation(caller, args, self._now, self._wall, answer))
        except RpcError as error:
            answer(None, error)
        except Exception:
            self._log.failure("A call of {method} failed", method=call.method)
            answer(None, RpcError(errors.INTERNAL, "the broker failed; its log says how"))

    def _reply(self, caller: Caller, text: bytes) -> None:
        """An answer that finds nobody may have been a task given to a node that is gone."""
        if not self.office.send(caller.line, text):
            self.hung_up(caller, self._now)

    def hung_up(self, caller: Caller, now: float) -> None:
        """A connection is known to be gone."""
        self._now = now
        holder = self.office.nodes.on_line(caller.line)
        if holder is not None:
            self.office.lose(holder.name, now)
        client = self.office.clients.on_line(caller.line)
        if client is not None:
            self.office.clients.remove(client.name)

    # ------------------------------------------------------------------------------------ the store tells

    def _noticed(self, notices: list[Notice], wall: float) -> None:
        """A transaction has been committed at `wall`."""
        board, self._wall = self.office.board, max(self._wall, wall)
        fresh: list[Waiting] = []
        ends: dict[Hashable, list[bytes]] = {}
        for notice in notices:
            task = notice.task
            self.office.note_life(task)
            if notice.stop and notice.holder:
                self.office.tell(notice.holder, jsonrpc.notification(methods.CANCEL, [task.id]))
            if task.state in LIVE:
                board.remove(task.id)
                board.holds(task.node, task.id)
                continue
            board.freed(notice.holder, task.id)
            if task.state == QUEUED:
                fresh += self._queued(Waiting(task.id, task.method, task.priority, task.seq, task.due))
            else:
                board.remove(task.id)
                self.office.waiters.ended(notice)
                self._ended(task, ends)
        self._announce(fresh)
        for line, texts in ends.items():
            self._tell_ends(line, texts)

    def _ended(self, task: Task, ends: dict[Hashable, list[bytes]]) -> None:
        """For the client that submitted it, if it is here and wants to know."""
        holder = self.office.clients.get(task.client)
        if holder is not None and holder.told and holder.key == task.key and task.outcome is not None:
            told = [task.id, task.state == FINISHED, Raw(task.outcome)]
            ends.setdefault(holder.line, []).append(jsonrpc.notification(methods.TASK_ENDED, told))

    def _tell_ends(self, line: Hashable, texts: list[bytes]) -> None:
        """In bundles that fit; what cannot be told is asked for when it is wanted."""
        while texts:
            size = len(texts[0])
            count = 1
            while count < len(texts) and size + len(texts[count]) < BUNDLE:
                size += len(texts[count])
                count += 1
            if not self.office.send(line, jsonrpc.bundle(texts[:count])):
                self.hung_up(Caller(line), self._now)
                return
            texts = texts[count:]

    def _queued(self, task: Waiting) -> list[Waiting]:
        """The task if it is new on the board now."""
        if task.due > self._wall:
            self._wake = task.due if self._wake is None else min(self._wake, task.due)
            return []
        return [task] if self.office.board.add(task) else []

    def _troubled(self, text: str | None) -> None:
        """Storing fails, or works again; then the board is made up afresh, since it may have missed something."""
        self.office.trouble = text
        if text is None:
            self._log.info("Storing works again; new tasks are taken")
            self.office.board.clear()
            self._take_stock()
        else:
            self._log.error("Nothing can be stored, no new tasks are taken: {text}", text=text)

    def _take_stock(self) -> None:
        """Ask the store which methods wait, and when something comes due."""

        def done(value: Any, error: RpcError | None) -> None:
            if error is None:
                found, self._wake = value
                self.office.board.crowded = len(found) == SERVED_MOST
                for method in found:
                    self.office.board.lacks(method)
                self._fill()

        wall = self._wall
        self.office.store.read(lambda ledger, now: (_shelf(ledger).waiting_methods(SERVED_MOST), wall), done)

    # ---------------------------------------------------------------------------------------- announcing

    def _announce(self, tasks: list[Waiting]) -> None:
        """Tell nodes with free slots; what none of them was offered is published at once, the rest if it stays."""
        self._offer()
        for task in tasks:
            if not self.office.board.is_offered(task.id):
                self._publish(jsonrpc.notification(methods.NEW_TASK, [task.method, task.id]))

    def _offer(self) -> None:
        """Tell nodes of tasks. One that cannot be told is gone, and what it held or was offered is for others."""
        board, lost = self.office.board, True
        offers: dict[str, list[bytes]]
        while lost:
            lost, offers = False, {}
            for offer in board.offers(self._now):
                text = jsonrpc.notification(methods.NEW_TASK, [offer.task.method, offer.task.id])
                offers.setdefault(offer.node, []).append(text)
            for node, texts in offers.items():
                if node in self.office.served and not self.office.tell(node, jsonrpc.bundle(texts)):
                    self.office.lose(node, self._now)
                    lost = True

    def _fill(self) -> None:
        """Bring tasks from the store to the board where it has run low."""
        for method in self.office.board.thirsty():
            self._fill_one(method, self.office.board.filling(method))

    def _fill_one(self, method: str, limit: int) -> None:
        def done(value: Any, error: RpcError | None) -> None:
            if error is not None:
                self.office.board.unfilled(method)
                return
            self._announce(self.office.board.filled(method, value, limit))

        self.office.store.read(lambda ledger, now: _shelf(ledger).heads(method, now, limit), done)

    def _wake_up(self) -> None:
        """Let in what has come due."""
        board, after = self.office.board, self._woken

        def job(ledger: Ledger, now: float) -> Any:
            shelf = _shelf(ledger)
            return shelf.woken(after, now, WAKE_MOST), shelf.next_due(now)

        def done(value: Any, error: RpcError | None) -> None:
            if error is not None:
                board.read([])
                self._wake = self._wall + REPEAT
                return
            tasks, upcoming = value
            self._announce([task for task in board.read(tasks) if board.add(task)])
            self._woken = max([self._woken, *((task.due, task.seq) for task in tasks)])
            upcoming = self._wall if len(tasks) == WAKE_MOST else upcoming
            self._wake = min((time for time in (self._wake, upcoming) if time is not None), default=None)

        self._wake = None
        board.reading()
        self.office.store.read(job, done)

    # ---------------------------------------------------------------------------------------------- time

    def tick(self, now: float, wall: float) -> None:
        self._now, self._wall = now, wall
        office = self.office
        for holder in office.nodes.silent(now):
            self._log.info("Node {node} is silent; its tasks are queued again", node=holder.name)
            office.lose(holder.name, now)
        for lease, node in office.leases.lapsed(now):
            office.lapse(lease, node, now)
        office.board.withdraw_old(now)
        office.waiters.give_up(now)
        if self._wake is not None and self._wake <= wall:
            self._wake_up()
        if office.cron_due is not None and office.cron_due <= now:
            self._run_schedules()
        for chore, due in list(self._due.items()):
            if due <= now:
                chore()
        self._fill()
        self._offer()

    def _repeat(self) -> None:
        self._due[self._repeat] = self._now + REPEAT
        self._announce(self.office.board.repeats())
        if self.office.board.has_room():
            self._take_stock()

    def _look_again(self) -> None:
        self._due[self._look_again] = self._now + STOCK_EVERY
        self._take_stock()

    def _beat(self) -> None:
        """Ask all nodes for a sign of life. Those that can be told directly are lost at once if they cannot be."""
        self._due[self._beat] = self._now + BEAT
        text = jsonrpc.notification(methods.NODE_STATUS, [])
        self._publish(text)
        for node in list(self.office.served):
            if not self.office.tell(node, text):
                self.office.lose(node, self._now)

    def _run_schedules(self) -> None:
        """Tasks of cron lines whose time has come. A look that fails is repeated, and costs no run."""
        self.office.cron_due = None

        def done(value: Any, error: RpcError | None) -> None:
            again = None if error is None and value is None else CRON_MOST
            if error is None and value is not None:
                again = min(max(value - self._wall, 0.0), CRON_MOST)
            due = None if again is None else self._now + again
            if due is not None and (self.office.cron_due is None or due < self.office.cron_due):
                self.office.cron_due = due

        self.office.store.write(lambda ledger, now: cron.run_due(ledger, _shelf(ledger), now), done)

    def _sweep(self) -> None:
        """Once more at once while there is a full step's worth."""
        self._due[self._sweep] = self._now + SWEEP_EVERY

        def done(value: Any, error: RpcError | None) -> None:
            if error is None and value >= SWEEP:
                self._sweep()

        def job(ledger: Ledger, now: float) -> int:
            return max(ledger.expire(now), ledger.overrun(now))

        if self.office.trouble is None:
            self.office.store.write(job, done, durable=False)


class _Reply:
    """The answers to one text, sent when all are there. None is sent where none is wanted."""

    def __init__(self, wanted: int, batch: bool, send: Callable[[bytes], None]) -> None:
        self._wanted, self._batch, self._send = wanted, batch, send
        self._answers: list[bytes] = []
        self._size = 0

    def put(self, id: bytes, value: Any, error: RpcError | None) -> None:
        text = jsonrpc.failure(id, error) if error is not None else jsonrpc.result(id, value)
        if not self._batch:
            if len(text) > jsonrpc.MAX_TEXT:
                said = "the answer does not fit into one message; ask for less at once"
                text = jsonrpc.failure(id, RpcError(errors.OVERLOADED, said))
            self._send(text)
            return
        if self._size + len(text) > methods.MAX_BODY:
            said = "the answers of this batch do not fit into one message; ask for this one alone"
            text = jsonrpc.failure(id, RpcError(errors.OVERLOADED, said))
        self._size += len(text)
        self._answers.append(text)
        if len(self._answers) == self._wanted:
            self._send(jsonrpc.batch(self._answers))


def _shelf(ledger: Ledger) -> SqlShelf:
    assert isinstance(ledger.shelf, SqlShelf)
    return ledger.shelf
