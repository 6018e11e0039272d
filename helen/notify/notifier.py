"""Makes messages of decisions to notify: routes and groups their alerts, and hands to the outbox what is due.

All that follows from decisions and from time is one transaction of the store before anything is sent: how far the
history is taken up, the groups, and the messages. So a server that was killed goes on where it was. The outcome of each
decision goes into the history as a `notice` of its check, for `helen explain`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from groundwork.check_notes import NO_NOTES, CheckNotes
from groundwork.clock_watch import Jump
from helen.journal.values import StoredChange
from helen.notify import rows
from helen.notify.attempt import Accepted
from helen.notify.channels.channel import Channel
from helen.notify.config import Config, NotificationsError, read
from helen.notify.destinations import destinations_of
from helen.notify.group import Changed, Limits, Note
from helen.notify.grouping import Groups
from helen.notify.messages import Alert, Message, alert_of
from helen.notify.missed import StoredDecision, decision_of
from helen.notify.notices import ChangeLog, Notice, Notices
from helen.notify.outbox import Outbox
from helen.notify.rows import Loaded
from helen.notify.sending import send
from helen.storage.config_file import ConfigFile
from helen.storage.database import Store, StoreClosed

PRUNE_SECONDS = 3_600.0  # between two looks for sent messages that need not be remembered any more
RETRY_SECONDS = 1.0  # until a transaction that failed is tried again
Facts = Callable[[str, str], tuple[Mapping[str, str], str]]
OpenProblem = tuple[str, str, dict[str, Any]]


@frozen
class Batch:
    """Holds rows that go into the store together, and the notices that are written once they are there."""

    cursor: int
    changed: Changed
    messages: tuple[Message, ...] = ()
    notices: tuple[Notice, ...] = ()


class Notifier:
    """Owns groups, outbox and configuration. `wall`: unix seconds; `settled`: those by which sent messages expire.

    `facts(agent, check)` returns the agent's labels and the check's newest summary; `open_problems()` yields the
    problems that were told and are not over, as agent, check, and a document with the keys of a decision.
    `is_handled(agent, check)`: its problem is acknowledged, or in a downtime or silence; it is not repeated.

    While it is muted alerts wait in their groups and messages in the outbox: what is over by the next start without
    --mute is never told, what is still broken is.
    """

    log = Logger()

    def __init__(
        self, reactor: Any, state: Path, store: Store, journal: ChangeLog, facts: Facts, wall: Callable[[], float],
        settled: Callable[[], float] | None = None,
        open_problems: Callable[[], Iterable[OpenProblem]] = tuple,
        is_muted: bool = False,
        notes_of: Callable[[str, str], CheckNotes] = lambda agent, check: NO_NOTES,
        is_handled: Callable[[str, str], bool] = lambda agent, check: False,
    ) -> None:  # fmt: skip
        self._notes_of, self._is_handled = notes_of, is_handled
        self.groups = Groups()
        self.config_file = ConfigFile[Config](
            reactor, state / "notifications.toml", store, rows.CONFIG, read, NotificationsError, self._on_config
        )
        self._notices = Notices(journal)
        self.outbox = Outbox(reactor, store, wall, self.send, self._channel, self._notices.outcome)
        self.counts = {"decisions": 0, "unrouted": 0}
        self.is_muted = is_muted
        self._reactor, self._store, self._facts, self._wall = reactor, store, facts, wall
        self._settled = settled or wall
        self._open_problems = open_problems
        self._cursor, self._pruned_at = 0, 0.0
        self._early: list[StoredDecision] | None = []  # that come before it has started; None from then on
        self._messages: list[Message] = []
        self._is_dirty = False  # there is something to commit
        self._committing: Deferred[None] | None = None
        self._timer: Any = None
        self._stopped = False

    # ---------------------------------------------------------------------------------------------- start and stop

    async def start(
        self, newest: int, missed: Callable[[int], Deferred[list[StoredDecision]]], stepped: float = 0.0
    ) -> None:
        """Go on where the last process was, with the decisions that it had no time for.

        `newest`: the last record of the history; `missed(cursor)` fires with its decisions after that record.
        `stepped`: seconds by which the clock was set since the last process; intervals go on as if it had not been.
        """
        try:
            loaded = await self._store.call(rows.load, self._wall())
        except StoreClosed:  # Helen was told to stop meanwhile
            return
        self._restore(loaded, newest, stepped)
        await self.config_file.start(loaded.config)
        before = await missed(self._cursor)
        early, self._early = self._early or [], None
        for decision in (*before, *early):
            self._take(decision)
        self._tell_mirrors()
        self.outbox.load(loaded.waiting, loaded.dead, is_held=self.is_muted)
        self._work()

    def _restore(self, loaded: Loaded, newest: int, stepped: float) -> None:
        self._cursor = newest if loaded.cursor is None else loaded.cursor
        self._is_dirty = loaded.cursor is None or stepped != 0.0  # from here on decisions count
        self.groups.restore(loaded.groups, loaded.entries, loaded.sent, self._wall(), stepped)

    def stop(self) -> Deferred[None]:
        """Stop; the Deferred fires when the last transaction is done."""
        self._stopped = True
        self.config_file.stop()
        self.outbox.stop()
        self._cancel_timer()
        return self._committing if self._committing is not None else succeed(None)

    def jumped(self, jump: Jump) -> None:
        """Move intervals and retries by a step of the clock; intervals also by a sleep, when no alert could come."""
        self.groups.move(jump.stepped + jump.slept)
        self.outbox.move(jump.stepped)
        self._pruned_at += jump.stepped
        self._is_dirty = True
        if self._early is None and not self._stopped:
            self._reactor.callLater(0, self._work)

    def decided(self, stored: StoredChange) -> None:
        """Take note of a durable record of the evaluator; only decisions matter here."""
        decision = decision_of(stored)
        if decision is None or self._stopped:
            return
        if self._early is not None:
            self._early.append(decision)
            return
        self._take(decision)
        self._work()

    def _take(self, decision: StoredDecision) -> None:
        document = json.loads(decision.document)
        if decision.at <= self._cursor or document.get("action") != "notify":
            return
        self._cursor, self._is_dirty = decision.at, True
        self.counts["decisions"] += 1
        labels, summary = self._facts(decision.agent, decision.check)
        notes = self._notes_of(decision.agent, decision.check)
        alert = alert_of(decision.agent, decision.check, decision.at, document, labels, summary, notes)
        to, why = destinations_of(self.config_file.config, alert.labels, self.config_file.path.name)
        taken = self.groups.take(alert, to, self._knows_labels, self._wall())
        if not taken:
            self.counts["unrouted"] += 1
            reason = why if alert.firing else "its problem was told to nobody"
            self._notices.nobody(alert, reason)
        self._write(taken)

    # ---------------------------------------------------------------------------------------------- time

    def _work(self) -> None:
        """Make the messages that are due, commit, and set the timer for the next look."""
        self._cancel_timer()
        if self._stopped:
            return
        if self.is_muted:
            self._commit()
            return
        config, now = self.config_file.config, self._wall()
        rates = {} if config is None else {name: channel.rate for name, channel in config.channels.items()}
        limits = Limits(rates, self.outbox.is_busy, self.outbox.is_full, self._handled)
        for made in self.groups.advance(now, limits):
            self._is_dirty = True
            if isinstance(made, Message):
                self._messages.append(made)
                self.outbox.expect(made)
            else:
                self._write([made])
        self._commit()
        if now - self._pruned_at >= PRUNE_SECONDS:
            self._pruned_at = now
            pruned = self._store.call(rows.prune, self._settled())
            pruned.addErrback(lambda failure: self.log.error("outbox: {why}", why=failure.getErrorMessage()))
        due = self.groups.due()
        if due is not None:
            self._timer = self._reactor.callLater(min(max(0.0, due - now), 3_600.0), self._work)

    def _cancel_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _write(self, notes: Iterable[Note]) -> None:
        for note in notes:
            self._is_dirty = True
            self._notices.add(note, self.is_muted)

    def _commit(self) -> None:
        if self._committing is not None or not self._is_dirty:
            return
        batch = Batch(self._cursor, self.groups.changed(), tuple(self._messages), self._notices.take())
        self._messages, self._is_dirty = [], False
        self._committing = Deferred.fromCoroutine(self._commit_batch(batch))
        self._committing.addErrback(lambda failure: self.log.failure("notifications", failure))
        self._committing.addBoth(lambda _: self._committed())

    async def _commit_batch(self, batch: Batch) -> None:
        """Write the batch, again and again until it is in the store: nothing of it is sent before."""
        is_logged = False
        while True:
            try:
                await self._store.call(rows.commit, batch.cursor, batch.changed, batch.messages)
                break
            except Exception as error:
                if self._stopped:
                    return
                if not is_logged:
                    self.log.error("notifications wait for the store: {error}", error=error)
                is_logged = True
                await self._pause()
        self._notices.write(batch.notices)
        self.outbox.committed(batch.messages)

    def _pause(self) -> Deferred[None]:
        later: Deferred[None] = Deferred()
        self._reactor.callLater(RETRY_SECONDS, later.callback, None)
        return later

    def _committed(self) -> None:
        self._committing = None
        if self._is_dirty and not self._stopped:
            self._commit()

    # ---------------------------------------------------------------------------------------------- channels

    def send(self, channel: Channel, message: Message) -> Deferred[Accepted]:
        """Send a message now, past the outbox. Fails with SendFailed."""
        config = self.config_file.config
        return send(self._reactor, channel, message, "" if config is None else config.external_url)

    def _channel(self, name: str) -> Channel | None:
        return None if self.config_file.config is None else self.config_file.config.channels.get(name)

    def _handled(self, name: str, alert: Alert) -> bool:
        """Return True if a channel need not be told again of an alert; a mirror, which is told each minute, must be."""
        channel = self._channel(name)
        return channel is not None and not channel.settings.groups_itself and self._is_handled(alert.agent, alert.check)

    def _knows_labels(self, name: str) -> bool:
        channel = self._channel(name)
        return channel is not None and channel.settings.knows_labels

    def _on_config(self) -> None:
        """Drop the groups of channels that are gone; their messages under way fail, with the reason."""
        config = self.config_file.config
        known = set() if config is None else config.channels.keys()
        for channel in sorted({group.channel for group in self.groups.groups.values()} - known):
            self._write(self.groups.forget(channel))
            self._is_dirty = True
        if self._early is None:
            self._tell_mirrors()
            self._work()

    def _tell_mirrors(self) -> None:
        """Give channels that mirror all alerts, as Alertmanager does, the open problems that they have not heard of."""
        config = self.config_file.config
        if config is None or not any(each.settings.groups_itself for each in config.channels.values()):
            return
        for agent, check, document in self._open_problems():
            labels, summary = self._facts(agent, check)
            alert = alert_of(agent, check, self._cursor, document, labels, summary)
            to, _ = destinations_of(config, alert.labels, self.config_file.path.name)
            mirrors = [each for each in to if config.channels[each.channel].settings.groups_itself]
            self._write(self.groups.join(alert, mirrors, self._knows_labels, self._wall()))
