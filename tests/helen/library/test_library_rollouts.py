"""Tests rollouts of the library of checks, ring by ring, with restarts in between."""

from __future__ import annotations

from typing import Any

import pytest
from library_world import HOLD_SECONDS, PATIENCE_SECONDS, RINGED, WHEEL, World
from twisted.internet.defer import Deferred, fail, maybeDeferred

from helen.library import publisher, releases, ring_control
from helen.library.linter import Problem
from helen.library.published import PushRefused
from helen.rollout.ring import show_ring
from helen.rollout.rings import Candidate, read_rings
from helen.rollout.rollout import Plan
from helen.storage import agent_rows
from helen.storage.database import StoreFailed


def ring_of(world: World) -> list[str]:
    """Publish cpu="a" to all, push cpu="b" to a ring of 2 % of the fleet, and return the ids of its members."""
    world.write(cpu="a").look()
    world.push(RINGED, cpu="b")
    assert len(world.members) == 2
    return world.members


def test_a_ring_runs_it_first(world: World) -> None:
    """A ring's members get the set first, then all agents, which are watched as well; it stays published after a
    restart."""
    members = ring_of(world)
    assert (world.offered(members[0]), world.offered("other")) == ((3, {"cpu": "b"}), (1, {"cpu": "a"}))
    world.confirm()
    world.tick(HOLD_SECONDS - 1, *members)
    assert world.offered("other") == (1, {"cpu": "a"})
    world.tick(1, *members, "other")
    assert (world.offered("other"), world.library.published.version) == ((3, {"cpu": "b"}), 1)
    world.confirm("other")
    world.tick(HOLD_SECONDS, *members, "other")
    assert (world.offered("other"), world.library.published.version, world.ring) == ((3, {"cpu": "b"}), 3, None)
    assert world.steps == ["at-once", "opened", "passed", "opened", "passed", "finished"]
    world.restart()
    assert (world.offered("other"), world.library.releases.last.state) == ((3, {"cpu": "b"}), "finished")
    assert (world.undo(), world.offered()) == (4, (4, {"cpu": "a"}))
    assert (world.library.releases.last.state, world.why) == ("undone", "undone by operator")


def test_a_ring_that_fails_goes_back(world: World) -> None:
    """A ring that fails is undone: all agents, members too, get N+1, and a look does not publish the folder's set
    again."""
    members = ring_of(world)
    world.confirm(**{"cpu.lua": "no such capability"})
    world.tick(0.5, *members)
    assert {agent: world.offered(agent) for agent in (members[0], "other")} == dict.fromkeys(
        (members[0], "other"), (4, {"cpu": "a"})
    )
    world.look()
    world.restart()
    world.look()
    last = world.library.releases.last
    assert (world.offered(), last.state, last.by_itself) == ((4, {"cpu": "a"}), "undone", True)
    assert "can't use cpu.lua: no such capability" in last.why
    assert [(ring["state"], ring["why"]) for ring in last.past] == [("undone", last.why)]


def test_what_is_in_the_audit(world: World) -> None:
    """The audit says who pushed each set, which ring passed, and who undid it and why."""
    members = ring_of(world)
    world.confirm()
    world.tick(HOLD_SECONDS, *members)
    world.undo()
    audit = world.inbox.wait(world.store.call(agent_rows.audit_page))
    assert [(each.actor, each.action, each.subject, each.detail) for each in reversed(audit)] == [
        ("folder", "publish", "version 1", "new: cpu.lua; to all agents at once"),
        ("operator", "publish", "version 3", "changed: cpu.lua; ring 1 of 2 (2%)"),
        ("the gate", "ring-passed", "version 3",
         "ring 1 of 2 (2%): 2 agents run it; none of them runs a changed check"),
        ("operator", "undo", "version 3", "undone by operator"),
    ]  # fmt: skip


