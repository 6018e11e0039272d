"""Tests when a ping is missed: runs that begin, end, overlap and hang, against the rule in words, on our own clock."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol.results import STATUS_WORDS
from helen.passive import pings as module
from helen.passive.declarations import read
from helen.passive.pings import Pings, is_signal
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result

KEY = ("pings", "job")


class Job:
    """Holds one ping, called at times of our own; what it reports goes into a timeline."""

    def __init__(self, every: float, grace: float) -> None:
        config = read(f'[[ping]]\nid = "job"\nevery = "{every:g}s"\ngrace = "{grace:g}s"\n')
        self.now, self.timeline, self.sequence = 0.0, Timeline(), 0
        rules = AgentRules({}, config.rules("pings", ()))
        run(self.timeline.change("rule", 0.0, "pings", None, rules_to_json(rules)))
        self.declared = config.named["pings"]["job"]
        passive = SimpleNamespace(find=lambda *key: self.declared, submit=self._submit)
        self.pings = Pings(passive, SimpleNamespace(write=self._write))  # type: ignore[arg-type]

    async def _submit(self, given: Any) -> None:
        self.sequence += 1
        status = STATUS_WORDS.index(given.document["status"])
        run(self.timeline.result(*KEY, Result(self.now, status, sequence=self.sequence)))

    async def _write(self, kind: str, document: Any, *key: str) -> None:
        run(self.timeline.change(kind, self.now, *key, document))

    def call(self, at: float, signal: str, rid: str = "") -> None:
        self.now = at
        asyncio.run(self.pings.take(self.declared, signal, b"", rid))

    def status(self, at: float) -> str:
        run(self.timeline.advance(at))
        shown = self.timeline.states[KEY].shown
        return STATUS_WORDS[shown.status] + (f" ({shown.reason})" if shown.reason else "")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(every: float, grace: float) -> Job:
        made = Job(every, grace)
        clock = SimpleNamespace(time=lambda: made.now, monotonic=lambda: made.now)
        monkeypatch.setattr(module, "time", clock)
        return made

    return make


HANGS = [
    # every, grace, the time between two starts, when it is missed
    (3600, 7200, 3600, 7200),
    (3600, 3600, 1800, 3600),
    (60, 86_400, 600, 60 + 86_400),  # the last end, and every and grace, come first
    (86_400, 900, 300, 900),
    (1, 5, 1, 5),
]


@pytest.mark.parametrize("rid", ["", "run-{}"])
@pytest.mark.parametrize(("every", "grace", "between", "missed"), HANGS)
def test_a_job_that_begins_again_and_again(
    job: Any, every: float, grace: float, between: float, missed: float, rid: str
) -> None:
    """The first start without an end counts, however many follow, and under whatever ids. (F17)"""
    hung = job(every, grace)
    hung.call(0, "")
    at, first = 0.0, None
    while at < missed + 20 * between:
        at += between
        first = at if first is None else first
        due = min(every + grace, first + grace)
        assert hung.status(at - 0.001) == ("ok" if at - 0.001 < due else "critical (stale)"), at
        hung.call(at, "start", rid.format(at))
    assert hung.status(at + 1) == "critical (stale)"


def test_a_start_moves_no_deadline_away(job: Any) -> None:
    """A run that begins at the last moment has no more time than the file gives. A ping that never ended as well."""
    late = job(3600, 3600)
    late.call(0, "")
    late.call(7000, "start")
    assert (late.status(7199), late.status(7200)) == ("ok", "critical (stale)")
    fresh = job(600, 600)
    fresh.call(1100, "start")
    assert (fresh.status(1199), fresh.status(1200)) == ("unknown (pending)", "critical (stale)")


def test_an_end_is_the_end_of_its_own_run(job: Any) -> None:
    """An end counts for its own run; another run's start still counts until its time is over."""
    two = job(86_400, 600)
    two.call(0, "start", "hangs")
    two.call(100, "start", "quick")
    two.call(200, "", "quick")
    assert (two.status(599), two.status(600)) == ("ok", "critical (stale)")
    two.call(700, "start", "next")
    two.call(800, "", "next")
    assert two.status(800 + 86_400 + 599) == "ok"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_rule_in_words(data: st.DataObject) -> None:
    """A ping is due at the earlier of last end plus every and grace, and first unended start plus grace. (F17)"""
    with pytest.MonkeyPatch.context() as patch:
        every, grace = data.draw(st.integers(1, 50)), data.draw(st.integers(1, 50))
        one = Job(every, grace)
        clock = SimpleNamespace(time=lambda: one.now, monotonic=lambda: one.now)
        patch.setattr(module, "time", clock)
        now, end, begun = 0.0, 0.0, None
        for step, signal in data.draw(st.lists(st.tuples(st.integers(2, 40), st.sampled_from(["start", "", "1"])))):
            due = end + every + grace if begun is None else min(end + every + grace, begun + grace)
            if now + step >= due:
                assert one.status(due - 0.5) != "critical (stale)"
                assert one.status(due) == "critical (stale)"
                return
            now += step
            one.call(now, signal)
            begun = (begun if begun is not None else now) if signal == "start" else None
            end = end if signal == "start" else now


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("start", True), ("fail", True), ("log", True), ("0", True), ("7", True), ("007", True), ("255", True),
     ("256", False), ("", False), ("-1", False), ("\u0661", False), ("\u00b2", False), ("x", False),
     ("1" * 5_000, False)],
)  # fmt: skip
def test_what_is_a_signal(text: str, is_one: bool) -> None:
    """A signal is a word or an exit status; digits that Python reads no number of are none, like those of other
    scripts.
    """
    assert is_signal(text) is is_one
