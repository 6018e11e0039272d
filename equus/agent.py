"""The agent itself: what outlives connections. Everything that it needs is made in tap.py and handed over.

It decides when to enrol, to renew, to load code and to report its own health. What is said on one connection is a
Talk's, what is due a Rounds', where to dial a Link's, who we are a Membership's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, frozen
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus import health, host, schedule_document, servers, stage0
from equus.connection import Connection
from equus.durable import Keeper
from equus.jobs import dump
from equus.link import Link
from equus.membership import Membership
from equus.one_shots import Here, OneShots, Remembered
from equus.policy import Policy, PolicyError
from equus.rounds import Rounds, scheduled_job
from equus.route import Route
from equus.schedule import Entry
from equus.secret_runner import SecretRunner
from equus.settings import Settings
from equus.spool_writer import SpoolWriter
from equus.talk import Talk
from equus.trust import explain
from equus.update import Update
from equus.upgrade import Upgrades
from equus.upgrading import Upgrading
from equus_protocol import messages as m

TICK = 60.0  # seconds between two looks at the certificate, and two self-reports
SPOOL_STOPS_WITHIN = 2.0  # seconds for the last sync; SIGTERM leaves five for everything
SCHEDULE_FILE = "schedule.json"
NOT_ENROLLED, IN_USE = "not-enrolled", "identity-in-use"  # errors with a next step for people


@frozen
class Means:
    """What tap.py makes: the parts that don't know the agent."""

    reactor: Any
    wall: Callable[[], float]
    runner: SecretRunner
    writer: SpoolWriter
    membership: Membership
    route: Route
    version: str
    say: Callable[[str], None]  # a line on stdout
    finish: Callable[[int, str], None]  # exit status and a sentence for stderr
    defer_to_thread: Callable[..., Deferred[Any]]
    loaded: Callable[[], None] = lambda: None  # called at the first `loaded`
    upgrades: Upgrades | None = None  # None: this agent stays what it is


@define
class _Turn:
    """The connection of the moment and its talk."""

    connection: Connection | None = None
    talk: Talk | None = None


