"""From a real folder by way of a lint of our own and a real store to what agents are offered; restarts in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from inbox import Inbox
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed

from equus_protocol import manifest
from equus_protocol.manifest import key_id
from equus_protocol.roots import Root
from helen.assignments.schedule import CheckTable
from helen.files.restored import Restored
from helen.library import check_folder, releases
from helen.library.library import Library
from helen.library.linter import LintFailed, Problem, Verdict
from helen.library.published import PushRefused
from helen.library.releases import LIFE_SECONDS
from helen.rollout.gate_limits import Limits
from helen.rollout.rings import Candidate, read_rings
from helen.rollout.rollout import AT_ONCE, Plan, show_ring
from helen.storage import agent_rows
from helen.storage.database import Store, StoreFailed

KEY = Ed25519PrivateKey.generate()
PUBLIC = {key_id(KEY.public_key()): KEY.public_key()}
HOLD_SECONDS, PATIENCE_SECONDS = 10.0, 600.0
RINGED = Plan(read_rings("2%,100%"), Limits(window=HOLD_SECONDS, patience=PATIENCE_SECONDS))


class Lint:
    """`bad` in a file is an error, `every=N` its interval; a check that says `needs x` is broken without lib/x.lua."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failure: str | None = None

    def __call__(self, files: Mapping[str, bytes]) -> Deferred[dict[str, Verdict]]:
        self.asked.append(sorted(files))
        if self.failure is not None:
            return fail(LintFailed(self.failure))
        return succeed({n: self.judge(n, text, files) for n, text in files.items() if not n.startswith("tests/")})

    @staticmethod
    def judge(name: str, text: bytes, files: Mapping[str, bytes]) -> Verdict:
        words = text.decode().split()
        needs = [words[at + 1] for at, word in enumerate(words) if word == "needs"]
        if "bad" in words or any(f"lib/{x}.lua" not in files or b"bad" in files[f"lib/{x}.lua"] for x in needs):
            return Verdict(None, (Problem("it is bad", 3),))
        if name.startswith("lib/"):
            return Verdict(None)
        every = next((float(word[6:]) for word in words if word.startswith("every=")), 60.0)
        return Verdict(CheckTable(Path(name).stem, every))


class World:
    """One state directory and the library on it; `restart` is a new one on the same."""

    def __init__(self, tmp_path: Path, inbox: Inbox) -> None:
        self.folder = tmp_path / "checks"
        self.folder.mkdir()
        self.state = tmp_path / "state"
        self.inbox = inbox
        self.now, self.steady = 1_800_000_000.0, 100.0
        self.lint = Lint()
        self.told = 0
        self.private: tuple[Ed25519PrivateKey, ...] = (KEY,)
        self.open()

    def open(self) -> None:
        self.store = Store(self.state, self.inbox)
        loaded = self.store.open(self.now)
        self.library = Library(
            self.folder, self.store, self.lint, lambda: self.now, lambda: self.steady, self.private, PUBLIC, self.tell
        )
        self.library.plan = AT_ONCE
        self.steps: list[str] = []
        self.library.releases.stepped.subscribe(lambda event, rollout: self.steps.append(event))
        self.library.releases.fleet = lambda: [Candidate(f"agent-{n}") for n in range(100)]
        self.library.load(loaded)
        self.inbox.wait(self.library.load_contents())

    def tell(self) -> None:
        self.told += 1

    def close(self) -> None:
        self.inbox.wait(self.store.close())

    def restart(self) -> None:
        self.close()
        self.open()

    def write(self, **files: str) -> World:
        for name, text in files.items():
            path = self.folder / (name.replace("lib_", "lib/") + ".lua")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return self

    def look(self) -> World:
        self.inbox.wait(self.library.look())
        return self

    def push(
        self, plan: Plan | None = None, dry: bool = False, tests: Any = None, replace: bool = False, **files: str
    ) -> Any:
        contents = {n.replace("lib_", "lib/") + ".lua": text.encode() for n, text in files.items()}
        return self.inbox.wait(self.library.push(contents, tests or {}, "operator", plan, dry, replace))

    def undo_is_refused(self) -> bool:
        try:
            self.undo()
        except PushRefused:
            return True
        return False

    def undo(self) -> int:
        return self.inbox.wait(self.library.undo("operator"))

    def tick(self, seconds: float, *connected: str) -> None:
        self.steady += seconds
        self.library.tick(self.steady, lambda: connected)
        self.inbox.wait(self.library._lock.acquire())
        self.library._lock.release()

    def offered(self, agent: str = "nobody") -> tuple[int, dict[str, str]] | None:
        """The version, and the text of each file."""
        published = self.library.offered(agent)
        if published is None:
            return None
        texts = {name: self.library.file(entry.sha256) for name, entry in published.files.items()}
        assert None not in texts.values()
        return published.version, {name.removesuffix(".lua"): text.decode() for name, text in texts.items()}

    @property
    def ring(self) -> Any:
        rollout = self.library.releases.rollout
        return rollout.ring if rollout is not None else None

    @property
    def members(self) -> list[str]:
        return sorted(self.ring.members or ()) if self.ring is not None else []

    @property
    def why(self) -> str:
        return self.library.releases.last.why

    def confirm(self, *names: str, **failed: str) -> None:
        for name in names or self.members:
            self.ring.loaded(name, failed, self.steady)

    def go_all_the_way(self) -> None:
        """Both rings of RINGED."""
        members = self.members
        self.confirm()
        self.tick(HOLD_SECONDS, *members)
        self.confirm("other")
        self.tick(HOLD_SECONDS, *members, "other")


