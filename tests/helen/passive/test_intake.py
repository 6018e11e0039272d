"""Tests results from outside, with a disk that is told when it has them: ids, limits, declared and other checks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from helen.agents.roster import Roster
from helen.passive.declarations import MAX_OF_HOST
from helen.passive.intake import DURABLE_SECONDS, IDS_KEPT, KEPT, RESULTS_AT_ONCE, PassiveIntake
from helen.passive.submission import NoSubmission, NotAllowed, NotDeclared, NotTaken, Submission, TooOften
from helen.states.model import Rule

FILE = """
[hosts.nas]
labels = { site = "north" }
[[check]]
host = "nas"
id = "smart"
[[check]]
host = "nas"
id = "vol-*"
stale = "1h"
[[check]]
host = "web-1"
id = "disk"
"""


class Stage:
    """Holds a PassiveIntake; everything around it is ours. `disk` has what is not durable yet."""

    def __init__(self, folder: Path, kept: dict[str, str] | None = None) -> None:
        self.clock, self.disk, self.store = Clock(), list[tuple[Any, Deferred[None]]](), dict(kept or {})
        self.changes: list[Any] = []
        self.rules: dict[str, dict[str, Rule]] = {"web-1": {"disk": Rule()}}
        self.forgotten: list[str] = []
        self.is_full = False
        self.roster = Roster(lambda agent: None, lambda agent, link: None)
        self.roster.enrol("web-1")
        (folder / "passive.toml").write_text(FILE)
        self.sessions = sessions = SimpleNamespace(
            store=SimpleNamespace(call=self._call), roster=self.roster,
            results=SimpleNamespace(submit=self._submit),
            fair_turns=SimpleNamespace(walk=lambda names, call: [call(name) for name in names]),
            delivery=SimpleNamespace(schedule_of=lambda agent: (), assignments=SimpleNamespace(rule_defaults=None)),
            journal=SimpleNamespace(change=lambda *change: self.changes.append(change)),
        )  # fmt: skip
        judge = SimpleNamespace(
            timeline=SimpleNamespace(rules={}), write_rules=self._rule, forget=self.forgotten.append,
            rule_of=lambda agent, check: self.rules.get(agent, {}).get(check),
        )  # fmt: skip
        self.judge = judge
        self.outside = PassiveIntake(sessions, judge, folder, lambda: 1e9, self.clock.seconds, self.clock)  # type: ignore[arg-type]
        done = Deferred.fromCoroutine(self.outside.start(self.store, ()))
        assert done.called
        self.outside.begin()

    def _call(self, work: Any, *args: Any) -> Deferred[None]:
        if args[0].startswith(KEPT):
            self.store.pop(args[0], None)
            if len(args) > 1:
                self.store[args[0]] = args[1]
        return succeed(None)

    def _rule(self, agent: Any, entries: Any, default: Any) -> None:
        active = {name: rule for name, rule in self.rules.get(agent.name, {}).items() if not rule.passive}
        self.rules[agent.name] = self.outside.rules_of(agent.name) | active

    def _submit(self, name: str, check: str, blob: bytes, origin: Any) -> Deferred[None] | None:
        if self.is_full:
            return None
        self.disk.append(((name, check, json.loads(blob)), Deferred()))
        return self.disk[-1][1]

    def sync(self) -> None:
        for _, done in self.disk:
            if not done.called:
                done.callback(None)

    def submit(self, host: str, check: str, given_id: str | None = None, **more: Any) -> list[Any]:
        """Return the outcome, once it is there: True, False, or the exception."""
        said: list[Any] = []
        submission = Submission(host, check, {"status": "ok", "summary": "fine"}, "api", given_id, **more)
        done = Deferred.fromCoroutine(self.outside.submit(submission))
        done.addCallbacks(said.append, lambda failure: said.append(failure.value))
        return said


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr("helen.files.watched_file.deferToThread", maybeDeferred)
    return Stage(tmp_path)


def test_answered_once_it_is_durable(stage: Stage) -> None:
    """A result is answered once it is durable, with its expectation, and kept as the latest of the check."""
    said = stage.submit("NAS", "smart", within=5.0, why="by its ttl")
    assert (said, stage.disk[0][0][:2]) == ([], ("nas", "smart"))
    assert stage.changes == [("expect", {"within": 5.0, "why": "by its ttl"}, "nas", "smart")]
    stage.sync()
    assert said == [True]
    assert json.loads(stage.store[f"{KEPT}nas/smart"])["said"] == {"status": "ok", "summary": "fine", "via": "api"}


def test_the_disk_takes_too_long(stage: Stage) -> None:
    """The caller that waits is told; a second try with the same id waits for the same result."""
    first = stage.submit("nas", "smart", "k")
    stage.clock.advance(DURABLE_SECONDS)
    assert [type(each) for each in first] == [NotTaken]
    second = stage.submit("nas", "smart", "k")
    assert (second, len(stage.disk)) == ([], 1)
    stage.sync()
    assert second == [False]


def test_ids_are_known_per_check_and_over_a_restart(stage: Stage, tmp_path: Path) -> None:
    """The last ids of each check are known, over a restart too; the same id of another check is another result."""
    for at in range(IDS_KEPT + 1):
        stage.submit("nas", "smart", f"k{at}")
        stage.sync()
    other = stage.submit("nas", "vol-1", "k1")
    stage.sync()
    again = [stage.submit("nas", "smart", given) for given in ("k1", f"k{IDS_KEPT}")]
    assert (other, again) == ([True], [[False], [False]])
    assert len(stage.disk) == IDS_KEPT + 2
    later = Stage(tmp_path, stage.store)
    assert later.submit("nas", "smart", "k1") == [False]
    assert later.submit("nas", "smart", "k0") == []  # one too many: it is taken as new
    assert later.roster.agents["nas"].latest["smart"].summary == "fine"


def test_what_is_refused(stage: Stage) -> None:
    """A refused result is told what it is and what to do about it; nothing of it reaches the journal."""
    cases = {
        ("none", "x"): NotDeclared, ("nas", "other"): NotDeclared, ("nas", "equus:gap"): NoSubmission,
        ("web-1", "disk"): NotAllowed,
    }  # fmt: skip
    assert {case: [type(each) for each in stage.submit(*case)] for case in cases} == {
        case: [kind] for case, kind in cases.items()
    }
    assert [type(each) for each in stage.submit("nas", "smart", "k" * 201)] == [NoSubmission]
    stage.is_full = True
    assert [type(each) for each in stage.submit("nas", "smart")] == [NotTaken]
    assert stage.disk == []


def test_a_host_reports_so_often(stage: Stage) -> None:
    """A host beyond its rate is told when it may again; others are not concerned."""
    for _ in range(RESULTS_AT_ONCE):
        stage.submit("nas", "smart")
        stage.disk.pop()[1].callback(None)
    (refused,) = stage.submit("nas", "smart")
    assert (type(refused), 0 < refused.wait <= 0.01) == (TooOften, True)
    stage.clock.advance(0.01)
    assert stage.submit("nas", "smart") == []


def test_checks_that_a_pattern_brings_about(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of a pattern gets a rule with its first word; a host has a bounded number of them."""
    assert "vol-1" not in stage.rules["nas"]
    stage.submit("nas", "vol-1")
    assert stage.rules["nas"]["vol-1"] == Rule(attempts=1, stale=3_600.0, passive=True)
    monkeypatch.setattr("helen.passive.intake.MAX_OF_HOST", 3)
    stage.submit("nas", "vol-2")
    assert [type(each) for each in stage.submit("nas", "vol-3")] == [TooOften]
    assert stage.submit("nas", "vol-2") == []
    assert MAX_OF_HOST == 1_000


