"""Tests that a library restored from a backup publishes nothing before somebody confirms it."""

from __future__ import annotations

import pytest
from library_world import World
from twisted.internet.defer import Deferred

from helen.files.restored import Restored
from helen.library.published import PushRefused
from helen.rollout.rings import read_rings
from helen.rollout.rollout import Plan


def held(world: World) -> None:
    """Start the library again, as on a state that came from a backup."""
    world.restart()
    world.library.builder.restored = Restored(1_799_000_000.0, 1_799_900_000.0)


def test_a_restored_helen_publishes_nothing_before_a_yes(world: World) -> None:
    """A restored library refuses every change, push, undo and renewal until it is confirmed; a dry run still answers
    (J3)."""
    world.write(a="one").look()
    world.write(a="two").look()
    held(world)
    before = world.offered()
    world.write(a="three", b="new").look()
    assert (world.offered(), "2027-01-03" in (world.library.waits or "")) == (before, True)
    for publish in (
        lambda: world.push(c="x"), lambda: world.push(replace=True, c="x"), world.undo,
        lambda: world.inbox.wait(world.library.offer_agent("9.9", {}, "operator")),
        lambda: world.inbox.wait(Deferred.fromCoroutine(world.library.check_signed(b"", b""))),
    ):  # fmt: skip
        with pytest.raises(PushRefused, match="restored from a backup of 2027"):
            publish()
    assert world.push(dry=True, c="x").keys() == {"c.lua"}
    world.now += 20 * 86_400.0
    world.write(a="two")
    (world.folder / "b.lua").unlink()
    world.look()
    assert world.offered() == before
    forgotten: list[int] = []
    world.inbox.wait(world.library.confirm(0, lambda: forgotten.append(1)))
    assert forgotten == [1] and world.library.waits is None
    assert world.offered() == (before[0] + 2, before[1])  # type: ignore[index]


@pytest.mark.parametrize(("elsewhere", "version"), [(0, 1), (1, 1), (2, 3), (17, 18)])
def test_a_yes_goes_above_what_agents_hold(world: World, elsewhere: int, version: int) -> None:
    """A confirmation signs the same files anew, once, above the version that agents hold, since they refuse older
    sets (J3)."""
    world.write(a="one").look()
    held(world)
    world.inbox.wait(world.library.confirm(elsewhere, lambda: None))
    assert world.offered() == (version, {"a": "one"})
    world.look()
    assert world.offered() == (version, {"a": "one"})
    world.write(a="two").look()
    assert world.offered() == (version + 2, {"a": "two"})


def test_a_restored_ring_stays_open(world: World) -> None:
    """A ring restored from a backup gets no verdict, since that would reach agents that are long past it (J3)."""
    world.write(a="one").look()
    world.push(Plan(read_rings("10%,100%")), a="two")
    held(world)
    world.tick(100_000.0, *(f"agent-{n}" for n in range(100)))
    assert world.library.releases.rollout is not None and world.offered() == (1, {"a": "one"})
