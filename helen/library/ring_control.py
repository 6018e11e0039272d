"""Carries out what the open ring has come to: opens the next one, offers the set to all agents, or goes back.

helen.rollout judges a ring; each step is in the store before an agent hears of it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen.library.published import PushRefused
from helen.library.release_rows import audit_row, rollout_row, store_verdict
from helen.library.releases import Releases
from helen.library.way_back import GATE, WayBack
from helen.rollout.ring import BACK, Ring
from helen.rollout.rollout import FINISHED, Rollout
from helen.storage.agent_rows import AuditEntry
from helen.storage.database import Store


class RingControl:
    """Moves the rollout under way from ring to ring. `clock`: unix seconds, `steady`: monotonic seconds."""

    log = Logger()

    def __init__(
        self, releases: Releases, way_back: WayBack, store: Store, clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:  # fmt: skip
        self._releases = releases
        self._way_back = way_back
        self._store = store
        self._clock = clock
        self._steady = steady

    async def decide(self) -> None:
        """Act on the verdict of the open ring: open the next one, offer the set to all agents, or go back."""
        rollout = self._releases.rollout
        if rollout is not None and rollout.ring is not None and rollout.ring.needs_second:
            await self._ask_second(rollout, rollout.ring)
        if rollout is None or rollout.ring is None or rollout.ring.verdict is None:
            return
        if rollout.ring.verdict == BACK:
            await self._way_back.go(GATE)
        else:
            await self._pass_on(rollout, rollout.ring)

    async def _pass_on(self, rollout: Rollout, ring: Ring) -> None:
        releases, now, place, why = self._releases, self._clock(), rollout.place, ring.why
        after = evolve(rollout, past=list(rollout.past))
        after.close_ring(now)
        goes_on = await deferToThread(after.advance, await releases.candidates(), now, self._steady())
        if not goes_on:
            after.state, after.why = FINISHED, "it has passed all its rings"
        await self._write(GATE, "ring-passed", after, f"{place}: {why}", None if goes_on else rollout.version)
        self.log.info("version {version} has passed {place}: {why}", version=rollout.version, place=place, why=why)
        releases.stepped("passed", rollout)
        if goes_on:
            releases.rollout = releases.last = after
        else:
            releases.offer_to_all(releases.canary, after)
        releases.stepped("opened" if goes_on else "finished", after)
        releases.on_published()

    async def _ask_second(self, rollout: Rollout, ring: Ring) -> None:
        """Offer the set to one agent more, to hear if it can use what a member has refused; go back if there is none.

        The agent is a member of the ring from now on.
        """
        fleet = await self._releases.candidates()
        second = await deferToThread(rollout.second(), fleet)  # agents refuse the set meanwhile
        lone = ring.alone()
        ring.needs_second = False
        if lone is None or ring.verdict is not None:
            return
        if second is None or ring.members is None:
            ring.go_back(f"{lone[0]} can't use {lone[1]}: {lone[2]}; there is no other agent to ask", [lone[0]])
            return
        wider = evolve(ring, members=ring.members | {second})
        detail = f"{lone[0]} can't use {lone[1]}: {second} is asked, too"
        await self._write(GATE, "ring-asks", evolve(rollout, ring=wider), detail)
        ring.members = wider.members
        self.log.info("version {version}: {detail}", version=rollout.version, detail=detail)
        self._releases.stepped("widened", rollout)
        self._releases.on_published()

    async def pause(self, author: str, is_paused: bool) -> Rollout:
        """Stay in the open ring, or go on. Raises PushRefused if there is none, or if it is so already."""
        rollout = self._releases.rollout
        if rollout is None:
            raise PushRefused("no rollout is under way: `helen rollout status` has the last one")
        if (rollout.paused is not None) == is_paused:
            raise PushRefused(f"version {rollout.version} is {'paused already' if is_paused else 'not paused'}")
        now, word = self._clock(), "paused" if is_paused else "resumed"
        after = evolve(rollout, paused={"by": author, "at": now} if is_paused else None, changed=now)
        await self._write(author, f"rollout-{word}", after, rollout.place)
        rollout.paused, rollout.changed = after.paused, now
        if not is_paused:
            rollout.resume(self._steady())
        self._releases.stepped(word, rollout)
        return rollout

    async def readmit(self, name: str, author: str) -> None:
        """Listen again to an agent that was set aside. Raises NotSetAside if it was not."""
        after = self._releases.aside.readmit(name)
        entry = AuditEntry(self._clock(), author, "readmit", name)
        await self._store.call(store_verdict, None, None, self._releases.refused, entry, after)
        self._releases.aside = after

    async def _write(self, author: str, action: str, after: Rollout, detail: str, current: int | None = None) -> None:
        """Write how far a rollout has come; `current`: the version that all agents run from now on."""
        entry = audit_row(self._clock(), author, action, after.version, detail)
        await self._store.call(store_verdict, rollout_row(after), current, self._releases.refused, entry)