def test_undo_in_the_middle(world: World) -> None:
    """An undo by an operator during a rollout ends it, and is not recorded as done by the gate."""
    members = ring_of(world)
    assert world.undo() == 4
    assert (world.offered(members[0]), world.ring) == ((4, {"cpu": "a"}), None)
    assert (world.why, world.library.releases.last.by_itself) == ("undone by operator", False)
    assert world.steps[-1] == "undone"


@pytest.mark.parametrize("ring", [1, 2])
def test_a_restart_in_the_middle(world: World, ring: int) -> None:
    """A restart keeps the open ring with its members, and an undo still leads all agents back."""
    members = ring_of(world)
    if ring == 2:
        world.confirm()
        world.tick(HOLD_SECONDS, *members)
    shown = show_ring(world.ring, "open") | {"confirmed": 0}
    world.restart()
    world.look()
    assert show_ring(world.ring, "open") == shown
    assert world.offered(members[0]) == (3, {"cpu": "b"})
    assert world.offered("other") == ((1, {"cpu": "a"}) if ring == 1 else (3, {"cpu": "b"}))
    assert (world.undo(), world.offered(members[0]), world.offered("other")) == (
        4, (4, {"cpu": "a"}), (4, {"cpu": "a"})
    )  # fmt: skip


def test_a_rollout_goes_on_after_a_restart(world: World) -> None:
    """A rollout goes on after a restart: its patience begins anew, and members report again to its end."""
    ring_of(world)
    world.steady += PATIENCE_SECONDS
    world.restart()
    world.tick(0, "other")
    assert world.offered("other") == (1, {"cpu": "a"})
    world.go_all_the_way()
    assert (world.library.published.version, world.library.releases.last.state) == (3, "finished")


def test_the_folder_waits_for_the_end(world: World) -> None:
    """Changes of the folder wait until a rollout is over; then they are published without the files that were
    undone."""
    members = ring_of(world)
    world.write(disk="new").look().look()
    assert (world.offered(members[0]), world.offered("other")) == ((3, {"cpu": "b"}), (1, {"cpu": "a"}))
    assert world.library.waits == "the changes wait until version 3 is out or back"
    world.undo()
    world.tick(1)
    assert (world.offered("other"), world.library.waits) == ((5, {"cpu": "a", "disk": "new"}), None)


def test_a_second_push_is_refused(world: World) -> None:
    """A second push during a rollout is refused by a sentence that names the first one and --replace, which does it."""
    members = ring_of(world)
    with pytest.raises(PushRefused, match=r"version 3 is on its way, ring 1 of 2 \(2%\): wait for it .* --replace"):
        world.push(RINGED, disk="x")
    assert not (world.folder / "disk.lua").exists()
    world.push(RINGED, cpu="b")  # the same again is no second one
    assert world.members == members
    with pytest.raises(PushRefused, match="version 3 is on its way"):
        world.inbox.wait(world.library.offer_agent("0.2.0", {WHEEL: b"wheel"}, "operator"))
    world.push(RINGED, replace=True, cpu="c")
    assert (world.offered("other"), world.ring is not None) == ((4, {"cpu": "a"}), True)
    assert world.offered(world.members[0]) == (5, {"cpu": "c"})
    assert members != world.members


def test_pause(world: World) -> None:
    """A paused rollout stays in its ring, also over a restart; a pause or resume that fits nothing is refused."""
    with pytest.raises(PushRefused, match="no rollout is under way"):
        world.inbox.wait(world.library.pause("eva", True))
    members = ring_of(world)
    world.inbox.wait(world.library.pause("eva", True))
    with pytest.raises(PushRefused, match="version 3 is paused already"):
        world.inbox.wait(world.library.pause("eva", True))
    world.restart()
    world.confirm()
    world.tick(PATIENCE_SECONDS, *members)
    assert (world.members, world.library.releases.rollout.paused["by"]) == (members, "eva")
    world.inbox.wait(world.library.pause("eva", False))
    world.tick(0, *members)
    assert (world.members, world.offered("other")) == ([], (3, {"cpu": "b"}))
    with pytest.raises(PushRefused, match="version 3 is not paused"):
        world.inbox.wait(world.library.pause("eva", False))


