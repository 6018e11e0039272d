"""`twistd helen`: the options, and the service that wires everything. The only file that knows everybody."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import signal
import socket
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python import usage

from helen import checkfolder, settings, signing, systemd
from helen.assigning import AssignmentBook
from helen.authority import Authority
from helen.checkfolder import FolderWatch
from helen.house import House
from helen.journal.journal import Journal
from helen.journal.retention import Retention
from helen.journal.values import JournalError, Trouble
from helen.library import Library
from helen.lint import lint
from helen.listening import TICK_SECONDS, AgentDoor
from helen.rollout import DEFAULT_FRACTION
from helen.settings import Settings, SettingsError
from helen.statedir import StateError, write_whole
from helen.store import Store
from helen.tls import ServerTLS
from helen.web.site import Parts, control_site, web_site

BACKLOG = 4_096  # connections that the kernel holds for us: a whole fleet comes back at once after a restart
RETRY_AFTER = 1  # seconds that agents are told to stay away while Helen restarts
REFRESH_SECONDS = 3_600.0  # between looks at certificates and manifests that age


class Options(usage.Options):  # type: ignore[misc]
    """The flags of `twistd helen`; each is a HELEN_* variable and a line of --config FILE, too."""

    synopsis = "[options]"
    longdesc = "The server that Equus agents report to. docs/server.rst explains each option."
    optParameters = [
        ["state", None, None, "Directory of all that must not be forgotten; made if missing"],
        ["listen", None, None, f"HOST:PORT for agents (*:{settings.DEFAULT_PORT}); port 0 is any free one"],
        ["web", None, None, f"HOST:PORT of the HTTP API and the pages ({settings.DEFAULT_WEB}), or off"],
        ["checks", None, None, "Folder of .lua checks (STATE/checks, filled with the shipped ones)"],
        ["signing-keys", None, None, "File of public keys: check sets are signed elsewhere, with helen push --key"],
        ["minimum-equus", None, None, "Agents older than this version are told to reload"],
        ["retention", None, None, "How long history segments are kept once the pipeline has them (7d)"],
        ["config", None, None, "TOML file with any of these settings"],
    ]
    optFlags = [
        ["rings", None, "Changes of the folder go to 1 % of the agents first, as helen push --canary 1% does"],
        ["insecure-plaintext", None, "Speak TCP without TLS: anybody may be any agent"],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["name"] = []

    def opt_name(self, name: str) -> None:
        """A host name or address for which Helen's certificate shall be good; may be given several times."""
        self["name"].append(name)

    def postOptions(self) -> None:
        flags = {name: value for name, value in self.items() if name != "config"}
        config = self["config"] or os.environ.get("HELEN_CONFIG")
        try:
            self.settings = settings.read(settings.gather(flags, os.environ, Path(config) if config else None))
        except SettingsError as error:
            raise usage.UsageError(str(error)) from error


def makeService(options: Options) -> Helen:
    """Called by twistd before it becomes a daemon; nothing is opened yet."""
    return Helen(the_reactor, options.settings)


