"""`twistd zerotask`: options, and the broker as the process's only service."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python import usage

from scale0.keys import AuthorizedKeys, KeyFault, load_pair
from scale0.link import Keys
from scale0.negotiation import Target
from scale0.plain_usage import PlainOptions
from scale0.reader import Network
from zerotask.gateway import Scale0
from zerotask.service import LISTEN, PUBLISH, Settings, StartError, ZeroTaskService
from zerotask.shelf import StoreError


class Options(PlainOptions):
    program = "zerotask"
    synopsis = "[options]"
    longdesc = "A durable task broker. Tasks lie in STATE/tasks.db; STATE/run.json says where it listens."
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
        ["authorized-keys", None, None, "Folder with the public keys of those who may connect."],
        [
            "scale0-backend",
            None,
            None,
            "Backend of a Scale0 broker, where to offer `zerotask.broker` and Titanic: tcp://HOST:PORT, and under CURVE"
            " #NAME behind it, the name of its key in --authorized-keys.",
        ],
        ["scale0-frontend", None, None, "Its frontend, where stored requests of Titanic ask for their services."],
        ["scale0-identity", None, "zerotask", "Our identity in that network."],
    ]

    def postOptions(self) -> None:
        if not self["state"]:
            raise usage.UsageError("--state DIR is required: it is where tasks are kept")
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
    """The broker as a process: one that cannot start says why in a line and exits with 1; SIGTERM is no failure."""

    def startService(self) -> None:
        try:
            super().startService()
        except (StoreError, StartError) as error:
            raise SystemExit(f"zerotask: {error}") from error
        reactor.callWhenRunning(_end_well)

    def stopService(self) -> Deferred[Any]:
        return maybeDeferred(super().stopService).addBoth(lambda ignored: Network.of(reactor).close())


def _end_well() -> None:
    """Twisted's own way would end in the signal again, which supervisors count as a crash."""
    signal.signal(signal.SIGTERM, lambda number, frame: reactor.callFromThread(reactor.stop))


def makeService(options: Options) -> Service:
    return _Process(options.settings, reactor)


def settings(options: dict[str, Any]) -> Settings:
    """Also for `twistd helen --embed-zerotask`, which has the same options."""
    pair = keys = None
    if options["curve-key"]:
        pair, keys = load_pair(Path(options["curve-key"])), AuthorizedKeys(Path(options["authorized-keys"]))
    network = None
    if options["scale0-backend"]:
        ends = ((_target(options[f"scale0-{end}"], keys),) for end in ("backend", "frontend"))
        network = Scale0(options["scale0-identity"], *ends, None if pair is None else Keys(pair.public, pair.secret))
    return Settings(Path(options["state"]), options["listen"], options["publish"], pair, keys, network)


def _target(text: str, keys: AuthorizedKeys | None) -> Target:
    """A broker of Scale0, and the key that it has to prove."""
    endpoint, _, name = text.partition("#")
    if name and keys is None:
        raise usage.UsageError(f"{text}: a broker's key needs --curve-key and --authorized-keys, too")
    return Target(endpoint, "" if keys is None or not name else keys.key_of(name))
