"""Reads the options of `twistd zerotask`, and makes the broker the process's only service."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python import usage

from groundwork.safe_log import guard_log
from groundwork.steady_reactor import use_monotonic_clock
from scale0.config.keys import AuthorizedKeys, KeyFault, load_pair
from scale0.endpoint.connection import Keys
from scale0.endpoint.effects import Target
from scale0.plain_usage import PlainOptions
from scale0.wire.reader import Network
from zerotask.broker.scale0_gateway import Scale0Network
from zerotask.service import LISTEN, PUBLISH, Settings, StartError, ZeroTaskService
from zerotask.storage.schema import StoreError

use_monotonic_clock(reactor)  # before anything is scheduled


class Options(PlainOptions):
    """Declares the options; `settings` has them checked."""

    program = "zerotask"
    synopsis = "[options]"
    longdesc = "Runs a durable task broker. Its tasks are in STATE/tasks.db; STATE/run.json names its endpoints."
    optParameters = [
        ["state", None, None, "Folder of the broker's tasks; made if it is missing. Required."],
        ["listen", None, LISTEN, "Endpoint for clients and nodes; port 0 is any free one."],
        ["publish", None, PUBLISH, "Endpoint for announcements."],
        [
            "curve-key",
            None,
            None,
            "This broker's CURVE pair, as `scale0ctl keygen` writes it; without it only loopback and ipc are served.",
        ],
        ["authorized-keys", None, None, "Folder with the public keys of clients and nodes that may connect."],
        [
            "scale0-backend",
            None,
            None,
            "Backend of a Scale0 broker that offers `zerotask.broker` and Titanic: tcp://HOST:PORT, and under CURVE"
            " #NAME behind it, the name of its key in --authorized-keys.",
        ],
        ["scale0-frontend", None, None, "Its frontend, through which stored requests of Titanic reach their services."],
        ["scale0-identity", None, "zerotask", "This broker's identity in that network."],
    ]

    optFlags = [["insecure-network", None, "For trials: every client may do what is Helen's, without a key's role."]]

    def postOptions(self) -> None:
        """Check the options. Raises UsageError if one is missing or malformed, or if a key cannot be read."""
        if not self["state"]:
            raise usage.UsageError("--state DIR is required: the folder of the broker's tasks")
        for name in ("listen", "publish"):
            if not self[name].startswith(("tcp://", "ipc://")):
                raise usage.UsageError(f"--{name} {self[name]}: an endpoint is tcp://HOST:PORT or ipc://PATH")
        if bool(self["curve-key"]) != bool(self["authorized-keys"]):
            raise usage.UsageError("--curve-key and --authorized-keys belong together")
        if bool(self["scale0-backend"]) != bool(self["scale0-frontend"]):
            raise usage.UsageError("--scale0-backend and --scale0-frontend belong together")
        try:
            self.settings = settings(self)
        except KeyFault as error:
            raise usage.UsageError(str(error)) from error


class _Process(ZeroTaskService):
    """Runs the broker as a process: if it cannot start it prints one sentence; SIGTERM is a normal end."""

    def startService(self) -> None:
        """Start the broker. Raises SystemExit with the reason, for exit status 1, if it cannot start."""
        try:
            super().startService()
        except (StoreError, StartError) as error:
            raise SystemExit(f"zerotask: {error}") from error
        reactor.callWhenRunning(_end_well)

    def stopService(self) -> Deferred[Any]:
        """Stop the broker, then end ZeroMQ's own thread."""
        return maybeDeferred(super().stopService).addBoth(lambda ignored: Network.of(reactor).close())


def _end_well() -> None:
    """Stop on SIGTERM with exit status 0: Twisted would raise the signal again, which supervisors count as a crash."""
    stop: Any = reactor.stop  # type: ignore[misc]  # mypy takes the reactor for a module of functions with `self`
    signal.signal(signal.SIGTERM, lambda number, frame: reactor.callFromThread(stop))


def makeService(options: Options) -> Service:
    """Return the service that twistd runs."""
    guard_log()
    return _Process(options.settings, reactor)


def settings(options: dict[str, Any]) -> Settings:
    """Return the broker's settings. Raises KeyFault if a key cannot be read."""
    pair = keys = None
    if options["curve-key"]:
        pair, keys = load_pair(Path(options["curve-key"])), AuthorizedKeys(Path(options["authorized-keys"]))
    network = None
    if options["scale0-backend"]:
        backend, frontend = _target(options["scale0-backend"], keys), _target(options["scale0-frontend"], keys)
        own_keys = None if pair is None else Keys(pair.public, pair.secret)
        network = Scale0Network(options["scale0-identity"], (backend,), (frontend,), own_keys)
    return Settings(
        Path(options["state"]),
        options["listen"],
        options["publish"],
        pair,
        keys,
        network,
        bool(options["insecure-network"]),
    )


def _target(text: str, keys: AuthorizedKeys | None) -> Target:
    """Return a broker of Scale0, and the key that it has to prove. Raises UsageError or KeyFault."""
    endpoint, _, name = text.partition("#")
    if name and keys is None:
        raise usage.UsageError(f"{text}: the name of a key needs --curve-key and --authorized-keys")
    return Target(endpoint, "" if keys is None or not name else keys.key_of(name))
