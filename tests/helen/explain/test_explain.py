"""Tests `helen explain`: answers from records, for now and for the past; and the history that they are read from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acting import Play

from equus_protocol.results import Metric
from helen.assignments.schedule import ScheduleEntry
from helen.cli.explain import show
from helen.evaluation.replay import HistoryRecord
from helen.explain.explain import Facts, explain
from helen.explain.history_around import HistoryAround
from helen.journal.journal import Journal
from helen.journal.values import Entry, Origin
from helen.states.events import Again
from helen.states.inputs import Result
from helen.states.model import Rule

RULE = Rule(attempts=2, stale=100.0, depends=("a/p",))


def story(*steps: tuple[float, str]) -> tuple[Play, list[HistoryRecord]]:
    """Return what was said, as the journal has it."""
    play, past = Play({"a/c": RULE, "a/p": Rule(attempts=1)}), list[HistoryRecord]()
    for time, given in steps:
        for said in play.act(time, given):
            if not isinstance(said.event, Again):
                text = json.dumps(said.event.to_json())
                past.append(
                    HistoryRecord(len(past), said.event.at, said.event.KIND, said.agent, said.check_id, document=text)
                )
    return play, past


def texts(found: dict[str, Any], question: str) -> list[str]:
    return [line["text"] for line in found[question]]


def test_a_problem_that_a_downtime_holds_back() -> None:
    """The answer has the chain of decisions since the last message, and what holds the problem back now."""
    opened = "downtime id=d until=900 author=eva comment=disks"
    play, past = story((0, "ok"), (5, opened), (10, "critical"), (20, "critical"))
    metric = Metric("used", 93.1, "%", labels={"path": "/"}, warn="80", crit="90")
    result = Result(20.0, 2, 19.9, "s", 3, None, "abcdef0123456789", "full")
    newest = HistoryRecord(9, 20.0, "result", "a", "c", result, metrics=(metric,))
    facts = Facts(
        "a", "c", 25.0, play.timeline.states["a", "c"], RULE, ScheduleEntry("c", "c", 10.0, 0.0, 5.0, {}), 0.0, 25.0,
        40.0, changes=past, results=[newest], next_run=30.0,
    )  # fmt: skip
    found = explain(facts)
    assert texts(found, "why_state") == [
        "first result: ok",
        "ok to critical soft: critical, attempt 1 of 2",
        "still critical: critical, confirmed by 2 of 2 results",
        "the last result says critical \N{EN DASH} full",
        "used (path=/) is 93.1 %, critical is 90",
        "by the code abcdef012345",
        "now critical, confirmed, for 15 s",
        "its clock is +40.0 s off; times here are Helen's",
    ]
    assert texts(found, "why_no_alert") == [
        "held back: problem, critical because of soft, downtime d"
        " (attempt 1, not confirmed yet; downtime d by eva: disks)",
        "held back: problem, critical because of downtime d (downtime d by eva: disks)",
        "held back now by downtime: downtime d by eva: disks",
    ]
    assert texts(found, "why_not_run") == [
        "scheduled every 10 s, at most 5 s long", "unknown when there is no result for 100 s",
        "the agent is connected since then", "a result came, 40 s after its run ended: it waited in the spool",
        "the next run",
    ]  # fmt: skip
    assert found["state"]["status"] == "critical"


def test_what_else_broke_and_what_changed() -> None:
    """The answer names the parent as such, the link and another code; that the parent began well is no news."""
    _, past = story((0, "a/p ok"), (1, "ok"), (60, "a/p critical"), (61, "critical"), (62, "critical"))
    past.append(HistoryRecord(90, 50.0, "link", None, None, document='{"agent": "a", "event": "up"}'))
    results = [
        HistoryRecord(99, 62.0, "result", "a", "c", Result(62.0, 2, 62.0, "s", 3, None, "new")),
        HistoryRecord(98, 61.0, "result", "a", "c", Result(61.0, 2, 1.0, "s", 2, None, "old")),
    ]
    found = explain(Facts("a", "c", 70.0, None, RULE, changes=past, results=results))
    assert texts(found, "what_else") == [
        "same agent, its parent, a/p: ok to critical: the result says critical",
    ]
    assert texts(found, "what_changed") == [
        "the agent connected", "from here on by the code new, before by old",
    ]  # fmt: skip
    assert texts(found, "why_not_run") == [
        "it is not scheduled there", "a result came, 60 s after its run ended: it waited in the spool", "a result came",
    ]  # fmt: skip
    assert texts(found, "why_no_alert")[-1].startswith("held back: problem, critical because of dependency a/p")


def changed(*given: tuple[float, str, dict[str, Any]]) -> list[str]:
    """Return what is said of these records under "What changed?" of a/c."""
    past = [
        HistoryRecord(at, moment, kind, None, None, document=json.dumps(said))
        for at, (moment, kind, said) in enumerate(given)
    ]
    return texts(explain(Facts("a", "c", 1_000.0, None, RULE, changes=past)), "what_changed")


def rules(agent: str = "a", labels: dict[str, str] | None = None, **checks: dict[str, Any]) -> dict[str, Any]:
    return {"agent": agent, "labels": labels or {}, "checks": checks, "link": {}}


def test_rules_and_labels_are_told_as_sentences() -> None:
    """A changed part is told, and nothing if nothing has changed; other checks and agents are left out."""
    stale = {"stale": 150.0}
    assert changed(
        (1, "rule", rules(c=stale)), (2, "rule", rules(c=stale)), (3, "rule", rules("b", c={"attempts": 9})),
        (4, "rule", rules(labels={"role": "web"}, c=stale)), (5, "rule", rules(labels={"role": "db"}, c=stale, d={})),
        (6, "rule", rules(c={"stale": 60.0, "attempts": 5, "depends": ["a/p"], "flap_start": None})),
        (7, "rule", rules()), (8, "rule", rules(c={})),
    ) == [
        "scheduled here; unknown after 150 s without a result",
        "the agent has a new label, role=web",
        "the agent's label role is db, it was web",
        "the agent has lost the label role=db",
        "5 bad results confirm a problem; before: 3",
        "unknown after 60 s without a result; before: 150 s",
        "flapping is not looked for; before: 30",
        "depends on a/p; before: nothing",
        "it is not scheduled any more",
        "it is scheduled from here on",
    ]  # fmt: skip


def test_what_repeats_is_counted() -> None:
    """A link that blinks is one line, and many blinks are one, too."""
    blinks = [(60.0 + 60.0 * n + moment, "link", {"agent": "a", "event": event}) for n in range(3)
              for moment, event in ((0.0, "down"), (2.0, "up"))]  # fmt: skip
    assert changed(
        (1, "helen_start", {"version": "0.2"}), (2, "link", {"agent": "a", "event": "up"}), (3, "helen_stop", {}),
        *blinks, (900, "link", {"agent": "a", "event": "down"}), (990, "link", {"agent": "a", "event": "up"}),
    ) == [
        "Helen started, version 0.2", "the agent connected", "Helen stopped",
        "the agent's connection ended, and it came back within a minute (3 times)",
        "the agent's connection ended", "the agent connected",
    ]  # fmt: skip


def test_windows_are_told_where_they_cover() -> None:
    """Windows are told in words, not as JSON; those of others are left out."""
    window = {
        "action": "add",
        "id": "d",
        "agents": ["a"],
        "until": 900.0,
        "begin": 5.0,
        "author": "eva",
        "comment": "x",
    }
    other = {**window, "id": "e", "agents": ["b"]}
    assert changed(
        (5, "downtime", window), (6, "downtime", other), (7, "downtime", {**window, "until": 950.0}),
        (8, "downtime", {"action": "cancel", "id": "d", "author": "kim"}),
        (9, "downtime", {"action": "cancel", "id": "e", "author": "kim"}),
    ) == [
        "downtime d by eva: x: opened", "downtime d by eva: x: changed", "downtime d was cancelled by kim",
    ]  # fmt: skip


def test_pushes_are_told_where_they_were_tried() -> None:
    """Pushes are told from their ring to the way back, and those that went to all at once; another check's are left
    out.
    """
    scope = {"ring": 1, "agents": ["a"], "without": [], "checks": ["c"], "detail": ""}
    opened = {
        "action": "open",
        "version": 7,
        **scope,
        "author": "eva",
        "files": "changed: c.lua",
        "place": "ring 1 of 2 (1%)",
    }
    at_once = {"action": "at-once", "author": "eva", "files": "changed: c.lua"}
    assert changed(
        (1, "rollout", opened), (2, "rollout", {"action": "undone", "version": 7, "why": "c: it is bad"}),
        (3, "rollout", {"action": "back", "version": 7, "agents": ["b"], "why": ""}),
        (4, "rollout", {"action": "back", "version": 7, "agents": ["a"], "why": ""}),
        (5, "rollout", {**opened, "version": 9}),
        (6, "rollout", {"action": "passed", "version": 9, "why": "version 9 has passed"}),
        (7, "rollout", {**opened, "version": 11, "agents": ["b"]}),
        (8, "rollout", {"action": "passed", "version": 11, "why": "version 11 has passed"}),
        (9, "rollout", {**at_once, "version": 13, "checks": ["c"]}),
        (10, "rollout", {**at_once, "version": 15, "checks": ["d"]}),
    ) == [
        "version 7 is being tried here, ring 1 of 2 (1%), pushed by eva; changed: c.lua",
        "version 7 was taken back: c: it is bad",
        "the agent runs what it ran before version 7; its state is as it was then",
        "version 9 is being tried here, ring 1 of 2 (1%), pushed by eva; changed: c.lua",
        "version 9 has passed",
        "version 13 went to all agents at once, pushed by eva; changed: c.lua",
    ]  # fmt: skip


def test_the_past_is_told_as_it_was() -> None:
    """An answer about the past leaves out records after the moment."""
    _, past = story((0, "ok"), (60, "critical"), (70, "critical"), (500, "ok"))
    found = explain(Facts("a", "c", 65.0, None, RULE, changes=past))
    assert (found["state"]["status"], found["state"]["kind"]) == ("critical", "soft")
    assert "told" not in " ".join(texts(found, "why_no_alert"))


def test_nothing_known() -> None:
    """Each question has an answer although nothing is known."""
    found = explain(Facts("a", "c", 65.0, None, RULE))
    assert found["state"] is None
    assert texts(found, "why_state")[0].startswith("no change of its state in the day before")
    assert texts(found, "why_no_alert") == ["nothing was to be told in the day before"]


def test_the_terminal_gets_no_control_characters(capsys: Any) -> None:
    """The terminal gets no control characters, as a summary is an agent's text."""
    found = explain(Facts("a", "c", 65.0, None, RULE))
    found["why_state"] = [{"at": 0.0, "text": "\x1b[2J"}]
    show(found)
    assert "\x1b" not in capsys.readouterr().out