@pytest.fixture
def world(tmp_path: Path, inbox: Inbox, no_threads: None) -> Iterator[World]:
    made = World(tmp_path, inbox)
    yield made
    made.close()


# ---------------------------------------------------------------------------------------------- the folder


def test_the_first_set(world: World) -> None:
    """What is in the folder is version 1, signed by our key, with the tables of its checks."""
    world.write(cpu="every=10", lib_x="x").look()
    assert world.offered() == (1, {"cpu": "every=10", "lib/x": "x"})
    assert world.library.tables == {"cpu": CheckTable("cpu", 10.0)}
    assert manifest.verify(world.library.published.envelope, PUBLIC, world.now).version == 1
    assert world.told == 1


def test_a_change_and_no_change(world: World) -> None:
    """The next version is two further on, since N+1 undoes N; what did not change is neither judged nor published."""
    world.write(cpu="a", disk="b").look().look()
    world.write(cpu="c").look().look()
    (world.folder / "disk.lua").unlink()
    world.look()
    assert world.offered() == (5, {"cpu": "c"})
    assert (world.lint.asked, world.told) == ([["cpu.lua", "disk.lua"], ["cpu.lua"]], 3)


def test_a_broken_file_keeps_its_last_good_version(world: World) -> None:
    """It fails alone, and is mended alone."""
    world.write(cpu="a", disk="b").look()
    world.write(cpu="bad", disk="c", new="bad").look()
    assert world.offered() == (3, {"cpu": "a", "disk": "c"})
    assert world.library.kept_old == {"cpu.lua"}
    assert world.library.problems == {n: (Problem("it is bad", 3),) for n in ("cpu.lua", "new.lua")}
    world.write(cpu="d").look()
    assert world.offered() == (5, {"cpu": "d", "disk": "c"})
    assert (world.library.kept_old, world.library.problems.keys()) == (frozenset(), {"new.lua"})


def test_a_broken_file_and_then_another_change(world: World) -> None:
    """What was said of the broken one is still known; it used to be forgotten, and every look failed."""
    world.write(cpu="a", broken="bad").look()
    for text in ("b", "c"):
        world.write(cpu=text).look()
    assert world.offered() == (5, {"cpu": "c"})
    assert world.library.problems == {"broken.lua": (Problem("it is bad", 3),)}
    assert world.lint.asked == [["broken.lua", "cpu.lua"], ["cpu.lua"], ["cpu.lua"]]