def test_a_changed_file(stage: Stage, tmp_path: Path) -> None:
    """A host that is gone is forgotten with what it said; one with an agent keeps its agent."""
    stage.submit("nas", "smart")
    stage.sync()
    assert stage.roster.agents["nas"].labels == {"site": "north"}
    (tmp_path / "passive.toml").write_text('[[check]]\nhost = "web-1"\nid = "backup"\n')
    stage.outside.config_file.reread("SIGHUP")
    assert (stage.forgotten, sorted(stage.roster.agents), stage.store) == (["nas"], ["web-1"], {})
    assert sorted(stage.rules["web-1"]) == ["backup", "disk"]
    assert [type(each) for each in stage.submit("nas", "smart")] == [NotDeclared]
    assert not isinstance(stage.outside.config_file.fault, Failure)


def test_whose_a_check_is(stage: Stage) -> None:
    """A check is from outside if it is declared and not in the agent's schedule. A pattern takes nothing from the agent
    (F39).
    """
    is_outside = stage.sessions.results.is_outside
    assert (is_outside("nas", "smart"), is_outside("nas", "vol-1"), is_outside("web-1", "disk")) == (True, True, False)
    stage.rules["web-1"].clear()  # the rule that follows from its schedule is not there yet
    assert is_outside("web-1", "disk")
    assert (is_outside("nas", "other"), is_outside("web-1", "cpu"), is_outside("db-1", "disk")) == (False, False, False)
    stage.sessions.delivery.schedule_of = lambda agent: (SimpleNamespace(id="disk"), SimpleNamespace(id="vol-1"))
    assert (is_outside("nas", "vol-1"), is_outside("web-1", "disk"), is_outside("nas", "smart")) == (False, False, True)
    assert (stage.outside.why_kept("nas"), stage.outside.why_kept("db-1")) == ("a name that reports from outside", "")
