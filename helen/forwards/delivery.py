"""Delivers the records of one step: waits for a receiver that can't take them, and sets aside what it never will.

A receiver that refuses a body refuses the whole of it for a single bad value. So the records are halved and sent again,
until those that it does not take are alone. If it takes nothing at all, then the settings may be at fault: nothing is
set aside until it takes something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from operator import attrgetter

from attrs import define, field
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
MOST_REFUSALS = 64  # of one step that has nothing else: from then on the settings may be at fault, not the records
MOST_PROBES = 8  # bodies that a receiver is asked to take at each try, after it took nothing of a step
PROOF_SECONDS = 60.0  # so long what it took of them says that its refusals are about the records
FIRST_RETRY = 1.0  # seconds, doubled with each further try
LONGEST_RETRY = 60.0  # a receiver that is back gets the next try within a minute
LONGEST_ASKED = 600.0  # of a Retry-After
JITTER = 0.25  # of it, both ways


Newest = Callable[[], Awaitable[Sequence[Record]]]
_agent = attrgetter("agent")


@define
class Counts:
    """Counts what became of what was sent since this start, and holds the receiver's newest words."""

    sent: int = 0
    refused: int = 0
    failed: int = 0  # tries
    error: str | None = None  # of the newest try, while it failed
    doubt: str | None = None  # the receiver's words while it takes nothing at all
    refusal: str | None = None  # the newest one
    refused_at: float | None = None  # unix seconds


class Refused(Exception):
    """Says that a receiver will never take a body; the text is its answer, or says why there is no body.

    `count`: how much is in it.
    """

    def __init__(self, text: str, count: int, is_receivers: bool = True) -> None:
        super().__init__(text)
        self.count, self.is_receivers = count, is_receivers


@define
class Outcome:
    """Says what became of a step: whether something was taken, and what was refused alone."""

    is_taken: bool = False
    tries: int = 0  # that the receiver refused
    text: str = ""  # of the newest of them
    refused: list[tuple[int, str, Record]] = field(factory=list)

    def count(self, error: Refused) -> None:
        """Count a refusal of the receiver's."""
        if error.is_receivers:
            self.tries += 1
            self.text = str(error)


def is_for_good(error: SendFailed) -> bool:
    """Return True if an answer is about what was sent, and would be the same each time."""
    return error.status in NEVER or (error.status == 500 and TOO_OLD in error.text)


def backoff(tries: int, chance: float) -> float:
    """Return the seconds until the next try after so many. `chance`: 0 to 1."""
    longest = min(LONGEST_RETRY, FIRST_RETRY * 2.0 ** min(tries - 1, 10))
    return longest * (1 + JITTER * (2 * chance - 1))


class Delivery:
    """Sends the records of one forward, one body at a time, so that those of each agent arrive in their order.

    `newest()` returns some of the newest records: a receiver that took nothing of a step is asked to take those.
    """

    log = Logger()

    def __init__(self, runtime: Runtime, forward: Forward, counts: Counts, newest: Newest) -> None:
        self.is_stopped = False
        self._runtime, self._forward, self._counts, self._newest = runtime, forward, counts, newest
        self._proven: dict[str, float] = {}  # path of a signal -> the reactor's seconds of the newest proof

    async def deliver(self, records: Sequence[Record], labels: Labels) -> None:
        """Return once each record is sent or set aside."""
        for signal in self._forward.signals:
            await self._signal(signal, records, labels)

    async def _signal(self, signal: Signal, records: Sequence[Record], labels: Labels) -> None:
        """Send records. A record that was refused alone is set aside once the receiver takes another one."""
        while True:
            proven = self._proven.get(signal.path)
            is_proven = proven is not None and self._runtime.reactor.seconds() - proven < PROOF_SECONDS
            outcome = await self._parts(signal, records, labels, is_proven)
            if outcome.is_taken or is_proven or not outcome.tries:
                for refusal in outcome.refused:
                    self._set_aside(*refusal)
                self._counts.doubt = None
                return
            if await self._are_taken_later(signal, records, labels, outcome.text):
                return

    async def _parts(self, signal: Signal, records: Sequence[Record], labels: Labels, is_proven: bool) -> Outcome:
        """Send records, halved until those that are refused are alone. It ends early if all seems to be refused."""
        parts, found = [records], Outcome()
        while parts and (is_proven or found.is_taken or found.tries < MOST_REFUSALS):
            part = parts.pop()
            try:
                found.is_taken |= await self._send(signal, part, labels)
            except Refused as error:
                found.count(error)
                if len(part) > 1:
                    parts += _halves(sorted(part, key=_agent) if part is records else part)
                elif error.is_receivers:
                    found.refused.append((error.count, str(error), part[0]))
                else:
                    self._set_aside(error.count, str(error), part[0])
        return found

    async def _send(self, signal: Signal, records: Sequence[Record], labels: Labels) -> bool:
        """Send records in one body. Returns False if nothing of them is sent by this signal. Raises Refused."""
        try:
            body = await self._runtime.in_thread(signal.write, records, labels)
        except (MemoryError, CancelledError):
            raise
        except Exception as error:  # records come from agents: no content of one may hold up all others
            raise Refused(f"can't be written: {type(error).__name__}: {error}", 1, is_receivers=False) from error
        if body is not None:
            await self._until_taken(signal, body)
        return body is not None

    async def _are_taken_later(
        self, signal: Signal, records: Sequence[Record], labels: Labels, text: str
    ) -> bool:  # fmt: skip
        """Wait until a receiver that refused all takes something. Returns True if that was all of the records."""
        tries, is_all = 0, False
        while not is_all:
            tries += 1
            self._failed(text, tries)
            self._counts.doubt = text
            await self._runtime.pause(backoff(tries, self._runtime.chance()))
            try:
                is_all = await self._send(signal, records, labels)
            except Refused as error:
                text = str(error)
                if await self._takes_others(signal, labels, tries):
                    self._proven[signal.path] = self._runtime.reactor.seconds()
                    break
        self._counts.doubt = self._counts.error = None
        return is_all

    async def _takes_others(self, signal: Signal, labels: Labels, tries: int) -> bool:
        """Return True if the receiver takes one of a few records that are the newest, each alone."""
        newest = await self._newest()
        for body in await self._runtime.in_thread(_probes, signal, newest, labels, tries):
            try:
                await self._until_taken(signal, body)
                return True
            except Refused:
                continue
        return False

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
                    raise Refused(error.text, body.count) from error
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


def _halves(records: Sequence[Record]) -> list[Sequence[Record]]:
    """Return both halves, the later one first."""
    middle = len(records) // 2
    return [records[middle:], records[:middle]]


def _probes(signal: Signal, newest: Sequence[Record], labels: Labels, tries: int) -> list[Body]:
    """Return bodies of one record each, of a few agents, others at each try; then the body without a record."""
    by_agent = list({(record.agent, type(record)): record for record in newest}.values())
    first = tries * MOST_PROBES % max(1, len(by_agent))
    found: list[Body] = []
    for record in by_agent[first:] + by_agent[:first]:
        with suppress(Exception):  # one that can't be written proves nothing
            body = signal.write([record], labels)
            found += [] if body is None else [body]
        if len(found) == MOST_PROBES:
            break
    return found if signal.empty is None else [*found, signal.empty]
