"""Delivers the messages of the store's outbox: attempts, waits longer each time, and gives up at last.

A message is in the store before it gets here and leaves it when the remote has taken it, so a crash between the two
sends it once more, under the same id: an alert that comes twice is better than one that never comes.
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
from helen.notify.attempt import Accepted, SendFailed
from helen.notify.channels.channel import Channel
from helen.notify.messages import Message
from helen.notify.rows import Waiting
from helen.storage.database import Store

MAX_WAITING = 10_000  # messages; groups keep to themselves what comes then, so nothing is lost
AT_ONCE = 4  # messages on their way to one channel, so that a receiver that hangs does not hold up its other messages
FIRST_RETRY = 5.0  # seconds, doubled with each further try
LONGEST_RETRY = 900.0
LONGEST_API_RETRY = 60.0  # of Alertmanager: once it is back it should know within a minute what is firing
JITTER = 0.25  # of it, both ways: messages that failed together aren't tried together
MAX_TRIES = 20  # with the above some 3 hours: an outage that lasts longer has been noticed by other means

Send = Callable[[Channel, Message], "Deferred[Accepted]"]
Outcome = Callable[[str, Message, int, str], None]


def backoff(tries: int, chance: float, longest: float = LONGEST_RETRY) -> float:
    """Return the seconds until the next attempt after so many. `chance`: 0 to 1; `longest`: seconds."""
    return min(longest, FIRST_RETRY * 2.0 ** (tries - 1)) * (1 + JITTER * (2 * chance - 1))


class Outbox:
    """Holds the messages that wait. `wall`: unix seconds; `channel_of(name)` finds a channel.

    `on_outcome(action, message, tries, text)` is called with sent, failed and dead, once that is in the store.
    """

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
        self.last_error: str | None = None  # of the newest message that was given up since this start
        self.counts: Counter[tuple[str, str]] = Counter()  # (channel, outcome)
        self._reactor, self._store, self._wall, self._chance = reactor, store, wall, chance
        self._send, self._channel_of, self._on_outcome = send, channel_of, on_outcome
        self._waiting: dict[str, Waiting] = {}
        self._groups: Counter[str] = Counter()
        self._under_way: dict[str, Deferred[None]] = {}
        self._per_channel: Counter[str] = Counter()
        self._timer: Any = None
        self._stopped = self._is_held = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Return True while no further message should be made."""
        return len(self._waiting) >= MAX_WAITING

    def is_busy(self, group: str) -> bool:
        """Return True while a message of this group is still to be delivered."""
        return self._groups[group] > 0

    def load(self, waiting: Iterable[Waiting], dead: int, is_held: bool = False) -> None:
        """Take the messages of before this start; `dead`: how many were given up. While it is held none is sent.

        None waits longer than a retry may: it was stored by a clock that was ahead.
        """
        self.dead, self._is_held = dead, is_held
        latest = self._wall() + LONGEST_RETRY * (1 + JITTER)
        for each in waiting:
            self._take(evolve(each, due=min(each.due, latest)))
        self.look()

    def expect(self, message: Message) -> None:
        """Take note that a message is on its way into the store: its group is busy from now on."""
        self._groups[message.group] += 1

    def committed(self, messages: Iterable[Message]) -> None:
        """Take messages that are in the store."""
        for message in messages:
            self._groups[message.group] -= 1
            self._take(Waiting(message.id, message.group, message.channel, 0, message.at))
        self.look()

    def add(self, waiting: Waiting) -> None:
        """Take a message that was given up, and is to be tried again."""
        self.dead -= 1
        self._take(waiting)
        self.look()

    def move(self, by: float) -> None:
        """Move the times of further attempts by so many seconds: the clock was set."""
        self._waiting = {id: evolve(each, due=each.due + by) for id, each in self._waiting.items()}

    def stop(self) -> None:
        """Break off what is under way; it is in the store, for the next start."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        for each in list(self._under_way.values()):
            each.cancel()

    # ---------------------------------------------------------------------------------------------- attempts

    def _take(self, waiting: Waiting) -> None:
        self._waiting[waiting.id] = waiting
        self._groups[waiting.group] += 1

    def look(self) -> None:
        """Begin the attempts that are due, and set the timer for the next look."""
        if self._stopped or self._is_held:
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
        """Keep a message whose attempt ended by a fault of the store or of Helen's own."""
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
            accepted = await self._send(channel, message)
        except SendFailed as error:
            await self._failed(waiting, message, tries, error)
            return
        await self._store.call(rows.sent, waiting.id, self._wall(), tries)
        self._forget(waiting)
        self._tell("sent", message, tries, accepted.text)

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
        longest = LONGEST_API_RETRY if channel is not None and channel.settings.groups_itself else LONGEST_RETRY
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

    def _tell(self, action: str, message: Message, tries: int, text: str) -> None:
        self.counts[message.channel, action] += 1
        self._on_outcome(action, message, tries, text)
