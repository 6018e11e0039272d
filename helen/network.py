"""What Helen has to do with ZeroMQ, wired: brokers that she hosts, and the networks of which she is a part.

Everything here needs the extra `zmq`, so tap.py imports this module only when a setting asks for it. `open` takes ports
and reads keys, and refuses in a sentence; `start` begins to serve once Helen does; `leave` and `close` end it.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.logger import Logger

from helen.elsewhere import Elsewhere
from helen.fleet_tasks import SLOTS, FleetTasks
from helen.jobs import Jobs
from helen.mesh import Mesh, Offer
from helen.network_settings import Broker, NetworkSettings
from helen.other_helens import OtherHelens
from helen.roster import Agent
from helen.shared import network_key
from helen.shared.together import Together
from helen.statedir import StateError, make_folder
from scale0.config import ConfigFault
from scale0.keys import AuthorizedKeys, KeyFault, Pair, load_pair
from scale0.link import Keys
from scale0.negotiation import Target
from scale0.ports import Security
from scale0.reader import CurveClient, Network, SocketError
from scale0.service import BrokerService
from scale0.sharer import Sharer
from scale0.web import FrontEnd
from zerotask.client import Client
from zerotask.gateway import Scale0
from zerotask.links import Link, SocketLink
from zerotask.node import Node
from zerotask.service import Settings, StartError, ZeroTaskService
from zerotask.shelf import StoreError

if TYPE_CHECKING:
    from helen.tap import Helen

REFUSALS = (ConfigFault, KeyFault, SocketError, StartError, StoreError)
IPC_MOST = 107  # bytes of a socket's path: what the kernel takes
STOP_WAIT = 0.2  # seconds in which tasks may end by themselves when Helen stops; the others are given back
_WILD = re.compile(r"tcp://(?:0\.0\.0\.0|\[::\]|\*):")


class NetworkRefused(StateError):
    """What keeps Helen from taking part; a sentence."""


class Admitted(AuthorizedKeys):  # type: ignore[misc]
    """Those whom the folder names, and this Helen herself, who calls at the brokers that she hosts."""

    def __init__(self, folder: Any, own: Pair) -> None:
        self._own = own.public
        super().__init__(folder)

    def is_authorized(self, key: str) -> bool:
        return key == self._own or bool(super().is_authorized(key))

    def bound_to(self, key: str) -> str | None:
        return None if key == self._own else super().bound_to(key)


class HelenNetwork:
    """One for a Helen; `mesh` is None without Scale0, `jobs` without ZeroTask."""

    log = Logger()

    def __init__(self, reactor: Any, helen: Helen) -> None:
        self.settings: NetworkSettings = helen.settings.network
        self.identity = self.settings.identity or identity_of(helen.settings.names)
        self.mesh: Mesh | None = None
        self.broker: BrokerService | None = None
        self.together: Together | None = None  # what is shared with other Helens, if anything is
        self.jobs: Jobs | None = None
        self.zerotask: ZeroTaskService | None = None
        self._reactor = reactor
        self._helen = helen
        self._hosted: list[Service] = []
        self._security: Security | None = None
        self._others = OtherHelens(helen.house, helen.address)
        self._elsewhere: Elsewhere | None = None
        self._is_leaving = False
        self._far_key = ""  # of the ZeroTask broker that we call

    # ---------------------------------------------------------------------------------------------- starting

    def open(self) -> None:
        """Take ports, read keys and configurations. Raises NetworkRefused."""
        try:
            self._security = self._read_keys()
            if self.settings.embed_scale0 is not None:
                self._host_scale0(self.settings.embed_scale0)
            brokers = [*map(self._target, self.settings.scale0), *self._own_broker("backend")]
            if self.settings.embed_zerotask:
                self._host_zerotask()
            elif self.settings.zerotask is not None:
                self._far_key = self.key_of(self.settings.zerotask)
        except REFUSALS as error:
            raise NetworkRefused(str(error)) from error
        if brokers:
            sharer = self._open_together()
            offer = Offer(self._helen.overview, self._helen.library.file)
            house, told = self._helen.house, self._configured
            self.mesh = Mesh(self._reactor, house, self.identity, brokers, offer, self._keys, told, sharer)

    def _open_together(self) -> Sharer | None:
        if self.settings.network_key is None:
            return None
        key = network_key.load(self.settings.network_key)
        self.together = Together(self._reactor, self._helen, self.identity, key, self._others.live)
        self.together.open()
        return self.together.commons.sharer

    def _configured(self, document: dict[str, Any]) -> None:
        """A [ CLIENT CONFIG ] of our broker's."""
        groups = [str(group.get("name", "")) for group in document.get("group_config", [])]
        self._others.configured(document)
        self._others.grouped(groups)
        if self.together is not None:
            self.together.configured(groups[0] if groups else "")

    def _gone_elsewhere(self, agent: str) -> None:
        self._helen.judge.forget(agent, "another Helen has it")

    def other_helens(self) -> list[str]:
        """Addresses where agents of ours may go."""
        return self._others.known()

    def drained(self, is_drained: bool) -> None:
        """Whether agents shall rather go to others."""
        if self.together is not None:
            self.together.drained(is_drained)

    def hide(self, agent: Agent) -> None:
        if self.mesh is not None:
            self.mesh.hide(agent)

    def offer(self, agent: Agent) -> None:
        if self.mesh is not None and self.mesh.worker.running:
            self.mesh.offer(agent)

    def changed(self, name: str) -> None:
        """Something that Helens share is another thing here now."""
        if self.together is not None:
            self.together.changed(name)

    async def start(self) -> None:
        """Helen serves: so does this."""
        if self.mesh is not None:
            self._others.start()
            if self.together is not None:
                self.together.start(self.mesh)
            self.mesh.start()
            self._elsewhere = Elsewhere(self._reactor, self._helen.house, self.mesh.is_there, self._gone_elsewhere)
            self._elsewhere.start()
        if self.settings.embed_zerotask or self.settings.zerotask is not None:
            await self._join_zerotask()

    async def _join_zerotask(self) -> None:
        """As a node for what others ask of the fleet, and as a client for what people ask of Helen."""
        helen, name = self._helen, f"helen.{self.identity}"
        self._tasks = FleetTasks(self._reactor, helen.house, helen.library, helen.state / "jobs")
        self._client = Client(self._zerotask_link(), self._reactor, name)
        jobs = Jobs(self._reactor, self._client, self._tasks, f"equus.check.{self.identity}", helen.one_shots.prepare)
        await jobs.load()
        if self._is_leaving:
            return
        self._tasks.start()
        served, link = self._tasks.served(self.identity), self._zerotask_link()
        self._node = Node(link, self._reactor, name, served, self._tasks.run, self._tasks.cancel, SLOTS)
        self._client.start()
        self._node.start()
        self.jobs = jobs

    def _zerotask_link(self) -> Link:
        if self.zerotask is not None:
            return self.zerotask.local_link()
        assert self.settings.zerotask is not None
        keys = self._keys
        curve = CurveClient(keys.public, keys.secret, self._far_key) if keys is not None and self._far_key else None
        return SocketLink(self._reactor, self.settings.zerotask.endpoint, curve)

    def _read_keys(self) -> Security | None:
        chosen = self.settings
        if chosen.curve_key is None or chosen.authorized_keys is None:
            return None
        if not chosen.authorized_keys.is_dir():
            raise KeyFault(f"{chosen.authorized_keys}: no such folder; it holds one NAME.key for each peer")
        pair = load_pair(chosen.curve_key)
        return Security(pair, Admitted(chosen.authorized_keys, pair))

    @property
    def _keys(self) -> Keys | None:
        return None if self._security is None else Keys(self._security.pair.public, self._security.pair.secret)

    def _host_scale0(self, file: Any) -> None:
        folder = self._helen.state / "scale0"
        make_folder(folder)
        self.broker = BrokerService(self._reactor, file, folder, self._security)
        self._host(self.broker)
        if self.broker.broker.config.http:
            self._host(FrontEnd(self._reactor, self.broker))

    def _host(self, service: Service) -> None:
        """Whatever it raises is for `open`; what fails later is told in the log."""
        started = service.startService()
        self._hosted.append(service)
        if isinstance(started, Deferred):
            started.addErrback(lambda failure: self.log.failure("a part of the network does not start", failure))

    def _host_zerotask(self) -> None:
        """On sockets in the state directory, which only her user can open, unless others are asked for."""
        folder = self._helen.state / "zerotask"
        make_folder(folder)
        listen = self.settings.zerotask_listen or f"ipc://{folder}/tasks.sock"
        publish = f"{listen}.p" if listen.startswith("ipc:") else f"{listen.rpartition(':')[0]}:0"
        if len(publish.removeprefix("ipc://").encode()) > IPC_MOST:
            raise NetworkRefused(
                f"{publish} is longer than a socket's path may be: give --zerotask-listen tcp://127.0.0.1:5555, which"
                " every user of this machine can reach, or a shorter --state"
            )
        pair = None if self._security is None else self._security.pair
        keys = None if self._security is None else self._security.authorized
        settings = Settings(folder, listen, publish, pair, keys, self._zerotask_network())
        self.zerotask = ZeroTaskService(settings, self._reactor)
        self._host(self.zerotask)

    def _zerotask_network(self) -> Scale0 | None:
        """`zerotask.broker` and Titanic, in the network of the broker that we host."""
        if self.broker is None:
            return None
        return Scale0(
            f"{self.identity}.zerotask", self._own_broker("backend"), self._own_broker("frontend"), self._keys
        )

    def _own_broker(self, end: str) -> tuple[Target, ...]:
        """The way to the broker that we host: over loopback, whatever it is bound to."""
        if self.broker is None:
            return ()
        key = "" if self._security is None else self._security.pair.public
        return (Target(_WILD.sub("tcp://127.0.0.1:", self.broker.ports.ends[end]), key),)

    def _target(self, broker: Broker) -> Target:
        return Target(broker.endpoint, self.key_of(broker))

    def key_of(self, broker: Broker) -> str:
        """A broker's public key; empty without CURVE."""
        if not broker.name or self._security is None:
            return ""
        return str(self._security.authorized.key_of(broker.name))

    # ---------------------------------------------------------------------------------------------- looking, ending

    def overview(self) -> dict[str, Any]:
        mesh, jobs = self.mesh, self.jobs
        return {
            "scale0": None if mesh is None else {"identity": self.identity, "state": mesh.state},
            "shared": None if self.together is None else self.together.overview(),
            "zerotask": None if jobs is None else {"hosted": self.zerotask is not None, "jobs": len(jobs)},
        }

    async def leave(self) -> None:
        """Tell brokers that we go; what comes from now on is for others."""
        self._is_leaving = True
        if self.mesh is not None and self.mesh.worker.running:
            self.mesh.stop()
            self._others.stop()
            if self._elsewhere is not None:
                self._elsewhere.stop()
            if self.together is not None:
                await self.together.stop()
        if self.jobs is not None:
            self.jobs.stop()
            self._tasks.stop()
            await gatherResults([self._node.stop(STOP_WAIT), self._client.stop()])

    async def close(self) -> None:
        """The brokers that we host end, and with them all sockets."""
        for service in reversed(self._hosted):
            await maybeDeferred(service.stopService)
        await Network.of(self._reactor).close()


def identity_of(names: tuple[str, ...]) -> str:
    """Of this Helen in the network: her first name, or this machine's."""
    name = names[0] if names else socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._:-]", "-", name)[:100].lstrip("._:-") or "helen"