class Helen(Service):
    """One Helen, from opening her state directory to letting go of it."""

    log = Logger()
    name = "helen"

    def __init__(self, reactor: Any, chosen: Settings) -> None:
        self.settings = chosen
        self.reactor = reactor
        self.state = chosen.state
        self.version = version("helen-equus")
        self.started_at = time.time()
        self._ports: list[Any] = []
        self._loops: list[LoopingCall] = []
        self._exit_status = 0
        self._web_address: str | None = None

    # ---------------------------------------------------------------------------------------------- starting

    def startService(self) -> None:
        """Open everything that can refuse to open; what does is one sentence and exit status 1."""
        super().startService()
        try:
            self._open()
            self._bind()
        except (StateError, JournalError, CannotListenError, OSError) as error:
            print(f"helen: {_sentence(error)}", file=sys.stderr, flush=True)
            raise SystemExit(1) from error
        self.reactor.callWhenRunning(self._run)

    def _open(self) -> None:
        chosen, now = self.settings, time.time()
        self.store = Store(self.state, self.reactor.callFromThread)
        loaded = self.store.open(now)
        host, _ = chosen.listen
        self.authority = Authority.open(self.state, self.store, loaded, chosen.names, now, "" if host == "*" else host)
        keys = signing.load(self.state, chosen.signing_keys)
        self.journal = Journal(
            self.state / "journal", self.state / "history", self.reactor.callFromThread, self._on_durable,
            self._on_trouble, retention=Retention(keep_days=chosen.retention / 86_400),
        )  # fmt: skip
        for sentence in self.journal.open().sentences:
            self.log.warn("{sentence}", sentence=sentence)
        self.house = House(self.reactor, self.authority, self.journal, self.store, minimum=chosen.minimum_equus)
        self.house.signing_keys = keys.pem()
        for known in loaded.agents:
            if known.revoked_at is None:
                self._recall(known)
        checks = chosen.checks or self.state / "checks"
        if chosen.checks is None and checkfolder.fill(checks):
            self.log.info("{folder} has been filled with the shipped checks", folder=checks)
        self.library = Library(
            checks, self.store, functools.partial(lint, self.reactor), time.time, time.monotonic, keys.private,
            keys.public, self.house.on_published,
        )  # fmt: skip
        self.library.fraction = DEFAULT_FRACTION if chosen.rings else None
        self.library.fleet = lambda: [agent.name for agent in self.house.roster.connected() if agent.version == 2]
        self.library.load(loaded)
        self.house.library = self.library
        self.watch = FolderWatch(self.reactor, checks, self._checks_changed)
        self.book = AssignmentBook(
            self.reactor, self.state / "assignments.toml", self.store, time.time, self.house.assign
        )
        self.server_tls = ServerTLS(self.authority.material)
        self.authority.on_changed(lambda: self.server_tls.swap(self.authority.material))

    def _recall(self, known: Any) -> None:
        """An agent that has been here before this start."""
        agent = self.house.roster.know(known.name)
        agent.last_seen, agent.address = known.last_seen, known.address
        labels, host = known.facts.get("labels"), known.facts.get("host")
        agent.labels, agent.host = labels if isinstance(labels, dict) else {}, host if isinstance(host, dict) else {}
        agent.isolation, agent.equus_version = known.facts.get("isolation"), known.facts.get("equus") or ""

    def _bind(self) -> None:
        """Take the ports now, so that a taken one is told at once; nobody is accepted before `_run` has finished."""
        given = systemd.sockets()
        chosen = self.settings
        encrypted = not chosen.insecure_plaintext
        if not encrypted:
            self.log.warn("--insecure-plaintext: no TLS, no identities; anybody who reaches this port may be any agent")
        self.house.door = AgentDoor(self.reactor, self.house, encrypted)
        door = TLSMemoryBIOFactory(self.server_tls, False, self.house.door) if encrypted else self.house.door
        agents = self._listen(given.get("agents"), door, chosen.listen)
        agents.stopReading()
        self._agents = agents
        self.address = _written(chosen.listen[0], agents.getHost())
        self.parts = Parts(self)
        control = self.state / "control.sock"
        control.unlink(missing_ok=True)  # left behind by a crash: the lock on the state directory is ours
        self._ports.append(self.reactor.listenUNIX(str(control), control_site(self.parts), mode=0o600))
        if chosen.web is not None or "web" in given:
            web = self._listen(given.get("web"), web_site(self.parts), chosen.web or ("127.0.0.1", 0))
            self._web_address = _written((chosen.web or ("127.0.0.1", 0))[0], web.getHost())

    def _listen(self, descriptor: int | None, factory: Any, where: tuple[str, int]) -> Any:
        host, port = where
        if descriptor is not None:
            with socket.socket(fileno=os.dup(descriptor)) as given:
                family = given.family
            opened = self.reactor.adoptStreamPort(descriptor, family, factory)
        elif host == "*":
            opened = self._listen_everywhere(port, factory)
        else:
            opened = self.reactor.listenTCP(port, factory, backlog=BACKLOG, interface=host)
        self._ports.append(opened)
        return opened

    def _listen_everywhere(self, port: int, factory: Any) -> Any:
        """IPv6 and IPv4 on one socket, or IPv4 alone where the kernel has no IPv6."""
        try:
            return self.reactor.listenTCP(port, factory, backlog=BACKLOG, interface="::")
        except CannotListenError as error:
            if isinstance(error.socketError, OSError) and socket.has_ipv6 and error.socketError.errno == 98:
                raise
            return self.reactor.listenTCP(port, factory, backlog=BACKLOG, interface="0.0.0.0")

    def _run(self) -> None:
        signal.signal(signal.SIGTERM, self._terminate)  # twistd's own would end with the signal, not with status 0
        signal.signal(signal.SIGHUP, self._hang_up)
        Deferred.fromCoroutine(self._begin()).addErrback(self._failed)

    async def _begin(self) -> None:
        await self.authority.refresh(time.time())
        await self.library.load_contents()
        await self.book.start()
        self._every(TICK_SECONDS, self.house.sweep)
        self._every(REFRESH_SECONDS, self._refresh)
        watchdog = systemd.watchdog_seconds()
        if watchdog is not None:
            self._every(watchdog, functools.partial(systemd.notify, "WATCHDOG=1"))
        self.journal.change("helen_start", {"version": self.version})
        self._agents.startReading()
        await deferToThread(self._write_run_file)
        print(f"Helen listens on {self.address}", flush=True)
        if self._web_address is not None:
            self.log.info("the HTTP API is on http://{address}", address=self._web_address)
        systemd.notify("READY=1", f"STATUS=listening on {self.address}")
        self.watch.start()
        self._checks_changed()
        gc.collect()
        gc.freeze()  # what is here now stays: the collector needn't look at it again for every result

    def _every(self, interval: float, call: Any) -> None:
        loop = LoopingCall(call)
        loop.clock = self.reactor
        loop.start(interval, now=False).addErrback(self._failed)
        self._loops.append(loop)

    def _write_run_file(self) -> None:
        run = {
            "pid": os.getpid(),
            "agents": self.address,
            "web": self._web_address,
            "version": self.version,
            "name": self.settings.names[0] if self.settings.names else socket.gethostname(),
        }
        write_whole(self.state / "run.json", json.dumps(run).encode() + b"\n", 0o644)

    # ---------------------------------------------------------------------------------------------- living

    def _checks_changed(self) -> None:
        self.library.refresh().addErrback(self._report_failure)

    def _refresh(self) -> None:
        self.authority.refresh(time.time()).addErrback(self._report_failure)
        self._checks_changed()

    def reload(self) -> None:
        """SIGHUP: certificates, assignments and checks are read again; nobody is dropped."""
        systemd.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")
        self._refresh()
        self.book.reread("SIGHUP").addErrback(self._report_failure)
        systemd.notify("READY=1")

    def _on_durable(self, batch: Any) -> None:
        self.house.on_durable(batch)

    def _on_trouble(self, trouble: Trouble) -> None:
        if trouble.over:
            self.log.info("{sentence}", sentence=trouble.sentence)
            return
        self.log.critical("{sentence}", sentence=trouble.sentence)
        if trouble.fatal:
            self.end(1)

    def _report_failure(self, failure: Any) -> None:
        self.log.failure("a task in the background", failure)

    def _failed(self, failure: Any) -> None:
        self.log.failure("Helen can't go on", failure)
        self.end(1)

    # ---------------------------------------------------------------------------------------------- ending

    def _terminate(self, *_: Any) -> None:
        self.reactor.callFromThread(self.end, 0)

    def _hang_up(self, *_: Any) -> None:
        self.reactor.callFromThread(self.reload)

    def end(self, status: int) -> None:
        """Stop, and leave with this status."""
        self._exit_status = self._exit_status or status
        with contextlib.suppress(Exception):  # it is stopping already
            self.reactor.stop()

    def stopService(self) -> Deferred[None]:
        """Tell agents, flush, let go: within 5 s."""
        super().stopService()
        systemd.notify("STOPPING=1")
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        for loop in self._loops:
            if loop.running:
                loop.stop()
        self.watch.stop()
        self.book.stop()
        for port in self._ports:
            await _done(port.stopListening())
        self.parts.stop()
        self.journal.change("helen_stop", {"version": self.version})
        self.house.say_goodbye(RETRY_AFTER)
        await self.house.all_gone()
        await deferToThread(self.journal.close)
        await self.store.close()
        for name in ("run.json", "control.sock"):
            (self.state / name).unlink(missing_ok=True)
        if self._exit_status:
            self.reactor.addSystemEventTrigger("after", "shutdown", self._leave)

    def _leave(self) -> None:
        """twistd knows no exit status of a service's."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self._exit_status)


async def _done(result: Any) -> None:
    if isinstance(result, Deferred):
        await result


def _written(host: str, bound: Any) -> str:
    """HOST:PORT as others shall write it: the host that was asked for, the port that was got."""
    if host == "*":
        host = socket.gethostname()
    return f"[{host}]:{bound.port}" if ":" in host else f"{host}:{bound.port}"


def _sentence(error: Exception) -> str:
    if isinstance(error, CannotListenError):
        reason = getattr(error.socketError, "strerror", None) or error.socketError
        return f"can't listen on {error.interface or '*'}:{error.port}: {reason}. Is another Helen running there?"
    return str(error)
