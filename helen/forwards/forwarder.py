"""Runs one forward: reads the history from its place on, sends what is wanted, and keeps the place in the store.

The journal is its outbox. A step that was sent is followed by its place, durably, before the next one is sent: after a
kill the last step is sent once more, and nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from equus_protocol.one_off import fits
from groundwork.counts import count
from helen.forwards.config import Forward
from helen.forwards.delivery import Counts, Delivery
from helen.forwards.place import Place
from helen.forwards.records import Labels, Record
from helen.forwards.runtime import Runtime
from helen.forwards.segment_rows import Wanted
from helen.forwards.segment_walk import SegmentWalk, SeriesNames, Step, newest_records
from helen.journal.values import Sealed

LOOK_SECONDS = 1.0  # between two looks for something new that is sealed
KEEP_SECONDS = 10.0  # between two places of a forward that passes over everything: a kill makes it pass over it again
AGAIN_SECONDS = 10.0  # until a step that failed by a fault of Helen's is tried again

Keep = Callable[[str, Place], Deferred[None]]


class Forwarder:
    """Runs a forward from `begin` until `stop`.

    `sealed()` says how far the history goes, `labels()` what agents are labelled with, `keep` makes a place durable.
    """

    log = Logger()

    def __init__(
        self, runtime: Runtime, forward: Forward, place: Place, history: Path, names: SeriesNames,
        sealed: Callable[[], Sealed], labels: Callable[[], Labels], keep: Keep,
    ) -> None:  # fmt: skip
        self.forward, self.place, self.counts = forward, place, Counts()
        self.behind_since: float | None = None  # unix seconds: when the oldest record of the step at hand was received
        self.fault: str | None = None  # about the newest segment that was lost
        self.fault_at = 0.0  # unix seconds: when that was
        self.failure: str | None = None  # for which the step at hand can't be made; cleared by one that can
        self._base = place  # the counts of its life before this start
        self._runtime, self._keep, self._sealed, self._labels = runtime, keep, sealed, labels
        self._history, self._names = history, names
        self._new_walk = partial(SegmentWalk, history, names=names)
        self._walk = self._new_walk(place)
        self._delivery = Delivery(runtime, forward, self.counts, self._newest)
        self._kept_at = 0.0
        self._running: Deferred[None] | None = None

    def begin(self) -> None:
        """Start the work; it goes on until `stop`."""
        self._running = Deferred.fromCoroutine(self._run())
        self._running.addErrback(lambda failure: failure.trap(CancelledError))

    def stop(self) -> Deferred[None]:
        """Break off what is under way, and keep the place; it goes on from there another time."""
        self.break_off()
        return Deferred.fromCoroutine(self._save())

    def break_off(self) -> None:
        """End at once, as a kill does."""
        self._delivery.is_stopped = True
        if self._running is not None:
            self._running.cancel()

    def total(self, name: str) -> int:
        """Return `sent` or `refused` of the forward's whole life."""
        return int(getattr(self._base, name) + getattr(self.counts, name))

    def lag(self) -> float:
        """Return the age in seconds of the oldest record that waits for the receiver; 0 if none does."""
        return 0.0 if self.behind_since is None else max(0.0, self._runtime.wall() - self.behind_since)

    # ---------------------------------------------------------------------------------------------- the work

    async def _run(self) -> None:
        await self._save()
        while not self._delivery.is_stopped:
            try:
                has_more = await self._step()
            except CancelledError:
                raise
            except Exception as error:
                self._failed(error)
                await self._runtime.pause(AGAIN_SECONDS)
                continue
            if not has_more:
                self.behind_since = None
                await self._runtime.pause(LOOK_SECONDS)

    def _failed(self, error: Exception) -> None:
        """Begin again at the place: the step was taken, and not sent. The log has each new reason once."""
        passing = isinstance(error, OSError | MemoryError)
        failure = str(error) if passing else "a fault of Helen's, which its log has"
        if failure != self.failure:
            self.log.failure("forward {name}: the history can't be sent; it is tried again", name=self.forward.name)
        self.failure = failure
        if self.behind_since is None:
            self.behind_since = self._runtime.wall()
        self._walk = self._new_walk(self.place)

    async def _step(self) -> bool:
        """Send one part of the history. Returns False if there is nothing further yet."""
        sealed, labels = self._sealed(), self._labels()
        if sealed.at <= self.place.at:
            return False
        step: Step = await self._runtime.in_thread(self._walk.step, sealed, _wanted(self.forward, labels))
        if step.lost:
            self.fault, self.fault_at = step.fault, self._runtime.wall()
            self.log.error(
                "forward {name}: {lost} of the history not sent: {fault}", name=self.forward.name,
                lost=count(step.lost, "segment is", "segments are"), fault=step.fault,
            )  # fmt: skip
        if step.records:
            self.behind_since = step.records[0].received
            await self._delivery.deliver(step.records, labels)
        self.failure = None
        self.place = evolve(self.place.moved(step.place), lost=self.place.lost + step.lost)
        if step.records or step.lost or self._runtime.reactor.seconds() - self._kept_at >= KEEP_SECONDS:
            await self._save()
        return True

    async def _newest(self) -> list[Record]:
        """Return some of the newest records that are sealed."""
        sealed, wanted = self._sealed(), _wanted(self.forward, self._labels())
        found: list[Record] = await self._runtime.in_thread(
            newest_records, self._history, self._names, sealed, wanted
        )  # fmt: skip
        return found

    async def _save(self) -> None:
        self.place = evolve(self.place, sent=self.total("sent"), refused=self.total("refused"))
        self._kept_at = self._runtime.reactor.seconds()
        await self._keep(self.forward.name, self.place)


def _wanted(forward: Forward, labels: Labels) -> Wanted:
    """Return the test for the results that a forward sends, by agent and check."""

    @lru_cache(None)
    def is_on(agent: str) -> bool:
        return any(fits(pattern, agent, labels.get(agent, {})) for pattern in forward.on)

    @lru_cache(None)
    def is_check(check: str) -> bool:
        return any(fits(pattern, check, {}) for pattern in forward.checks)

    return lambda agent, check: is_on(agent) and is_check(check)
