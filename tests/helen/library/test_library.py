"""Tests the library of checks, from a real folder and a real store, with a played lint, to the sets that agents are
offered."""

from __future__ import annotations

from typing import Any

import pytest
from library_world import PUBLIC, World
from twisted.internet.defer import Deferred, fail

from equus_protocol import manifest
from helen.assignments.schedule import CheckTable
from helen.library import check_folder
from helen.library.linter import Problem
from helen.library.releases import LIFE_SECONDS
from helen.storage.database import StoreFailed

# ---------------------------------------------------------------------------------------------- the folder


def test_the_first_set(world: World) -> None:
    """The first set is version 1, has the files of the folder and the tables of its checks, and is signed by Helen's
    key."""
    world.write(cpu="every=10", lib_x="x").look()
    assert world.offered() == (1, {"cpu": "every=10", "lib/x": "x"})
    assert world.library.tables == {"cpu": CheckTable("cpu", 10.0)}
    assert manifest.verify(world.library.published.envelope, PUBLIC, world.now).version == 1
    assert world.told == 1


def test_a_change_and_no_change(world: World) -> None:
    """A change is published two versions further on, since N+1 undoes N; unchanged files are neither judged nor
    published again."""
    world.write(cpu="a", disk="b").look().look()
    world.write(cpu="c").look().look()
    (world.folder / "disk.lua").unlink()
    world.look()
    assert world.offered() == (5, {"cpu": "c"})
    assert (world.lint.asked, world.told) == ([["cpu.lua", "disk.lua"], ["cpu.lua"]], 3)


def test_a_broken_file_keeps_its_last_good_version(world: World) -> None:
    """A check that lint refuses keeps its last good version, while other changes are published; mended, it is
    published too."""
    world.write(cpu="a", disk="b").look()
    world.write(cpu="bad", disk="c", new="bad").look()
    assert world.offered() == (3, {"cpu": "a", "disk": "c"})
    assert world.library.kept_old == {"cpu.lua"}
    assert world.library.problems == {n: (Problem("it is bad", 3),) for n in ("cpu.lua", "new.lua")}
    world.write(cpu="d").look()
    assert world.offered() == (5, {"cpu": "d", "disk": "c"})
    assert (world.library.kept_old, world.library.problems.keys()) == (frozenset(), {"new.lua"})


def test_a_broken_file_and_then_another_change(world: World) -> None:
    """The problem of a broken check stays known after another check changes, and lint is not asked about it again."""
    world.write(cpu="a", broken="bad").look()
    for text in ("b", "c"):
        world.write(cpu=text).look()
    assert world.offered() == (5, {"cpu": "c"})
    assert world.library.problems == {"broken.lua": (Problem("it is bad", 3),)}
    assert world.lint.asked == [["broken.lua", "cpu.lua"], ["cpu.lua"], ["cpu.lua"]]