def test_a_file_that_cannot_be_read_is_not_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails takes no check away from agents."""
    world.write(cpu="a", disk="b").look()
    real = check_folder.read(world.folder)
    del real.files["cpu.lua"]
    torn = check_folder.Reading(real.files, {"cpu.lua": "it can't be read: Input/output error"})
    monkeypatch.setattr(check_folder, "read", lambda folder: torn)
    world.look()
    assert (world.offered(), world.library.kept_old) == ((1, {"cpu": "a", "disk": "b"}), {"cpu.lua"})


@pytest.mark.parametrize("gone", ["emptied", "removed"])
def test_an_empty_folder_takes_nothing_away(world: World, gone: str) -> None:
    """Something is not mounted, most likely."""
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
    """When it comes, changes for the worse, or goes, whoever needs it has a problem and stays old."""
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
    """It is told once, tried again ever more rarely, and at once for another set."""
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
    """No agent hears of a set that a restart would not know; it is published once the disk takes it."""
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
    """However often somebody wants one while the disk is slow, one more follows the one that is under way."""
    slow: list[Deferred[Any]] = []
    monkeypatch.setattr("helen.library.library.deferToThread", lambda *args: slow.append(Deferred()) or slow[-1])
    looks = [world.library.look() for _ in range(50)]
    slow[0].callback(check_folder.Reading({}, {}))
    world.inbox.wait(looks[0])
    assert (len(slow), [look.called for look in looks]) == (2, [True] + [False] * 49)
    slow[1].callback(check_folder.Reading({}, {}))
    assert (len(slow), all(look.called for look in looks)) == (2, True)


# ---------------------------------------------------------------------------------------------- restarts


def test_a_restart_offers_what_was_offered(world: World) -> None:
    """At once, before anybody has looked at the folder, and without asking the linter again."""
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
    """What she wrote of a rollout holds nothing that counts now: the set is offered, and pushes go on."""
    world.write(cpu="a").look()
    old = '{"members": [], "why": ""}'
    world.inbox.wait(world.store.call(lambda db: db.execute("UPDATE rollouts SET detail = ?", (old,)) and None))
    world.restart()
    assert world.offered() == (1, {"cpu": "a"})
    world.write(cpu="b").look()
    assert world.offered() == (3, {"cpu": "b"})


def test_a_renewal_half_way(world: World) -> None:
    """The same files under a new signature, with the folder unchanged; the way back still leads to the set before."""
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


# ---------------------------------------------------------------------------------------------- undo


def test_undo(world: World) -> None:
    """N+1 has the files of before; the folder as it is doesn't come back by itself, not even after a restart."""
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
    """Somebody wants just that: then it is no accident."""
    world.write(cpu="a").look()
    world.push(cpu="b")
    world.undo()
    world.push(cpu="b")
    assert world.offered() == (5, {"cpu": "b"})


def test_nothing_to_undo(world: World) -> None:
    """Not before anything was published, not the first set, not twice."""
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
    """Agents would refuse it."""
    world.private = ()
    world.restart()
    sign(world.write(cpu="a").look())
    sign(world.write(cpu="b").look())
    world.now += LIFE_SECONDS
    with pytest.raises(PushRefused, match="the undoing set has expired"):
        world.undo()


# ---------------------------------------------------------------------------------------------- pushes


def test_a_push(world: World) -> None:
    """Into the folder, tests beside it, and to all agents."""
    world.write(cpu="a").look()
    verdicts = world.push(tests={"cpu.lua": b"return {}"}, cpu="every=5")
    assert verdicts == {"cpu.lua": Verdict(CheckTable("cpu", 5.0))}
    assert world.lint.asked[-2] == ["cpu.lua", "tests/cpu.lua"]
    assert (world.folder / "tests/cpu.lua").read_bytes() == b"return {}"
    assert (world.offered(), world.library.problems) == ((3, {"cpu": "every=5"}), {})


def test_a_dry_run(world: World) -> None:
    """Judged, and nothing changes."""
    world.write(cpu="a").look()
    assert world.push(dry=True, cpu="b") == {"cpu.lua": Verdict(CheckTable("cpu", 60.0))}
    assert (world.offered(), (world.folder / "cpu.lua").read_text()) == ((1, {"cpu": "a"}), "a")


