"""`twistd helen`: the options, and the service that wires everything. The only file that knows everybody."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import gc
import importlib
import importlib.util
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python import usage

from helen import checkfolder, keyring, parquet, records, settings, shipped, systemd
from helen import lint as linting
from helen.assigning import AssignmentBook
from helen.authority import Authority
from helen.changing import Changes
from helen.checkfolder import FolderWatch
from helen.credentials import forgotten
from helen.draining import Drain, NoNetwork
from helen.eventlog import EventLog
from helen.gatekeeper import Gatekeeper
from helen.house import House
from helen.journal.journal import Journal
from helen.journal.retention import Retention
from helen.journal.values import JournalError, StoredResult, Trouble
from helen.judge import Judge
from helen.library import Library
from helen.lint import Linter
from helen.listening import TICK_SECONDS, AgentDoor, TLSDoor
from helen.notify.missed import missed
from helen.notify.notifier import Notifier
from helen.one_shots import OneShots
from helen.outside import Outside
from helen.pipeline_watch import LOOK_SECONDS, PipelineWatch
from helen.ports import DEFAULT_PORT
from helen.releases import PushRefused
from helen.rollout import AT_ONCE, USUAL_PLAN, Plan
from helen.settings import Settings, SettingsError
from helen.statedir import StateError, write_whole
from helen.store import Store, StoreFailed
from helen.taking_up import take_up
from helen.telemetry import Telemetry
from helen.tls import ServerTLS
from helen.web import shown
from helen.web.board import Board
from helen.web.pings import Pings
from helen.web.site import Parts, control_site, web_site
from helen.web.streams import Streams
from scale0.plain_usage import PlainOptions

EPOCH = "events.epoch"  # in kv: the word in front of the ids of this state directory's events
BACKLOG = 4_096  # connections that the kernel holds for us: a whole fleet comes back at once after a restart
RETRY_AFTER = 1  # seconds that agents are told to stay away while Helen restarts
# Young objects in bigger lots, and all of them seldom: with 20,000 states looking at all takes 0.1 s and more, in which
# agent is heard. Python puts that off until what is old has grown by a quarter; what ends here is in no cycle of ours.
COLLECT = (50_000, 20, 10)
REFRESH_SECONDS = 3_600.0  # between looks at certificates and manifests that age
SWEEP_SECONDS = 10.0  # between two looks for tokens of the HTTP API that have expired
LAG_SECONDS = 0.25  # between two looks at how late the reactor is
STOP_SECONDS = 4.5  # after which Helen leaves whatever hangs: SIGTERM ends her within 5 s
STORE_SECONDS = 1.0  # of those, for what waits for the store; it tells the present, and is told again
# Settings that SIGHUP changes; of the others the log says that they need a restart.
LIVE = ("minimum_equus", "rings", "names", "retention", "signing_keys")


class Options(PlainOptions):
    """The flags of `twistd helen`; each is a HELEN_* variable and a line of --config FILE, too."""

    program = "helen"
    synopsis = "[options]"
    longdesc = "The server that Equus agents report to. Each flag is a HELEN_* variable and a line of --config, too."
    optParameters = [
        ["state", None, None, "Directory of all that must not be forgotten; made if missing"],
        ["listen", None, None, f"HOST:PORT for agents (*:{DEFAULT_PORT}); port 0 is any free one"],
        ["web", None, None, f"HOST:PORT of the HTTP API and the pages ({settings.DEFAULT_WEB}), or off"],
        ["checks", None, None, "Folder of .lua checks (STATE/checks, filled with the shipped ones)"],
        ["signing-keys", None, None, "File of public keys: check sets are signed elsewhere, with helen push --key"],
        ["minimum-equus", None, None, "Agents older than this version are told to reload"],
        ["retention", None, None, "How long history segments are kept once the pipeline has them (7d)"],
        ["rings", None, None, "How every push goes out, changes of the folder too: 1%,10%,100%, or off for at once"],
        ["scale0-identity", None, None, "Her name in a Scale0 network (the first --name)"],
        ["embed-scale0", None, None, "Configuration of a Scale0 broker that runs in this process"],
        ["network-key", None, None, "Key of a network of Helens who share checks, assignments, agents, downtimes"],
        ["zerotask", None, None, "ZeroTask broker that she works for, tcp://HOST:PORT, with #NAME for its key"],
        ["zerotask-listen", None, None, "Where the broker of --embed-zerotask listens (a socket in STATE/zerotask)"],
        ["curve-key", None, None, "Her CURVE pair, as `scale0ctl keygen` writes it"],
        ["authorized-keys", None, None, "Folder of public CURVE keys: who may connect, and who brokers are"],
        ["config", None, None, "TOML file with any of these settings"],
    ]
    optFlags = [
        ["embed-zerotask", None, "Host a ZeroTask broker in this process: questions that last, helen jobs"],
        ["insecure-plaintext", None, "Speak TCP without TLS: anybody may be any agent"],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["name"] = []
        self["scale0"] = []

    def opt_name(self, name: str) -> None:
        """A host name or address for which Helen's certificate shall be good; may be given several times."""
        self["name"].append(name)

    def opt_scale0(self, endpoint: str) -> None:
        """Backend port of a Scale0 broker, tcp://HOST:PORT, with #NAME for its key; the others are for its absence."""
        self["scale0"].append(endpoint)

    def postOptions(self) -> None:
        try:
            self.settings = self.read_settings()
        except SettingsError as error:
            raise usage.UsageError(str(error)) from error
        if self.settings.network.is_wanted and importlib.util.find_spec("zmq") is None:
            raise usage.UsageError("Scale0 and ZeroTask need pyzmq: pip install 'helen-equus[zmq]'")

    def read_settings(self) -> Settings:
        """From all their sources; again at each SIGHUP. Raises SettingsError."""
        flags = {name: value for name, value in self.items() if name != "config"}
        config = self["config"] or os.environ.get("HELEN_CONFIG")
        return settings.read(settings.gather(flags, os.environ, Path(config) if config else None))


