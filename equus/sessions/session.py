"""Run the session of one connection after hello: call the part of the agent that each message is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.logger import Logger

from equus.code.update import Updater
from equus.link.connection import Connection
from equus.schedule.secret_runner import SecretRunner
from equus.sessions.live_queries import LiveQueries
from equus.sessions.one_off_code import OneOffOrders
from equus.sessions.report_sender import ReportSender
from equus.sessions.tunnels import TunnelProgram, Tunnels
from equus.spool.spool_thread import SpoolThread
from equus_protocol import messages as m
from equus_protocol.codec import MAX_BLOB


class SessionOwner(Protocol):
    """Describes the agent, which outlives its sessions."""

    runner: SecretRunner
    writer: SpoolThread
    updater: Updater
    orders: OneOffOrders
    programs: Mapping[str, TunnelProgram]  # of tunnels, by their kinds

    def take_schedule(self, blob: bytes) -> None:
        """Apply Helen's schedule."""

    def take_servers(self, blob: bytes) -> None:
        """Apply Helen's list of servers."""

    def reload(self, connection: Connection) -> None:
        """Load all code again."""

    def begin_version_2(self, connection: Connection) -> None:
        """Bring code and certificate up to date, after the first `loaded`."""

    def has_loaded(self) -> None:
        """Take note that `loaded` has been sent."""

    def load_report(self) -> dict[str, Any]:
        """Return the document of `loaded` without the spool."""


class Session:
    """Serves one accepted connection, from hello to its end."""

    log = Logger()

    def __init__(self, connection: Connection, agent: SessionOwner) -> None:
        self.connection = connection
        self._agent = agent
        self._queries = LiveQueries(connection, agent.runner, lambda: agent.updater.checks, agent.orders)
        self._tunnels = Tunnels(connection, agent.programs)
        self._sender: ReportSender | None = None
        # The set and the document of the last `loaded`, without the spool, which changes all the time.
        self._last_loaded: tuple[str, dict[str, Any]] | None = None
        self._must_answer_reload = False
        self.served = False  # Helen has acknowledged a report
        self._handlers: dict[type, Callable[[Any], None]] = {
            m.Check: self._queries.ask,
            m.Cancel: lambda cancel: self._queries.cancel(cancel.message_id),
            m.Reload: self._reload,
            m.Schedule: lambda schedule: agent.take_schedule(schedule.blob),
            m.Servers: lambda servers: agent.take_servers(servers.blob),
            m.Ack: self._acked,
            m.Tunnel: self._tunnels.open,
            **dict.fromkeys((m.Bytes, m.Window, m.Close), self._tunnels.heard),
        }

    @property
    def speaks_v2(self) -> bool:
        """Return True if the connection is open and Helen has answered in version 2."""
        return self.connection.alive and self.connection.conversation.speaks_v2

    def heard(self, message: m.Message) -> None:
        """Handle a message. The first one of version 2 is followed by `loaded`."""
        self._handlers[type(message)](message)
        if self._last_loaded is None and self.speaks_v2:
            self._send_loaded(self._load_state())
            self._agent.begin_version_2(self.connection)

    def code_changed(self) -> None:
        """Send `loaded` if the set or the report has changed, or as the answer to a `reload`."""
        if not self.speaks_v2:
            return
        state = self._load_state()
        if self._must_answer_reload or self._last_loaded != state:
            self._send_loaded(state)

    def report_changed(self) -> None:
        """Send `loaded` if the report has changed, but never in place of the answer to a `reload`."""
        if self._last_loaded is not None and not self._must_answer_reload:
            self.code_changed()

    def spool_changed(self) -> None:
        """Send reports that are durable now. A new spool is announced with `loaded` before."""
        if self._sender is None or not self.speaks_v2:
            return
        if self._sender.spool != self._agent.writer.state.id:
            self._send_loaded(self._load_state())
        self._sender.pump()

    def writable(self) -> None:
        """Let tunnels go on, because Helen reads again."""
        self._tunnels.wake()

    def close_tunnels(self, reason: str) -> None:
        """Close all tunnels, with a reason of docs/protocol.rst."""
        self._tunnels.close_all(reason)

    def over(self) -> None:
        """End the session, because its connection is lost."""
        self._queries.connection_lost()
        self._tunnels.connection_lost()
        self._sender = None

    def _reload(self, _: m.Reload) -> None:
        self._must_answer_reload = True
        self._agent.reload(self.connection)

    def _acked(self, ack: m.Ack) -> None:
        self.served = True
        if self._sender is not None:
            self._sender.acked(ack)

    def _load_state(self) -> tuple[str, dict[str, Any]]:
        """Return digest and report. A set that was signed again has the same files, and still another digest."""
        return self._agent.updater.checks.digest, self._agent.load_report()

    def _send_loaded(self, state: tuple[str, dict[str, Any]]) -> None:
        """Send `loaded` with digest and report as `_load_state` has returned them just now."""
        self._last_loaded, self._must_answer_reload = state, False
        digest, report = state
        spool = self._agent.writer.state
        place = {"id": spool.id, "depth": spool.depth, "first": spool.first}
        self.connection.send(m.Loaded(digest, encode_report({**report, "spool": place})))
        self._agent.has_loaded()
        if self._sender is None or self._sender.spool != spool.id:
            self._sender = ReportSender(self.connection, self._agent.writer)
            self._sender.pump()


def encode_report(report: dict[str, Any]) -> bytes:
    """Return a load report as a blob. If it is too large for one, the errors of files are left out."""
    blob = json.dumps(report, ensure_ascii=False).encode("utf-8", "replace")
    if len(blob) <= MAX_BLOB:
        return blob
    files = {name: {key: file[key] for key in ("sha256", "state")} for name, file in report["files"].items()}
    return json.dumps({**report, "files": files}, ensure_ascii=False).encode("utf-8", "replace")
