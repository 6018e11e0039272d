"""Hosts the brokers of Scale0 and ZeroTask that run in Helen's process, with the keys that they admit."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from helen.files.state_dir import StateError, make_folder
from helen.settings.network_settings import NetworkSettings
from scale0.broker.management_pages import FrontEnd
from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security
from scale0.config.keys import ANY, AuthorizedKeys, KeyEntry, KeyFault, Pair, load_pair
from scale0.endpoint.connection import Keys
from scale0.endpoint.effects import Target
from zerotask.broker.scale0_gateway import Scale0Network
from zerotask.service import Settings, ZeroTaskService

IPC_MOST = 107  # bytes of a socket's path: what the kernel takes
_WILD = re.compile(r"tcp://(?:0\.0\.0\.0|\[::\]|\*):")


class NetworkRefused(StateError):
    """Tells in a sentence what keeps Helen from taking part."""


class Admitted(AuthorizedKeys):
    """Admits the keys of the folder and this Helen's own: it connects to the brokers that it hosts."""

    def __init__(self, folder: Any, own: Pair) -> None:
        self._own = own.public
        super().__init__(folder)

    def is_authorized(self, key: str) -> bool:
        """Return True for a key of the folder, and for our own."""
        return key == self._own or bool(super().is_authorized(key))

    def bound_to(self, key: str) -> str | None:
        return None if key == self._own else super().bound_to(key)

    def entry_of(self, key: str) -> KeyEntry | None:
        """Return what the folder says of a key; our own is a Helen's, of any identity."""
        return KeyEntry(ANY, ("helen", "admin")) if key == self._own else super().entry_of(key)


class HostedBrokers:
    """Starts and ends the brokers in this process; `scale0` and `zerotask` are None unless settings ask for them.

    `security` is the pair of --curve-key with the keys that --authorized-keys admits; None without CURVE.
    """

    log = Logger()

    def __init__(self, reactor: Any, settings: NetworkSettings, state: Path, identity: str) -> None:
        self.scale0: BrokerService | None = None
        self.zerotask: ZeroTaskService | None = None
        self.security: Security | None = None
        self._reactor, self._settings, self._state, self._identity = reactor, settings, state, identity
        self._services: list[Service] = []
        self._token = secrets.token_hex(32)  # by which a broker in this process knows our own connections

    def read_keys(self) -> None:
        """Read --curve-key and --authorized-keys, if both are given. Raises KeyFault if one can't be used."""
        chosen = self._settings
        if chosen.curve_key is None or chosen.authorized_keys is None:
            return
        if not chosen.authorized_keys.is_dir():
            raise KeyFault(f"{chosen.authorized_keys}: no such folder; it holds one NAME.key for each peer")
        pair = load_pair(chosen.curve_key)
        self.security = Security(pair, Admitted(chosen.authorized_keys, pair))

    def host_scale0(self, file: Any) -> None:
        """Host a broker of Scale0 with the configuration in `file`, and its HTTP pages if that has any."""
        folder = self._state / "scale0"
        make_folder(folder)
        self.scale0 = BrokerService(
            self._reactor, file, folder, self.security, is_open=self._settings.insecure, token=self._token
        )
        self._host(self.scale0)
        if self.scale0.broker.config.http:
            self._host(FrontEnd(self._reactor, self.scale0))

    def _host(self, service: Service) -> None:
        """Start a service. An error at once is raised to the caller; a later failure is told in the log."""
        started = service.startService()
        self._services.append(service)
        if isinstance(started, Deferred):
            started.addErrback(lambda failure: self.log.failure("a part of the network does not start", failure))

    def host_zerotask(self) -> None:
        """Host ZeroTask on sockets in the state directory, which only our user can open, unless a setting says
        otherwise. Raises NetworkRefused if their path is too long for a socket.
        """
        folder = self._state / "zerotask"
        make_folder(folder)
        listen = self._settings.zerotask_listen or f"ipc://{folder}/tasks.sock"
        publish = f"{listen}.p" if listen.startswith("ipc:") else f"{listen.rpartition(':')[0]}:0"
        if len(publish.removeprefix("ipc://").encode()) > IPC_MOST:
            raise NetworkRefused(
                f"{publish} is longer than a socket's path may be: give --zerotask-listen tcp://127.0.0.1:5555, which"
                " every user of this machine can reach, or a shorter --state"
            )
        pair = None if self.security is None else self.security.pair
        keys = None if self.security is None else self.security.authorized
        settings = Settings(folder, listen, publish, pair, keys, self._zerotask_network(), self._settings.insecure)
        self.zerotask = ZeroTaskService(settings, self._reactor)
        self._host(self.zerotask)

    def _zerotask_network(self) -> Scale0Network | None:
        """Return the way by which ZeroTask serves `zerotask.broker` and Titanic in the network of the broker here."""
        if self.scale0 is None:
            return None
        pair = None if self.security is None else self.security.pair
        keys = None if pair is None else Keys(pair.public, pair.secret)
        return Scale0Network(f"{self._identity}.zerotask", self.targets("backend"), self.targets("frontend"), keys)

    def targets(self, end: str) -> tuple[Target, ...]:
        """Return the way to the broker of Scale0 here, over loopback whatever it is bound to; empty without one."""
        if self.scale0 is None:
            return ()
        key = "" if self.security is None else self.security.pair.public
        return (Target(_WILD.sub("tcp://127.0.0.1:", self.scale0.sockets.endpoints[end]), key, token=self._token),)

    def admitted_keys(self) -> AuthorizedKeys | None:
        """Return the folder of keys that a broker here admits; None without a broker or without CURVE."""
        hosts = self.scale0 is not None or self.zerotask is not None
        return self.security.authorized if self.security is not None and hosts else None

    async def close(self) -> None:
        """End all brokers of this process, the newest first."""
        for service in reversed(self._services):
            await maybeDeferred(service.stopService)
