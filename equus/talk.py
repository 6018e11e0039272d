"""What is said on one connection after hello: which message means what, and what an agent owes Helen for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from equus.connection import Connection
from equus.questions import Questions
from equus.sender import Sender
from equus_protocol import messages as m
from equus_protocol.codec import MAX_BLOB


class Talk:
    """One accepted connection's business; `agent` (agent.py) is what outlives it."""

    log = Logger(namespace="equus.talk")

    def __init__(self, connection: Connection, agent: Any) -> None:
        self.connection = connection
        self._agent = agent
        self._questions = Questions(connection, agent.runner, lambda: agent.update.checks, agent.one_shots)
        self._sender: Sender | None = None
        # The set and the last load report, less what changes all the time.
        self._told: tuple[str | None, dict[str, Any]] | None = None
        self._owes_loaded = False
        self._meanings: dict[type, Callable[[Any], None]] = {
            m.Check: self._questions.asked,
            m.Cancel: lambda cancel: self._questions.cancelled(cancel.message_id),
            m.Reload: self._reload,
            m.Schedule: lambda schedule: agent.take_schedule(schedule.blob),
            m.Servers: lambda servers: agent.take_servers(servers.blob),
            m.Ack: self._acked,
        }

    @property
    def speaks_v2(self) -> bool:
        return self.connection.alive and self.connection.conversation.speaks_v2

    def heard(self, message: m.Message) -> None:
        self._meanings[type(message)](message)
        if self._told is None and self.speaks_v2:
            self._tell_loaded()
            self._agent.begin_version_2(self.connection)

    def code_changed(self) -> None:
        """Another set, another verdict on it, or an answer that a `reload` is owed."""
        if self.speaks_v2 and (self._owes_loaded or self._told != self._standing()):
            self._tell_loaded()

    def spool_changed(self) -> None:
        """Something is durable. A spool of another name is announced before anything of it is sent."""
        if self._sender is None or not self.speaks_v2:
            return
        if self._sender.spool != self._agent.writer.standing.id:
            self._tell_loaded()
        self._sender.pump()

    def over(self) -> None:
        self._questions.connection_lost()
        self._sender = None

    def _reload(self, _: m.Reload) -> None:
        self._owes_loaded = True
        self._agent.reload(self.connection)

    def _acked(self, ack: m.Ack) -> None:
        if self._sender is not None:
            self._sender.acked(ack)

    def _standing(self) -> tuple[str | None, dict[str, Any]]:
        """A set that was signed anew has the same files, and is another one."""
        return self._agent.update.checks.digest, self._agent.load_report()

    def _tell_loaded(self) -> None:
        self._told, self._owes_loaded = self._standing(), False
        standing = self._agent.writer.standing
        spool = {"id": standing.id, "depth": standing.depth, "first": standing.first}
        digest, report = self._told
        self.connection.send(m.Loaded(digest, encode_report({**report, "spool": spool})))
        self._agent.has_loaded()
        if self._sender is None or self._sender.spool != standing.id:
            self._sender = Sender(self.connection, self._agent.writer)
            self._sender.pump()


def encode_report(report: dict[str, Any]) -> bytes:
    """As a blob; a set so great that its errors don't fit is told without them."""
    blob = json.dumps(report, ensure_ascii=False).encode("utf-8", "replace")
    if len(blob) <= MAX_BLOB:
        return blob
    files = {name: {key: file[key] for key in ("sha256", "state")} for name, file in report["files"].items()}
    return json.dumps({**report, "files": files}, ensure_ascii=False).encode("utf-8", "replace")