class Agent:
    """One running Equus; the Listener of its connections."""

    log = Logger(namespace="equus.agent")

    def __init__(self, settings: Settings, means: Means, policy: Policy, update: Update) -> None:
        self.settings = settings
        self.runner, self.writer, self.update = means.runner, means.writer, update
        self._means = means
        self._policy = policy
        self._membership = means.membership
        self._facts = host.facts()
        self._keeper = Keeper(means.defer_to_thread, self._not_kept)
        remembered = Remembered(settings.state)
        remembered.load(means.wall())
        self.one_shots = OneShots(self._here, remembered, means.wall, means.defer_to_thread)
        self._schedule_blob = b""
        self._fresh: set[str] = set()  # entries that have never run here, and whose code is still on the way
        self._refused: tuple[str, ...] = ()
        self._now = _Turn()
        self._ticking: Any = None
        self._began = means.reactor.seconds()
        self._stopping = False
        self.wants_restart = False
        self.wants_trial: str | None = None  # a newer version that lies ready
        self._has_loaded = False
        self._rounds = Rounds(
            means.reactor, means.wall, means.runner, self._job_of, self._why_not_now, means.writer.append
        )
        self._link = Link(means.reactor, means.route, means.membership.trust, self._make_connection, self._unreachable)

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """From here on everything happens by itself."""
        self.update.pins = self._membership.pins
        self.update.holds_back = self._why_not_newer
        self._look_for_upgrades()
        self._restore_schedule()
        self.writer.start()
        if self.update.is_local:
            self.update.begin(None)
        self._ticking = self._means.reactor.callLater(TICK, self._tick)
        self._link.start()

    def stop(self) -> Deferred[Any]:
        """Kill what runs, say goodbye, sync the spool; fires when all of that is done."""
        self._stopping = True
        self._rounds.stop()
        if self._ticking is not None and self._ticking.active():
            self._ticking.cancel()
        if self._now.connection is not None:
            self._now.connection.close()
        unlinked = self._link.stop()
        self.runner.stop()
        return DeferredList(
            [unlinked, self._means.defer_to_thread(self.writer.stop, SPOOL_STOPS_WITHIN)], consumeErrors=True
        )

    def reread(self, policy: Callable[[], Policy]) -> None:
        """SIGHUP: the policy and the checks anew. A policy that can't be read changes nothing."""
        try:
            self._policy = policy()
        except PolicyError as error:
            self.log.error("the policy stays as it was: {error}", error=error)
        else:
            self.runner.reload(self._policy)
            self.log.info("policy {digest} is in force", digest=self._policy.digest)
        self.update.begin(self._now.connection)

    def _restore_schedule(self) -> None:
        try:
            blob = (self.settings.state / SCHEDULE_FILE).read_bytes()
        except OSError:
            return
        self._apply_schedule(blob)

    # ---------------------------------------------------------------------------------------------- dialling

    def _make_connection(self) -> Connection:
        greet = self._join if self._membership.must_join else self._say_hello
        connection = Connection(self, self._means.reactor, greet, not self.settings.insecure_plaintext)
        if self.settings.log_level == "debug":  # else each message would cost a line that nobody reads
            connection.trace()
        connection.is_restless = self._means.route.has_choice
        self._now = _Turn(connection)
        return connection

    def _join(self, connection: Connection) -> None:
        self._membership.join(connection, lambda sentence: self._means.finish(1, sentence))

    def _say_hello(self, connection: Connection) -> None:
        version = self._means.route.version(self._means.reactor.seconds())
        connection.send(m.Hello(version, self._means.version))

    def _unreachable(self) -> None:
        if self.settings.once and not self._stopping:
            self._means.finish(1, "")

    # ---------------------------------------------------------------------------------------------- a connection

    def accepted(self, connection: Connection) -> None:
        self._means.say(f"Equus {self._membership.name} connected to {self._link.server.address}")
        self._now.talk = Talk(connection, self)
        if self.settings.once:
            self._means.finish(0, "")

    def heard(self, connection: Connection, message: m.Message) -> None:
        if self._now.talk is not None:
            self._now.talk.heard(message)

    def writable(self, connection: Connection) -> None:
        if self._now.talk is not None:
            self._now.talk.spool_changed()

    def lost(self, connection: Connection, reason: Failure) -> None:
        """Every end of a connection comes here, the agent's own wish among them."""
        turn, self._now = self._now, _Turn()
        if turn.talk is not None:
            turn.talk.over()
        if self._stopping:
            return
        has_joined = self._membership.take_up()
        now = self._means.reactor.seconds()
        lived = now - connection.began if connection.is_accepted else 0.0
        self._means.route.ended(now, lived, connection.error, at_once=has_joined)
        why = "enrolled; coming back with the certificate" if has_joined else self._why_lost(connection, reason)
        delay = self._means.route.delay
        refused = connection.error.startswith(NOT_ENROLLED) or self._link.trouble is not None
        is_hopeless = self._membership.must_join and refused  # the token won't get better
        gives_up = is_hopeless or (self.settings.once and delay > 0 and not has_joined)
        then = "giving up" if gives_up else f"next in {delay:.1f} s"
        tell = self.log.info if connection.is_accepted or has_joined or not delay else self.log.error
        tell("connection to {server} is over: {why}; {then}", server=self._link.server.address, why=why, then=then)
        if gives_up:
            self._means.finish(1, "")

    def _why_lost(self, connection: Connection, reason: Failure) -> str:
        if connection.error.startswith(NOT_ENROLLED):
            return "Helen said error not-enrolled: " + (
                "our certificate is unknown or revoked there; enrol again with --join TOKEN"
                if self._membership.identity is not None
                else f"the token is used, expired, or not for the name {self._membership.name}, which was asked for;"
                f" ask for a new one with `helen token --agent {self._membership.name}`, or give another --name"
            )
        if connection.error.startswith(IN_USE):
            return (
                "Helen said error identity-in-use: another machine is connected with our certificate. "
                "Is one a clone of the other? Enrol one of them anew, with an empty state folder"
            )
        if connection.error:
            return f"Helen said error {connection.error}"
        if connection.offence:
            return "Helen broke the protocol"
        return explain(reason, self._link.trouble)

    def begin_version_2(self, connection: Connection) -> None:
        """`loaded` has been said; now what Helen has for us."""
        if self.settings.once:
            return  # whoever only tries the connection ends before an answer comes
        if self._lacks_keys:  # a certificate from elsewhere; without the keys no code is believed
            self._membership.renew(connection, lambda: self.update.begin(connection))
        elif not self.update.is_local:
            self.update.begin(connection)
        self._membership.renew_if_time(connection)

    @property
    def _lacks_keys(self) -> bool:
        return not (self.update.is_local or self._membership.pins.root.keys or self._membership.identity is None)

    def reload(self, connection: Connection) -> None:
        """All Lua anew; and the whole agent, if another one has been installed meanwhile."""
        if not (self._lacks_keys and self._membership.is_renewing):  # else an update follows the keys
            self.update.begin(connection)
        self._means.defer_to_thread(stage0.installed_version).addCallback(self._restart_if_other)

    def _look_for_upgrades(self) -> None:
        upgrades, in_thread = self._means.upgrades, self._means.defer_to_thread
        if upgrades is None or self.settings.once:
            return
        version = self._means.version
        self.update.upgrading = Upgrading(upgrades, version, lambda: self._policy, self._try_out, in_thread)
        in_thread(upgrades.came_up).addErrback(self._not_noted)

    def _try_out(self, newer: str) -> None:
        if not self._stopping:
            self.wants_trial = newer
            self._means.finish(0, f"Equus {newer} is installed beside {self._means.version}: trying it out")

    def _not_noted(self, failure: Failure) -> None:
        self.log.error("that this version came up can't be noted: {why}", why=failure.getErrorMessage())

    def _why_not_newer(self) -> str | None:
        if self._policy.pushed_code != "frozen":
            return None
        return f'{self._policy.path} says pushed_code = "frozen": the set in use stays until that is changed'

    def has_loaded(self) -> None:
        """`loaded` has been said: this version works, if somebody waits to hear it."""
        if not self._has_loaded:
            self._has_loaded = True
            self._means.loaded()

    def _restart_if_other(self, installed: str) -> None:
        if installed != self._means.version and not (self._stopping or self.wants_trial):
            self.wants_restart = True
            self._means.finish(0, f"Equus {installed} is installed and {self._means.version} runs: starting anew")

    # ---------------------------------------------------------------------------------------------- what Helen wants

    def take_schedule(self, blob: bytes) -> None:
        if blob == self._schedule_blob:
            return
        known = {entry.id for entry in self._rounds.entries}
        if self._apply_schedule(blob):
            self._keeper.keep(self.settings.state / SCHEDULE_FILE, blob)
            self._fresh = self._rounds.introduce(self._fresh | {entry.id for entry in self._rounds.entries} - known)

    def _apply_schedule(self, blob: bytes) -> bool:
        try:
            document = schedule_document.parse(blob)
        except schedule_document.ScheduleRefused as error:
            self._refused = (str(error),)
            self.log.error("the schedule stays as it was: {error}", error=error)
            return False
        self._refused, self._schedule_blob = document.refused, blob
        for sentence in document.refused:
            self.log.error("the schedule's {sentence}", sentence=sentence)
        self._rounds.replace(document.entries)
        return True

    def take_servers(self, blob: bytes) -> None:
        try:
            learnt = servers.parse(blob)
        except servers.ServersRefused as error:
            self.log.error("{error}", error=error)
            return
        self._means.route.learn(learnt)
        self._keeper.keep(self.settings.state / servers.FILE, blob)

    def _not_kept(self, path: Path, failure: Failure) -> None:
        self.log.error("{path} can't be written: {why}", path=str(path), why=failure.getErrorMessage())

    def _here(self) -> Here:
        """What orders to run code once are compared with."""
        refusal = self._policy.accepts_one_shots()
        if self.update.is_local:
            refusal = "this agent runs the checks of a folder of its own (--checks), and no code that Helen sends"
        root, libraries = self._membership.pins.root, self.update.checks.libraries
        return Here(self._membership.name, self.settings.labels, root, refusal, libraries)

    def _job_of(self, entry: Entry) -> Any:
        return scheduled_job(self.update.checks, entry)

    def _why_not_now(self, entry: Entry) -> str | None:
        if self.writer.is_behind:
            return "the spool's disk is too slow to take more results"
        awaited = self.update.is_busy or not (self.update.is_local or self.update.manifest)
        if awaited and self.update.checks.check(entry.check) is None:
            return "its code is still on the way"
        return None

    # ---------------------------------------------------------------------------------------------- what we report

    def code_changed(self) -> None:
        self._fresh = self._rounds.introduce(self._fresh)
        if self._now.talk is not None:
            self._now.talk.code_changed()

    def spool_changed(self) -> None:
        if self._now.talk is not None:
            self._now.talk.spool_changed()

    def load_report(self) -> dict[str, Any]:
        """The blob of `loaded`, less the spool."""
        report: dict[str, Any] = {
            "files": self.update.checks.report(),
            "labels": dict(self.settings.labels),
            "host": self._facts,
            "equus": self._means.version,
            "isolation": self.runner.isolation,
            "policy": self._policy.digest,
        }
        if self.update.trouble is not None:
            report["manifest"] = self.update.trouble
        if self.update.upgrading is not None and self.update.upgrading.trouble is not None:
            report["upgrade"] = self.update.upgrading.trouble
        if self._refused:
            report["schedule"] = list(self._refused[:100])
        return report

    def _tick(self) -> None:
        self._ticking = self._means.reactor.callLater(TICK, self._tick)
        if self._schedule_blob:  # a Helen of version 2 has been here, who reads reports
            now = self._means.wall()
            self.writer.append(health.CHECK, dump(health.document(self._health(), now)))
        talk = self._now.talk
        if talk is not None and talk.speaks_v2:
            self._membership.renew_if_time(talk.connection)
            if self.update.wants_word():
                self.update.begin(talk.connection)

    def _health(self) -> health.Health:
        checks, standing = self.update.checks, self.writer.standing
        return health.Health(
            version=self._means.version,
            totals=self._rounds.totals,
            worst=self._rounds.worst(health.WORST),
            entries=len(self._rounds.entries),
            spool_depth=standing.depth,
            spool_bytes=standing.size,
            worker_kills=self.runner.kills,
            waiting=self.runner.waiting,
            resident=host.resident_bytes(),
            uptime=self._means.reactor.seconds() - self._began,
            code=checks.digest,
            policy=self._policy.digest,
            isolation=self.runner.isolation,
            refused=sum(file.error is not None for file in checks.files.values()),
            trouble=self.update.trouble,
        )