def test_looking_back_finds_its_files(tmp_path: Path) -> None:
    """Changes between two moments, and the last results of one check, over several segments."""
    now = [1_000.0]

    def call(work: Callable[..., Any], *args: Any) -> None:
        work(*args)

    for round_ in range(4):
        now[0] = 1_000.0 * (round_ + 1)
        journal = Journal(
            tmp_path / "journal", tmp_path / "history", call, lambda batch: None, lambda trouble: None,
            clock=lambda: now[0],
        )  # fmt: skip
        journal.open()
        journal.change("link", {"event": "up", "round": round_}, "a")
        for check in ("c", "other"):
            for number in range(3):
                sequence, received = round_ * 3 + number + 1, now[0] + number
                journal.append(Entry("a", check, None, check, sequence, Origin.SCHEDULED, received, b"{}"))
            journal.append_own("a", check, check, Origin.ASKED, now[0] + 0.5, b"{}")
        journal.close()
    journal = Journal(tmp_path / "journal", tmp_path / "history", call, lambda batch: None, lambda trouble: None)
    journal.open()
    journal.close()
    history = HistoryAround(tmp_path / "history")
    assert [past.received for past in history.changes(1_500.0, 3_500.0)] == [2_000.0, 3_000.0]
    assert [past.received for past in history.results("a", "c", 3_001.5, 4)] == [3_001.0, 3_000.0, 2_002.0, 2_001.0]
    assert history.results("a", "unknown", 3_001.5, 4) == []
    assert HistoryAround(tmp_path / "nowhere").changes(0.0, 9e9) == []
