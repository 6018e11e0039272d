"""What Helen has to do with ZeroMQ, wired: brokers that she hosts, and the networks of which she is a part.

Everything here needs the extra `zmq`, so tap.py imports this module only when a setting asks for it. `open` takes ports
and reads keys, and refuses in a sentence; `start` begins to serve once Helen does; `leave` and `close` end it.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from helen.mesh import Mesh, Offer
from helen.network_settings import Broker, NetworkSettings
from helen.statedir import StateError, make_folder
from scale0.config import ConfigFault
from scale0.keys import AuthorizedKeys, KeyFault, Pair, load_pair
from scale0.link import Keys
from scale0.negotiation import Target
from scale0.ports import Security
from scale0.reader import Network, SocketError
from scale0.service import BrokerService
from scale0.web import FrontEnd

if TYPE_CHECKING:
    from helen.tap import Helen

REFUSALS = (ConfigFault, KeyFault, SocketError)
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
    """One for a Helen; `mesh` is None without Scale0."""

    log = Logger()

    def __init__(self, reactor: Any, helen: Helen) -> None:
        self.settings: NetworkSettings = helen.settings.network
        self.identity = self.settings.identity or identity_of(helen.settings.names)
        self.mesh: Mesh | None = None
        self.broker: BrokerService | None = None
        self._reactor = reactor
        self._helen = helen
        self._hosted: list[Service] = []
        self._security: Security | None = None

    # ---------------------------------------------------------------------------------------------- starting

    def open(self) -> None:
        """Take ports, read keys and configurations. Raises NetworkRefused."""
        try:
            self._security = self._read_keys()
            if self.settings.embed_scale0 is not None:
                self._host_scale0(self.settings.embed_scale0)
            brokers = [self._target(broker) for broker in self.settings.scale0] + self._own_broker()
        except REFUSALS as error:
            raise NetworkRefused(str(error)) from error
        if brokers:
            offer = Offer(self._helen.overview, self._helen.library.file)
            self.mesh = Mesh(self._reactor, self._helen.house, self.identity, brokers, offer, self._keys)

    def start(self) -> None:
        """Helen serves: so does this."""
        if self.mesh is not None:
            self.mesh.start()

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

    def _own_broker(self) -> list[Target]:
        """The way to the broker that we host: over loopback, whatever it is bound to."""
        if self.broker is None:
            return []
        key = "" if self._security is None else self._security.pair.public
        return [Target(_WILD.sub("tcp://127.0.0.1:", self.broker.ports.ends["backend"]), key)]

    def _target(self, broker: Broker) -> Target:
        return Target(broker.endpoint, self.key_of(broker))

    def key_of(self, broker: Broker) -> str:
        """A broker's public key; empty without CURVE."""
        if not broker.name or self._security is None:
            return ""
        folder = self._security.authorized
        for key, name in folder.names.items():
            if name == broker.name:
                return str(key)
        raise KeyFault(f"{folder.folder} holds no key of {broker.name}, which {broker.endpoint} shall prove to have")

    # ---------------------------------------------------------------------------------------------- looking, ending

    def overview(self) -> dict[str, Any]:
        """For `status`."""
        mesh = self.mesh
        return {"scale0": None if mesh is None else {"identity": self.identity, "state": mesh.state}, "zerotask": None}

    async def leave(self) -> None:
        """Tell brokers that we go; what comes from now on is for others."""
        if self.mesh is not None and self.mesh.worker.running:
            self.mesh.stop()

    async def close(self) -> None:
        """The brokers that we host end, and with them all sockets."""
        for service in reversed(self._hosted):
            await maybeDeferred(service.stopService)
        await Network.of(self._reactor).close()


def identity_of(names: tuple[str, ...]) -> str:
    """Of this Helen in the network: her first name, or this machine's."""
    name = names[0] if names else socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._:-]", "-", name)[:100].lstrip("._:-") or "helen"
