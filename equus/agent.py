"""Run one agent: enrol, renew, load code, run checks, report. tap.py makes its parts and passes them in.

The agent outlives its connections. A Session handles the messages of one connection, a ScheduleRunner the entries that
are due, a Dialler the attempts to connect, a Membership the agent's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus import health
from equus.agent_parts import Parts
from equus.agent_reports import AgentReports
from equus.code import launcher
from equus.code.news import AGE_FILE, FILE, dump_speakers, load_speakers
from equus.document_writer import DocumentWriter
from equus.label_source import LabelSource
from equus.link import server_list
from equus.link.connection import Connection
from equus.link.dialler import Dialler
from equus.policy.policy import Policy, PolicyError
from equus.schedule import received_schedule
from equus.schedule.jobs import dump
from equus.schedule.received_schedule import ReceivedSchedule
from equus.schedule.runner import ScheduleRunner, scheduled_job
from equus.schedule.schedule import Entry
from equus.sessions.lost_connection import NOT_ENROLLED, explain_loss
from equus.sessions.one_off_code import OneOffOrders, OrderContext, UsedOrders
from equus.sessions.session import Session
from equus.settings import Settings
from equus_protocol import messages as m
from equus_protocol.freshness import LIFE

TICK = 60.0  # seconds between two checks of the certificate's age, and two self-reports
SPOOL_STOPS_WITHIN = 2.0  # seconds for the last sync; SIGTERM leaves five for everything


@define
class _Current:
    """Holds the connection of the moment, and its session once Helen has accepted it."""

    connection: Connection | None = None
    session: Session | None = None


class Agent:
    """Runs one agent. It is the Listener of its connections and the owner of its sessions."""

    log = Logger(namespace="equus.agent")

    def __init__(self, settings: Settings, parts: Parts) -> None:
        """Connect the parts with each other. Blocking: it reads the orders that have run here, and labels."""
        self.settings = settings
        self.runner, self.writer, self.updater = parts.runner, parts.writer, parts.updater
        self._parts = parts
        self._policy = parts.policy
        self._membership = parts.membership
        self._labels = LabelSource(settings.labels, settings.labels_from)
        self._labels.read()
        self._documents = DocumentWriter(parts.defer_to_thread, self._write_failed)
        used = UsedOrders(settings.state)
        used.load(parts.wall())
        self.orders = OneOffOrders(self._order_context, used, parts.wall, parts.defer_to_thread)
        self.programs = parts.programs
        self._current = _Current()
        self._ticking: Any = None
        self._stopping = False
        self.wants_restart = False
        self.wants_trial: str | None = None  # a newer version that is ready to be tried
        self._has_loaded = False
        self._reported_fault = False
        self._schedule_runner = ScheduleRunner(
            parts.reactor, parts.wall, parts.runner, self._job_of, self._why_not_now, self._report
        )
        if parts.newest is not None:
            parts.newest.entries = lambda: self._schedule_runner.entries
        self._schedule = ReceivedSchedule(
            settings.state / received_schedule.FILE, self._schedule_runner, self._documents.write
        )
        trust = parts.membership.trust
        self._reports = AgentReports(parts, self._labels, self._schedule, self._schedule_runner)
        self._dialler = Dialler(parts.reactor, parts.route, trust, self._make_connection, self._unreachable)
        self.writer.changed.subscribe(self._spool_changed)
        self.updater.changed.subscribe(self._code_changed)
        self.updater.kept_back.subscribe(self._go_elsewhere)
        self._speakers = load_speakers(settings.state)  # addresses of Helens that have spoken version 2
        self.updater.news.restore(settings.state)
        if self.updater.upgrader is not None:
            self.updater.upgrader.installed.subscribe(self._try_out)

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Restore the schedule, and begin to run checks and to dial."""
        if self.updater.upgrader is not None:
            ensureDeferred(self.updater.upgrader.confirm_start()).addErrback(self._start_not_confirmed)
        self._schedule.restore()
        self.writer.start()
        if self.updater.is_local:
            self.updater.begin(None)
        self._ticking = self._parts.reactor.callLater(TICK, self._tick)
        self._dialler.start()

    def stop(self) -> Deferred[Any]:
        """Kill all runs, close the connection and sync the spool; the result fires when all of that is done."""
        self._stopping = True
        self._schedule_runner.stop()
        if self._ticking is not None and self._ticking.active():
            self._ticking.cancel()
        if self._current.session is not None:
            self._current.session.close_tunnels("stopping")
        if self._current.connection is not None:
            self._current.connection.close()
        disconnected = self._dialler.stop()
        self.runner.stop()
        stopped = self._parts.defer_to_thread(self.writer.stop, SPOOL_STOPS_WITHIN)
        return DeferredList([disconnected, stopped], consumeErrors=True)

    def reread(self, load_policy: Callable[[], Policy]) -> None:
        """Load policy, checks and labels again, at SIGHUP. One with a fault is logged, and the old one stays."""
        try:
            policy = load_policy()
        except PolicyError as error:
            self.log.error("the policy stays as it was: {error}", error=error)
        else:
            if policy.shell != self._policy.current.shell and self._current.session is not None:
                self._current.session.close_tunnels("changed")
            self._policy.current = policy
            for program in self.programs.values():
                program.policy_changed()
            self.runner.reload(policy)
            self.log.info("policy {digest} is in force", digest=policy.digest)
        self.updater.begin(self._current.connection)
        read = self._parts.defer_to_thread(self._labels.read).addCallback(self._labels_read)
        read.addErrback(lambda failure: self.log.failure("reading the labels again", failure))

    def _labels_read(self, are_new: bool) -> None:
        if are_new and self._current.session is not None:
            self._current.session.report_changed()

    # ---------------------------------------------------------------------------------------------- dialling

    def _make_connection(self) -> Connection:
        greet = self._join if self._membership.must_join else self._send_hello
        trace = self._trace if self.settings.log_level == "debug" else None  # else each message would cost a line
        is_secure = not self.settings.insecure_plaintext
        route, helen = self._parts.route, self._dialler.server.address
        connection = Connection(self, self._parts.reactor, greet, is_secure, route.has_choice, trace, helen)
        self._current = _Current(connection)
        return connection

    def _trace(self, line: str) -> None:
        self.log.debug("{line}", line=line)

    def _join(self, connection: Connection) -> None:
        self._membership.join(connection, lambda sentence: self._parts.finish(1, sentence))

    def _send_hello(self, connection: Connection) -> None:
        version = self._parts.route.version(self._parts.reactor.seconds())
        if version == 1 and connection.helen in self._speakers:
            how = "spoke version 2 before and refuses it now: no code comes from it"
            self.updater.news.kept_back(connection.helen, how)
        connection.send(m.Hello(version, self._parts.version))

    def _unreachable(self) -> None:
        if self.settings.once and not self._stopping:
            self._parts.finish(1, "")

    # ---------------------------------------------------------------------------------------------- a connection

    def accepted(self, connection: Connection) -> None:
        """Begin the session of a connection that Helen has accepted."""
        self._parts.print_line(f"Equus {self._membership.name} connected to {self._dialler.server.address}")
        self._current.session = Session(connection, self)
        if self.settings.once:
            self._parts.finish(0, "")

    def heard(self, connection: Connection, message: m.Message) -> None:
        """Pass a message on to the session."""
        if self._current.session is not None:
            self._current.session.heard(message)

    def writable(self, connection: Connection) -> None:
        """Send reports again, because Helen reads again, and then what is in tunnels."""
        self._spool_changed()
        if self._current.session is not None:
            self._current.session.writable()

    def lost(self, connection: Connection, reason: Failure) -> None:
        """End the session, log why, and dial again or give up. Each end of a connection comes here."""
        ended, self._current = self._current, _Current()
        if ended.session is not None:
            ended.session.over()
        if self._stopping:
            return
        has_joined = self._membership.finish_joining()
        now = self._parts.reactor.seconds()
        lived = now - connection.began if connection.is_accepted else 0.0
        served = ended.session is not None and ended.session.served
        self._parts.route.ended(now, lived, connection.error, at_once=has_joined, served=served)
        self._log_loss(connection, reason, has_joined)

    def _log_loss(self, connection: Connection, reason: Failure, has_joined: bool) -> None:
        """Log why a connection has ended and what follows; finish the agent if it is pointless to try again."""
        trouble, delay = self._dialler.trouble, self._parts.route.delay
        why = "coming back with the new certificate"
        if not has_joined:
            why = explain_loss(connection, reason, trouble, self._membership)
        refused = connection.error.startswith(NOT_ENROLLED) or trouble is not None
        is_hopeless = self._membership.must_join and refused  # no later attempt can make the token good
        if is_hopeless and not self.settings.once and self._membership.fall_back():
            kept = ": ".join(filter(None, ["going on with the certificate of before", self._membership.trouble()]))
            is_hopeless, why = False, f"{why}; {kept}"
        elif connection.error.startswith(NOT_ENROLLED) and not self.settings.once and self._membership.join_again():
            why = f"{why}; trying the token that this agent was started with"
        gives_up = is_hopeless or (self.settings.once and delay > 0 and not has_joined)
        then = "giving up" if gives_up else f"next in {delay:.1f} s"
        log = self.log.info if connection.is_accepted or has_joined or not delay else self.log.error
        log("connection to {server} is over: {why}; {then}", server=self._dialler.server.address, why=why, then=then)
        if gives_up:
            self._parts.finish(1, "")

    # ---------------------------------------------------------------------------------------------- code

    def begin_version_2(self, connection: Connection) -> None:
        """Bring code and certificate up to date, after the first `loaded` of a session."""
        if connection.helen not in self._speakers:
            self._speakers |= {connection.helen}
            self._documents.write(self.settings.state / FILE, dump_speakers(self._speakers))
        if self.settings.once:
            return  # the agent ends before an answer comes
        if self._lacks_keys:  # its certificate came as a file; without signing keys no code is trusted
            self._membership.renew(connection, lambda: self.updater.begin(connection))
        elif not self.updater.is_local:
            self.updater.begin(connection)
        self._membership.renew_if_due(connection)

    @property
    def _lacks_keys(self) -> bool:
        if self.updater.is_local or self._membership.identity is None:
            return False
        return not self._membership.trusted_keys.root.keys

    def _go_elsewhere(self, connection: Connection) -> None:
        """Leave a Helen that keeps news back, if there is another one, which then hears of it."""
        if self._parts.route.has_choice() and connection.alive:
            self._parts.route.avoid(connection.helen, self._parts.reactor.seconds())
            connection.close()

    def reload(self, connection: Connection) -> None:
        """Load all code again; restart the agent if another version of it has been installed."""
        if not (self._lacks_keys and self._membership.is_renewing):  # else an update follows the keys
            self.updater.begin(connection)
        self._parts.defer_to_thread(launcher.installed_version).addCallback(self._restart_if_other)

    def _restart_if_other(self, installed: str) -> None:
        if installed != self._parts.version and not (self._stopping or self.wants_trial):
            self.wants_restart = True
            self._parts.finish(0, f"Equus {installed} is installed and {self._parts.version} runs: starting anew")

    def _try_out(self, newer: str) -> None:
        if not self._stopping:
            self.wants_trial = newer
            self._parts.finish(0, f"Equus {newer} is installed beside {self._parts.version}: trying it out")

    def _start_not_confirmed(self, failure: Failure) -> None:
        self.log.error("the start of this version can't be recorded: {why}", why=failure.getErrorMessage())

    def has_loaded(self) -> None:
        """Report the first `loaded` to the launcher, because it shows that this version works."""
        if not self._has_loaded:
            self._has_loaded = True
            self._parts.loaded()

    def _code_changed(self) -> None:
        self._keep_age_of_news()
        self._schedule.code_changed()
        if self._current.session is not None:
            self._current.session.code_changed()

    # ---------------------------------------------------------------------------------------------- Helen's documents

    def take_schedule(self, blob: bytes) -> None:
        """Apply and store a schedule; parts that are refused go into `loaded`."""
        self._schedule.take(blob)

    def take_servers(self, blob: bytes) -> None:
        """Apply and store a list of other servers; a list with a fault is logged and ignored."""
        try:
            learnt = server_list.parse(blob)
        except server_list.ServersRefused as error:
            self.log.error("{error}", error=error)
            return
        self._parts.route.learn(learnt)
        self._documents.write(self.settings.state / server_list.FILE, blob)

    def _write_failed(self, path: Path, failure: Failure) -> None:
        self.log.error("{path} can't be written: {why}", path=str(path), why=failure.getErrorMessage())

    def _order_context(self) -> OrderContext:
        refusal = self._policy.current.one_off_refusal()
        if self.updater.is_local:
            refusal = "this agent runs the checks of a folder of its own (--checks), and no code that Helen sends"
        root, libraries = self._membership.trusted_keys.root, self.updater.checks.libraries
        return OrderContext(self._membership.name, self._labels.labels, root, refusal, libraries)

    # ---------------------------------------------------------------------------------------------- runs and reports

    def _job_of(self, entry: Entry) -> Any:
        return scheduled_job(self.updater.checks, entry)

    def _report(self, entry_id: str, blob: bytes) -> None:
        self.writer.append(entry_id, blob)
        if self._parts.newest is not None:
            self._parts.newest.take(entry_id, blob)

    def _why_not_now(self, entry: Entry) -> str | None:
        if self.writer.is_behind:
            return "the spool's disk is too slow to take more results"
        is_awaited = self.updater.is_busy or not (self.updater.is_local or self.updater.manifest)
        if is_awaited and self.updater.checks.check(entry.check) is None:
            return "its code is still on the way"
        return None

    def _spool_changed(self) -> None:
        fault = self.writer.state.fault
        if fault is not None and not self._reported_fault:
            self._reported_fault = True
            self.log.critical(
                "the state folder {state} can't be written ({why}): results are kept in memory and are lost if the"
                " agent ends. Mend the disk, then restart the agent.",
                state=str(self.settings.state), why=fault,
            )  # fmt: skip
        if self._current.session is not None:
            self._current.session.spool_changed()

    def load_report(self) -> dict[str, Any]:
        """Return the document of `loaded` without the spool."""
        return self._reports.loaded()

    def _tick(self) -> None:
        self._ticking = self._parts.reactor.callLater(TICK, self._tick)
        if self._schedule.is_known:  # so there is a Helen of version 2, which reads reports
            now = self._parts.wall()
            self.writer.append(health.CHECK, dump(health.document(self._reports.health(), now)))
        session = self._current.session
        self._membership.warn_of_end()
        self._look_at_news(session)
        if session is not None and session.speaks_v2:
            self._membership.renew_if_due(session.connection)
            if self.updater.needs_proof():
                self.updater.begin(session.connection)

    def _keep_age_of_news(self) -> None:
        content = None if self.updater.is_local else self.updater.news.dump()
        if content is not None:
            self._documents.write(self.settings.state / AGE_FILE, content)

    def _look_at_news(self, session: Session | None) -> None:
        self._keep_age_of_news()
        news = self.updater.news
        if self.updater.stale() is not None or news.age <= LIFE:
            news.look()
        if session is None:
            return
        connection = session.connection
        is_old = self._parts.reactor.seconds() - connection.began >= TICK
        if is_old and connection.alive and not session.speaks_v2 and connection.helen in self._speakers:
            news.kept_back(connection.helen, "spoke version 2 before and speaks version 1 now: no code comes from it")
        session.report_changed()
