"""Handles the calls of clients, nodes and operators, and does what is due as time passes.

It opens no socket and reads no clock of its own, so its tests pass hours in milliseconds. `receive` takes one text of
one connection; the answer goes out through `send` once it is complete, which for most methods is after the commit.
`tick` has to be called every TICK seconds: leases lapse, delayed tasks come due, announcements repeat, results expire.
`now` is monotonic seconds without those in which the process stood still, `wall` is unix seconds. Schedules alone live
by the latter; tasks live by the clock of the store, which no step of the wall clock moves (storage/task_clock.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from msgspec import Raw
from twisted.logger import Logger

from zerotask import errors
from zerotask.broker import client_calls, cron, node_calls, operator_calls
from zerotask.broker.broker_state import BrokerState, Invocation, Send
from zerotask.broker.dispatcher import Dispatcher, Publish
from zerotask.errors import RpcError
from zerotask.storage.database import Recovery, Store
from zerotask.storage.task_clock import KeptClock
from zerotask.storage.task_table import QueuedTask, sql_table
from zerotask.tasks.connections import BEAT, LEASE, Caller, Leases
from zerotask.tasks.lease_ends import SWEEP
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import FINISHED, LIVE, QUEUED, Notice, Task
from zerotask.wire import jsonrpc, methods
from zerotask.wire.jsonrpc import Call, Fault

TICK = 0.25  # seconds; how late a lapse, a delay or a backoff may come
REPEAT = 1.0  # seconds between announcements of tasks that no node has claimed
BUNDLE = 256 * 1024  # bytes of notifications in one message
SWEEP_EVERY = 5.0  # seconds between searches for expired results and exceeded time limits
CRON_MOST = 60.0  # seconds between looks at the schedules, however far the next run is: clocks are set now and then
STEP_LEAST = 1.0  # seconds by which the wall clock moves within a tick if it is set; NTP slews by less
CLOCK_EVERY = 60.0  # seconds between writes of the clock: so much of a run may be forgotten by a kill
METHODS_EVERY = 300.0  # seconds between reads of all queued methods: a clock set back may have hidden a delayed task


class Broker:
    """Owns the state of one broker, and connects its parts.

    `send(connection, text)` returns False if the connection is gone; `publish(text)` goes to all subscribers. `now` is
    monotonic seconds, `wall` unix seconds.
    """

    _log = Logger()

    def __init__(self, store: Store, found: Recovery, send: Send, publish: Publish, now: float, wall: float) -> None:
        leases = Leases(1 + max((lease for lease, _ in found.leases), default=0))
        for lease, node in found.leases:
            leases.orphan(lease, node, now)
        self.state = BrokerState(
            store, send, leases, now, wall, store.clock(), policies=node_calls.policies_of(found.policies),
            damage=found.damage, lost=found.lost,
        )  # fmt: skip
        self._unix_ahead = wall - self.state.at
        self._overrun_from = now + LEASE  # nodes come back first, and report what ended while no broker ran
        self._publish = publish
        self._dispatcher = Dispatcher(self.state, publish)
        self._calls = {
            **client_calls.calls(self.state),
            **node_calls.calls(self.state),
            **operator_calls.calls(self.state),
        }
        self._due: dict[Callable[[], None], float] = {
            self._repeat: now, self._ask_for_beats: now, self._sweep: now, self._read_methods: now + METHODS_EVERY,
            self.keep_clock: now,
        }  # fmt: skip
        self.state.cron_due = now
        store.on_notices.subscribe(self._on_notices)
        store.on_trouble.subscribe(self._on_trouble)
        store.on_damage.subscribe(self._on_damage)
        self._dispatcher.read_methods()

    # ----------------------------------------------------------------------------------------- calls come in

    def receive(self, caller: Caller, text: bytes, now: float, wall: float) -> None:
        """Handle one text of a connection. `now`: monotonic seconds, `wall`: unix seconds."""
        self._set_times(now, wall)
        incoming = jsonrpc.parse(text)
        wanted = sum(isinstance(entry, Fault) or entry.id is not None for entry in incoming.entries)
        reply = _Reply(wanted, incoming.batch, lambda answer: self._reply(caller, answer))
        for entry in incoming.entries:
            if isinstance(entry, Fault):
                reply.put(entry.id, None, entry.error)
            else:
                self._call(caller, entry, reply)

    def _set_times(self, now: float, wall: float) -> None:
        self.state.now, self.state.wall, self.state.at = now, wall, self.state.store.clock()

    def _call(self, caller: Caller, call: Call, reply: _Reply) -> None:
        def answer(value: Any, error: RpcError | None) -> None:
            if call.id is not None:
                reply.put(call.id, value, error)

        try:
            name, method = methods.find(call.method)
            if method.operator and not caller.operator:
                raise RpcError(errors.UNAUTHORISED, f"{name} is for operators; call it through the control socket")
            args = methods.bind(name, method, call.params)
            state = self.state
            invocation = Invocation(caller, args, state.now, state.wall, state.wall - state.at, answer)
            invocation.hold_to(method.action)
            self._calls[name](invocation)
        except RpcError as error:
            answer(None, error)
        except Exception:
            self._log.failure("A call of {method} failed", method=call.method)
            answer(None, RpcError(errors.INTERNAL, "the broker failed; its log says how"))

    def _reply(self, caller: Caller, text: bytes) -> None:
        """Send an answer. If the connection is gone, its node may just have been given a task."""
        if not self.state.send(caller.connection, text):
            self.connection_lost(caller, self.state.now)

    def connection_lost(self, caller: Caller, now: float) -> None:
        """Free the names of a connection that is gone, and its node's tasks. `now`: monotonic seconds."""
        self.state.now = now
        holder = self.state.nodes.on_connection(caller.connection)
        if holder is not None:
            self.state.lose_node(holder.name)
        client = self.state.clients.on_connection(caller.connection)
        if client is not None:
            self.state.clients.remove(client.name)

    # ------------------------------------------------------------------------------------ events of the store

    def _on_notices(self, notices: list[Notice], at: float) -> None:
        """Act on the changes of tasks that a transaction committed at `at` (task-clock seconds)."""
        state, state.at = self.state, max(self.state.at, at)
        fresh: list[QueuedTask] = []
        ends: dict[Hashable, list[bytes]] = {}
        for notice in notices:
            task = notice.task
            state.remember_owner(task)
            if notice.stop and notice.holder:
                state.notify_node(notice.holder, jsonrpc.notification(methods.CANCEL, [task.id]))
            if task.state in LIVE:
                state.window.remove(task.id)
                state.window.claimed(task.node, task.id, task.losses > 0)
                self._dispatcher.forget(task.id)
                continue
            state.window.released(notice.holder, task.id)
            if task.state == QUEUED:
                is_back = task.attempts > 0
                queued = QueuedTask(task.id, task.method, task.priority, task.seq, task.due, task.losses)
                fresh += [queued] if self._dispatcher.add(queued, is_back) else []
            else:
                self._dispatcher.forget(task.id)
                state.window.remove(task.id)
                state.waiters.ended(notice)
                self._collect_end(task, ends)
        self._dispatcher.announce(fresh)
        for connection, texts in ends.items():
            self._send_ends(connection, texts)

    def _collect_end(self, task: Task, ends: dict[Hashable, list[bytes]]) -> None:
        """Add the notification of a task's end, if its client is connected and wants it."""
        holder = self.state.clients.get(task.client)
        if holder is not None and holder.wants_results and holder.key == task.key and task.outcome is not None:
            params = [task.id, task.state == FINISHED, Raw(task.outcome)]
            ends.setdefault(holder.connection, []).append(jsonrpc.notification(methods.TASK_ENDED, params))

    def _send_ends(self, connection: Hashable, texts: list[bytes]) -> None:
        """Send notifications in bundles that fit. One that gets lost costs nothing: the client asks for the result."""
        while texts:
            size = len(texts[0])
            count = 1
            while count < len(texts) and size + len(texts[count]) < BUNDLE:
                size += len(texts[count])
                count += 1
            if not self.state.send(connection, jsonrpc.bundle(texts[:count])):
                self.connection_lost(Caller(connection), self.state.now)
                return
            texts = texts[count:]

    def _on_trouble(self, trouble: str | None) -> None:
        """Note that storing fails, or works again; then fill the window again: it may have missed changes."""
        self.state.trouble = trouble
        if trouble is None:
            self._log.info("Storing works again; new tasks are taken")
            self.state.window.clear()
            self._dispatcher.read_methods()
        else:
            self._log.error("Nothing can be stored, no new tasks are taken: {trouble}", trouble=trouble)

    def _on_damage(self, text: str, lost: tuple[str, ...]) -> None:
        """Note that the database was damaged, and let nodes and callers wait no more for the tasks that are lost."""
        state = self.state
        self._log.error("{text}", text=text)
        state.damage, state.lost = text, state.lost + len(lost)
        state.window.clear()
        gone = set(lost)
        for node in list(state.serving):
            for task_id in gone.intersection(state.window.tasks_of(node)):
                state.window.released(node, task_id)
                state.notify_node(node, jsonrpc.notification(methods.CANCEL, [task_id]))
        for task_id in lost:
            state.owners.pop(task_id, None)
            self._dispatcher.forget(task_id)
            state.waiters.lost(task_id)
        self._dispatcher.read_methods()

    # ---------------------------------------------------------------------------------------------- time

    def tick(self, now: float, wall: float) -> None:
        """Do all that is due. `now`: monotonic seconds, `wall`: unix seconds."""
        state = self.state
        self._set_times(now, wall)
        self._watch_wall_clock()
        for holder in state.nodes.silent(now):
            self._log.info("Node {node} is silent; its tasks are queued again", node=holder.name)
            state.lose_node(holder.name)
        for lease, node in state.leases.lapsed(now):
            state.lapse(lease, node)
        state.window.withdraw_expired_offers(now)
        state.waiters.give_up(now)
        self._dispatcher.read_due()
        if state.cron_due is not None and state.cron_due <= now:
            self._run_schedules()
        for chore, due in list(self._due.items()):
            if due <= now:
                chore()
        self._dispatcher.fill()
        self._dispatcher.offer()

    def _watch_wall_clock(self) -> None:
        """Notice that the wall clock was set: log it, look at the schedules at once, and keep the new difference."""
        state = self.state
        ahead = state.wall - state.at
        step, self._unix_ahead = ahead - self._unix_ahead, ahead
        if abs(step) < STEP_LEAST:  # it is slewed
            return
        text = "The wall clock was set by {step} s, or the machine slept. Tasks go on; schedules follow the new time"
        self._log.warn(text, step=f"{step:+.1f}")
        state.clock_steps += 1
        state.clock_step = {"seconds": round(step, 3), "at": state.wall}
        if state.cron_due is not None:
            state.cron_due = state.now
        self.keep_clock()

    def keep_clock(self) -> None:
        """Store how far the clock is, so that it goes on from there after a restart."""
        state = self.state
        self._due[self.keep_clock] = state.now + CLOCK_EVERY
        ahead = state.wall - state.at
        state.store.write(lambda ledger, now: sql_table(ledger).save_clock(KeptClock(now, ahead)), _ignore, False)

    def woke(self, slept: float, now: float, wall: float) -> None:
        """Act on a stall: for `slept` seconds nothing was read, so that no time limit of a node may end by them.

        `now`: monotonic seconds without the stall; `wall`: unix seconds.
        """
        self._set_times(now, wall)
        self._log.warn("The broker stood still for {slept} s; no node is judged by that", slept=f"{slept:.1f}")
        self._overrun_from = max(self._overrun_from, now + LEASE)
        if self.state.cron_due is not None:
            self.state.cron_due = now
        self.state.store.write(lambda ledger, at: ledger.forgive(slept), _ignore, False)

    def _repeat(self) -> None:
        self._due[self._repeat] = self.state.now + REPEAT
        self._dispatcher.repeat()

    def _read_methods(self) -> None:
        self._due[self._read_methods] = self.state.now + METHODS_EVERY
        self._dispatcher.read_methods()

    def _ask_for_beats(self) -> None:
        """Ask all nodes for a sign of life. A node with a connection of its own is lost at once if that is gone."""
        self._due[self._ask_for_beats] = self.state.now + BEAT
        text = jsonrpc.notification(methods.NODE_STATUS, [])
        self._publish(text)
        for node in list(self.state.serving):
            if not self.state.notify_node(node, text):
                self.state.lose_node(node)

    def _run_schedules(self) -> None:
        """Submit the tasks of due cron lines. A transaction that fails is repeated, and costs no run."""
        state, state.cron_due = self.state, None

        def done(value: Any, error: RpcError | None) -> None:
            again = None if error is None and value is None else CRON_MOST
            if error is None and value is not None:
                again = min(max(value - state.wall, 0.0), CRON_MOST)
            due = None if again is None else state.now + again
            if due is not None and (state.cron_due is None or due < state.cron_due):
                state.cron_due = due

        wall = state.wall
        state.store.write(lambda ledger, at: cron.run_due(ledger, sql_table(ledger), wall, at), done)

    def _sweep(self) -> None:
        """Delete expired results and take back overrun tasks, in steps, each as long as the one before was full."""
        self._due[self._sweep] = self.state.now + SWEEP_EVERY

        def done(value: Any, error: RpcError | None) -> None:
            if error is None and value >= SWEEP:
                self._sweep()

        judges = self.state.now >= self._overrun_from

        def job(ledger: Ledger, now: float) -> int:
            """Return how many tasks were changed at most by one of both. `now`: task-clock seconds."""
            return max(ledger.expire(now), ledger.overrun(now) if judges else 0)

        if self.state.trouble is None:
            self.state.store.write(job, done, durable=False)