@pytest.mark.parametrize("dry", [True, False])
def test_a_push_that_is_refused(world: World, dry: bool) -> None:
    """File and line; nothing changes."""
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
    """They would become paths, those of tests as well."""
    with pytest.raises(PushRefused, match=r"a check's file is called NAME\.lua and has at most 1048576 bytes"):
        world.inbox.wait(world.library.push(files, tests, "operator", None, False))


def test_a_library_that_breaks_checks_is_refused(world: World) -> None:
    """A push is judged with all that needs it."""
    world.write(cpu="needs x", lib_x="good").look()
    with pytest.raises(PushRefused, match=r"lib/x.lua:3: it is bad\ncpu.lua:3: it is bad"):
        world.push(lib_x="bad")
    world.push(lib_x="better")
    assert world.offered() == (3, {"cpu": "needs x", "lib/x": "better"})


def test_a_folder_that_cannot_be_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a push would be published by the next look: what was written is put back."""
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


# ---------------------------------------------------------------------------------------------- rollouts


def ring_of(world: World) -> list[str]:
    """cpu="a" everywhere, cpu="b" on 2 % of the fleet."""
    world.write(cpu="a").look()
    world.push(RINGED, cpu="b")
    assert len(world.members) == 2
    return world.members


def test_a_ring_runs_it_first(world: World) -> None:
    """Its members and nobody else; then everybody, who are watched as well; then it is what all run, also later."""
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
    """Everybody gets N+1, which its members take as well; the folder's set is not published again."""
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
    """Who has pushed, what has passed, what was taken back and why."""
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
    """By hand; the rollout is over."""
    members = ring_of(world)
    assert world.undo() == 4
    assert (world.offered(members[0]), world.ring) == ((4, {"cpu": "a"}), None)
    assert (world.why, world.library.releases.last.by_itself) == ("undone by operator", False)
    assert world.steps[-1] == "undone"


@pytest.mark.parametrize("ring", [1, 2])
def test_a_restart_in_the_middle(world: World, ring: int) -> None:
    """The same ring with the same members is open, and the way back is there."""
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
    """Members say anew what they have loaded; patience begins anew."""
    ring_of(world)
    world.steady += PATIENCE_SECONDS
    world.restart()
    world.tick(0, "other")
    assert world.offered("other") == (1, {"cpu": "a"})
    world.go_all_the_way()
    assert (world.library.published.version, world.library.releases.last.state) == (3, "finished")


def test_the_folder_waits_for_the_end(world: World) -> None:
    """A save would else break out of the ring; afterwards it goes out, and what was taken back does not with it."""
    members = ring_of(world)
    world.write(disk="new").look().look()
    assert (world.offered(members[0]), world.offered("other")) == ((3, {"cpu": "b"}), (1, {"cpu": "a"}))
    assert world.library.waits == "the changes wait until version 3 is out or back"
    world.undo()
    world.tick(1)
    assert (world.offered("other"), world.library.waits) == ((5, {"cpu": "a", "disk": "new"}), None)


def test_a_second_push_is_refused(world: World) -> None:
    """The sentence names the first one and what to do; --replace does it."""
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
    """It stays in its ring, over a restart, too; and only what is under way can be paused, once."""
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
    """Nothing is promoted that a restart would take back; it is tried again."""
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
    """With --rings; a fleet of nobody has none."""
    world.library.folder_plan = RINGED
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    assert (len(world.members), world.offered("other")) == (2, (1, {"cpu": "a"}))
    world.undo()
    world.library.releases.fleet = list
    world.write(cpu="c").look()
    assert (world.members, world.offered("other")) == ([], (5, {"cpu": "c"}))


