"""Counts the messages of each channel, as far back as its rate looks. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

Rate = tuple[int, float]  # so many messages, in so many seconds


class ChannelRates:
    """Says when a channel may send again. Times are unix seconds."""

    def __init__(self) -> None:
        self._sent: dict[str, deque[float]] = {}  # channel -> times of its messages

    def sent(self) -> list[tuple[str, float]]:
        """Return channel and time of each message that is counted."""
        return [(channel, at) for channel, times in self._sent.items() for at in times]

    def add(self, channel: str, now: float) -> None:
        """Count a message."""
        self._sent.setdefault(channel, deque()).append(now)

    def free_at(self, channel: str, rate: Rate | None, now: float) -> float | None:
        """Return when a channel may send again; None: now. Messages that its rate looks back at no more go."""
        sent = self._sent.setdefault(channel, deque())
        while sent and (rate is None or sent[0] <= now - rate[1]):
            sent.popleft()
        return sent[-rate[0]] + rate[1] if rate is not None and len(sent) >= rate[0] else None

    def load(self, sent: Iterable[tuple[str, float]]) -> None:
        """Take messages of an earlier run: channel and time of each, in any order."""
        for channel, at in sorted(sent, key=lambda each: each[1]):
            self.add(channel, at)

    def move(self, by: float) -> None:
        """Move all times by so many seconds."""
        for channel, sent in self._sent.items():
            self._sent[channel] = deque(at + by for at in sent)

    def put_right(self, now: float) -> None:
        """Count a message of a time that lies ahead as one of now."""
        for channel, times in self._sent.items():
            self._sent[channel] = deque(min(at, now) for at in times)
