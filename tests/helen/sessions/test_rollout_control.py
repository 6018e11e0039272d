"""Tests a rollout from the push to the end, in virtual time: real sessions, judge, library and store.

An agent loads what it is offered when it hears `reload`, answers `check`, and reports by its schedule. The words of its
check depend on the text of the file that it runs, so that a test can see who ran which version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from helen_parts import WALL, Peer
from inbox import Inbox
from library_world import nothing
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from equus_protocol import messages as m
from equus_protocol.manifest import key_id
from helen.assignments.assignments_text import read
from helen.assignments.schedule import CheckTable
from helen.assignments.state_rules import RuleSettings
from helen.evaluation.evaluator import Evaluator
from helen.identity.given_labels import GivenLabels
from helen.journal.document import read_document
from helen.journal.journal import Journal
from helen.journal.values import Batch, Change, Entry, Origin, StoredChange, StoredResult
from helen.library.library import Library
from helen.library.linter import Verdict
from helen.rollout.gate_limits import Limits
from helen.rollout.rings import read_rings
from helen.rollout.rollout import AT_ONCE, Plan
from helen.rollout.set_aside import NotSetAside
from helen.sessions.rollout_baseline import look_back
from helen.sessions.rollout_control import RolloutControl, ids_of
from helen.sessions.session_service import SessionService
from helen.storage import agent_rows
from helen.storage.database import Store

KEY = Ed25519PrivateKey.generate()
PUBLIC = {key_id(KEY.public_key()): KEY.public_key()}
LIMITS = Limits(window=10.0, patience=100.0)
Status = Callable[[str, str], str]  # of an agent and the text of its file


class Authority:
    """Stands in for an authority that has enrolled nobody."""

    given = GivenLabels(None, ())  # type: ignore[arg-type]

    def on_revoked(self, tell: Any) -> None: ...


class Paper:
    """Stands in for the journal: it is durable when `deliver` says so, and a crash loses the rest."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.at = clock, 0
        self.records: list[StoredResult | StoredChange] = []
        self.waiting: list[StoredResult | StoredChange] = []
        self.has_undelivered = self.full = self.is_behind = False
        self._own = 0

    def append(self, entry: Entry) -> bool:
        self.at += 1
        self.waiting.append(StoredResult(self.at, entry, read_document(entry.check_id, entry.blob)))
        return True

    def append_own(
        self, agent: str, check_id: str, check: str, origin: Any, received: float, blob: bytes, ahead: Any = None
    ) -> int:
        self._own += 1
        self.append(Entry(agent, check_id, check, "helen", self._own, origin, received, blob, ahead))
        return self._own

    def change(self, kind: str, document: Any, agent: str | None = None, check_id: str | None = None) -> None:
        document = document if agent is None or check_id is not None else {"agent": agent, **document}
        self.at += 1
        change = Change(kind, WALL + self.clock.seconds(), agent, check_id, json.dumps(document).encode())
        self.waiting.append(StoredChange(self.at, change))

    def forget_below(self, agent: str, spool: str, first: int) -> None: ...

    def changes(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        """Return agent and document of each change of a kind."""
        return [
            (each.change.agent or "", json.loads(each.change.document))
            for each in (*self.records, *self.waiting)
            if isinstance(each, StoredChange) and each.change.kind == kind
        ]


class Equus:
    """Plays one agent."""

    def __init__(self, town: Town, name: str, role: str) -> None:
        self.town, self.name, self.role = town, name, role
        self.digest, self.text, self.code = "", "", ""
        self.sequence, self.ran, self.obeys, self.refuses = 0, list[str](), True, False
        self.connect()

    def connect(self) -> None:
        self.peer = Peer(self.town.house, self.town.clock, self.name).hello()
        self.town.clock.advance(0)
        self.listen()

    def load(self) -> None:
        offered = self.town.library.offered(self.name)
        if offered is None or not self.obeys:
            return
        entry = offered.files["cpu.lua"]
        self.digest, self.code = offered.digest, entry.sha256
        self.text = (self.town.library.file(entry.sha256) or b"").decode()
        if "lib/x.lua" in offered.files:
            self.text += (self.town.library.file(offered.files["lib/x.lua"].sha256) or b"").decode()
        self.say_loaded()

    def say_loaded(self) -> None:
        report: dict[str, Any] = {"labels": {"role": self.role}, "host": {"os": "linux"}, "files": {}}
        if self.refuses and self.text != "a":
            report["files"] = {"cpu.lua": {"sha256": self.code, "state": "refused", "error": "I won't"}}
        self.peer.say(m.Loaded(self.digest, json.dumps(report).encode()))

    def result(self) -> bytes:
        self.ran.append(self.text)
        now = WALL + self.town.clock.seconds()
        said = {"status": self.town.status(self.name, self.text), "summary": self.text, "code": self.code}
        return json.dumps(said | {"started": now, "took_ms": 5.0, "peak_kib": 3_000.0}).encode()

    def report(self) -> None:
        if self.text and self.peer.connection.admitted:
            self.sequence += 1
            self.peer.say(m.Report("s", self.sequence, "cpu", self.result()))

    def listen(self) -> None:
        for message in self.peer.hear():
            if isinstance(message, m.Reload):
                self.load()
            elif isinstance(message, m.Check):
                self.peer.say(m.Result(message.message_id, message.name, self.result()))


class Town:
    """Runs one Helen without sockets. `restart(lost=True)`: killed before the journal had what it was given last."""

    def __init__(self, folder: Path, inbox: Inbox) -> None:
        self.folder, self.inbox, self.clock = folder, inbox, Clock()
        self.checks = folder / "checks"
        self.checks.mkdir()
        self.paper = Paper(self.clock)
        self.status: Status = lambda name, text: "ok"
        self.every = 5
        self.agents: dict[str, Equus] = {}
        self.open()

    @property
    def wall(self) -> float:
        return WALL + self.clock.seconds()

    def open(self) -> None:
        def wall() -> float:
            return self.wall

        steady = self.clock.seconds
        self.store = Store(self.folder / "state", self.inbox)
        loaded = self.store.open(WALL)
        self.library = Library(
            self.checks, self.store, self.lint, wall, steady, (KEY,), PUBLIC,  # type: ignore[arg-type]
            lambda: self.house.delivery.on_published(), fleet=lambda: self.gatekeeper.fleet(),
        )  # fmt: skip
        self.library.plan = AT_ONCE
        self.house = SessionService(
            self.clock, Authority(), self.paper, self.store, self.library,  # type: ignore[arg-type]
            add_statements=lambda published: published.envelope, pinned=lambda: ("", ""), wall=wall, steady=steady,
        )  # fmt: skip
        delivery = self.house.delivery
        self.judge = Evaluator(self.clock, self.folder, self.paper, delivery.run_now, wall=wall, steady=steady)  # type: ignore[arg-type]
        self.judge.open(self.paper.records)
        delivery.assignments = read("[judge]\nattempts = 1\nflap = false\n")
        delivery.scheduled.subscribe(lambda agent, entries: self.judge.write_rules(agent, entries, RuleSettings()))
        self.gatekeeper = RolloutControl(
            self.house, self.library, self.judge, self.folder / "history", wall=wall, steady=steady
        )  # fmt: skip
        self.house.trust_labels(["role"])
        self.library.releases.stepped.subscribe(self.gatekeeper.on_rollout)
        self.library.releases.set_aside.subscribe(self.gatekeeper.on_set_aside)
        self.house.loaded.subscribe(self.gatekeeper.loaded)
        self.library.load(loaded)
        self.paper.change("helen_start", {})
        self.gatekeeper.start()
        self.inbox.wait(self.library.load_contents())

    def lint(self, files: Any) -> Any:
        """Return a table for each check, which runs as often as `every`, and none for a library."""
        table = {name: None if name.startswith("lib/") else CheckTable(Path(name).stem, float(self.every), 1.0)
                 for name in files if not name.startswith("tests/")}  # fmt: skip
        return succeed({name: Verdict(each) for name, each in table.items()})

    def close(self) -> None:
        self.inbox.wait(self.store.close())

    def restart(self, lost: bool = False) -> None:
        if lost:
            self.paper.waiting = []
        self.deliver()
        self.close()
        self.open()
        self.deliver()
        for agent in self.agents.values():
            agent.connect()
            agent.say_loaded()
        self.settle()

    def populate(self, *roles: str) -> None:
        for role in roles:
            name = f"a-{len(self.agents):02}"
            agent = self.agents[name] = Equus(self, name, role)
            agent.load()
        self.settle()

    def deliver(self) -> None:
        while self.paper.waiting:
            batch, self.paper.waiting = self.paper.waiting, []
            self.paper.records += batch
            self.house.results.on_durable(Batch(records=tuple(batch)))
            self.judge.durable(batch)
            self.gatekeeper.durable(Batch(records=tuple(batch)).results)
            self.clock.advance(0)

    def settle(self) -> None:
        for _ in range(3):
            self.clock.advance(0)
            self.inbox.wait(self.library._in_turn(nothing))
            self.inbox.turn()
            for agent in self.agents.values():
                agent.listen()
            self.deliver()

    def pass_time(self, seconds: int) -> None:
        """Let time pass second by second; agents report every `every` seconds."""
        for _ in range(seconds):
            self.clock.advance(1)
            if self.clock.seconds() % self.every == 0:
                for agent in self.agents.values():
                    agent.report()
            self.house.sweep()
            self.gatekeeper.tick()
            self.judge.tick()
            self.settle()

    def push(self, rings: str, limits: Limits = LIMITS, **files: str) -> None:
        contents = {name.replace("lib_", "lib/") + ".lua": text.encode() for name, text in files.items()}
        self.inbox.wait(self.library.push(contents, {}, "operator", Plan(read_rings(rings), limits)))
        self.settle()

    # what came of it

    def told(self) -> list[tuple[str, str, str]]:
        """Return who was notified: agent, what, why."""
        decisions = self.paper.changes("decision")
        return [(name, said["what"], said["why"]) for name, said in decisions if said["action"] == "notify"]

    def statuses(self) -> set[tuple[str, bool]]:
        """Return the status of all checks but links: status, and whether it is being tried."""
        states = self.judge.timeline.states.items()
        return {(each.shown.to_json()["status"], each.trial is not None) for key, each in states if key[1] == "cpu"}

    def ran(self, text: str) -> set[str]:
        """Return the agents that ever ran this text."""
        return {agent.name for agent in self.agents.values() if text in agent.ran}

    def steps(self) -> list[str]:
        return [said["action"] for _, said in self.paper.changes("rollout")]


@pytest.fixture
def town(tmp_path: Path, inbox: Inbox, no_threads: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    # A key of rings that is made anew would choose other members in each run of a test.
    monkeypatch.setattr("helen.library.releases.secrets.token_hex", lambda size: "5e" * size)
    made = Town(tmp_path, inbox)
    made.push("off", cpu="a")
    yield made
    made.close()


def test_what_fails_on_30_percent_never_leaves_ring_1_and_notifies_nobody(town: Town) -> None:
    """The version fails on a kind of host that 9 of 30 agents are of, and one of the first ring's three members is.
    People hear of the rollout, once.
    """
    town.populate(*["web"] * 21, *["db"] * 9)
    town.pass_time(20)
    assert town.statuses() == {("ok", False)}
    town.status = lambda name, text: "critical" if text == "b" and town.agents[name].role == "db" else "ok"
    town.push("10%,50%,100%", cpu="b")
    members = {name for name, agent in town.agents.items() if agent.text == "b"}
    assert (len(members), town.statuses()) == (3, {("ok", False), ("ok", True)})
    town.pass_time(10)
    assert town.ran("b") == members
    assert town.library.releases.last.state == "undone"
    assert town.library.releases.last.why.startswith(
        "cpu: 1 of 3 agents went from ok to bad or back (33.3 %, the limit"
    )
    town.pass_time(30)
    assert {agent.text for agent in town.agents.values()} == {"a"}
    assert town.statuses() == {("ok", False)}
    why = town.library.releases.last.why
    assert town.told() == [("Helen", "problem", f"version 3 was taken back: {why}")]
    held = [said for name, said in town.paper.changes("decision") if said["action"] == "hold"]
    assert {(each["what"], each["reasons"][0]["kind"], each["reasons"][0]["ref"]) for each in held} == {
        ("problem", "rollout", "3")
    }
    assert town.steps() == ["open", "undone", "back"]
    audit = town.inbox.wait(town.store.call(agent_rows.audit_page))
    assert (audit[0].actor, audit[0].action, audit[0].detail) == ("the gate", "undo", why)
    town.push("off", cpu="c")
    assert town.told()[1:] == [("Helen", "recovery", "another version follows 3")]


def test_what_is_well_goes_to_all(town: Town) -> None:
    """A good version goes ring by ring; an agent's alerts are held back in its own ring only, and told if still wrong
    after it.
    """
    town.populate(*["web"] * 10)
    town.pass_time(20)
    town.push("10%,100%", Limits(window=10.0, changed=0.2, results=2), cpu="b")
    (first,) = (name for name, agent in town.agents.items() if agent.text == "b")
    town.status = lambda name, text: "critical" if text == "b" and name == min(town.agents.keys() - {first}) else "ok"
    town.pass_time(12)
    assert town.judge.timeline.trial.ring == 2
    assert town.statuses() == {("ok", True), ("ok", False)}
    town.pass_time(6)
    assert (town.statuses(), town.told()) == ({("ok", True), ("critical", True), ("ok", False)}, [])
    town.pass_time(10)
    assert town.library.releases.last.state == "finished"
    assert town.statuses() == {("ok", False), ("critical", False)}
    assert town.told() == [(min(town.agents.keys() - {first}), "problem", "version 3 has passed ring 2 of 2 (100%)")]
    assert town.steps() == ["open", "passed", "open", "passed"]
    assert town.judge.timeline.trial is None


def test_a_check_that_runs_rarely_is_asked_for(town: Town) -> None:
    """A rare check is asked for three times within its window, and those runs are judged and kept as scheduled ones."""
    town.every = 3_600
    town.push("off", cpu="aa")
    town.populate("web", "web")
    for agent in town.agents.values():
        agent.report()
    town.settle()
    town.push("50%,100%", cpu="b")
    town.pass_time(30)
    assert town.library.releases.last.state == "finished"
    assert {agent.ran.count("b") for agent in town.agents.values()} == {3}
    origins = [each.entry.origin for each in town.paper.records if isinstance(each, StoredResult)]
    assert origins == [Origin.SCHEDULED] * 8


def test_the_state_before_stands_for_a_history_that_has_nothing(town: Town) -> None:
    """The state before says that a check was ok if its history was lost, or is too long ago."""
    town.populate("web")
    town.pass_time(10)
    town.judge.recent.clear()
    town.status = lambda name, text: "warning" if text == "b" else "ok"
    town.push("100%", cpu="b")
    town.pass_time(15)
    assert town.library.releases.last.why.startswith("cpu: 1 of 1 agents went from ok to bad or back")
    assert [agent for agent, *_ in town.told()] == ["Helen"]


def test_a_library_is_told_by_its_time(town: Town) -> None:
    """A library's check has the same code in both versions; a run from before the agent had loaded it is
    the old one's.
    """
    town.push("off", cpu="require x ", lib_x="a")
    town.populate(*["web"] * 4)
    town.pass_time(20)
    town.status = lambda name, text: "critical" if text.endswith("b") else "ok"
    town.push("25%,100%", lib_x="b")
    assert town.library.releases.rollout.touched.checks == {"cpu"}
    town.pass_time(15)
    assert town.library.releases.last.state == "undone"
    town.pass_time(20)
    assert (len(town.ran("require x b")), town.statuses()) == (1, {("ok", False)})
    assert [agent for agent, *_ in town.told()] == ["Helen"]


@pytest.mark.parametrize("lost", [False, True])
def test_killed_in_the_middle(town: Town, lost: bool) -> None:
    """The same ring is open, is held back still, and comes to the same end, though the journal lacks the last words."""
    town.populate(*["web"] * 10)
    town.pass_time(20)
    contents, plan = {"cpu.lua": b"b"}, Plan(read_rings("20%,100%"), LIMITS)
    town.inbox.wait(town.library.push(contents, {}, "operator", plan))
    members = town.library.releases.rollout.ring.members
    town.restart(lost)
    assert town.library.releases.rollout.ring.members == members
    town.settle()
    assert {key[0] for key in town.judge.timeline.tried["3"]} == members
    town.status = lambda name, text: "critical" if text == "b" else "ok"
    town.pass_time(6)
    town.restart(lost)
    town.pass_time(40)
    assert (town.library.releases.last.state, town.ran("b")) == ("undone", members)
    assert (town.statuses(), [agent for agent, *_ in town.told()]) == ({("ok", False)}, ["Helen"])
    assert town.judge.timeline.tried == {}


def test_killed_right_after_it_was_taken_back(town: Town) -> None:
    """The store knows, the journal doesn't: what was tried is let go of all the same."""
    town.populate(*["web"] * 5)
    town.pass_time(20)
    town.status = lambda name, text: "critical" if text == "b" else "ok"
    town.push("20%,100%", cpu="b")
    town.pass_time(3)
    assert ("critical", True) in town.statuses()
    town.inbox.wait(town.library.undo("operator"))
    town.restart(lost=True)
    assert town.judge.timeline.trial is None
    town.pass_time(30)
    assert (town.statuses(), town.judge.timeline.tried, town.told()) == ({("ok", False)}, {}, [])


def test_killed_between_two_rings(town: Town) -> None:
    """The second ring is open after the kill, and what the first held back is told."""
    town.populate(*["web"] * 5)
    town.pass_time(20)
    town.push("20%,100%", cpu="b")
    (first,) = town.library.releases.rollout.ring.members
    town.pass_time(5)
    town.library.releases.rollout.ring.verdict = "passed"
    town.inbox.wait(Deferred.fromCoroutine(town.library._decide()))
    town.restart(lost=True)
    assert (town.judge.timeline.trial.ring, town.judge.timeline.trial.without) == (2, {first})
    assert {key[0] for key in town.judge.timeline.tried["3"]} == town.agents.keys() - {first}


def test_who_comes_in_the_middle(town: Town) -> None:
    """A stranger gets the old set; a member that was away the new one."""
    town.populate(*["web"] * 4)
    town.pass_time(10)
    town.push("50%,100%", cpu="b")
    member = min(town.library.releases.rollout.ring.members)
    town.agents[member].peer.hang_up()
    town.populate("web")
    town.agents[member].connect()
    town.agents[member].say_loaded()
    town.settle()
    assert (town.agents["a-04"].text, town.agents[member].text) == ("a", "b")
    town.pass_time(40)
    assert {agent.text for agent in town.agents.values()} == {"b"}


def test_who_takes_no_set_is_not_waited_for(town: Town) -> None:
    """An agent with a folder of its own or a frozen policy is in no ring, and no ring waits for it."""
    town.populate("web", "web", "web")
    town.agents["a-01"].obeys, town.agents["a-01"].digest = False, "its-own"
    town.agents["a-01"].say_loaded()
    town.pass_time(10)
    assert sorted(each.name for each in town.gatekeeper.fleet() if each.is_here) == ["a-00", "a-02"]
    town.push("10%,100%", cpu="b")
    town.pass_time(30)
    assert town.library.releases.last.state == "finished"
    assert {name for name, agent in town.agents.items() if agent.text == "b"} == {"a-00", "a-02"}


def test_one_that_cannot_go_back(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told for BACK_SECONDS; then what the agent says counts, as it is what runs there."""
    monkeypatch.setattr("helen.sessions.rollout_control.BACK_SECONDS", 30.0)
    town.populate("web", "web")
    town.pass_time(10)
    town.status = lambda name, text: "critical" if text == "b" else "ok"
    town.push("50%,100%", cpu="b")
    (stuck,) = town.library.releases.rollout.ring.members
    town.agents[stuck].obeys = False
    town.pass_time(20)
    assert (town.library.releases.last.state, [agent for agent, *_ in town.told()]) == ("undone", ["Helen"])
    town.pass_time(25)
    assert [(agent, what) for agent, what, _ in town.told()] == [("Helen", "problem"), (stuck, "problem")]


def test_a_file_that_was_broken_before_is_not_the_new_version_s_fault(town: Town) -> None:
    """Only changed files count, and of those only new faults."""
    town.populate("web")
    agent = town.agents["a-00"]
    agent.peer.say(
        m.Loaded(agent.digest, b'{"files": {"old.lua": {"sha256": "x", "state": "refused", "error": "no"}}}')
    )
    town.push("100%", cpu="b")
    agent.peer.say(
        m.Loaded(agent.digest, b'{"files": {"old.lua": {"sha256": "x", "state": "refused", "error": "no"}}}')
    )
    town.pass_time(20)
    assert town.library.releases.last.state == "finished"
    agent.obeys = False
    town.push("100%", cpu="c")
    broken = b'{"files": {"cpu.lua": {"sha256": "x", "state": "kept-old", "error": "line 1"}}}'
    agent.peer.say(m.Loaded(town.library.offered("a-00").digest, broken))
    town.pass_time(1)
    assert town.library.releases.last.why == "a-00 can't use cpu.lua: line 1; there is no other agent to ask"


def test_what_one_refuses_another_is_asked_to_load(town: Town) -> None:
    """Another agent that can load the file lets the push go on without the first one; nobody is told of its states
    (F53).
    """
    town.populate(*["web"] * 6)
    town.pass_time(10)
    for text in "bcd":
        for agent in town.agents.values():
            agent.refuses = False
            agent.say_loaded()  # else the first one's file was broken before the push, and that is no news
        town.push("1%,100%", cpu="a" + text)
        (first,) = town.library.releases.rollout.ring.members
        town.agents[first].refuses = True
        town.agents[first].say_loaded()
        town.pass_time(2)
        ring = town.library.releases.rollout.ring
        (second,) = ring.members - {first}
        assert (town.agents[second].text, ring.refused["cpu.lua"]) == ("a" + text, {first: "I won't"})
        scope = town.judge.timeline.trial
        assert (scope.ring, scope.agents) == (1, {first, second})
        town.pass_time(40)
        assert town.library.releases.last.state == "finished"
        passed = town.library.releases.last.past[0]
        assert passed["why"] == f"1 agent runs it, cpu within its limits; {first} alone can't use cpu.lua: I won't"
    assert (town.library.releases.aside.undone, town.told()) == ({}, [])


def test_what_two_refuse_goes_back_and_so_often_they_are_set_aside(town: Town) -> None:
    """Two agents on whose word a second version goes back are passed by in pushes, until they are readmitted."""
    town.populate(*["web"] * 6)
    town.pass_time(10)
    for name in ("a-00", "a-01"):
        town.agents[name].refuses = True
    for n, text in enumerate("bc"):
        town.push("50%,100%", cpu=text)
        ring = town.library.releases.rollout.ring
        ring.members = frozenset({"a-00", "a-02"})  # as if these had been chosen
        town.house.delivery.on_published()
        town.settle()
        town.agents["a-01"].text, town.agents["a-01"].digest = text, town.agents["a-00"].digest
        ring.members |= {"a-01"}
        town.agents["a-01"].say_loaded()
        town.pass_time(3)
        assert town.library.releases.last.why == "a-00 and a-01 can't use cpu.lua: I won't"
        assert len(town.library.releases.aside.names) == 2 * n
    aside = [(name, said["why"]) for name, said in town.paper.changes("rollout") if said["action"] == "aside"]
    assert [name for name, _ in aside] == ["a-00", "a-01"]
    assert "a-00 is set aside in rollouts: versions 3 and 5 were taken back on its word." in aside[0][1]
    town.restart()
    assert town.library.releases.aside.shown() == {"a-00": [3, 5], "a-01": [3, 5]}
    town.push("90%,100%", cpu="d")
    assert town.library.releases.rollout.ring.members == {"a-02", "a-03", "a-04", "a-05"}
    town.pass_time(60)
    assert town.library.releases.last.state == "finished"
    town.inbox.wait(town.library.readmit("a-00", "anna"))
    assert town.library.releases.aside.shown() == {"a-01": [3, 5]}
    with pytest.raises(NotSetAside, match="a-02 is not set aside"):
        town.inbox.wait(town.library.readmit("a-02", "anna"))


def test_the_key_of_rings_is_kept(town: Town) -> None:
    """The key is kept over restarts, so that the rings to come are those that were shown; another Helen has another
    one.
    """
    key = town.library.releases.key
    town.restart()
    assert (town.library.releases.key, len(key)) == (key, 32)


def test_names_that_checks_have() -> None:
    """A check's names are an entry's id and the check's own name."""
    text = '[[assign]]\ncheck = "disk"\nid = "root"\n[[assign]]\ncheck = "cpu"\nid = "x"\n[[assign]]\ncheck = "disk"\n'
    assert ids_of(read(text), {"disk", "net"}) == {"disk", "net", "root"}


def test_looking_back(tmp_path: Path) -> None:
    """The newest results of the wanted checks are found in several segments, enough of each, and no asked ones."""
    now = [1_000.0]
    for round_ in range(3):
        now[0] = 1_000.0 * (round_ + 1)
        journal = Journal(
            tmp_path / "journal", tmp_path / "history", lambda work, *args: work(*args), lambda batch: None,
            lambda trouble: None, clock=lambda: now[0],
        )  # fmt: skip
        journal.open()
        for check in ("c", "other"):
            for number in range(6):
                blob = b'{"status": "warning", "summary": "s", "code": "x", "took_ms": 5.0, "peak_kib": 7.0}'
                entry = Entry("a", check, None, check, round_ * 6 + number + 1, Origin.SCHEDULED, now[0] + number, blob)
                journal.append(entry)
            journal.append_own("a", check, check, Origin.ASKED, now[0] + 0.5, b"{}")
        journal.close()
    journal = Journal(
        tmp_path / "journal", tmp_path / "history", lambda work, *args: work(*args), lambda batch: None,
        lambda trouble: None,
    )  # fmt: skip
    journal.open()
    journal.close()
    found = look_back(tmp_path / "history", {("a", "c"), ("a", "none")}, 2_900.0)
    assert [sample.received for sample in found] == [
        *(3_000.0 + n for n in reversed(range(6))), *(2_000.0 + n for n in reversed(range(6))),
        *(1_000.0 + n for n in reversed(range(6))),
    ]  # fmt: skip
    assert {
        (sample.key, sample.code, sample.run.status, sample.run.took_ms, sample.run.peak_kib) for sample in found
    } == {(("a", "c"), "x", 1, 5.0, 7.0)}
    assert look_back(tmp_path / "nowhere", {("a", "c")}, 0.0) == []
