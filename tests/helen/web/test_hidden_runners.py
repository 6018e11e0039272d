"""Tests that a limited caller is not told of a target's agent out of its sight, by any answer on results."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from equus_protocol.results import OK, ResultDocument
from groundwork.check_notes import NO_NOTES
from groundwork.target_ids import kept_spool
from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.assignments.assignments_text import read as read_assignments
from helen.evaluation.replay import HistoryRecord, record_of
from helen.explain.explain import Facts, explain
from helen.journal.document import from_result
from helen.journal.values import Entry, Origin, StoredResult
from helen.states.model import Condition, Rule, State
from helen.targets.target_fields import Quorum, Target
from helen.web import lake_reads
from helen.web.pages import check as check_pages
from helen.web.routes import history as history_routes
from helen.web.routes import recent as recent_routes
from helen.web.routes import states as state_routes
from helen.web.routes import targets as target_routes
from helen.web.sight.redaction import seen_document, seen_facts, seen_result
from helen.web.streaming.stream_views import ResultView

NOW = 1_700_000_000.0
AGENTS = {
    "switch-1": Agent("switch-1", labels={"role": "switch"}),
    "probe-1": Agent("probe-1"),
    "probe-2": Agent("probe-2"),
}
SIGHTS = [
    (None, "probe-1"),
    (Sight(("role=switch",), AGENTS), "hidden"),
    (Sight(("role=switch", "probe-*"), AGENTS), "probe-1"),
]
each_sight = pytest.mark.parametrize(("sight", "ran"), SIGHTS, ids=["no limit", "out of sight", "in sight"])


def stored(agent: str, spool: str, at: int = 1) -> StoredResult:
    entry = Entry(agent, "ping", "ping", spool, at, Origin.TARGET, NOW - 60.0 + at, b"")
    return StoredResult(at, entry, from_result(ResultDocument(OK, summary="up", started=NOW - 61.0)))


OF_TARGET = stored("switch-1", kept_spool("probe-1", "a1b2"))
OF_AGENT = stored("switch-1", "c3d4", 2)  # as if it ran on it: no other agent is in it
RECORDS = [record_of(OF_TARGET), record_of(OF_AGENT)]
SEEN = State(Condition(2, NOW), Condition(2, NOW))  # critical


class Request:
    """Play a GET for one check, by a caller whose sight `Parts` knows."""

    method, caller, responseHeaders = b"GET", None, SimpleNamespace(getRawHeaders=lambda name: ["a"])

    def __init__(self, **given: str) -> None:
        self.args = {name.encode(): [value.encode()] for name, value in given.items()}

    def setResponseCode(self, status: int) -> None: ...

    def setHeader(self, name: str, value: str) -> None: ...


def parts_of(sight: Sight | None, folder: Path) -> Any:
    timeline = SimpleNamespace(states={("switch-1", "ping"): None})
    delivery = SimpleNamespace(schedule_of=lambda agent: ())
    return SimpleNamespace(
        visible=lambda caller: sight, state=folder, evaluator=SimpleNamespace(timeline=timeline, recent=RECORDS),
        sessions=SimpleNamespace(roster=SimpleNamespace(agents=AGENTS), delivery=delivery),
        meshes=SimpleNamespace(mesh_of=lambda agent, check: None),
        lake_reads=SimpleNamespace(ask=lambda call, *given: succeed(call(*given))),
        pipeline=SimpleNamespace(lake=folder),
    )  # fmt: skip


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    found: list[Any] = []
    Deferred.fromCoroutine(work).addBoth(found.append)
    return found[0]


async def at_once(steps: Iterator[None]) -> None:
    """Take all steps in this turn."""
    deque(steps, 0)


@each_sight
def test_the_newest_results(sight: Sight | None, ran: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_routes, "deferToThread", lambda call, *given: succeed(RECORDS))
    request: Any = Request(agent="switch-1", check="ping")
    monkeypatch.setattr(recent_routes, "write_json", lambda request, answer: answer)
    answer = finished(recent_routes.list_recent(parts_of(sight, tmp_path), request))
    assert [each["ran"] for each in answer["results"]] == [ran, None]


@each_sight
def test_the_page_of_a_check(sight: Sight | None, ran: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []

    async def write_page(parts: Any, request: Any, name: str, **shown: Any) -> bytes:
        written.append(shown)
        return b""

    monkeypatch.setattr(check_pages, "deferToThread", lambda call, *given: succeed(RECORDS))
    monkeypatch.setattr(check_pages, "write_page", write_page)
    monkeypatch.setattr(check_pages, "show_state", lambda *_: None)
    monkeypatch.setattr(check_pages, "_holds", lambda *_: [])
    request: Any = Request()
    finished(check_pages.write_check(parts_of(sight, tmp_path), request, "switch-1", "ping"))
    assert [each["ran"] for each in written[0]["runs"]] == [ran, None]


@each_sight
def test_a_stream_of_results(sight: Sight | None, ran: str) -> None:
    frames = [ResultView.frame(record, b"1", sight) for record in (OF_TARGET, OF_AGENT)]
    assert [json.loads(frame.partition(b"data: ")[2])["ran"] for frame in frames if frame is not None] == [ran, None]


@each_sight
def test_an_explanation(sight: Sight | None, ran: str, tmp_path: Path) -> None:
    """An explanation names the agents that look now and ran the last result, or `hidden` for a caller that may not
    see them."""
    rule = Rule(attempts=1, passive=True)
    entry: Any = SimpleNamespace(every=60.0, timeout=5.0, notes=NO_NOTES)
    facts = Facts("switch-1", "ping", NOW, None, rule, entry, runners=("probe-1",))
    found = explain(state_routes._look_back(tmp_path, facts, RECORDS[:1], sight))
    assert f"the last result, by {ran} says ok \N{EN DASH} up" in texts(found["why_state"])
    assert f"{ran} looks at it" in texts(found["why_not_run"])
    assert ("probe-1" in json.dumps(found)) is (ran == "probe-1")


@each_sight
def test_several_that_look(sight: Sight | None, ran: str, tmp_path: Path) -> None:
    """Outcomes of several agents are explained, and neither they nor the rule name an agent out of sight."""
    rule = Rule(attempts=1, passive=True, quorum=2, runners=("probe-1", "probe-2"))
    older = record_of(stored("switch-1", kept_spool("probe-2", "e5f6"), 0))
    facts = Facts("switch-1", "ping", NOW, None, rule, None, runners=("probe-1", "probe-2"))
    found = explain(state_routes._look_back(tmp_path, facts, [*RECORDS[:1], older], sight))
    hidden = ran == "hidden"
    assert ("hidden saw ok \N{EN DASH} up" in texts(found["why_state"])) is False
    assert ("probe-2 saw ok \N{EN DASH} up" in texts(found["why_state"])) is (not hidden)
    document = {"checks": {"ping": rule.to_json()}, "labels": {}, "link": {}}
    said = document if sight is None else seen_document("rule", document, sight)
    assert ("probe-" in json.dumps([found, said])) is (not hidden)


def test_what_others_of_a_mesh_see() -> None:
    """An explanation lists the other watchers of a mesh by status, without those out of sight."""
    others = (("probe-1", "ok"), ("probe-2", "critical"), ("switch-1", "ok"))
    facts = Facts("a", "ping@b", NOW, State.pending(NOW), Rule(), None, others=others)
    line = "others see it: critical from probe-2; ok from probe-1 and switch-1"
    assert line in texts(explain(facts)["why_state"])
    limited = explain(seen_facts(facts, Sight(("role=switch",), AGENTS)))
    assert "others see it: ok from switch-1" in texts(limited["why_state"])
    assert "probe-" not in json.dumps(limited)


@each_sight
def test_lists_of_targets_and_meshes(sight: Sight | None, ran: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents out of sight are in no row, column or pattern of targets and meshes; a mesh of them alone is not shown."""
    hidden = ran == "hidden"
    (entry,) = read_assignments('[[assign]]\ncheck = "ping"\nmesh = "*"').entries
    states = {("probe-1", "ping@probe-2"): State.pending(NOW), ("probe-2", "ping@probe-1"): SEEN}
    target = Target("switch-1", "x", ("probe-*",), {}, Quorum(2, 3))
    parts: Any = SimpleNamespace(
        visible=lambda caller: sight, evaluator=SimpleNamespace(timeline=SimpleNamespace(states=states)),
        meshes=SimpleNamespace(meshes=lambda: [(entry, {"probe-1": "10.0.0.1", "probe-2": "10.0.0.2"}, 3)]),
        targets=SimpleNamespace(
            config={"switch-1": target}, found={"switch-1": "/etc/nodes.json"},
            runners=lambda name: ("probe-1", "probe-2"), entries_of=lambda name: (),
        ),
    )  # fmt: skip
    (listed,) = target_routes._shown(parts, parts.targets.config, sight)
    assert (listed["quorum"], listed["runners"]) == ("2 of 3", [] if hidden else ["probe-1", "probe-2"])
    assert (listed["via"], listed["source"]) == ((["probe-*"], "/etc/nodes.json") if sight is None else ([], None))
    monkeypatch.setattr(target_routes, "write_json", lambda request, answer: answer)
    monkeypatch.setattr(target_routes, "take_turns", at_once)
    meshes = finished(target_routes.get_meshes(parts, Request()))["meshes"]  # type: ignore[arg-type]
    shown = [] if sight is not None else ["*"]  # the patterns of a mesh may be names
    assert [(each["id"], each["mesh"], each["agents"], each["left_out"], each["seen"]) for each in meshes] == (
        [] if hidden
        else [("ping", shown, ["probe-1", "probe-2"], 3 if sight is None else 0, [[None, None], ["critical", None]])]
    )  # fmt: skip


