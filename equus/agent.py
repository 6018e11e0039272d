"""Run one agent: enrol, renew, load code, run checks, report. tap.py makes its parts and passes them in.

The agent outlives its connections. A Session handles the messages of one connection, SessionServices what outlives
it, a Dialler the attempts to connect, a Membership the agent's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus import health
from equus.agent_parts import Parts
from equus.link.connection import Connection
from equus.link.dialler import Dialler
from equus.policy.policy import Policy, PolicyError
from equus.schedule.jobs import dump
from equus.session_services import SessionServices
from equus.sessions.lost_connection import Loss, judge_loss
from equus.sessions.session import Session
from equus.settings import Settings
from equus_protocol import messages as m

TICK = 60.0  # seconds between two checks of the certificate's age, and two self-reports
SPOOL_STOPS_WITHIN = 2.0  # seconds for the last sync; SIGTERM leaves five for everything


@define
class _Current:
    """Holds the connection of the moment, and its session once Helen has accepted it."""

    connection: Connection | None = None
    session: Session | None = None


class Agent:
    """Runs one agent. It is the Listener of its connections; `services` is the owner of its sessions."""

    log = Logger()

    def __init__(self, settings: Settings, parts: Parts) -> None:
        """Connect the parts with each other. Blocking: it reads the orders that have run here, and labels."""
        self.settings = settings
        self.runner, self.writer, self.updater = parts.runner, parts.writer, parts.updater
        self._parts = parts
        self._policy = parts.policy
        self._membership = parts.membership
        self.services = SessionServices(settings, parts)
        self.programs = parts.programs
        self._current = _Current()
        self._ticking: Any = None
        self._stopping = False
        self._reported_fault = False
        trust = parts.membership.trust
        self._dialler = Dialler(parts.reactor, parts.route, trust, self._make_connection, self._unreachable)
        self.writer.changed.subscribe(self._spool_changed)
        self.updater.changed.subscribe(self._code_changed)
        self.updater.kept_back.subscribe(self._go_elsewhere)

    @property
    def wants_restart(self) -> bool:
        """Return True if another version is installed, and the agent has ended for it."""
        return self.services.restarts.wants_restart

    @property
    def wants_trial(self) -> str | None:
        """Return the newer version that the agent has ended to try out, or None."""
        return self.services.restarts.wants_trial

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Restore the schedule, and begin to run checks and to dial."""
        self.services.restarts.start()
        self.services.scheduled.received.restore()
        self.writer.start()
        if self.updater.is_local:
            self.updater.begin(None)
        self._ticking = self._parts.reactor.callLater(TICK, self._tick)
        self._dialler.start()

    def stop(self) -> Deferred[Any]:
        """Kill all runs, close the connection and sync the spool; the result fires when all of that is done."""
        self._stopping = True
        self.services.restarts.stop()
        self.services.scheduled.runner.stop()
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
        read = self._parts.defer_to_thread(self.services.labels.read).addCallback(self._labels_read)
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
        self.services.helens.greeted(connection.helen, version)
        connection.send(m.Hello(version, self._parts.version))

    def _unreachable(self) -> None:
        if self.settings.once and not self._stopping:
            self._parts.finish(1, "")

    # ---------------------------------------------------------------------------------------------- a connection

    def accepted(self, connection: Connection) -> None:
        """Begin the session of a connection that Helen has accepted."""
        self._parts.print_line(f"Equus {self._membership.name} connected to {self._dialler.server.address}")
        self._current.session = Session(connection, self.services)
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
        once, delay = self.settings.once, self._parts.route.delay
        loss = Loss("coming back with the new certificate")
        if not has_joined:
            loss = judge_loss(connection, reason, self._dialler.trouble, self._membership, once)
        gives_up = loss.is_hopeless or (once and delay > 0 and not has_joined)
        then = "giving up" if gives_up else f"next in {delay:.1f} s"
        log = self.log.info if connection.is_accepted or has_joined or not delay else self.log.error
        log(
            "connection to {server} is over: {why}; {then}",
            server=self._dialler.server.address,
            why=loss.why,
            then=then,
        )
        if gives_up:
            self._parts.finish(1, "")

    # ---------------------------------------------------------------------------------------------- code

    def _go_elsewhere(self, connection: Connection) -> None:
        """Leave a Helen that keeps news back, if there is another one, which then hears of it."""
        if self._parts.route.has_choice() and connection.alive:
            self._parts.route.avoid(connection.helen, self._parts.reactor.seconds())
            connection.close()

    def _code_changed(self) -> None:
        self.services.helens.keep_age()
        self.services.scheduled.received.code_changed()
        if self._current.session is not None:
            self._current.session.code_changed()

    # ---------------------------------------------------------------------------------------------- runs and reports

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

    def _tick(self) -> None:
        self._ticking = self._parts.reactor.callLater(TICK, self._tick)
        if self.services.scheduled.received.is_known:  # so there is a Helen of version 2, which reads reports
            now = self._parts.wall()
            self.writer.append(health.CHECK, dump(health.document(self.services.reports.health(), now)))
        session = self._current.session
        self._membership.warn_of_end()
        self.services.helens.look_at_age()
        if session is not None:
            self.services.helens.look_at(session.connection)
            session.report_changed()
        if session is not None and session.speaks_v2:
            self._membership.renew_if_due(session.connection)
            if self.updater.needs_proof():
                self.updater.begin(session.connection)
