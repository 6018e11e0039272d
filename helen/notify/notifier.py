"""From decisions to messages: hears what the judge has decided, routes, groups, and hands to the outbox what is due.

Everything that comes of decisions and of time is one transaction of the store before anything is sent: how far the
history is taken up, what the groups know, and the messages. So a Helen that is killed begins where that one ended.
What became of each decision goes into the history as a `notice` of its check, for `helen explain`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from helen.journal.values import JournalError, StoredChange
from helen.notify import rows
from helen.notify.book import NotificationBook
from helen.notify.config import Channel, Config
from helen.notify.grouping import Changed, Groups, Limits, Note
from helen.notify.messages import Message, alert_of
from helen.notify.missed import Heard, heard_of
from helen.notify.outbox import Outbox
from helen.notify.routing import Destination, Timing, route
from helen.notify.rows import Loaded
from helen.notify.sending import send
from helen.store import Store, StoreClosed

API_TIMING = Timing(0.0, 1.0, 60.0)  # of Alertmanager, which wants to hear of all that fires each minute
PRUNE_SECONDS = 3_600.0  # between two looks for sent messages that need not be remembered any more
RETRY_SECONDS = 1.0  # until a transaction that failed is tried again
FAILED_NOTES = 1  # the first failed try is written down for each alert, and the end; those between are in the outbox

Facts = Callable[[str, str], tuple[Mapping[str, str], str]]


class Paper(Protocol):
    """Of the journal what is needed here."""

    def change(
        self, kind: str, document: Mapping[str, Any], agent: str | None = None, check_id: str | None = None
    ) -> None: ...


@frozen
class Batch:
    """What goes into the store together, and the notes that are written once it is there."""

    cursor: int
    changed: Changed
    messages: tuple[Message, ...] = ()
    notes: tuple[tuple[str, str, dict[str, Any]], ...] = field(factory=tuple)


class Notifier:
    """`facts(agent, check)` are the agent's labels and the check's newest summary."""

    log = Logger()

    def __init__(
        self, reactor: Any, state: Path, store: Store, journal: Paper, facts: Facts, wall: Callable[[], float]
    ) -> None:
        self.groups = Groups()
        self.book = NotificationBook(reactor, state / "notifications.toml", store, self._on_config)
        self.outbox = Outbox(reactor, store, wall, self.send, self._channel, self._on_outcome)
        self.counts = {"decisions": 0, "unrouted": 0}
        self._reactor, self._store, self._journal, self._facts, self._wall = reactor, store, journal, facts, wall
        self._cursor, self._pruned_at = 0, 0.0
        self._early: list[Heard] | None = []  # None: this one has started
        self._notes: list[tuple[str, str, dict[str, Any]]] = []
        self._messages: list[Message] = []
        self._moved = False  # there is something to commit
        self._committing: Deferred[None] | None = None
        self._timer: Any = None
        self._stopped = False

    # ---------------------------------------------------------------------------------------------- living

    async def start(self, newest: int, missed: Callable[[int], Deferred[list[Heard]]]) -> None:
        """`newest`: the last record of the history; `missed(cursor)`: its decisions that came after one."""
        try:
            loaded = await self._store.call(rows.load, self._wall())
        except StoreClosed:  # Helen was told to stop meanwhile
            return
        self._restore(loaded, newest)
        await self.book.start(loaded.config)
        before = await missed(self._cursor)
        early, self._early = self._early or [], None
        for heard in (*before, *early):
            self._take(heard)
        self.outbox.load(loaded.waiting, loaded.dead)
        self._work()

    def _restore(self, loaded: Loaded, newest: int) -> None:
        self._cursor = newest if loaded.cursor is None else loaded.cursor
        self._moved = loaded.cursor is None  # from here on decisions count
        self.groups.restore(loaded.groups, loaded.entries, loaded.sent)

    def stop(self) -> Deferred[None]:
        """Fires when what was to be committed is."""
        self._stopped = True
        self.book.stop()
        self.outbox.stop()
        self._cancel_timer()
        return self._committing if self._committing is not None else succeed(None)

    def decided(self, stored: StoredChange) -> None:
        """An observer of the judge: a transition, a flap or a decision is durable."""
        heard = heard_of(stored)
        if heard is None or self._stopped:
            return
        if self._early is not None:
            self._early.append(heard)
            return
        self._take(heard)
        self._work()

    def _take(self, heard: Heard) -> None:
        decision = json.loads(heard.document)
        if heard.at <= self._cursor or decision.get("action") != "notify":
            return
        self._cursor, self._moved = heard.at, True
        self.counts["decisions"] += 1
        labels, summary = self._facts(heard.agent, heard.check)
        alert = alert_of(heard.agent, heard.check, heard.at, decision, labels, summary)
        to, why = self._destinations(self.book.config, alert.labels)
        notes = self.groups.take(alert, to, self._knows_labels, self._wall())
        if not notes:
            self.counts["unrouted"] += 1
            told = why if alert.firing else "nobody was told of the problem, so nobody hears of its end"
            self._notes.append((heard.agent, heard.check, {"action": "nobody", "what": alert.what, "why": told}))
        self._write(notes)

    def _destinations(self, config: Config | None, labels: Mapping[str, str]) -> tuple[list[Destination], str]:
        """Where to, and if nowhere: why."""
        if config is None:
            return [], f"there is no {self.book.path.name}, so nobody is told anything"
        routed = route(config.route, labels)
        found = []
        for each in routed.destinations:
            if config.channels[each.channel].is_api:
                each = Destination(each.channel, each.channel, (), API_TIMING)
            found.append(each)
        return found, "no rule with a channel takes it: `helen route test` shows each rule"

    # ---------------------------------------------------------------------------------------------- time

    def _work(self) -> None:
        """Take what is due, commit, and find out when to look again."""
        self._cancel_timer()
        if self._stopped:
            return
        config, now = self.book.config, self._wall()
        rates = {} if config is None else {name: channel.rate for name, channel in config.channels.items()}
        for said in self.groups.advance(now, Limits(rates, self.outbox.is_busy, self.outbox.is_full)):
            self._moved = True
            if isinstance(said, Message):
                self._messages.append(said)
                self.outbox.expect(said)
            else:
                self._write([said])
        self._commit()
        if now - self._pruned_at >= PRUNE_SECONDS:
            self._pruned_at = now
            pruned = self._store.call(rows.prune, now)
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
            self._moved = True
            document = {"action": note.action, "what": note.alert.what, "channel": note.channel, "rule": note.route}
            self._notes.append((note.alert.agent, note.alert.check, document | {"why": note.why}))

    def _commit(self) -> None:
        if self._committing is not None or not self._moved:
            return
        batch = Batch(self._cursor, self.groups.changed(), tuple(self._messages), tuple(self._notes))
        self._messages, self._notes, self._moved = [], [], False
        self._committing = Deferred.fromCoroutine(self._put_away(batch))
        self._committing.addErrback(lambda failure: self.log.failure("notifications", failure))
        self._committing.addBoth(lambda _: self._committed())

    async def _put_away(self, batch: Batch) -> None:
        """Until it is in the store: nothing is sent before, and nothing of it is given up."""
        told = False
        while True:
            try:
                await self._store.call(rows.commit, batch.cursor, batch.changed, batch.messages)
                break
            except Exception as error:
                if self._stopped:
                    return
                if not told:
                    self.log.error("notifications wait for the store: {error}", error=error)
                told = True
                await self._pause()
        for agent, check, document in batch.notes:
            self._record(agent, check, document)
        self.outbox.committed(batch.messages)

    def _pause(self) -> Deferred[None]:
        later: Deferred[None] = Deferred()
        self._reactor.callLater(RETRY_SECONDS, later.callback, None)
        return later

    def _committed(self) -> None:
        self._committing = None
        if self._moved and not self._stopped:
            self._commit()

    # ---------------------------------------------------------------------------------------------- outcomes

    def send(self, channel: Channel, message: Message) -> Deferred[Any]:
        config = self.book.config
        return send(self._reactor, channel, message, "" if config is None else config.external_url)

    def _channel(self, name: str) -> Channel | None:
        return None if self.book.config is None else self.book.config.channels.get(name)

    def _knows_labels(self, name: str) -> bool:
        channel = self._channel(name)
        return channel is not None and channel.knows_labels

    def _on_outcome(self, action: str, message: Message, tries: int, words: str) -> None:
        if action == "failed" and tries > FAILED_NOTES:
            return
        for alert in message.alerts:
            if alert.key not in message.fresh and action != "dead":
                continue  # said again: it is in the outbox's counts, and no news about the alert
            document: dict[str, Any] = {"action": action, "what": alert.what, "channel": message.channel}
            document |= {"rule": message.route}
            document |= {"why": words, "tries": tries, "message": message.id, "with": len(message.alerts) - 1}
            self._record(alert.agent, alert.check, document)

    def _record(self, agent: str, check: str, document: dict[str, Any]) -> None:
        try:
            self._journal.change("notice", document, agent, check)
        except JournalError as error:
            self.log.error("{agent}/{check}: {error}", agent=agent, check=check, error=error)

    def _on_config(self) -> None:
        """Channels that are gone take with them what waits for them; what is under way fails, and says why."""
        config = self.book.config
        known = set() if config is None else config.channels.keys()
        for channel in sorted({group.channel for group in self.groups.groups.values()} - known):
            self._write(self.groups.forget(channel))
            self._moved = True
        if self._early is None:
            self._work()