def test_a_verdict_that_cannot_be_written_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring's verdict that the store cannot write promotes nothing, and is tried again."""
    members = ring_of(world)
    world.confirm()
    works = world.store.call
    monkeypatch.setattr(world.store, "call", lambda *args: fail(StoreFailed("disk full")))
    world.tick(HOLD_SECONDS, *members)
    world.tick(1, *members)
    assert (world.offered("other"), world.members) == ((1, {"cpu": "a"}), members)
    assert world.library.problems[""] == (Problem("the rollout stays as it is: disk full"),)
    monkeypatch.setattr(world.store, "call", works)
    world.tick(5, *members)
    assert world.offered("other") == (3, {"cpu": "b"})


def test_rings_for_the_folder(world: World) -> None:
    """With a plan for the folder its changes go to a ring first, and to all at once if there are no agents."""
    world.library.folder_plan = RINGED
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    assert (len(world.members), world.offered("other")) == (2, (1, {"cpu": "a"}))
    world.undo()
    world.library.releases.fleet = list
    world.write(cpu="c").look()
    assert (world.members, world.offered("other")) == ([], (5, {"cpu": "c"}))


def test_the_fleet_is_asked_for_in_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes and rings ask for the fleet in a thread, since 10,000 candidates take 50 ms to make."""
    asked, threads = list[bool](), list[Any]()

    def fleet() -> list[Candidate]:
        asked.append(bool(threads))
        return [Candidate(f"agent-{n}") for n in range(100)]

    def in_thread(call: Any, *given: Any) -> Any:
        threads.append(call)
        try:
            return maybeDeferred(call, *given)
        finally:
            threads.pop()

    for module in (releases, publisher, ring_control):
        monkeypatch.setattr(module, "deferToThread", in_thread)
    world.library.releases.fleet = fleet
    world.write(cpu="a").look()
    world.push(RINGED, dry=True, cpu="b")
    world.push(RINGED, cpu="b")
    world.tick(HOLD_SECONDS, *world.members)
    assert len(asked) >= 4 and all(asked)


def test_a_label_that_nobody_has(world: World) -> None:
    """A push to a ring by a label that no agent has is refused, and nothing is written."""
    world.write(cpu="a").look()
    with pytest.raises(PushRefused, match="no agent of version 2 has the label role=canary"):
        world.push(Plan(read_rings("role=canary,100%")), cpu="b")
    assert (world.folder / "cpu.lua").read_text() == "a"


def test_nobody_is_there_to_try_it(world: World) -> None:
    """Without an agent that is connected a push by rings is refused, and the folder waits: all would get the set
    untried."""
    world.library.folder_plan = RINGED
    world.write(cpu="a").look()
    is_here = [False]
    world.library.releases.fleet = lambda: [Candidate(f"agent-{n}", is_here[0]) for n in range(100)]
    with pytest.raises(PushRefused, match="wait for one, or `helen push --rings off`"):
        world.push(RINGED, cpu="b")
    with pytest.raises(PushRefused, match=r"^cpu\.lua:"):  # what is wrong with the file comes first
        world.push(RINGED, cpu="bad")
    world.write(cpu="c").look()
    assert world.offered() == (1, {"cpu": "a"})
    assert "no agent is there" in world.library.waits
    is_here[0] = True
    world.tick(10)
    assert (len(world.members), world.library.waits) == (2, None)


def test_who_would_be_in_it(world: World) -> None:
    """A preview of a rollout names the members that the push then takes."""
    world.write(cpu="a").look()
    preview = world.inbox.wait(Deferred.fromCoroutine(world.library.releases.preview(RINGED)))
    world.push(RINGED, cpu="b")
    assert [(each["size"], each["members"]) for each in preview] == [(2, world.members), (98, [])]
