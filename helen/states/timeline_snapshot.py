"""Turns a timeline into JSON and back, so that it can be saved and restored. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from groundwork.start_clock import Boot
from helen.states.agent_rules import rules_from_json, rules_to_json
from helen.states.clock_offset import AgentClock, Newest
from helen.states.downtimes import read_window
from helen.states.fleet_states import MOST_STATES
from helen.states.fleet_timeline import Timeline
from helen.states.model import State, plain
from helen.states.quorum import Round
from helen.states.rollout_trials import TrialScope

STATES_A_STEP = 1_000  # that are copied together, within 0.2 ms


def copy_steps(timeline: Timeline, copy: Timeline) -> Iterator[None]:
    """Copy all that is saved, some states a step, for a thread that saves it: values are frozen, so tables are enough.

    Nothing may be evaluated from the first step to the last. 500,000 states at once would take 20 ms.
    """
    copy.clock, copy.started, copy.late_results = timeline.clock, timeline.started, timeline.late_results
    copy.windows, copy.active, copy.clocks = dict(timeline.windows), dict(timeline.active), dict(timeline.clocks)
    copy.ended, copy.newest, copy.rounds = timeline.ended.copy(), dict(timeline.newest), dict(timeline.rounds)
    copy.rules, copy.connected = dict(timeline.rules), dict(timeline.connected)
    copy.trial, copy.lag, copy.settles = timeline.trial, timeline.lag, timeline.settles
    copy.retired, copy.boot = dict(timeline.retired), timeline.boot
    copy.most_states, copy.left_out = timeline.most_states, dict(timeline.left_out)
    states = iter(timeline.states.items())
    while some := list(islice(states, STATES_A_STEP)):
        copy.states.update(some)
        yield


def header_of(timeline: Timeline) -> dict[str, Any]:
    """Return a JSON object of everything but the states.

    Its keys: clock, started, windows, active, ended, up, clocks, newest, rules, history (the number of late
    results), trial, retired, most_states, left_out; boot, if it is known; lag and settles, if planned windows go by
    the time before a step of the clock; rounds, if several agents run a check.
    """
    return {
        "clock": timeline.clock,
        "started": timeline.started,
        "windows": [window.to_json() for window in timeline.windows.values()],
        "active": timeline.active,
        "ended": [[window.to_json(), at] for window, at in timeline.ended],
        "up": timeline.connected,
        "clocks": {agent: clock.to_json() for agent, clock in timeline.clocks.items()},
        "newest": {agent: plain(each) for agent, each in timeline.newest.items()},
        "rules": {agent: rules_to_json(rules) for agent, rules in timeline.rules.items()},
        "history": timeline.late_results,
        "trial": None if timeline.trial is None else timeline.trial.to_json(),
        "retired": list(timeline.retired),
        "most_states": timeline.most_states,
        "left_out": timeline.left_out,
        **({} if timeline.boot is None else {"boot": plain(timeline.boot)}),
        **(
            {} if not timeline.rounds else {"rounds": [[*key, each.to_json()] for key, each in timeline.rounds.items()]}
        ),
        **({} if timeline.settles is None else {"lag": timeline.lag, "settles": timeline.settles}),
    }


def restore(header: Mapping[str, Any], states: Iterable[tuple[str, str, State]]) -> Timeline:
    """Make a timeline from `header_of` another and its states by agent and check_id. Deadlines follow from these."""
    made = Timeline()
    made.clock, made.started, made.late_results = header["clock"], header["started"], header["history"]
    made.windows = {each["id"]: read_window(each, 0.0) for each in header["windows"]}
    made.ended.extend((read_window(each, 0.0), at) for each, at in header.get("ended", ()))
    made.active, made.connected = dict(header["active"]), dict(header["up"])
    made.lag, made.settles = header.get("lag", 0.0), header.get("settles")
    made.clocks = {agent: AgentClock.from_json(clock) for agent, clock in header["clocks"].items()}
    made.newest = {agent: Newest(**each) for agent, each in header.get("newest", {}).items()}
    made.rounds = {(agent, check): Round.from_json(each) for agent, check, each in header.get("rounds", ())}
    made.retired = dict.fromkeys((agent, check_id) for agent, check_id in header.get("retired", ()))
    made.boot = None if header.get("boot") is None else Boot(**header["boot"])
    made.most_states = header.get("most_states", MOST_STATES)
    made.left_out = dict(header.get("left_out", {}))
    if header.get("trial") is not None:
        made.trial = TrialScope.from_json(header["trial"])
    made.adopt({agent: rules_from_json(document) for agent, document in header["rules"].items()}, states)
    made.plan_settling()
    return made
