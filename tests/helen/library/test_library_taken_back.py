"""Tests that an undone version stays away until somebody asks for it; other keys, and an Equus that goes out with
the set."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from library_world import KEY, PUBLIC, RINGED, WHEEL, World, sign

from equus_protocol import manifest
from equus_protocol.manifest import key_id
from equus_protocol.roots import Root
from helen.library.published import PushRefused
from helen.library.releases import LIFE_SECONDS


def test_what_was_taken_back_does_not_come_back(world: World) -> None:
    """Files that were undone stay away after another file's change, another push and a restart; `checks` can say
    why."""
    world.write(cpu="a", disk="a").look()
    world.push(cpu="b", extra="new")
    (world.folder / "disk.lua").unlink()
    world.look()
    assert world.undo() == 6  # of the removal alone
    assert world.undo_is_refused()
    world.write(net="x").look()
    assert world.offered() == (7, {"cpu": "b", "disk": "a", "extra": "new", "net": "x"})
    world.push(mem="y")
    world.restart()
    assert world.look().offered() == (9, {"cpu": "b", "disk": "a", "extra": "new", "mem": "y", "net": "x"})
    assert [(each.version, each.files) for each in world.library.releases.refused] == [(5, {"disk.lua": None})]


def test_files_that_were_taken_back_together_come_back_together(world: World) -> None:
    """Files that were undone together are published together once one of them changes: nobody knows which was at
    fault."""
    world.write(cpu="a", disk="a").look()
    world.push(cpu="b", disk="b", extra="new")
    world.undo()
    world.write(net="x").look()
    assert world.offered() == (5, {"cpu": "a", "disk": "a", "net": "x"})
    world.write(cpu="c").look()
    assert world.offered() == (7, {"cpu": "c", "disk": "b", "extra": "new", "net": "x"})
    assert world.library.releases.refused == ()


def test_somebody_asks_for_what_was_taken_back(world: World) -> None:
    """A push of a file that was undone publishes it again, and the record keeps one refusal after a second undo."""
    world.write(cpu="a", disk="a").look()
    for version in (3, 5):
        world.push(cpu="b")
        assert world.offered() == (version, {"cpu": "b", "disk": "a"})
        world.undo()
    assert [each.version for each in world.library.releases.refused] == [5]
    world.push(disk="b")
    assert world.offered() == (7, {"cpu": "a", "disk": "b"})


def test_what_was_taken_back_and_is_mended_by_itself(world: World) -> None:
    """Once the folder is as before the undone push, nothing is refused any more, and the same content later is
    published."""
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    world.undo()
    world.write(cpu="a").look()
    world.restart()
    assert world.library.releases.refused == ()
    assert world.write(cpu="b").look().offered() == (5, {"cpu": "b"})


def test_a_renewal_after_going_back(world: World) -> None:
    """The set that an undo published is renewed in time, and the undone one stays away after that and a restart."""
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    assert (world.undo(), world.offered()) == (4, (4, {"cpu": "a"}))
    world.now += LIFE_SECONDS / 2
    world.look()
    assert world.offered() == (5, {"cpu": "a"})
    world.look()
    world.restart()
    assert world.look().offered() == (5, {"cpu": "a"})


def test_other_keys(world: World) -> None:
    """A change of keys has the set signed anew once; a staged set needs enough signatures of the new keys."""
    world.write(cpu="a").look()
    other = Ed25519PrivateKey.generate()
    keys = {key_id(other.public_key()): other.public_key()}
    world.library.take_keys((other,), Root(keys))
    assert world.look().offered() == (3, {"cpu": "a"})
    assert manifest.is_signed(world.library.published.envelope, keys, 1)
    assert world.look().offered() == (3, {"cpu": "a"})
    world.library.take_keys((), Root({**keys, **PUBLIC}, 2))
    world.look()
    assert (world.offered(), world.library.staged.version) == ((3, {"cpu": "a"}), 5)
    with pytest.raises(PushRefused, match=r"has 1 good signature\(s\) of pinned keys, 2 needed"):
        sign(world)
    staged = world.library.staged
    signed = [manifest.sign(each, [KEY, other]) for each in (staged.pair.new, staged.pair.undo)]
    assert world.inbox.wait(world.library.accept(*signed, "operator")) == 5


def test_an_equus_goes_out_with_the_set(world: World) -> None:
    """A new Equus is named in the set beside the checks, served by its hash, kept through pushes and restarts, and
    undone by an undo."""
    world.write(cpu="a").look()
    world.inbox.wait(world.library.offer_agent("0.2.0", {WHEEL: b"wheel"}, "operator"))
    entry = manifest.entry(b"wheel")
    agent = {"version": "0.2.0", "files": {WHEEL: {"sha256": entry.sha256, "size": entry.size}}}
    assert (world.offered(), world.library.published.document.agent) == ((3, {"cpu": "a"}), agent)
    world.look()
    world.restart()
    assert (world.look().offered(), world.library.file(entry.sha256)) == ((3, {"cpu": "a"}), b"wheel")
    world.write(cpu="b").look()
    assert (world.offered(), world.library.published.document.agent) == ((5, {"cpu": "b"}), agent)
    world.inbox.wait(world.library.offer_agent("0.3.0", {WHEEL.replace("2", "3"): b"newer"}, "operator"))
    assert (world.undo(), world.library.published.document.agent) == (8, agent)
    assert world.look().offered() == (8, {"cpu": "b"})


def test_an_equus_of_the_first_ring(world: World) -> None:
    """A new Equus pushed by rings is offered to the first ring's members, and not to others."""
    world.write(cpu="a").look()
    world.inbox.wait(world.library.offer_agent("0.2.0", {WHEEL: b"wheel"}, "operator", RINGED))
    member = world.members[0]
    assert world.library.offered(member).document.agent is not None
    assert world.library.offered("nobody").document.agent is None
