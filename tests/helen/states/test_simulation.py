"""Simulates a thousand agents for a week in virtual time, and tests what must hold for any seed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from availability_oracle import HELEN_DOWN, cover
from fleet import CHECK, DAY, START, Fleet, judge

from helen.states.downtimes import Window, on_at, spans
from helen.states.events import Again, Decision, Flapping, Transition
from helen.states.fleet_states import CheckEvent
from helen.states.fleet_timeline import Timeline
from helen.states.model import LINK

SEED = 20_261_128


def trace_of(said: Iterable[CheckEvent]) -> str:
    """Return one figure for everything that was said, in its order."""
    digest = hashlib.sha256()
    for each in said:
        if not isinstance(each.event, Again):
            digest.update(json.dumps([each.agent, each.check_id, each.event.to_json()]).encode())
    return digest.hexdigest()


class Week:
    """Runs one simulation, and keeps what was said of each check."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.timeline = Timeline()
        self.results = 0
        self.windows: dict[str, list[tuple[Window, float, float]]] = {"downtime": [], "silence": []}
        self.said: dict[tuple[str, str], list[CheckEvent]] = defaultdict(list)
        for each in judge(self.timeline, self._watched(), fleet.end):
            self.said[each.agent, each.check_id].append(each)

    def _watched(self):  # type: ignore[no-untyped-def]
        """Yield the records as they go by, and keep windows with the time in which they were there."""
        open_since: dict[str, tuple[Window, float]] = {}
        for record in self.fleet.records():
            self.results += record.kind == "result"
            if record.kind in self.windows and record.content.get("action") == "cancel":
                window, since = open_since.pop(record.content["id"], (None, 0.0))
                if window is not None:
                    self.windows[window.kind].append((window, since, record.received))
            yield record
            if record.kind in self.windows and record.content.get("action") != "cancel":
                open_since[record.content["id"]] = self.timeline.windows[record.content["id"]], record.received
        for window, since in open_since.values():
            self.windows[window.kind].append((window, since, self.fleet.end))

    def planned(self, agent: str) -> list[tuple[float, float]]:
        """Return the downtimes of an agent."""
        return [
            (max(begin, since), min(end, until))
            for window, since, until in self.windows["downtime"] if window.scope.covers(agent, CHECK, {})
            for begin, end in _until(window, since, until)
        ]  # fmt: skip


def _until(window: Window, since: float, until: float) -> list[tuple[float, float]]:
    found = []
    for begin, end in spans(window, since):
        if begin >= until:
            break
        found.append((begin, end))
    return found


@pytest.fixture(scope="module")
def week() -> Week:
    """Return a week of 1,000 agents, with a result every half hour: 336,000 of them."""
    return Week(Fleet(SEED, 1_000, 7))


def test_the_week_has_everything_in_it(week: Week) -> None:
    """The week has each kind of decision and reason, so that the tests below show something."""
    told = [each.event for said in week.said.values() for each in said if isinstance(each.event, Decision)]
    actions = {(event.action, event.what) for event in told}
    reasons = {reason.kind for event in told for reason in event.reasons}
    assert week.results > 330_000
    assert week.timeline.late_results > 1_000
    words = ("problem", "change", "still", "recovery", "flapping", "flapping-ended")
    assert {("notify", word) for word in words} <= actions
    assert reasons >= {"soft", "acknowledged", "downtime", "silence", "dependency", "awaiting", "pending"}


def test_each_day_of_each_check_adds_up(week: Week) -> None:
    """The sum of ok, bad, planned and unknown is 24 h, with Helen's absences as they were."""
    for agent in week.fleet.names():
        transitions = [each.event for each in week.said[agent, CHECK] if isinstance(each.event, Transition)]
        planned, helen_down = week.planned(agent), 0.0
        for day in range(week.fleet.days):
            begin = START + day * DAY
            coverage = cover(transitions, begin, begin + DAY, planned, week.fleet.absences)
            assert coverage.total == pytest.approx(DAY, abs=1e-3)
            assert min(coverage.ok, coverage.bad, coverage.planned, *coverage.unknown.values(), 0.0) >= 0.0
            helen_down += coverage.unknown.get(HELEN_DOWN, 0.0)
        if not planned:
            assert helen_down == pytest.approx(sum(end - begin for begin, end in week.fleet.absences), abs=1e-3)


def test_events_are_a_chain(week: Week) -> None:
    """Numbers have no hole; each transition begins where the last one ended; times never go back."""
    for said in week.said.values():
        events = [each.event for each in said if not isinstance(each.event, Again)]
        assert [event.number for event in events] == list(range(len(events)))
        assert all(one.at <= other.at for one, other in pairwise(events))
        turns = [event for event in events if isinstance(event, Transition)]
        assert all(
            (one.now.status, one.now.reason) == (other.was.status, other.was.reason) for one, other in pairwise(turns)
        )


def test_flapping_ends_with_one_decision(week: Week) -> None:
    """Flapping goes on and off in turn; each end has exactly one decision about the final state."""
    for said in week.said.values():
        events = [each.event for each in said]
        flaps = [event for event in events if isinstance(event, Flapping)]
        assert [event.on for event in flaps] == [at % 2 == 0 for at in range(len(flaps))]
        for flap in flaps:
            then = [event for event in events if isinstance(event, Decision) and event.at == flap.at]
            assert len(then) == 1, (flap, then)


def test_nothing_that_is_muted_is_told(week: Week) -> None:
    """A bad message within a downtime or a silence is never told, by the windows themselves."""
    for (agent, check_id), said in week.said.items():
        for each in said:
            event = each.event
            if isinstance(event, Decision) and event.action == "notify" and event.what not in ("recovery", "closed"):
                if event.what == "flapping-ended" and event.status == 0:
                    continue
                for window, since, until in (*week.windows["downtime"], *week.windows["silence"]):
                    if since <= event.at < until and window.scope.covers(agent, check_id, {}):
                        assert on_at(window, event.at) is None, (agent, event)


def test_in_the_end_people_know_how_things_are(week: Week) -> None:
    """The last hours are quiet: whatever was held back has been told or dropped, and nobody believes what is not so."""
    for (agent, check_id), state in week.timeline.states.items():
        assert state.notice.told == state.hard.status, (agent, check_id)
        assert state.notice.decided == ()


def test_a_restart_of_helen_alarms_nobody(week: Week) -> None:
    """Nothing is called stale or away while agents come back, unless it was before."""
    for begin, end in week.fleet.absences:
        for (agent, check_id), said in week.said.items():
            for each in said:
                event = each.event
                if isinstance(event, Transition) and begin < event.at < end + 60.0 and check_id == LINK:
                    assert event.now.reason != "agent-away", (agent, event)


SCRIPT = """
import sys
sys.path[:0] = [{here!r}, {stages!r}]
from fleet import Fleet, judge
from test_simulation import trace_of
from helen.states.fleet_timeline import Timeline
fleet = Fleet({seed}, 60, 2)
print(trace_of(judge(Timeline(), fleet.records(), fleet.end)))
"""


def test_a_seed_reproduces_its_trace() -> None:
    """A seed has the same trace in another process with another hashing; another seed has another one."""
    here = Path(__file__).parent
    fleet, other = Fleet(SEED, 60, 2), Fleet(SEED + 1, 60, 2)
    trace = trace_of(judge(Timeline(), fleet.records(), fleet.end))
    script = SCRIPT.format(here=str(here), stages=str(here.parents[1] / "stages"), seed=SEED)
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    again = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert again.stdout.strip() == trace
    assert trace_of(judge(Timeline(), other.records(), other.end)) != trace
