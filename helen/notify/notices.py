"""Writes into the history what became of each alert: records of the kind `notice`, which `helen explain` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from twisted.logger import Logger

from helen.journal.values import JournalError
from helen.notify.group import Note
from helen.notify.messages import Alert, Message

MUTED = "it waits: Helen was started with --mute, so nobody is told anything"
FAILED_NOTES = 1  # the first failed attempt is noted for each alert, and the last; those between are in the outbox

Notice = tuple[str, str, dict[str, Any]]  # agent, check, document


class ChangeLog(Protocol):
    """Describes the part of the journal that notices are written to."""

    def change(
        self, kind: str, document: Mapping[str, Any], agent: str | None = None, check_id: str | None = None
    ) -> object:
        """Append a record. Raises JournalError if it can't."""


class Notices:
    """Holds notices until what they tell is in the store; the outcomes of attempts are written at once."""

    log = Logger()

    def __init__(self, journal: ChangeLog) -> None:
        self._journal = journal
        self._waiting: list[Notice] = []

    def nobody(self, alert: Alert, why: str) -> None:
        """Hold a notice that an alert has no destination."""
        self._waiting.append((alert.agent, alert.check, {"action": "nobody", "what": alert.what, "why": why}))

    def add(self, note: Note, is_muted: bool) -> None:
        """Hold a notice of what a group did with an alert."""
        document = {"action": note.action, "what": note.alert.what, "channel": note.channel, "rule": note.route}
        why = MUTED if is_muted and note.action == "grouped" else note.why
        self._waiting.append((note.alert.agent, note.alert.check, document | {"why": why}))

    def take(self) -> tuple[Notice, ...]:
        """Return the notices that are held, and hold them no longer."""
        taken, self._waiting = tuple(self._waiting), []
        return taken

    def write(self, notices: Iterable[Notice]) -> None:
        """Append notices to the history; one that it doesn't take is logged."""
        for agent, check, document in notices:
            try:
                self._journal.change("notice", document, agent, check)
            except JournalError as error:
                self.log.error("{agent}/{check}: {error}", agent=agent, check=check, error=error)

    def outcome(self, action: str, message: Message, tries: int, text: str) -> None:
        """Write what became of an attempt to send a message, for each of its alerts."""
        if action == "failed" and tries > FAILED_NOTES:
            return
        for alert in message.alerts:
            if alert.key not in message.fresh and action != "dead":
                continue  # a repeat: it is in the outbox's counts, and no news about the alert
            document: dict[str, Any] = {"action": action, "what": alert.what, "channel": message.channel}
            document |= {"rule": message.route}
            document |= {"why": text, "tries": tries, "message": message.id, "with": len(message.alerts) - 1}
            self.write([(alert.agent, alert.check, document)])
