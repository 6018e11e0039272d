"""Delivers the records of one step: waits for a receiver that can't take them, and sets aside what it never will.

A receiver that refuses a body refuses the whole of it for a single bad value. So the records are halved and sent again,
until those that it does not take are alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from helen.forwards.config import Forward
from helen.forwards.formats.values import Body, Signal
from helen.forwards.records import Labels, Record
from helen.forwards.runtime import Runtime
from helen.forwards.sending import Taken
from helen.notify.attempt import SendFailed

# Answers about what was sent. Any other one, 401 and 404 among them, would be the same for each body: it is about the
# settings or the receiver, passes when somebody mends them, and is waited for.
NEVER = frozenset((400, 413, 422))
TOO_OLD = "too old sample"  # with 500: so says Prometheus 2 of what is older than its window, and for ever
MOST_HALVINGS = 64  # of one step: a receiver that refuses everything is asked so often, not once for each record
FIRST_RETRY = 1.0  # seconds, doubled with each further try
LONGEST_RETRY = 60.0  # a receiver that is back gets the next try within a minute
LONGEST_ASKED = 600.0  # of a Retry-After
JITTER = 0.25  # of it, both ways


@define
class Counts:
    """Counts what became of what was sent since this start, and holds the receiver's newest words."""

    sent: int = 0
    refused: int = 0
    failed: int = 0  # tries
    error: str | None = None  # of the newest try, while it failed
    refusal: str | None = None  # the newest one
    refused_at: float | None = None  # unix seconds


class Refused(Exception):
    """The receiver will never take a body; the text is its answer."""


def is_for_good(error: SendFailed) -> bool:
    """Return True if an answer is about what was sent, and would be the same each time."""
    return error.status in NEVER or (error.status == 500 and TOO_OLD in error.text)


def backoff(tries: int, chance: float) -> float:
    """Return the seconds until the next try after so many. `chance`: 0 to 1."""
    longest = min(LONGEST_RETRY, FIRST_RETRY * 2.0 ** min(tries - 1, 10))
    return longest * (1 + JITTER * (2 * chance - 1))


class Delivery:
    """Sends the records of one forward, one body at a time, so that they arrive in their order."""

    log = Logger()

    def __init__(self, runtime: Runtime, forward: Forward, counts: Counts) -> None:
        self.is_stopped = False
        self._runtime, self._forward, self._counts = runtime, forward, counts

    async def deliver(self, records: Sequence[Record], labels: Labels) -> None:
        """Return once each record is sent or set aside."""
        for signal in self._forward.signals:
            await self._signal(signal, records, labels)

    async def _signal(self, signal: Signal, records: Sequence[Record], labels: Labels) -> None:
        parts, halvings = [records], 0
        while parts:
            part = parts.pop()
            body = await self._runtime.in_thread(signal.write, part, labels)
            if body is None:
                continue
            try:
                await self._until_taken(signal, body)
            except Refused as error:
                if len(part) > 1 and halvings < MOST_HALVINGS:
                    halvings += 1
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                else:
                    self._set_aside(body.count, str(error), part[0])

    async def _until_taken(self, signal: Signal, body: Body) -> None:
        """Send a body again and again until it is taken. Raises Refused if it never will be."""
        tries = 0
        while True:
            try:
                taken = await self._forward.way.send(self._runtime, signal, body, self._forward.timeout)
            except SendFailed as error:
                if self.is_stopped:  # what was broken off looks like any other failure
                    raise CancelledError from error
                if is_for_good(error):
                    self._counts.error = None
                    raise Refused(error.text) from error
                tries += 1
                self._failed(error.text, tries)
                asked = min(error.retry_after or 0.0, LONGEST_ASKED)
                await self._runtime.pause(max(asked, backoff(tries, self._runtime.chance())))
            else:
                self._taken(taken, body, tries)
                return

    def _taken(self, taken: Taken, body: Body, tries: int) -> None:
        if tries:
            self.log.info("forward {name}: the receiver takes data again", name=self._forward.name)
        self._counts.error = None
        self._counts.sent += body.count - taken.left_out
        if taken.left_out:
            self._set_aside(taken.left_out, taken.why, None)

    def _failed(self, text: str, tries: int) -> None:
        """Count a try that failed. One line of the log tells of an outage, however long it lasts."""
        self._counts.failed += 1
        self._counts.error = text
        if tries == 1:
            self.log.warn(
                "forward {name}: {text}. It is tried again, up to once a minute; nothing is lost meanwhile",
                name=self._forward.name, text=text,
            )  # fmt: skip

    def _set_aside(self, count: int, text: str, first: Record | None) -> None:
        """Count what the receiver will never take; the results themselves stay in the history."""
        where = "" if first is None else f", {first.agent}/{first.check} first"
        self._counts.refused += count
        self._counts.refusal = f"{text}{where}"
        self._counts.refused_at = self._runtime.wall()
        self.log.warn(
            "forward {name}: the receiver refused {count} for good{where}: {text}", name=self._forward.name,
            count=count, where=where, text=text,
        )  # fmt: skip