def makeService(options: Options) -> Helen:
    """Called by twistd before it becomes a daemon; nothing is opened yet."""
    return Helen(the_reactor, options.settings, options.read_settings)


class StartRefused(Exception):
    """For a daemon, whose parent shows it: there is no terminal to print a sentence on."""


class Helen(Service):
    """One Helen, from opening her state directory to letting go of it."""

    log = Logger()
    name = "helen"

    def __init__(self, reactor: Any, chosen: Settings, read_settings: Callable[[], Settings]) -> None:
        self.settings = chosen
        self.reactor = reactor
        self.state = chosen.state
        self.version = version("helen-equus")
        self.started_at = time.time()
        self._read_settings = read_settings
        self._made_by = os.getpid()
        self._ports: list[Any] = []
        self._loops: list[LoopingCall] = []
        self.trouble: str | None = None  # of the journal, as long as it lasts
        self._exit_status = 0
        self._ending = False
        self.is_serving = False  # agents are accepted
        self.telemetry = Telemetry()
        self.left = threading.Event()  # set at the very end, or by somebody who outlives this service
        self._web_address: str | None = None
        self.pipeline = PipelineWatch(self.state / "history")
        self.network: Any = None  # helen.network.HelenNetwork, if a setting asks for it
        atexit.register(self._leave)  # of all that are registered from here on it runs last

    # ---------------------------------------------------------------------------------------------- starting

    def startService(self) -> None:
        """Open everything that can refuse to open; what does is one sentence and exit status 1."""
        super().startService()
        try:
            self._open()
            self._bind()
        except (StateError, JournalError, CannotListenError, OSError) as error:
            self._refuse_to_start(_sentence(error), error)
        self.reactor.callWhenRunning(self._run)

    def _refuse_to_start(self, sentence: str, error: Exception) -> None:
        if os.getpid() != self._made_by:  # a daemon: its parent waits for this, and the log has it all
            self.log.critical("helen: {sentence}", sentence=sentence)
            raise StartRefused(sentence) from error
        # Not sys.stderr: by now that is a log, which would put the time and its own name in front.
        print(f"helen: {sentence}", file=sys.__stderr__, flush=True)
        raise SystemExit(1) from error

    def _open(self) -> None:
        chosen, now = self.settings, time.time()
        self.store = Store(self.state, self.reactor.callFromThread)
        loaded = self.store.open(now)
        self.web_tokens = loaded.web_tokens
        host, _ = chosen.listen
        self.authority = Authority.open(self.state, self.store, loaded, chosen.names, now, "" if host == "*" else host)
        self.keys = keyring.load(self.state, chosen.signing_keys, time.time)
        self.journal = Journal(
            self.state / "journal", self.state / "history", self.reactor.callFromThread, self._on_durable,
            self._on_trouble, retention=_retention(chosen),
        )  # fmt: skip
        recovery = self.journal.open()
        for sentence in recovery.sentences:
            tell = self.log.info if sentence in recovery.harmless else self.log.warn
            tell("{sentence}", sentence=sentence)
        self.house = House(self.reactor, self.authority, self.journal, self.store, minimum=chosen.minimum_equus)
        self.house.supply.dress = self.keys.dress
        self.one_shots = OneShots(self.keys, self.store, time.time)
        for known in loaded.agents:
            self._recall(known)
        self.house.recall(recovery.records)
        self.judge = Judge(self.reactor, self.state, self.journal, self.house.supply.again)
        for sentence in self.judge.open(recovery.records):
            self.log.info("{sentence}", sentence=sentence)
        take_up(self.house.roster.agents, self.judge.timeline.states, forgotten(loaded.kv))
        self.board = Board(self.judge)
        self.changes = Changes(self.reactor, self.journal, lambda: self.judge.at)
        self.events = self._open_events(loaded.kv, recovery.records)
        self.streams = Streams(self.reactor, self.events, self.telemetry.cut)
        self.notifier = Notifier(self.reactor, self.state, self.store, self.journal, self.house.facts_of, time.time)
        self.judge.observers.append(self.notifier.decided)
        self._before = self.judge.at, recovery.records
        self.outside = Outside(self.house, self.judge, self.state, time.time, time.monotonic, self.reactor)
        self.pings = Pings(self.outside, self.changes)
        self._facts = loaded.kv
        self.house.supply.on_schedule = lambda agent, entries: self.judge.rule(
            agent, entries, self.house.supply.assignments.judge
        )
        self._newest_revision = loaded.assignments
        checks = chosen.checks or self.state / "checks"
        if chosen.checks is None and checkfolder.fill(checks):
            self.log.info("{folder} has been filled with the shipped checks", folder=checks)
        linting.clear(self.state / "lint")
        self.linter = Linter(self.reactor, self.state / "lint")
        self.library = Library(
            checks, self.store, self.linter, time.time, time.monotonic, self.keys.private, self.keys.root.keys,
            self._published,
        )  # fmt: skip
        self.library.verdicts.shipped = shipped.load()
        self.library.threshold = self.keys.root.threshold
        self._take_rings()
        self.gatekeeper = Gatekeeper(
            self.house, self.library, self.judge, self.state / "history", wall=time.time, steady=time.monotonic
        )
        self.library.aside = self.state / "replaced"
        self.library.load(loaded)
        self.house.supply.library = self.library
        self._tell_keys()
        self.watch = FolderWatch(self.reactor, checks, self.library.look)
        self.book = AssignmentBook(
            self.reactor, self.state / "assignments.toml", self.store, time.time, self.house.supply.assign
        )
        self.server_tls = ServerTLS(self.authority.material)
        self.authority.on_changed(lambda: self.server_tls.swap(self.authority.material))

    def _open_events(self, kv: Mapping[str, str], recovered: Sequence[Any]) -> EventLog:
        """What readers of events go on from. A state directory that is new has a word of its own for its ids."""
        epoch = kv.get(EPOCH)
        if epoch is None:
            epoch = secrets.token_hex(4)
            self.store.call(records.put, EPOCH, epoch).addErrback(self._report_failure)
        newest = max(self.judge.at, self.journal.sealed_at, *(record.at for record in recovered[-1:]))
        events = EventLog(epoch, self.state / "history", lambda: self.journal.sealed_at, newest)
        events.recall(recovered)
        return events

    def _recall(self, known: Any) -> None:
        """An agent that has been here before this start."""
        agent = self.house.roster.know(known.name)
        agent.last_seen, agent.address, agent.facts = known.last_seen, known.address, known.facts
        agent.revoked_at = known.revoked_at
        labels, host = known.facts.get("labels"), known.facts.get("host")
        agent.labels, agent.host = labels if isinstance(labels, dict) else {}, host if isinstance(host, dict) else {}
        agent.isolation, agent.equus_version = known.facts.get("isolation"), known.facts.get("equus") or ""

    def _bind(self) -> None:
        """Take the ports now, so that a taken one is told at once; nobody is accepted before `_run` has finished."""
        given = systemd.sockets(systemd.first_environment())
        chosen = self.settings
        encrypted = not chosen.insecure_plaintext
        if not encrypted:
            self.log.warn("--insecure-plaintext: no TLS, no identities; anybody who reaches this port may be any agent")
        self.house.door = AgentDoor(self.reactor, self.house, encrypted)
        door = TLSDoor(self.server_tls, self.house.door) if encrypted else self.house.door
        agents = self._listen(given.get("agents"), door, chosen.listen)
        agents.stopReading()
        self._agents = agents
        self.address = _written(chosen.listen[0], agents.getHost())
        self.parts = Parts(self)
        if chosen.web is not None or "web" in given:
            web = self._listen(given.get("web"), web_site(self.parts), chosen.web or ("127.0.0.1", 0))
            self._web_address = _written((chosen.web or ("127.0.0.1", 0))[0], web.getHost())
        self._listen_on_control()
        if chosen.network.is_wanted:  # an extra: whoever doesn't use it need not have what it imports
            self.network = importlib.import_module("helen.network").HelenNetwork(self.reactor, self)
        others = self.network or NoNetwork
        self.drain = Drain(self.reactor, self.state, self.house, others.hide, others.offer, others.drained)
        self.drain.open()
        if self.network is not None:
            self.network.open()

    def _listen_on_control(self) -> None:
        """Named by way of a descriptor of its folder: a path of more than 107 bytes fits no address."""
        (self.state / "control.sock").unlink(missing_ok=True)  # of a crash: the lock on the state directory is ours
        self._folder = os.open(self.state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        path = f"/proc/self/fd/{self._folder}/control.sock"
        self._ports.append(self.reactor.listenUNIX(path, control_site(self.parts), mode=0o600))

    def _listen(self, descriptor: int | None, factory: Any, where: tuple[str, int]) -> Any:
        host, port = where
        if descriptor is not None:
            opened = self._adopt(descriptor, factory)
        elif host == "*":
            opened = self._listen_everywhere(port, factory)
        else:
            opened = self.reactor.listenTCP(port, factory, backlog=BACKLOG, interface=host)
        self._ports.append(opened)
        return opened

    def _adopt(self, descriptor: int, factory: Any) -> Any:
        """A socket that systemd has opened. Twisted takes a copy of it, so the one given is closed."""
        with socket.socket(fileno=descriptor) as given:
            given.setblocking(False)  # it comes blocking, and Twisted accepts until there is nobody left
            return self.reactor.adoptStreamPort(given.fileno(), given.family, factory)

    def _listen_everywhere(self, port: int, factory: Any) -> Any:
        """IPv6 and IPv4 on one socket, or IPv4 alone where the kernel has no IPv6."""
        try:
            return self.reactor.listenTCP(port, factory, backlog=BACKLOG, interface="::")
        except CannotListenError as error:
            if getattr(error.socketError, "errno", None) == errno.EADDRINUSE:
                raise
            return self.reactor.listenTCP(port, factory, backlog=BACKLOG, interface="0.0.0.0")

    def _run(self) -> None:
        signal.signal(signal.SIGTERM, self._terminate)  # twistd's own would end with the signal, not with status 0
        signal.signal(signal.SIGHUP, self._hang_up)
        Deferred.fromCoroutine(self._begin()).addErrback(self._failed)

    async def _begin(self) -> None:
        self.journal.change("helen_start", {"version": self.version})  # before all else that this Helen writes down
        await self.authority.refresh(time.time())
        await self.library.load_contents()
        await self.outside.start(self._facts, self._before[1])
        del self._facts
        await self.pipeline.look()
        if self._ending:
            return
        await self.watch.start()  # before the first look: a file that is saved between the two would wait for the next
        looked = self.library.look()  # it asks a process, which reads while we go on
        await self.book.start(self._newest_revision)
        self.outside.begin()
        newest, recovered = self._before
        self.gatekeeper.start(recovered)
        await self.notifier.start(newest, functools.partial(deferToThread, missed, self.state / "history", recovered))
        del self._before  # as much as a segment
        if self._ending:
            return
        self._due = self.reactor.seconds() + LAG_SECONDS
        self._every(LAG_SECONDS, self._measure_lag)
        self._every(TICK_SECONDS, self.house.sweep)
        self._every(TICK_SECONDS, self.judge.tick)
        self._every(SWEEP_SECONDS, lambda: self.parts.api.tokens.sweep(time.time()))
        self._every(TICK_SECONDS, self.gatekeeper.tick)
        self._every(REFRESH_SECONDS, self._refresh)
        self._every(LOOK_SECONDS, self.pipeline.look)
        watchdog = systemd.watchdog_seconds()
        if watchdog is not None:
            self._every(watchdog, functools.partial(systemd.notify, "WATCHDOG=1"))
        if self.network is not None:
            await self.network.start()
        self.drain.start()
        if gc.isenabled():  # else somebody waits for her: 0.2 s, and little is to be found yet
            gc.collect()
            parquet.load()
        gc.freeze()  # what is here now stays: the collector needn't look at it again for every result
        gc.set_threshold(*COLLECT)
        gc.enable()
        await deferToThread(self._write_run_file)
        if self._ending:
            return
        self._agents.startReading()
        self.is_serving = True
        print(f"Helen listens on {self.address}", flush=True)
        if self._web_address is not None:
            self.log.info("the HTTP API is on http://{address}", address=self._web_address)
        systemd.notify("READY=1", f"STATUS=listening on {self.address}")
        await looked

    def _every(self, interval: float, call: Callable[[], object]) -> None:
        """What fails once is told, and done again the next time: one bad agent must not end Helen."""

        def attempt() -> None:
            try:
                call()
            except Exception:
                self.log.failure("{call}", call=call)

        loop = LoopingCall(attempt)
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

    def _tell_keys(self) -> None:
        self.house.signing_keys, self.house.root = self.keys.for_enrolment(self.library.published)

    def _published(self) -> None:
        self.telemetry.pushed += 1
        self._tell_keys()
        if self.network is not None:
            self.network.changed("checks")
        self.house.supply.on_published()

    async def rotate_keys(self, root: bytes | None, dry_run: bool = False) -> None:
        """A new root from elsewhere, or a new key of Helen's own; then the set is signed, or staged, anew."""
        rollout = self.library.releases.rollout
        if rollout is not None:
            raise PushRefused(
                f"version {rollout.version} is on its way, {rollout.place}: rotate keys once that is over"
            )
        if dry_run:
            if root is None:
                self.keys.check_own()
            else:
                self.keys.check_root(root)
            return
        await (self.keys.renew_own() if root is None else self.keys.follow(root))
        self.take_keys()
        await self.library.look()

    def take_keys(self) -> None:
        """Other roots or keys are in force."""
        self.library.take_keys(self.keys.private, self.keys.root.keys, self.keys.root.threshold)
        self._tell_keys()
        if self.network is not None:
            self.network.changed("keys")

    def _measure_lag(self) -> None:
        """How late this call is. One that comes after a long pause is one call, not as many as were due."""
        now = self.reactor.seconds()
        self.telemetry.loop_lag.observe(max(0.0, now - self._due))
        self._due = now + LAG_SECONDS

    @property
    def is_ending(self) -> bool:
        """Helen was told to stop."""
        return self._ending

    @property
    def web(self) -> str | None:
        """HOST:PORT of the HTTP API on TCP."""
        return self._web_address

    def overview(self) -> dict[str, Any]:
        """What there is to say of her in a few words."""
        return shown.show_overview(self)

    def _refresh(self) -> Deferred[Any]:
        renewed = self.authority.refresh(time.time()).addErrback(self._report_failure)
        return gatherResults([renewed, self.library.look()])

    def reload(self) -> None:
        """SIGHUP: settings, certificates, assignments and checks are read again; nobody is dropped."""
        systemd.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")
        self.log.info("SIGHUP: reading settings, certificates, assignments and checks again")
        read = deferToThread(self._read_settings).addCallback(self._take_settings).addErrback(self._report_failure)
        read.addCallback(lambda _: self._refresh())  # of a certificate for the names of now
        books = (self.book, self.notifier.book, self.outside.book)
        done = gatherResults([read, *(book.reread("SIGHUP") for book in books)])
        done.addErrback(self._report_failure)
        done.addCallback(lambda _: systemd.notify("READY=1"))

    def _take_settings(self, fresh: Settings) -> Deferred[None]:
        if (fresh.signing_keys is None) != (self.settings.signing_keys is None):  # who holds the private one changes
            self.log.warn("changed, but only a restart makes it so: signing_keys")
            fresh = attrs.evolve(fresh, signing_keys=self.settings.signing_keys)
        changed = [name for name in LIVE if getattr(fresh, name) != getattr(self.settings, name)]
        rest = attrs.evolve(fresh, **{name: getattr(self.settings, name) for name in LIVE})
        if rest != self.settings:
            held = attrs.asdict(self.settings)
            names = ", ".join(name for name, value in attrs.asdict(rest).items() if value != held[name])
            self.log.warn("changed, but only a restart makes it so: {names}", names=names)
        self.settings = attrs.evolve(self.settings, **{name: getattr(fresh, name) for name in changed})
        self.house.minimum = self.settings.minimum_equus
        self._take_rings()
        host, _ = self.settings.listen
        self.authority.answer_to(self.settings.names, "" if host == "*" else host)
        self.journal.retain(_retention(self.settings))
        return Deferred.fromCoroutine(self._reread_keys())

    async def _reread_keys(self) -> None:
        """The public keys of --signing-keys, as their file is now; Raises StateError, and those of before stay."""
        if self.settings.signing_keys is not None and await self.keys.reread(self.settings.signing_keys):
            self.library.take_keys(self.keys.private, self.keys.root.keys, self.keys.root.threshold)
            self._tell_keys()

    def _take_rings(self) -> None:
        """How pushes go out that don't say it themselves."""
        rings = self.settings.rings
        self.library.plan = USUAL_PLAN if rings is None else Plan(rings)
        self.library.folder_plan = AT_ONCE if rings is None else Plan(rings)

    def _on_durable(self, batch: Any) -> None:
        self.telemetry.durable(record for record in batch.records if isinstance(record, StoredResult))
        self.house.on_durable(batch)
        self.judge.durable(batch.records)
        self.events.take(batch.records)
        self.changes.durable(batch.records)
        self.gatekeeper.durable(batch.records)

    def _on_trouble(self, trouble: Trouble) -> None:
        self.trouble = None if trouble.over else trouble.sentence
        if trouble.over:
            self.log.info("{sentence}", sentence=trouble.sentence)
            return
        self.log.critical("{sentence}", sentence=trouble.sentence)
        if trouble.fatal:
            self.end(1)

    def _report_failure(self, failure: Any) -> None:
        if failure.check(SettingsError, StateError, StoreFailed):  # whose sentence says it all
            self.log.error("{sentence}", sentence=failure.getErrorMessage())
        else:
            self.log.failure("a task in the background", failure)

    def _failed(self, failure: Any) -> None:
        self._report_failure(failure)
        self.log.critical("Helen can't go on")
        self.end(1)

    # ---------------------------------------------------------------------------------------------- ending

    def _terminate(self, *_: Any) -> None:
        self.reactor.callFromThread(self.end, 0)

    def _hang_up(self, *_: Any) -> None:
        self.reactor.callFromThread(self.reload)

    def end(self, status: int) -> None:
        """Stop, and leave with this status."""
        self._exit_status = self._exit_status or status
        self._begin_to_end()
        with contextlib.suppress(ReactorNotRunning):
            self.reactor.stop()

    def _begin_to_end(self) -> None:
        if not self._ending:
            self._ending = True
            threading.Thread(target=self._leave_in_time, name="helen.end", daemon=True).start()

    def _leave_in_time(self) -> None:
        """A thread of its own: what hangs (a disk, most likely) may hold the reactor or its threads for ever."""
        if self.left.wait(STOP_SECONDS):
            return
        print(f"helen: not everything could be written within {STOP_SECONDS:g} s; leaving", file=sys.stderr, flush=True)
        os._exit(self._exit_status or 1)

    def stopService(self) -> Deferred[None]:
        """Tell agents, flush, let go: within 5 s."""
        super().stopService()
        self._begin_to_end()
        systemd.notify("STOPPING=1")
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        for loop in self._loops:
            if loop.running:
                loop.stop()
        self.watch.stop()
        self.drain.stop()
        self.book.stop()
        self.outside.stop()
        left = None if self.network is None else Deferred.fromCoroutine(self.network.leave())
        for port in self._ports:
            await _done(port.stopListening())
        self.streams.stop()
        self.house.say_goodbye(RETRY_AFTER)
        await self.house.all_gone()
        if left is not None:
            await left.addErrback(self._report_failure)
            await Deferred.fromCoroutine(self.network.close()).addErrback(self._report_failure)
        self.linter.stop()
        self.judge.stop()
        put_away = self.notifier.stop().addTimeout(STORE_SECONDS, self.reactor)
        await put_away.addErrback(self._report_failure)
        self.journal.change("helen_stop", {"version": self.version})
        await deferToThread(self.journal.close)
        await self.judge.save()
        closed = self.store.close().addTimeout(STORE_SECONDS, self.reactor)
        await closed.addErrback(self._report_failure)
        for name in ("run.json", "control.sock"):
            (self.state / name).unlink(missing_ok=True)
        os.close(self._folder)

    def _leave(self) -> None:
        """At the very end, when twistd has put its own things away: it knows no exit status of a service's."""
        self.left.set()
        if self._exit_status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._exit_status)


def _retention(chosen: Settings) -> Retention:
    return Retention(keep_days=chosen.retention / 86_400)


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
