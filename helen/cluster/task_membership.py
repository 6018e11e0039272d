"""Joins ZeroTask for Helen: as nodes that work on its tasks, and as a client for jobs that are submitted at Helen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import gatherResults

from helen.cluster.dial_keys import DialKeys
from helen.jobs.fleet_tasks import PUSH_SLOTS, SLOTS, FleetTasks
from helen.jobs.jobs import Jobs
from helen.parts import Parts
from helen.settings.network_settings import Broker
from zerotask.client import Client
from zerotask.node.node import Node
from zerotask.service import ZeroTaskService
from zerotask.wire.links import Link, SocketLink

STOP_WAIT = 0.2  # seconds in which tasks may end by themselves when Helen stops; the others are given back

Note = Callable[[str, str, str], None]  # writes actor, action and subject into the audit


class TaskMembership:
    """Holds Helen's nodes and client at one broker of ZeroTask; `jobs` and `node` are None until `join` is done.

    The broker is `hosted`, in this process, or else the one at `broker`, with the keys of `dial_keys`.
    """

    def __init__(
        self,
        parts: Parts,
        identity: str,
        hosted: ZeroTaskService | None,
        broker: Broker | None,
        dial_keys: DialKeys | None,
        note: Note,
    ) -> None:
        self.jobs: Jobs | None = None
        self.node: Node | None = None
        self.links: list[Link] = []  # the connections to the broker
        self._parts, self._identity, self._note = parts, identity, note
        self._hosted, self._broker, self._dial_keys = hosted, broker, dial_keys
        self._is_leaving = False

    async def join(self) -> None:
        """Load the jobs that Helen keeps, and connect; does nothing more if Helen leaves meanwhile."""
        parts, name, reactor = self._parts, f"helen.{self._identity}", self._parts.reactor
        self._tasks = FleetTasks(
            reactor, parts.sessions, parts.library, parts.state / "jobs",
            is_job=lambda task_id: task_id in jobs, note=self._note,
        )  # fmt: skip
        self._client = Client(self._link(), reactor, name)
        jobs = Jobs(reactor, self._client, self._tasks, f"equus.check.{self._identity}", parts.one_off.prepare)
        await jobs.load()
        if self._is_leaving:
            return
        self._tasks.start()
        queries, tasks = self._tasks.queries(self._identity), self._tasks
        self.node = Node(self._link(), reactor, name, queries, tasks.run, tasks.cancel, SLOTS)
        tasks.on_waiting.subscribe(self.node.set_waiting)
        self._push_node = Node(
            self._link(), reactor, f"{name}.push", tasks.pushes(), tasks.run, tasks.cancel, PUSH_SLOTS
        )
        self._client.start()
        self.node.start()
        self._push_node.start()
        self.jobs = jobs

    def _link(self) -> Link:
        self.links.append(self._new_link())
        return self.links[-1]

    def _new_link(self) -> Link:
        if self._hosted is not None:
            return self._hosted.local_link()
        broker, keys = self._broker, self._dial_keys
        assert broker is not None
        reactor: Any = self._parts.reactor
        return SocketLink(reactor, broker.endpoint, None if keys is None else lambda: keys.of_broker(broker))

    async def leave(self) -> None:
        """Give back what does not end within STOP_WAIT seconds, and disconnect."""
        self._is_leaving = True
        if self.jobs is None:
            return
        self.jobs.stop()
        self._tasks.stop()
        assert self.node is not None
        await gatherResults([self.node.stop(STOP_WAIT), self._push_node.stop(STOP_WAIT), self._client.stop()])