def _ignore(value: Any, error: RpcError | None) -> None:
    """Do nothing with an answer: what failed is done again, or costs nothing."""


class _Reply:
    """Collects the answers to one text and sends them when all are there. A text of notifications gets none."""

    def __init__(self, wanted: int, batch: bool, send: Callable[[bytes], None]) -> None:
        self._wanted, self._batch, self._send = wanted, batch, send
        self._answers: list[bytes] = []
        self._size = 0

    def put(self, id: bytes, value: Any, error: RpcError | None) -> None:
        """Add the answer to the call with this id: a value, or an error."""
        text = jsonrpc.failure(id, error) if error is not None else jsonrpc.result(id, value)
        if not self._batch:
            if len(text) > jsonrpc.MAX_TEXT:
                message = "the answer does not fit into one message; ask for less at once"
                text = jsonrpc.failure(id, RpcError(errors.OVERLOADED, message))
            self._send(text)
            return
        if self._size + len(text) > methods.MAX_BODY:
            message = "the answers of this batch do not fit into one message; ask for this one alone"
            text = jsonrpc.failure(id, RpcError(errors.OVERLOADED, message))
        self._size += len(text)
        self._answers.append(text)
        if len(self._answers) == self._wanted:
            self._send(jsonrpc.batch(self._answers))