def texts(lines: Sequence[dict[str, Any]]) -> list[str]:
    return [line["text"] for line in lines]


@each_sight
def test_raw_history(sight: Sight | None, ran: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw history hides the agent in the spool of a result out of sight, and rollups have none."""

    class Never(Exception):
        """Stand for errors that are not raised here."""

    raw = [{"spool": each.entry.spool, "summary": "up"} for each in (OF_TARGET, OF_AGENT)] + [{"spool": None}]
    answers = [{"agent": "switch-1", "results": raw}, {"agent": "switch-1", "metrics": []}]
    reader = SimpleNamespace(
        NoLake=Never, NotInLake=Never, BadRequest=Never, TooMuch=Never, LakeUnreadable=Never,
        read_history=lambda *_: answers.pop(0), HistoryRequest=SimpleNamespace(of=lambda **given: given),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "reader_of_this_test", reader)
    monkeypatch.setattr(lake_reads, "READER", "reader_of_this_test")
    monkeypatch.setattr(history_routes, "demand_reader", lambda: None)
    request: Any = Request(agent="switch-1", check="ping")
    parts = parts_of(sight, tmp_path)
    found = json.loads(finished(history_routes.get_history(parts, request)))
    assert [each["spool"] for each in found["results"]] == [f"{ran} a1b2", "c3d4", None]
    assert json.loads(finished(history_routes.get_history(parts, request))) == {"agent": "switch-1", "metrics": []}


def test_a_record_of_no_agent() -> None:
    """A record of no agent, or of no result, stays as it is."""
    sight = Sight((), AGENTS)
    for past in (HistoryRecord(1, NOW, "node", None, None), HistoryRecord(2, NOW, "link", "probe-1", "equus:link")):
        assert seen_result(past, sight) is past