def test_the_fleet_is_asked_for_in_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 candidates take 50 ms to make: no push, and no ring, has the reactor wait for that."""
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

    monkeypatch.setattr(releases, "deferToThread", in_thread)
    world.library.releases.fleet = fleet
    world.write(cpu="a").look()
    world.push(RINGED, dry=True, cpu="b")
    world.push(RINGED, cpu="b")
    world.tick(HOLD_SECONDS, *world.members)
    assert len(asked) >= 4 and all(asked)


def test_a_label_that_nobody_has(world: World) -> None:
    """A slip: the ring after it would be the first one. Nothing is written."""
    world.write(cpu="a").look()
    with pytest.raises(PushRefused, match="no agent of version 2 has the label role=canary"):
        world.push(Plan(read_rings("role=canary,100%")), cpu="b")
    assert (world.folder / "cpu.lua").read_text() == "a"


def test_nobody_is_there_to_try_it(world: World) -> None:
    """All would get it untried when they come back: a push is refused, the folder waits for somebody."""
    world.library.folder_plan = RINGED
    world.write(cpu="a").look()
    is_here = [False]
    world.library.releases.fleet = lambda: [Candidate(f"agent-{n}", is_here[0]) for n in range(100)]
    with pytest.raises(PushRefused, match="wait for one, or push with --rings off"):
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
    """A preview names those whom the push then takes."""
    world.write(cpu="a").look()
    preview = world.inbox.wait(Deferred.fromCoroutine(world.library.releases.preview(RINGED)))
    world.push(RINGED, cpu="b")
    assert [(each["size"], each["members"]) for each in preview] == [(2, world.members), (98, [])]


# ---------------------------------------------------------------------------------------------- what was taken back


def test_what_was_taken_back_does_not_come_back(world: World) -> None:
    """Neither with another file's change nor with a push of another file, a restart or not; `checks` can say why."""
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
    """Once one of them changes; nobody knows which of them was at fault."""
    world.write(cpu="a", disk="a").look()
    world.push(cpu="b", disk="b", extra="new")
    world.undo()
    world.write(net="x").look()
    assert world.offered() == (5, {"cpu": "a", "disk": "a", "net": "x"})
    world.write(cpu="c").look()
    assert world.offered() == (7, {"cpu": "c", "disk": "b", "extra": "new", "net": "x"})
    assert world.library.releases.refused == ()


def test_somebody_asks_for_what_was_taken_back(world: World) -> None:
    """By its name; taken back again it stays back again, and once."""
    world.write(cpu="a", disk="a").look()
    for version in (3, 5):
        world.push(cpu="b")
        assert world.offered() == (version, {"cpu": "b", "disk": "a"})
        world.undo()
    assert [each.version for each in world.library.releases.refused] == [5]
    world.push(disk="b")
    assert world.offered() == (7, {"cpu": "a", "disk": "b"})


def test_what_was_taken_back_and_is_mended_by_itself(world: World) -> None:
    """The folder is as before: nothing is refused any more, and the same content later is new."""
    world.write(cpu="a").look()
    world.write(cpu="b").look()
    world.undo()
    world.write(cpu="a").look()
    world.restart()
    assert world.library.releases.refused == ()
    assert world.write(cpu="b").look().offered() == (5, {"cpu": "b"})


def test_a_renewal_after_going_back(world: World) -> None:
    """What was gone back to is signed anew in time; what was undone stays undone, also after that and a restart."""
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
    """The set is signed anew, once, and from then on by them; what is not signed by enough of them is not taken."""
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


WHEEL = "helen_equus-0.2.0-py3-none-any.whl"


def test_an_equus_goes_out_with_the_set(world: World) -> None:
    """Named beside the checks, served by its hash, kept through later pushes and restarts; undone like all else."""
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
    """A few agents hear of it before all others."""
    world.write(cpu="a").look()
    world.inbox.wait(world.library.offer_agent("0.2.0", {WHEEL: b"wheel"}, "operator", RINGED))
    member = world.members[0]
    assert world.library.offered(member).document.agent is not None
    assert world.library.offered("nobody").document.agent is None


# ---------------------------------------------------------------------------------------------- signed elsewhere


def sign(world: World, key: Ed25519PrivateKey = KEY) -> int:
    staged = world.library.staged
    signed = [manifest.sign(each, [key]) for each in (staged.pair.new, staged.pair.undo)]
    return world.inbox.wait(world.library.accept(*signed, "operator"))


@pytest.fixture
def keyless(world: World) -> World:
    """Public keys alone."""
    world.private = ()
    world.restart()
    return world


