"""What nodes call: connect, beat, claim, tell, finish, fail, leave.

Who calls is told by the connection on which node_connect was said (or, under CURVE, by the key); the seed's methods
carry no node id where it matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw
from twisted.logger import Logger

from zerotask import errors, jsonrpc, methods
from zerotask.errors import RpcError
from zerotask.ledger import Ledger, Options
from zerotask.office import Invocation, Node, Office
from zerotask.roster import Holder
from zerotask.shelf import SqlShelf

MOST_POLICIES = 10_000  # methods whose policy is remembered; each node may bring 1,000, and they are kept for ever
MAX_DETAIL = 64 * 1024  # bytes of a status and its kwargs, which are rewritten with each report


def calls(office: Office) -> dict[str, Callable[[Invocation], None]]:
    desk = _NodeDesk(office)
    return {
        "node_connect": desk.connect,
        "node_heartbeat": desk.heartbeat,
        "node_status": desk.beat,
        "node_disconnect": desk.disconnect,
        "node_task_request": desk.claim,
        "task_status": desk.report,
        "node_task_finished": desk.finished,
        "node_task_failed": desk.failed,
    }


class _NodeDesk:
    _log = Logger()

    def __init__(self, office: Office) -> None:
        self._office = office

    # --------------------------------------------------------------------------------------- come and go

    def connect(self, call: Invocation) -> None:
        office, wanted = self._office, methods.name_or_none(call.args, "node_id")
        served, tasks = methods.served(call.args), methods.held_tasks(call.args)
        slots = methods.whole(call.args, "slots", 1, 0, methods.MAX_SLOTS)
        if wanted is not None:
            self._sound(wanted, call)
        name, former = office.nodes.check(wanted, call.caller, call.now)
        if former is not None and former.line == call.caller.line and tasks is None:
            lease, old = former.lease, []
        else:
            lease, old = office.leases.new(), self._part(name, former, tasks, call.now)
        office.nodes.grant(name, call.caller, call.now, lease)
        self._learn(name, served, slots, tasks or [], call.caller.shared)
        self._take_over(call, name, lease, old, tasks or [])

    def _sound(self, name: str, call: Invocation) -> None:
        """A holder whose connection is gone, unnoticed so far, gives way at once."""
        office, holder = self._office, self._office.nodes.get(name)
        if holder is None or holder.line == call.caller.line or name not in office.served:
            return
        if not office.tell(name, jsonrpc.notification(methods.NODE_STATUS, [])):
            office.nodes.remove(name)
            office.leases.orphan(holder.lease, name, call.now)

    def _part(self, name: str, former: Holder | None, tasks: list[str] | None, now: float) -> list[int]:
        """Leases of the node's former connections that end now. One that does not say what it still works on keeps
        them for one more lease time: it may be the same process, or one that has forgotten all."""
        leases = self._office.leases
        if former is not None:
            leases.orphan(former.lease, name, now)
        if tasks is None:
            return []
        old = leases.of(name)
        for lease in old:
            del leases.orphans[lease]
        return old

    def _learn(
        self, name: str, served: dict[str, dict[str, Any]], slots: int, tasks: list[str], is_shared: bool
    ) -> None:
        """What it serves, if it is on a connection of its own, where it can be told of tasks."""
        office = self._office
        office.board.dismiss(name)
        office.served.pop(name, None)
        if not served or is_shared:
            return
        office.served[name] = Node(tuple(served), slots)
        office.board.enlist(name, served, slots, tasks)
        news = {method: policy for method, policy in served.items() if policy and not method.endswith("*")}
        for method, policy in news.items():
            known, learnt = office.policies.get(method), methods.options(policy, Options())
            if known is None and len(office.policies) >= MOST_POLICIES:
                self._log.warn(
                    "The policy of {method} is not remembered: there are {most}", method=method, most=MOST_POLICIES
                )
            elif known != learnt:
                office.policies[method] = learnt
                office.store.write(_noting_policy(method, jsonrpc.encode(policy)), _ignore, durable=False)

    def _take_over(self, call: Invocation, name: str, lease: int, old: list[int], tasks: list[str]) -> None:
        if not old and not tasks:
            call.answer(name, None)
            return

        def done(value: Any, error: RpcError | None) -> None:
            if error is not None:
                for number in old:
                    self._office.leases.orphan(number, name, call.now)
                call.answer(None, error)
                return
            self._office.requeue(
                old, name, call.now, Ledger.lapse, lambda value, error: call.answer(None if error else name, error)
            )

        self._office.store.write(lambda ledger, now: ledger.adopt(name, lease, tasks, now), done)

    def heartbeat(self, call: Invocation) -> None:
        self._office.nodes.speaking(call.args["node_id"], call.caller, call.now)
        call.answer(True, None)

    def beat(self, call: Invocation) -> None:
        self._office.nodes.of(call.caller, call.now)
        call.answer(True, None)

    def disconnect(self, call: Invocation) -> None:
        """It is no node any more at once, so that nothing can be claimed behind the giving back."""
        office = self._office
        holder = office.nodes.speaking(call.args["node_id"], call.caller, call.now)
        leases = [holder.lease, *office.leases.of(holder.name)]
        office.nodes.remove(holder.name)
        office.served.pop(holder.name, None)
        office.board.dismiss(holder.name)
        for lease in leases:
            office.leases.orphans.pop(lease, None)
        office.requeue(leases, holder.name, call.now, Ledger.release, call.answer)

    # -------------------------------------------------------------------------------------------- work

    def claim(self, call: Invocation) -> None:
        """{} for what is not to be had; with `details` also the attempt and the time limit."""
        office, holder = self._office, self._node(call)
        task_id, details = methods.text(call.args, "task_id"), methods.flag(call.args, "details", False)

        def done(value: Any, error: RpcError | None) -> None:
            if value is None:
                office.board.remove(task_id)
                call.answer(None if error else {}, error)
                return
            task, params = value
            given = {"method": task.method, "params": Raw(params), "id": task.id}
            if details:
                given |= {"attempt": task.attempts, "time_limit": task.time_limit}
            call.answer(given, None)

        office.write(lambda ledger, now: ledger.claim(task_id, holder.name, holder.lease, now), done, durable=False)

    def _node(self, call: Invocation) -> Holder:
        """Who calls: by the connection, or by name where that says nothing."""
        if call.args.get("node_id") is not None:
            return self._office.nodes.speaking(call.args["node_id"], call.caller, call.now)
        return self._office.nodes.of(call.caller, call.now)

    def report(self, call: Invocation) -> None:
        holder = self._office.nodes.speaking(call.args["node_id"], call.caller, call.now)
        task_id, status = methods.text(call.args, "task_id"), call.args["status"]
        detail = {name: value for name, value in call.args.items() if name not in ("node_id", "task_id", "status")}
        size = len(jsonrpc.encode([status, detail]))
        if size > MAX_DETAIL:
            raise RpcError(errors.INVALID_PARAMS, f"a status of {size} bytes, more than {MAX_DETAIL}; say less")
        self._office.write(
            lambda ledger, now: ledger.report(task_id, holder.name, holder.lease, status, detail, now),
            call.answer,
            durable=False,
        )

    def finished(self, call: Invocation) -> None:
        task_id, result = methods.text(call.args, "task_id"), methods.body(call.args["task_result"], "task_result")
        node = self._node(call).name
        self._office.write(lambda ledger, now: ledger.finish(task_id, node, result, now), call.answer)

    def failed(self, call: Invocation) -> None:
        task_id, error = methods.text(call.args, "task_id"), methods.task_error(call.args)
        retry = methods.flag(call.args, "retry", True)
        node = self._node(call).name
        self._office.write(lambda ledger, now: ledger.fail(task_id, node, error, retry, now), call.answer)


def _noting_policy(method: str, policy: bytes) -> Callable[[Ledger, float], None]:
    def job(ledger: Ledger, now: float) -> None:
        assert isinstance(ledger.shelf, SqlShelf)
        ledger.shelf.note_policy(method, policy)

    return job


def _ignore(value: Any, error: RpcError | None) -> None:
    """The node tells its policies again each time it connects."""


def policies_of(stored: dict[str, bytes]) -> dict[str, Options]:
    """Policies that nodes told in former lives of the broker."""
    return {method: methods.options(msgspec.json.decode(text), Options()) for method, text in stored.items()}
