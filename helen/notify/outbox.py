"""Delivers what the store's outbox holds: tries, waits longer each time, gives up at last, and says so.

A message is in the store before it gets here and leaves it when the remote has taken it, so a crash between the two
sends it once more, under the same id. At most once is nobody's wish where an alert is concerned.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from helen.notify import rows
from helen.notify.attempt import SendFailed
from helen.notify.config import Channel
from helen.notify.messages import Message
from helen.notify.rows import Waiting
from helen.notify.sending import Said
from helen.store import Store

MAX_WAITING = 10_000  # messages; groups keep to themselves what comes then, so nothing is lost
AT_ONCE = 4  # messages on their way to one channel: one receiver that hangs keeps no others waiting
FIRST_RETRY = 5.0  # seconds, doubled with each further try
LONGEST_RETRY = 900.0
LONGEST_API_RETRY = 60.0  # of Alertmanager: once it is back it shall know within a minute what is firing
JITTER = 0.25  # of it, both ways: those that failed together don't come back together
MAX_TRIES = 20  # with the above some 3 hours, the length of an outage that somebody is working on

Send = Callable[[Channel, Message], "Deferred[Said]"]
Outcome = Callable[[str, Message, int, str], None]


def backoff(tries: int, chance: float, longest: float = LONGEST_RETRY) -> float:
    """Seconds until the next try after so many; `chance` is 0 to 1."""
    return min(longest, FIRST_RETRY * 2.0 ** (tries - 1)) * (1 + JITTER * (2 * chance - 1))


class Outbox:
    """`on_outcome(action, message, tries, words)` hears of sent, failed and dead, once that is in the store."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        store: Store,
        wall: Callable[[], float],
        send: Send,
        channel_of: Callable[[str], Channel | None],
        on_outcome: Outcome,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.dead = 0
        self.last_error: str | None = None  # of the newest one that died in this life of Helen's
        self.counts: Counter[tuple[str, str]] = Counter()  # (channel, outcome)
        self._reactor, self._store, self._wall, self._chance = reactor, store, wall, chance
        self._send, self._channel_of, self._on_outcome = send, channel_of, on_outcome
        self._waiting: dict[str, Waiting] = {}
        self._groups: Counter[str] = Counter()
        self._under_way: dict[str, Deferred[None]] = {}
        self._per_channel: Counter[str] = Counter()
        self._timer: Any = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def is_busy(self, group: str) -> bool:
        """A message of this group is still to be delivered."""
        return self._groups[group] > 0

    def load(self, waiting: Iterable[Waiting], dead: int) -> None:
        """What an earlier life has left; what was late is tried now."""
        self.dead = dead
        for each in waiting:
            self._take(each)
        self.look()

    def expect(self, message: Message) -> None:
        """It is on its way into the store: its group has a message under way from now on."""
        self._groups[message.group] += 1

    def committed(self, messages: Iterable[Message]) -> None:
        """They are in the store."""
        for message in messages:
            self._groups[message.group] -= 1
            self._take(Waiting(message.id, message.group, message.channel, 0, message.at))
        self.look()

    def add(self, waiting: Waiting) -> None:
        """One that somebody brought back from the dead."""
        self.dead -= 1
        self._take(waiting)
        self.look()

    def stop(self) -> None:
        """What is under way is broken off; it is in the store, for the next start."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        for each in list(self._under_way.values()):
            each.cancel()

    # ---------------------------------------------------------------------------------------------- trying

    def _take(self, waiting: Waiting) -> None:
        self._waiting[waiting.id] = waiting
        self._groups[waiting.group] += 1

    def look(self) -> None:
        """Try what is due, and find out when to look again."""
        if self._stopped:
            return
        now, next_due = self._wall(), float("inf")
        for each in list(self._waiting.values()):
            if each.id in self._under_way:
                continue
            if each.due > now:
                next_due = min(next_due, each.due)
            elif self._per_channel[each.channel] < AT_ONCE:
                self._begin(each)
        self._look_at(next_due - now)

    def _look_at(self, later: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if later < float("inf"):
            self._timer = self._reactor.callLater(min(max(0.0, later), LONGEST_RETRY), self.look)

    def _begin(self, waiting: Waiting) -> None:
        self._per_channel[waiting.channel] += 1
        done = self._under_way[waiting.id] = Deferred.fromCoroutine(self._try(waiting))
        done.addErrback(lambda failure: self._broke(waiting, failure)).addBoth(lambda _: self._ended(waiting))

    def _broke(self, waiting: Waiting, failure: Failure) -> None:
        """The store failed, or something of ours: it stays in the outbox."""
        if self._stopped:
            return
        self.log.failure("message {id} to {channel}", failure, id=waiting.id, channel=waiting.channel)
        later = evolve(waiting, tries=waiting.tries + 1, due=self._wall() + backoff(waiting.tries + 1, self._chance()))
        if waiting.id in self._waiting:
            self._waiting[waiting.id] = later

    def _ended(self, waiting: Waiting) -> None:
        self._under_way.pop(waiting.id, None)
        self._per_channel[waiting.channel] -= 1
        if not self._stopped:
            self._reactor.callLater(0, self.look)

    async def _try(self, waiting: Waiting) -> None:
        message = await self._store.call(rows.message, waiting.id)
        if message is None:
            self._forget(waiting)
            return
        tries = waiting.tries + 1
        channel = self._channel_of(waiting.channel)
        try:
            if channel is None:
                raise SendFailed("notifications.toml has no such channel")
            said = await self._send(channel, message)
        except SendFailed as error:
            await self._failed(waiting, message, tries, error)
            return
        await self._store.call(rows.sent, waiting.id, self._wall(), tries)
        self._forget(waiting)
        self._tell("sent", message, tries, said.text)

    async def _failed(self, waiting: Waiting, message: Message, tries: int, error: SendFailed) -> None:
        now = self._wall()
        if tries >= MAX_TRIES:
            await self._store.call(rows.dead, waiting.id, now, tries, error.text)
            self._forget(waiting)
            self.dead += 1
            self.last_error = f"{waiting.channel}: {error.text}"
            self.log.critical(
                "{channel} could not be told after {tries} tries, message {id}: {error}. `helen notify list` has it",
                channel=waiting.channel, tries=tries, id=waiting.id, error=error.text,
            )  # fmt: skip
            self._tell("dead", message, tries, error.text)
            return
        channel = self._channel_of(waiting.channel)
        longest = LONGEST_API_RETRY if channel is not None and channel.is_api else LONGEST_RETRY
        due = now + max(backoff(tries, self._chance(), longest), error.retry_after or 0.0)
        self._waiting[waiting.id] = evolve(waiting, tries=tries, due=due)
        await self._store.call(rows.failed, waiting.id, tries, due, error.text)
        self.log.warn(
            "{channel}: try {tries} of {most} failed: {error}", channel=waiting.channel, tries=tries, most=MAX_TRIES,
            error=error.text,
        )  # fmt: skip
        self._tell("failed", message, tries, error.text)

    def _forget(self, waiting: Waiting) -> None:
        if self._waiting.pop(waiting.id, None) is not None:
            self._groups[waiting.group] -= 1
            if not self._groups[waiting.group]:
                del self._groups[waiting.group]

    def _tell(self, action: str, message: Message, tries: int, words: str) -> None:
        self.counts[message.channel, action] += 1
        self._on_outcome(action, message, tries, words)
