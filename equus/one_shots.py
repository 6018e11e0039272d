"""Code that is in no set, run once because a signed order says so: what this host asks before it does.

An order is opened (equus_protocol/once.py), compared with who we are and what the policy allows, noted on disk by its
id, and only then becomes a job: so it never runs twice, whoever sends it again. Whatever is wrong is one sentence for
the person who asked. docs/protocol.rst, section 6, is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from equus.durable import write_durably
from equus.library import hash_of
from equus.sandbox.job import Job
from equus_protocol import once
from equus_protocol.manifest import ManifestRefused
from equus_protocol.roots import Root

FILE = "once.json"
# Orders that are remembered at once, of 45 bytes each on disk: as many as a person at `helen repl` types in days.
MOST_REMEMBERED = 10_000

log = Logger(namespace="equus.once")


class OrderRefused(Exception):
    """Why an order is not followed, as a sentence."""


@frozen
class Here:
    """What an order is compared with: who we are, whose signatures count, and why none is followed, if that is so."""

    name: str
    labels: Mapping[str, str]
    root: Root
    refusal: str | None = None
    libraries: Mapping[str, bytes] = field(factory=dict)  # of the set in use


class Remembered:
    """The ids of orders that were followed, until they expire. `load` blocks; `keep` is called in a thread."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE
        self._ids: dict[str, float] = {}
        self.since = 0.0  # orders made before are refused: what ran then is not known

    def load(self, now: float) -> None:
        """At start. A file that can't be read must not let an old order run again."""
        try:
            listed = json.loads(self._path.read_bytes())
            self._ids = {str(order): float(expires) for order, expires in listed.items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, AttributeError) as error:
            log.error("{path} can't be read ({why}): orders made before now are refused", path=self._path, why=error)
            self.since = now

    def take(self, order: once.Order, now: float) -> None:
        """Note that this one runs. Raises OrderRefused if it must not."""
        self._ids = {one: expires for one, expires in self._ids.items() if expires > now}
        if order.id in self._ids or order.created < self.since:
            raise OrderRefused("this order has run here before: an order is good once")
        if len(self._ids) >= MOST_REMEMBERED:
            raise OrderRefused(f"{MOST_REMEMBERED} orders have run here within a day; that is the most")
        self._ids[order.id] = order.expires

    def keep(self) -> None:
        """What is noted, on disk. Blocking."""
        write_durably(self._path, json.dumps(self._ids, separators=(",", ":")).encode())


class OneShots:
    """One for the whole agent. `here()` is asked anew for each order: keys and policy change."""

    def __init__(
        self,
        here: Callable[[], Here],
        remembered: Remembered,
        wall: Callable[[], float],
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._here = here
        self._remembered = remembered
        self._wall = wall
        self._defer_to_thread = defer_to_thread
        self._writing = DeferredLock()

    def open(self, blob: bytes) -> Deferred[Job]:
        """The job of an order; fails with OrderRefused. By then it is noted, and never opened again."""
        return Deferred.fromCoroutine(self._open(blob))

    async def _open(self, blob: bytes) -> Job:
        here, now = self._here(), self._wall()
        order = self._judge(blob, here, now)
        self._remembered.take(order, now)
        try:
            await self._writing.run(self._defer_to_thread, self._remembered.keep)
        except OSError as error:
            raise OrderRefused(f"that it runs can't be noted on this host's disk: {error.strerror}") from error
        log.info(
            "order {id} by {signers}: {check} ({code}) runs once", id=order.id, check=order.check,
            signers=", ".join(sorted(order.signers)), code=hash_of(order.source)[:12],
        )  # fmt: skip
        return job_of(order, here)

    def _judge(self, blob: bytes, here: Here, now: float) -> once.Order:
        if here.refusal is not None:
            raise OrderRefused(here.refusal)
        if not here.root.keys:
            raise OrderRefused("this agent has pinned no signing keys, so it runs no code that Helen sends")
        try:
            order = once.read(blob, here.root.keys, here.root.threshold, now)
        except ManifestRefused as refused:
            raise OrderRefused(f"{refused.reason}: {refused}") from refused
        if not order.is_for(here.name, here.labels):
            raise OrderRefused(f"the order is for {', '.join(order.on)}, and not for {here.name}")
        return order


def job_of(order: once.Order, here: Here) -> Job:
    """Pushed code like any other; its libraries come before those of the set, and its memory ends with it."""
    return Job(
        check=order.check,
        source=order.source,
        libraries={**here.libraries, **order.libraries},
        args=json.dumps(order.args, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        code=hash_of(order.source),
        state_key=f"once {order.id}",
        keeps_state=False,
    )
