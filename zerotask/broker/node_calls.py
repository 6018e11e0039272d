"""Handles the calls of nodes: connect, beat, claim, report, finish, fail, disconnect.

Some calls carry no node id: then the node is the one that connected on this connection or, under CURVE, with this key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw
from twisted.logger import Logger

from zerotask import errors
from zerotask.broker.broker_state import BrokerState, Invocation, ServingNode
from zerotask.errors import RpcError
from zerotask.storage.task_table import sql_table
from zerotask.tasks.connections import Holder
from zerotask.tasks.ledger import KeptApart, Ledger
from zerotask.tasks.task import Options, Task
from zerotask.wire import jsonrpc, methods
from zerotask.wire.actions import serving

MOST_POLICIES = 10_000  # methods with a remembered policy; each node may bring 1,000, and they are kept for ever
MAX_DETAIL = 64 * 1024  # bytes of a status and its detail, which are written again with each report


def calls(state: BrokerState) -> dict[str, Callable[[Invocation], None]]:
    """Return the handler of each method for nodes, by its short name."""
    handlers = _NodeCalls(state)
    return {
        "node_connect": handlers.connect,
        "node_heartbeat": handlers.heartbeat,
        "node_status": handlers.beat,
        "node_disconnect": handlers.disconnect,
        "node_task_request": handlers.claim,
        "node_task_waits": handlers.waits,
        "task_status": handlers.report,
        "node_task_finished": handlers.finished,
        "node_task_failed": handlers.failed,
    }


class _NodeCalls:
    """Handles calls of nodes. Each method raises RpcError if an argument is wrong or the node unknown."""

    _log = Logger()

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    # --------------------------------------------------------------------------------------- come and go

    def connect(self, call: Invocation) -> None:
        """Grant a name and a lease, and answer with the name."""
        state, wanted = self._state, methods.name_or_none(call.args, "node_id")
        served, tasks = methods.served(call.args), methods.held_tasks(call.args)
        for method in served:
            call.hold_to(serving(method))
        slots = methods.whole(call.args, "slots", 1, 0, methods.MAX_SLOTS)
        if wanted is not None:
            self._free_if_gone(wanted, call)
        name, former = state.nodes.check(wanted, call.caller, call.now)
        if former is not None and former.connection == call.caller.connection and tasks is None:
            lease, old = former.lease, []
        else:
            lease, old = state.leases.new(), self._end_former(name, former, tasks, call.now)
        state.nodes.grant(name, call.caller, call.now, lease)
        self._serve(name, {} if call.caller.shared else served, slots, tasks or [])
        self._adopt(call, name, lease, old, tasks or [])

    def _free_if_gone(self, name: str, call: Invocation) -> None:
        """Free a name at once if its holder's connection is gone, which nothing has noticed so far."""
        state, holder = self._state, self._state.nodes.get(name)
        if holder is None or holder.connection == call.caller.connection or name not in state.serving:
            return
        if not state.notify_node(name, jsonrpc.notification(methods.NODE_STATUS, [])):
            state.nodes.remove(name)
            state.leases.orphan(holder.lease, name, call.now)

    def _end_former(self, name: str, former: Holder | None, tasks: list[str] | None, now: float) -> list[int]:
        """Return the leases of the node's former connections that end now.

        A node that does not name its tasks keeps them for one more lease time: it may be the same process, which works
        on, or a new one, which does not.
        """
        leases = self._state.leases
        if former is not None:
            leases.orphan(former.lease, name, now)
        if tasks is None:
            return []
        old = leases.orphans_of(name)
        for lease in old:
            del leases.orphans[lease]
        return old

    def _serve(self, name: str, served: dict[str, dict[str, Any]], slots: int, tasks: list[str]) -> None:
        """Note the methods, slots and policies of a node that has a connection of its own and takes notifications."""
        state = self._state
        state.window.remove_node(name)
        state.serving.pop(name, None)
        if not served:
            return
        state.serving[name] = ServingNode(tuple(served), slots)
        state.window.add_node(name, served, state.slots_of(name, slots), tasks)
        news = {method: policy for method, policy in served.items() if policy and not method.endswith("*")}
        for method, policy in news.items():
            known, given = state.policies.get(method), methods.options(policy, Options())
            if known is None and len(state.policies) >= MOST_POLICIES:
                self._log.warn(
                    "The policy of {method} is not remembered: there are {most}", method=method, most=MOST_POLICIES
                )
            elif known != given:
                state.policies[method] = given
                state.store.write(_noting_policy(method, jsonrpc.encode(policy)), _ignore, durable=False)

    def _adopt(self, call: Invocation, name: str, lease: int, old: list[int], tasks: list[str]) -> None:
        if not old and not tasks:
            call.answer(name, None)
            return

        def job(ledger: Ledger, now: float) -> list[str]:
            """Return the tasks that are the node's no more. `now`: unix seconds."""
            ledger.adopt(name, lease, tasks, now)
            return ledger.not_held(name, tasks)

        def done(lost: list[str] | None, error: RpcError | None) -> None:
            """End the leases of former connections, or keep them if the store failed."""
            if error is not None:
                for number in old:
                    self._state.leases.orphan(number, name, call.now)
                call.answer(None, error)
                return
            self._stop_work(name, lost or [])
            self._state.end_leases(
                old, name, Ledger.lapse, lambda value, error: call.answer(None if error else name, error)
            )

        self._state.store.write(job, done)

    def _stop_work(self, node: str, tasks: list[str]) -> None:
        """Free the slots of tasks that are the node's no more, and tell it to stop its work on them."""
        for task_id in tasks:
            self._state.window.released(node, task_id)
            self._state.notify_node(node, jsonrpc.notification(methods.CANCEL, [task_id]))

    def heartbeat(self, call: Invocation) -> None:
        """Renew the lease of a node that gives its id."""
        self._state.nodes.require(call.args["node_id"], call.caller, call.now)
        call.answer(True, None)

    def beat(self, call: Invocation) -> None:
        """Renew the lease of the node on this connection."""
        self._state.nodes.of_caller(call.caller, call.now)
        call.answer(True, None)

    def disconnect(self, call: Invocation) -> None:
        """Free the node's name and queue its tasks. The name goes first, so that it can claim nothing meanwhile."""
        state = self._state
        holder = state.nodes.require(call.args["node_id"], call.caller, call.now)
        leases = [holder.lease, *state.leases.orphans_of(holder.name)]
        state.nodes.remove(holder.name)
        state.serving.pop(holder.name, None)
        state.window.remove_node(holder.name)
        for lease in leases:
            state.leases.orphans.pop(lease, None)
        state.end_leases(leases, holder.name, Ledger.release, call.answer)

    # -------------------------------------------------------------------------------------------- work

    def claim(self, call: Invocation) -> None:
        """Answer with `method`, `params` and `id` of a task that the node now holds; {} if it cannot be claimed.

        With `details` also `attempt`, `time_limit` (seconds), `client` and `key`: the submitter, and its key's name.
        """
        state, holder = self._state, self._node(call)
        task_id, details = methods.text(call.args, "task_id"), methods.flag(call.args, "details", False)
        if holder.name in state.drained:
            call.answer({}, None)
            return

        def job(ledger: Ledger, now: float) -> tuple[Task, bytes] | None:
            """Claim the task. Raises RpcError UNAUTHORISED for one of Helen's methods to another node's."""
            call.hold_to(serving(ledger.task(task_id, now).method))
            return ledger.claim(task_id, holder.name, holder.lease, now)

        def done(value: Any, error: RpcError | None) -> None:
            """Answer with the task. One that cannot be claimed is not offered again, unless it is for another node."""
            if isinstance(error, KeptApart):
                call.answer({}, None)
                return
            if error is not None and error.code == errors.UNAUTHORISED:
                call.answer(None, error)  # it stays on offer for a Helen
                return
            if value is None:
                state.window.remove(task_id)
                call.answer(None if error else {}, error)
                return
            task, params = value
            given = {"method": task.method, "params": Raw(params), "id": task.id}
            if details:
                given |= {"attempt": task.attempts, "time_limit": task.time_limit, "client": task.client}
                given |= {"key": state.name_of_key(task.key)}
            call.answer(given, None)

        state.write(job, done, durable=False)

    def _node(self, call: Invocation) -> Holder:
        """Return the node that calls: the one that the call names, else the one of the connection or its key."""
        if call.args.get("node_id") is not None:
            return self._state.nodes.require(call.args["node_id"], call.caller, call.now)
        return self._state.nodes.of_caller(call.caller, call.now)

    def waits(self, call: Invocation) -> None:
        """Let a task that the node holds take no slot while its work waits; with `waits` false it takes one again."""
        task_id, waits = methods.text(call.args, "task_id"), methods.flag(call.args, "waits", True)
        self._state.window.set_waiting(self._node(call).name, task_id, waits)
        call.answer(True, None)

    def report(self, call: Invocation) -> None:
        """Save the status of a task. Raises RpcError if it is longer than MAX_DETAIL."""
        holder = self._state.nodes.require(call.args["node_id"], call.caller, call.now)
        task_id, status = methods.text(call.args, "task_id"), call.args["status"]
        detail = {name: value for name, value in call.args.items() if name not in ("node_id", "task_id", "status")}
        size = len(jsonrpc.encode([status, detail]))
        if size > MAX_DETAIL:
            raise RpcError(errors.INVALID_PARAMS, f"a status of {size} bytes, more than {MAX_DETAIL}; report less")
        self._state.write(
            lambda ledger, now: ledger.report(task_id, holder.name, holder.lease, status, detail, now),
            call.answer,
            durable=False,
        )

    def finished(self, call: Invocation) -> None:
        """End a task with its result."""
        task_id, result = methods.text(call.args, "task_id"), methods.body(call.args["task_result"], "task_result")
        node = self._node(call).name
        self._state.write(lambda ledger, now: ledger.finish(task_id, node, result, now), call.answer)

    def failed(self, call: Invocation) -> None:
        """End an attempt with an error."""
        task_id, error = methods.text(call.args, "task_id"), methods.task_error(call.args)
        retry = methods.flag(call.args, "retry", True)
        node = self._node(call).name
        self._state.write(lambda ledger, now: ledger.fail(task_id, node, error, retry, now), call.answer)


def _noting_policy(method: str, policy: bytes) -> Callable[[Ledger, float], None]:
    def job(ledger: Ledger, now: float) -> None:
        sql_table(ledger).save_policy(method, policy)

    return job


def _ignore(value: Any, error: RpcError | None) -> None:
    """Do nothing with the answer: the node names its policies again when it next connects."""


def policies_of(stored: dict[str, bytes]) -> dict[str, Options]:
    """Return the policies that nodes named before the broker started, by their methods."""
    return {method: methods.options(msgspec.json.decode(text), Options()) for method, text in stored.items()}
