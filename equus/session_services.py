"""Give each session what outlives it: the schedule, the orders, code, and the agent's documents about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.agent_parts import Parts
from equus.agent_reports import AgentReports
from equus.code.restarts import Restarts
from equus.code.version_2_helens import Version2Helens
from equus.document_writer import DocumentWriter
from equus.label_source import LabelSource
from equus.link import server_list
from equus.link.connection import Connection
from equus.scheduled_checks import ScheduledChecks
from equus.sessions.one_off_code import OneOffOrders, OrderContext, UsedOrders
from equus.settings import Settings


class SessionServices:
    """Does for every session what its messages ask for: it is the SessionOwner.

    Its parts are public to the agent: `labels`, `restarts`, `scheduled`, `reports` and `helens`. Making it blocks, for
    it reads the orders that have run here, and labels.
    """

    log = Logger()

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self.runner, self.writer, self.updater = parts.runner, parts.writer, parts.updater
        self.programs = parts.programs
        self._settings, self._parts, self._membership = settings, parts, parts.membership
        self.labels = LabelSource(settings.labels, settings.labels_from)
        self.labels.read()
        self._documents = DocumentWriter(parts.defer_to_thread, self._write_failed)
        used = UsedOrders(settings.state)
        used.load(parts.wall())
        self.orders = OneOffOrders(self._order_context, used, parts.wall, parts.defer_to_thread)
        self.restarts = Restarts(
            parts.version, parts.updater.upgrader, parts.finish, parts.defer_to_thread, parts.loaded
        )
        self.scheduled = ScheduledChecks(parts, settings.state, self._documents.write)
        self.reports = AgentReports(parts, self.labels, self.scheduled.received, self.scheduled.runner)
        self.helens = Version2Helens(settings.state, parts.updater, self._documents.write, parts.reactor.seconds)

    def begin_version_2(self, connection: Connection) -> None:
        """Bring code and certificate up to date, after the first `loaded` of a session."""
        self.helens.add(connection.helen)
        if self._settings.once:
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

    def reload(self, connection: Connection) -> None:
        """Load all code again; restart the agent if another version of it has been installed."""
        if not (self._lacks_keys and self._membership.is_renewing):  # else an update follows the keys
            self.updater.begin(connection)
        self.restarts.look()

    def has_loaded(self) -> None:
        """Report the first `loaded` to the launcher, because it shows that this version works."""
        self.restarts.has_loaded()

    def load_report(self) -> dict[str, Any]:
        """Return the document of `loaded` without the spool."""
        return self.reports.loaded()

    def take_schedule(self, blob: bytes) -> None:
        """Apply and store a schedule; parts that are refused go into `loaded`."""
        self.scheduled.received.take(blob)

    def take_servers(self, blob: bytes) -> None:
        """Apply and store a list of other servers; a list with a fault is logged and ignored."""
        try:
            learnt = server_list.parse(blob)
        except server_list.ServersRefused as error:
            self.log.error("{error}", error=error)
            return
        self._parts.route.learn(learnt)
        self._documents.write(self._settings.state / server_list.FILE, blob)

    def _write_failed(self, path: Path, failure: Failure) -> None:
        self.log.error("{path} can't be written: {why}", path=str(path), why=failure.getErrorMessage())

    def _order_context(self) -> OrderContext:
        refusal = self._parts.policy.current.one_off_refusal()
        if self.updater.is_local:
            refusal = "this agent runs the checks of a folder of its own (--checks), and no code that Helen sends"
        root, libraries = self._membership.trusted_keys.root, self.updater.checks.libraries
        return OrderContext(self._membership.name, self.labels.labels, root, refusal, libraries)