def test_staged_until_somebody_signs(keyless: World) -> None:
    """Nothing is offered before; afterwards it is as if signed here."""
    keyless.write(cpu="a").look().look()
    assert (keyless.offered(), keyless.library.staged.version) == (None, 1)
    assert sign(keyless) == 1
    assert (keyless.offered(), keyless.library.staged) == ((1, {"cpu": "a"}), None)
    keyless.write(cpu="b").look()
    assert keyless.offered() == (1, {"cpu": "a"})
    sign(keyless)
    keyless.restart()
    assert keyless.offered() == (3, {"cpu": "b"})
    assert (keyless.undo(), keyless.offered()) == (4, (4, {"cpu": "a"}))


def test_an_equus_that_is_signed_elsewhere(keyless: World) -> None:
    """Staged with the set; nothing of it is offered before."""
    sign(keyless.write(cpu="a").look())
    keyless.inbox.wait(keyless.library.offer_agent("0.2.0", {WHEEL: b"wheel"}, "operator"))
    assert keyless.library.published.document.agent is None
    sign(keyless)
    assert keyless.library.published.document.agent["version"] == "0.2.0"
    assert keyless.library.file(manifest.entry(b"wheel").sha256) == b"wheel"


def test_signed_by_a_stranger(keyless: World) -> None:
    """Only the keys of --signing-keys count."""
    keyless.write(cpu="a").look()
    with pytest.raises(PushRefused, match="`helen keys` lists the keys that are known here"):
        sign(keyless, Ed25519PrivateKey.generate())


def test_signed_too_late(keyless: World) -> None:
    """The folder has changed since."""
    keyless.write(cpu="a").look()
    staged = keyless.library.staged
    keyless.write(cpu="b").look()
    signed = [manifest.sign(each, [KEY]) for each in (staged.pair.new, staged.pair.undo)]
    with pytest.raises(PushRefused, match="the folder has changed since that was signed"):
        keyless.inbox.wait(keyless.library.accept(*signed, "operator"))


def test_the_folder_goes_back_to_what_is_published(keyless: World) -> None:
    """Nothing waits for a signature any more."""
    sign(keyless.write(cpu="a").look())
    keyless.write(cpu="b").look()
    keyless.write(cpu="a").look()
    assert keyless.library.staged is None
    with pytest.raises(PushRefused, match="nothing is staged"):
        keyless.inbox.wait(keyless.library.accept(b"", b"", "operator"))


def test_a_renewal_is_staged_once(keyless: World) -> None:
    """The same set waits for a new signature; not a new one every second."""
    sign(keyless.write(cpu="a").look())
    keyless.now += LIFE_SECONDS / 2
    staged = keyless.look().library.staged
    assert staged is not None
    assert keyless.look().library.staged is staged
    assert (sign(keyless), keyless.offered()) == (3, (3, {"cpu": "a"}))


def test_memory_of_contents_is_bounded(world: World) -> None:
    """The files of the last few sets, however many there were."""
    for n in range(12):
        world.write(cpu=f"v{n}").look()
    assert len(world.library.releases.files._contents) <= 5


def held(world: World) -> None:
    """Start the library again, as on a state that came from a backup."""
    world.restart()
    world.library.restored = Restored(1_799_000_000.0, 1_799_900_000.0)


def test_a_restored_helen_publishes_nothing_before_a_yes(world: World) -> None:
    """No change of the folder, no push, no undo, no renewal; a dry run shows what would be (J3)."""
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
    """An agent refuses a set that is older than its own: the same files are signed anew above it, once (J3)."""
    world.write(a="one").look()
    held(world)
    world.inbox.wait(world.library.confirm(elsewhere, lambda: None))
    assert world.offered() == (version, {"a": "one"})
    world.look()
    assert world.offered() == (version, {"a": "one"})
    world.write(a="two").look()
    assert world.offered() == (version + 2, {"a": "two"})


def test_a_restored_ring_stays_open(world: World) -> None:
    """Its verdict would reach agents that are long past it (J3)."""
    world.write(a="one").look()
    world.push(Plan(read_rings("10%,100%")), a="two")
    held(world)
    world.tick(100_000.0, *(f"agent-{n}" for n in range(100)))
    assert world.library.releases.rollout is not None and world.offered() == (1, {"a": "one"})
