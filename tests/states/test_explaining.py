"""`helen explain`: answers from records, for now and for the past; and the history that they are read from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acting import Play

from equus_protocol.results import Metric
from helen.cli.explain import show
from helen.explaining import Facts, explain
from helen.journal.journal import Journal
from helen.journal.values import Entry, Origin
from helen.judged import Again, Result, Rule
from helen.looking_back import Lookback
from helen.policy import ScheduleEntry
from helen.replaying import Past

RULE = Rule(attempts=2, stale=100.0, depends=("a/p",))


def story(*steps: tuple[float, str]) -> tuple[Play, list[Past]]:
    """What was said, as the journal has it."""
    play, past = Play({"a/c": RULE, "a/p": Rule(attempts=1)}), list[Past]()
    for time, given in steps:
        for said in play.act(time, given):
            if not isinstance(said.event, Again):
                text = json.dumps(said.event.to_json())
                past.append(Past(len(past), said.event.at, said.event.KIND, said.agent, said.check_id, document=text))
    return play, past


def texts(found: dict[str, Any], question: str) -> list[str]:
    return [line["text"] for line in found[question]]


def test_a_problem_that_a_downtime_holds_back() -> None:
    """The chain of decisions since the last message, and what holds it back now."""
    opened = "downtime id=d until=900 author=eva comment=disks"
    play, past = story((0, "ok"), (5, opened), (10, "critical"), (20, "critical"))
    metric = Metric("used", 93.1, "%", labels={"path": "/"}, warn="80", crit="90")
    result = Result(20.0, 2, 19.9, "s", 3, None, "abcdef0123456789", "full")
    facts = Facts(
        "a", "c", 25.0, play.timeline.states["a", "c"], RULE, ScheduleEntry("c", "c", 10.0, 0.0, 5.0, {}), 0.0, 25.0,
        40.0, changes=past, results=[Past(9, 20.0, "result", "a", "c", result, metrics=(metric,))], next_run=30.0,
    )  # fmt: skip
    found = explain(facts)
    assert texts(found, "why_state") == [
        "unknown to ok: the result says ok",
        "ok to critical soft: critical, attempt 1 of 2",
        "still critical: critical, confirmed by 2 of 2 results",
        "now critical, confirmed",
        "the last result says critical \N{EN DASH} full",
        "used (path=/) is 93.1 %, critical is 90",
        "by the code abcdef012345",
        "its clock is +40.0 s off; times here are Helen's",
    ]
    assert texts(found, "why_no_alert") == [
        "held back: problem, critical because of soft, downtime d"
        " (attempt 1, not confirmed yet; downtime d by eva: disks)",
        "held back: problem, critical because of downtime d (downtime d by eva: disks)",
        "held back now by downtime: downtime d by eva: disks",
    ]
    assert texts(found, "why_not_run")[:4] == [
        "scheduled every 10 s, at most 5 s long", "unknown when there is no result for 100 s",
        "the agent is connected since then", "the next run",
    ]  # fmt: skip
    assert found["state"]["status"] == "critical"


def test_what_else_broke_and_what_changed() -> None:
    """The parent, named as such (that it began well is no news); the link; another code."""
    _, past = story((0, "a/p ok"), (1, "ok"), (60, "a/p critical"), (61, "critical"), (62, "critical"))
    past.append(Past(90, 50.0, "link", None, None, document='{"agent": "a", "event": "up"}'))
    results = [
        Past(99, 62.0, "result", "a", "c", Result(62.0, 2, 62.0, "s", 3, None, "new")),
        Past(98, 61.0, "result", "a", "c", Result(61.0, 2, 1.0, "s", 2, None, "old")),
    ]
    found = explain(Facts("a", "c", 70.0, None, RULE, changes=past, results=results))
    assert texts(found, "what_else") == [
        "same agent, its parent, a/p: ok to critical: the result says critical",
    ]
    assert texts(found, "what_changed") == [
        "the agent's link: up", "from here on by the code new, before by old",
    ]  # fmt: skip
    assert texts(found, "why_not_run") == [
        "it is not scheduled there", "a result came", "a result came, 60 s after its run ended: it waited in the spool",
    ]  # fmt: skip
    assert texts(found, "why_no_alert")[-1].startswith("held back: problem, critical because of dependency a/p")


def test_the_past_is_told_as_it_was() -> None:
    """What came after the moment is left out."""
    _, past = story((0, "ok"), (60, "critical"), (70, "critical"), (500, "ok"))
    found = explain(Facts("a", "c", 65.0, None, RULE, changes=past))
    assert (found["state"]["status"], found["state"]["kind"]) == ("critical", "soft")
    assert "told" not in " ".join(texts(found, "why_no_alert"))


def test_nothing_known() -> None:
    """Each question has an answer all the same."""
    found = explain(Facts("a", "c", 65.0, None, RULE))
    assert found["state"] is None
    assert texts(found, "why_state")[0].startswith("no change of its state in the day before")
    assert texts(found, "why_no_alert") == ["nothing was to be told in the day before"]


def test_the_terminal_gets_no_control_characters(capsys: Any) -> None:
    """A summary is an agent's text."""
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
    history = Lookback(tmp_path / "history")
    assert [past.received for past in history.changes(1_500.0, 3_500.0)] == [2_000.0, 3_000.0]
    assert [past.received for past in history.results("a", "c", 3_001.5, 4)] == [3_001.0, 3_000.0, 2_002.0, 2_001.0]
    assert history.results("a", "unknown", 3_001.5, 4) == []
    assert Lookback(tmp_path / "nowhere").changes(0.0, 9e9) == []
