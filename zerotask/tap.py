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
from scale0.plain_usage import PlainOptions
from scale0.reader import Network
from zerotask.service import LISTEN, PUBLISH, Scale0, Settings, StartError, ZeroTaskService
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
        ["scale0-backend", None, None, "Backend of a Scale0 broker, where to offer `zerotask.broker` and Titanic."],
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
        ends = (options["scale0-backend"],), (options["scale0-frontend"],)
        network = Scale0(options["scale0-identity"], *ends)
    return Settings(Path(options["state"]), options["listen"], options["publish"], pair, keys, network)
