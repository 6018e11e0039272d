"""Tests pushes to the library of checks, and undoing: the sets published, and refusals before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from library_world import World, sign

from equus_protocol import manifest
from helen.assignments.schedule import CheckTable
from helen.library import check_folder
from helen.library.linter import Verdict
from helen.library.published import PushRefused
from helen.library.releases import LIFE_SECONDS

# ---------------------------------------------------------------------------------------------- undo


def test_undo(world: World) -> None:
    """An undo publishes the files of before as N+1; the folder's unchanged files do not come back, not even after a
    restart."""
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    assert (world.undo(), world.offered()) == (4, (4, {"cpu": "a"}))
    world.look()
    world.restart()
    world.look()
    assert world.offered() == (4, {"cpu": "a"})
    world.write(cpu="c").look()
    assert world.offered() == (5, {"cpu": "c"})
    world.write(cpu="b").look()
    assert world.offered() == (7, {"cpu": "b"})


def test_undo_and_push_it_again(world: World) -> None:
    """The same push after its undo is published again, since somebody asks for it."""
    world.write(cpu="a").look()
    world.push(cpu="b")
    world.undo()
    world.push(cpu="b")
    assert world.offered() == (5, {"cpu": "b"})


def test_nothing_to_undo(world: World) -> None:
    """An undo is refused before anything was published, after the first set alone, and right after another undo."""
    for _ in range(2):
        with pytest.raises(PushRefused, match="there is nothing to undo"):
            world.undo()
        world.write(cpu="a").look()
    world.write(cpu="b").look()
    world.undo()
    with pytest.raises(PushRefused, match="there is nothing to undo"):
        world.undo()
    assert world.offered() == (4, {"cpu": "a"})


def test_an_undo_that_has_expired(world: World) -> None:
    """An undo is refused once its signed set has expired, since agents would refuse it."""
    world.private = ()
    world.restart()
    sign(world.write(cpu="a").look())
    sign(world.write(cpu="b").look())
    world.now += LIFE_SECONDS
    with pytest.raises(PushRefused, match="the undoing set has expired"):
        world.undo()


# ---------------------------------------------------------------------------------------------- pushes


def test_a_push(world: World) -> None:
    """A push writes the check and its test into the folder, gives its verdict, and publishes it to all agents."""
    world.write(cpu="a").look()
    verdicts = world.push(tests={"cpu.lua": b"return {}"}, cpu="every=5")
    assert verdicts == {"cpu.lua": Verdict(CheckTable("cpu", 5.0))}
    assert world.lint.asked[-2] == ["cpu.lua", "tests/cpu.lua"]
    assert (world.folder / "tests/cpu.lua").read_bytes() == b"return {}"
    assert (world.offered(), world.library.problems) == ((3, {"cpu": "every=5"}), {})


def test_a_dry_run(world: World) -> None:
    """A dry run of a push gives the verdict and changes neither the folder nor the set."""
    world.write(cpu="a").look()
    assert world.push(dry=True, cpu="b") == {"cpu.lua": Verdict(CheckTable("cpu", 60.0))}
    assert (world.offered(), (world.folder / "cpu.lua").read_text()) == ((1, {"cpu": "a"}), "a")


@pytest.mark.parametrize("dry", [True, False])
def test_a_push_that_is_refused(world: World, dry: bool) -> None:
    """A push that lint refuses says file and line, and writes none of its files, dry run or not."""
    world.write(cpu="a").look()
    with pytest.raises(PushRefused, match=r"^cpu.lua:3: it is bad$"):
        world.push(dry=dry, cpu="bad", disk="fine")
    assert sorted(path.name for path in world.folder.iterdir()) == ["cpu.lua"]


@pytest.mark.parametrize(
    ("files", "tests"),
    [({"../x.lua": b""}, {}), ({".x.lua": b""}, {}), ({"x.txt": b""}, {}), ({}, {"../../x.lua": b""}),
     ({}, {"/etc/x": b""}), ({"x.lua": b"x" * (manifest.MAX_FILE + 1)}, {})],
)  # fmt: skip
def test_names_that_are_no_files_of_checks(world: World, files: dict[str, bytes], tests: dict[str, bytes]) -> None:
    """A push refuses names and sizes that no file of a check can have, those of tests as well: names become paths."""
    with pytest.raises(PushRefused, match=r"a check's file is called NAME\.lua and has at most 1048576 bytes"):
        world.inbox.wait(world.library.push(files, tests, "operator", None, False))


def test_a_library_that_breaks_checks_is_refused(world: World) -> None:
    """A push of a library that breaks a check is refused with both problems, since it is judged with all that needs
    it."""
    world.write(cpu="needs x", lib_x="good").look()
    with pytest.raises(PushRefused, match=r"lib/x.lua:3: it is bad\ncpu.lua:3: it is bad"):
        world.push(lib_x="bad")
    world.push(lib_x="better")
    assert world.offered() == (3, {"cpu": "needs x", "lib/x": "better"})


def test_a_folder_that_cannot_be_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push that cannot write all its files puts the written ones back: the next look would publish half of it."""
    world.write(a="old").look()
    real: Callable[..., None] = check_folder.write_durably

    def full(path: Path, content: bytes, mode: int) -> None:
        if path.name == "c.lua":
            raise OSError(28, "No space left on device")
        real(path, content, mode)

    monkeypatch.setattr(check_folder, "write_durably", full)
    with pytest.raises(PushRefused, match="can't be written: No space left on device"):
        world.push(a="new", b="new", c="new")
    assert {path.name: path.read_text() for path in world.folder.iterdir()} == {"a.lua": "old"}
    world.look()
    assert world.offered() == (1, {"a": "old"})
