"""Tells what is wrong with Helen's connections to Scale0 and ZeroTask, and counts what goes over them.

The sentences are for `helen status`, the figures for /metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from helen.cluster.scale0_backend import Scale0Backend
from helen.cluster.sharing import Sharing
from helen.jobs.jobs import Jobs
from scale0.broker.service import BrokerService
from scale0.config.keys import AuthorizedKeys
from scale0.endpoint.effects import State
from zerotask.node.node import Node
from zerotask.service import ZeroTaskService
from zerotask.wire.links import Link

MOST_FAULTS = 5  # faulty key files that are named; the others are counted

Figure = tuple[str, str, float]  # name and help of a gauge, and its value


@define
class NetworkHealth:
    """Looks at the parts of one HelenNetwork, which are None as long as they are not used."""

    keys: AuthorizedKeys | None = None  # the folder that a broker in this process admits
    backend: Scale0Backend | None = None
    broker: BrokerService | None = None
    sharing: Sharing | None = None
    node: Node | None = None
    links: list[Link] = field(factory=list)  # to the broker of ZeroTask
    zerotask: ZeroTaskService | None = None
    jobs: Jobs | None = None

    def troubles(self) -> list[str]:
        """Return a sentence for each trouble, which begins with Scale0 or ZeroTask."""
        return [f"Scale0: {text}" for text in self._of_scale0()] + [f"ZeroTask: {text}" for text in self._of_zerotask()]

    def _of_scale0(self) -> Iterator[str]:
        if self.backend is not None and self.backend.worker.running and self.backend.trouble:
            yield f"this Helen is not in the network: {self.backend.trouble}"
        if self.backend is not None:
            yield from self.backend.attachments.troubles()
        if self.broker is not None and self.broker.broker.state != "active":
            yield f"the broker in this process is {self.broker.broker.state}"
        if self.sharing is not None:
            yield from (f"{name}, which Helens share: {why}" for name, why in self.sharing.replication.troubles.items())
        faults: Sequence[str] = self.keys.faults if self.keys is not None else ()
        yield from faults[:MOST_FAULTS]
        if len(faults) > MOST_FAULTS:
            yield f"{len(faults) - MOST_FAULTS} more faulty files in the folder of authorized keys"

    def _of_zerotask(self) -> Iterator[str]:
        trouble = self._connection_trouble()
        if trouble:
            yield f"this Helen has no tasks: {trouble}"
        if self.zerotask is not None:
            yield from self.zerotask.troubles()

    def _connection_trouble(self) -> str:
        """Return the first reason for which the node is not connected: without a connection there are others, too."""
        found = [link.trouble for link in self.links]
        found += [self.node.trouble] if self.node is not None else []
        return next(filter(None, found), "")

    # ------------------------------------------------------------------------------------------- figures

    def figures(self) -> list[Figure]:
        """Return the gauges of what is used."""
        return [*self._scale0_figures(), *self._broker_figures(), *self._zerotask_figures()]

    def _scale0_figures(self) -> Iterator[Figure]:
        if self.backend is None:
            return
        worker = self.backend.worker
        yield "helen_scale0_connected", "1 while Helen has a session with a broker.", worker.state is State.ACTIVE
        yield (
            "helen_scale0_services",
            "Services that Helen offers: its own and those of agents.",
            len(list(worker.services)),
        )
        yield "helen_scale0_requests", "Requests of the network that Helen works on.", worker.inflight

    def _broker_figures(self) -> Iterator[Figure]:
        if self.broker is None:
            return
        now = self.broker.broker.management.status()
        yield "helen_scale0_broker_active", "1 while the broker in this process serves.", now["state"] == "active"
        yield "helen_scale0_broker_sessions", "Clients, workers and brokers with a session there.", now["sessions"]
        yield "helen_scale0_broker_peers", "Other brokers that it is connected to.", len(now["peers"])
        yield "helen_scale0_broker_queued", "Requests that wait for a worker.", now["queued"]
        yield "helen_scale0_broker_running", "Requests that a worker has.", now["running"]
        yield "helen_scale0_broker_alarms", "Alarms that it shows, 20 at most.", len(now["alarms"])

    def _zerotask_figures(self) -> Iterator[Figure]:
        if self.node is None:
            return
        yield "helen_zerotask_connected", "1 while the broker gives Helen tasks.", not self._connection_trouble()
        yield "helen_zerotask_running", "Tasks that Helen has claimed and not ended.", self.node.running
        yield "helen_zerotask_jobs", "Jobs that Helen keeps.", len(self.jobs) if self.jobs is not None else 0
        if self.zerotask is not None and self.zerotask.broker is not None:
            state = self.zerotask.broker.state
            yield "helen_zerotask_broker_active", "1 while the broker in this process stores.", state.trouble is None
            yield (
                "helen_zerotask_broker_lost_tasks",
                "Tasks that a damaged database has lost, until forgotten.",
                state.lost,
            )
            yield "helen_zerotask_broker_clients", "Clients that are connected to it.", len(state.clients)
            yield "helen_zerotask_broker_nodes", "Nodes that are connected to it.", len(state.nodes)