def test_a_file_that_cannot_be_read_is_not_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check whose file cannot be read stays published, so that a failing disk takes no check away from agents."""
    world.write(cpu="a", disk="b").look()
    real = check_folder.read(world.folder)
    del real.files["cpu.lua"]
    torn = check_folder.Reading(real.files, {"cpu.lua": "it can't be read: Input/output error"})
    monkeypatch.setattr(check_folder, "read", lambda folder: torn)
    world.look()
    assert (world.offered(), world.library.kept_old) == ((1, {"cpu": "a", "disk": "b"}), {"cpu.lua"})


@pytest.mark.parametrize("gone", ["emptied", "removed"])
def test_an_empty_folder_takes_nothing_away(world: World, gone: str) -> None:
    """An empty or missing folder publishes nothing and is a problem, since most likely it is not mounted."""
    world.write(cpu="a").look()
    (world.folder / "cpu.lua").unlink()
    if gone == "removed":
        world.folder.rmdir()
    world.look()
    assert (world.offered(), list(world.library.problems)) == ((1, {"cpu": "a"}), [""])
    world.folder.mkdir(exist_ok=True)
    world.write(cpu="b").look()
    assert (world.offered(), world.library.problems) == ((3, {"cpu": "b"}), {})


def test_a_library_that_changes_has_all_checks_judged_anew(world: World) -> None:
    """A change of a library has all checks judged anew; a check that it breaks has a problem and keeps its old
    version."""
    world.write(cpu="needs x", disk="b").look()
    assert world.offered() == (1, {"disk": "b"})
    world.write(lib_x="good").look()
    assert world.offered() == (3, {"cpu": "needs x", "disk": "b", "lib/x": "good"})
    world.write(lib_x="bad", disk="c").look()
    assert world.offered() == (5, {"cpu": "needs x", "disk": "c", "lib/x": "good"})
    (world.folder / "lib/x.lua").unlink()
    world.look()
    assert (world.library.problems.keys(), world.library.kept_old) == ({"cpu.lua"}, {"cpu.lua"})
    assert world.library.tables.keys() == {"cpu", "disk"}
    world.restart()
    assert world.library.tables.keys() == {"cpu", "disk"}


def test_a_linter_that_cannot_run(world: World) -> None:
    """A linter that cannot run is one problem, is asked again after growing pauses, and at once for another set."""
    world.write(cpu="a")
    world.lint.failure = "there is no equus"
    for _ in range(100):
        world.look()
        world.steady += 1.0
    assert (world.offered(), world.library.problems) == (
        None, {"": (Problem("checks are not published: there is no equus"),)}
    )  # fmt: skip
    assert len(world.lint.asked) == 5  # at 0, 5, 15, 35 and 75 s
    world.lint.failure = None
    world.look()
    assert world.offered() is None
    world.write(cpu="b").look()
    assert (world.offered(), world.library.problems) == ((1, {"cpu": "b"}), {})


def test_a_store_that_does_not_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that the store cannot write is not offered, since a restart would not know it; it is published once the
    store can."""
    world.write(cpu="a").look()
    works = world.store.call
    monkeypatch.setattr(world.store, "call", lambda *args: fail(StoreFailed("disk full")))
    world.write(cpu="b").look().look()
    assert (world.offered(), world.told) == ((1, {"cpu": "a"}), 1)
    assert world.library.problems == {"": (Problem("checks are not published: disk full"),)}
    monkeypatch.setattr(world.store, "call", works)
    world.look()
    assert (world.offered(), world.library.problems) == ((3, {"cpu": "b"}), {})


def test_looks_do_not_pile_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty looks during a slow one are answered by a single look that follows it."""
    slow: list[Deferred[Any]] = []
    monkeypatch.setattr("helen.library.set_builder.deferToThread", lambda *args: slow.append(Deferred()) or slow[-1])
    looks = [world.library.look() for _ in range(50)]
    slow[0].callback(check_folder.Reading({}, {}))
    world.inbox.wait(looks[0])
    assert (len(slow), [look.called for look in looks]) == (2, [True] + [False] * 49)
    slow[1].callback(check_folder.Reading({}, {}))
    assert (len(slow), all(look.called for look in looks)) == (2, True)


# ---------------------------------------------------------------------------------------------- restarts


def test_a_restart_offers_what_was_offered(world: World) -> None:
    """A restarted library offers the same set at once, before any look at the folder, and without asking lint again."""
    world.write(cpu="a", broken="bad").look()
    world.write(cpu="b").look()
    asked = len(world.lint.asked)
    world.restart()
    assert world.offered() == (3, {"cpu": "b"})
    assert world.library.tables == {"cpu": CheckTable("cpu", 60.0)}
    world.look()
    assert (world.offered(), len(world.lint.asked)) == ((3, {"cpu": "b"}), asked)
    assert world.undo() == 4


def test_a_state_of_a_helen_who_knew_no_rings(world: World) -> None:
    """A rollout recorded by a Helen without rings does not count: the set is offered, and changes are published."""
    world.write(cpu="a").look()
    old = '{"members": [], "why": ""}'
    world.inbox.wait(world.store.call(lambda db: db.execute("UPDATE rollouts SET detail = ?", (old,)) and None))
    world.restart()
    assert world.offered() == (1, {"cpu": "a"})
    world.write(cpu="b").look()
    assert world.offered() == (3, {"cpu": "b"})


def test_a_renewal_half_way(world: World) -> None:
    """Half-way through its life a set is signed anew with the same files, and an undo still leads to the set before."""
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    world.now += LIFE_SECONDS / 2 - 1
    world.look()
    assert world.offered() == (3, {"cpu": "b"})
    world.now += 1
    world.look().look()
    assert world.offered() == (5, {"cpu": "b"})
    assert world.library.published.document.expires == world.now + LIFE_SECONDS
    assert (world.undo(), world.offered()) == (6, (6, {"cpu": "a"}))


def test_memory_of_contents_is_bounded(world: World) -> None:
    """The library keeps the contents of the last few sets in memory, however many there were."""
    for n in range(12):
        world.write(cpu=f"v{n}").look()
    assert len(world.library.releases.files._contents) <= 5
