"""Keeps the states of all checks of a fleet and steps one of them, with all that follows for others. Pure.

A step of a link makes the checks of its agent unknown, a step of a parent holds back its children. Every step plans
the check's next deadline. helen/states/fleet_timeline.py says which steps the records of a journal cause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from equus_protocol.results import OK, STATUS_WORDS
from groundwork.start_clock import Boot
from helen.states.agent_rules import NO_RULE, AgentRules
from helen.states.clock_offset import AgentClock, Newest
from helen.states.deadlines import NEVER, Deadlines
from helen.states.dependencies import Dependencies, holds_of, ref_of
from helen.states.downtimes import Window, next_edge
from helen.states.events import Event
from helen.states.inputs import AgentAway, AgentBack, Held, Input, Released, Retired
from helen.states.machine import step
from helen.states.model import AWAY, DEPENDENCY, LINK, Hold, Key, Rule, State, Trial
from helen.states.quorum import Round
from helen.states.rollout_trials import TrialScope
from helen.states.silence import deadline

MOST_STATES = 1_000  # checks with a state that an agent may have, beside those that Helen has rules for
PAUSE_KEYS = 50  # checks between two pauses of a walk through the fleet: half a millisecond
ENDED_KEPT = 200  # windows that have ended and are still listed: an operator may want to open one again


@frozen
class CheckEvent:
    """Describes an event with its agent and check."""

    agent: str
    check_id: str
    event: Event


Events = Iterator[CheckEvent | None]


def run(events: Events) -> list[CheckEvent]:
    """Run to the end without a pause; return the events."""
    return [each for each in events if each is not None]


class FleetStates:
    """Holds states, rules, windows and trials. Methods that give events do nothing unless they are run to their end."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.started = 0.0  # when Helen began to listen, this time
        self.boot: Boot | None = None  # of the machine at the last start or step of the clock; None: it was not told
        self.states: dict[Key, State] = {}
        self.rules: dict[str, AgentRules] = {}
        self.windows: dict[str, Window] = {}
        self.active: dict[str, float] = {}  # windows that are on -> until when
        self.clocks: dict[str, AgentClock] = {}
        self.newest: dict[str, Newest] = {}  # agent -> the last result in its spool
        self.rounds: dict[Key, Round] = {}  # of checks that several agents run
        self.ended: deque[tuple[Window, float]] = deque(maxlen=ENDED_KEPT)  # windows that are no more, and since when
        self.dependencies = Dependencies()
        self.trial: TrialScope | None = None  # the ring that is open
        self.tried: dict[str, set[Key]] = {}  # version -> checks that it is being tried on, or was and is not gone yet
        self.most_states = MOST_STATES  # of one agent, since the last start; `helen_start` names another figure
        self.left_out: dict[str, int] = {}  # agent -> results without a state: it has too many checks, they are history
        self.late_results = 0  # results that were late or older than what is known
        self.connected: dict[str, float | None] = {}  # agents that ever linked -> since when they are connected
        self.retired: dict[Key, None] = {}  # checks that are run no more, the newest last: results of theirs are late
        self.tallies: dict[str, list[int]] = {}  # agent -> how many of its checks have each status, its link left out
        self.touched: set[str] = set()  # agents of which something may have changed; the reader takes them out
        self.changed: set[Key] = set()  # checks of which something may have changed, or that are gone; likewise
        self._rules: dict[Key, Rule] = {}  # the same as `rules`, for one look-up instead of three
        self._checks: dict[str, set[str]] = {}  # agent -> check ids with a state
        self._keys: dict[str, Sequence[Key]] = {}  # the same in order, as far as `keys_of` was asked
        self._deadlines = Deadlines()

    # ---------------------------------------------------------------------------------------------- looking up

    def rule(self, key: Key) -> Rule:
        """Return the rule of a check; the usual one if it has none."""
        return self._rules.get(key, NO_RULE)

    def _all_keys(self) -> Iterator[Key]:
        """Go through all checks by agent and check_id: replays must not depend on which came first."""
        for agent in sorted(self._checks):
            yield from self.keys_of(agent)

    def agents(self) -> list[str]:
        """Return the names of agents that have a state, sorted."""
        return sorted(self._checks)

    def copied(self) -> dict[Key, State]:
        """Return all states, each as it was at some moment of this call: a thread makes it while states change.

        One of 500,000 of one moment would hold the reactor for 20 ms. A check that comes or goes may be missing.
        """
        found = dict[Key, State]()
        for agent in list(self._checks):
            for check_id in list(self._checks.get(agent, ())):
                state = self.states.get((agent, check_id))
                if state is not None:
                    found[agent, check_id] = state
        return found

    def keys_of(self, agent: str) -> Sequence[Key]:
        """Return an agent's checks that have a state, its link included. The same list until one comes or goes."""
        keys = self._keys.get(agent)
        if keys is None:
            keys = self._keys[agent] = [(agent, check_id) for check_id in sorted(self._checks.get(agent, ()))]
        return keys

    def covers(self, window: Window, key: Key) -> bool:
        """Return True if a check is in the window's scope; its times don't matter."""
        rules = self.rules.get(key[0])
        return window.scope.covers(*key, rules.labels if rules is not None else {})

    def open_problems(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the checks of which people were told a problem that is not over: agent, check, and a document.

        Its keys are those of the decision to tell it: `what`, `status`, `at` (unix seconds) and `why`.
        """
        for (agent, check_id), state in self.states.items():
            notice = state.notice
            if notice.told == OK and not notice.flapping_told:
                continue
            what, status = ("flapping", state.shown.status) if notice.flapping_told else ("problem", notice.told)
            why = "it was told before this channel was there"
            yield agent, check_id, {"what": what, "status": STATUS_WORDS[status], "at": state.hard.since, "why": why}

    def may_be_born(self, key: Key) -> bool:
        """Return True if a check that has no state may get one: it has a rule, or its agent has few enough of them."""
        return key in self._rules or len(self._checks.get(key[0], ())) < self.most_states

    # ---------------------------------------------------------------------------------------------- stepping

    def _create_state(self, key: Key) -> State:
        """Make the state of a new check, held by what holds now: windows, broken parents, its agent's absence."""
        holds = [
            Hold(window.kind, window.id, window.sentence)
            for window in map(self.windows.__getitem__, self.active) if self.covers(window, key)
        ]  # fmt: skip
        holds += self._holds_of_parents(key)
        link = self.states.get((key[0], LINK))
        if link is not None and link.hard.reason == AWAY and key[1] != LINK and not self.rule(key).passive:
            holds.append(Hold(DEPENDENCY, ref_of((key[0], LINK)), "its agent is away"))
        state = evolve(State.pending(self.clock), holds=tuple(holds))
        if self.trial is not None and self.trial.covers(*key):
            state = evolve(state, trial=Trial(self.trial.ref, self.trial.detail, state.hard))
            self.tried.setdefault(self.trial.ref, set()).add(key)
        self.states[key] = state
        self.changed.add(key)
        self._tally(key, state, 1)
        self._checks.setdefault(key[0], set()).add(key[1])
        self._keys.pop(key[0], None)
        return state

    def _tally(self, key: Key, state: State, step: int) -> None:
        if key[1] != LINK:
            self.tallies.setdefault(key[0], [0] * len(STATUS_WORDS))[state.shown.status] += step

    def _retire(self, key: Key) -> Events:
        """Step a check that is run no more, and forget its state."""
        self.dependencies.set_rule(key, NO_RULE)
        self._rules.pop(key, None)
        if key not in self.states:
            return
        yield from self._step(key, Retired(self.clock))
        state = self.states.pop(key)
        self.changed.add(key)
        self._tally(key, state, -1)
        if state.trial is not None:
            self._forget_trial(key, state.trial.ref)
        self._deadlines.forget(key)
        self.rounds.pop(key, None)
        self._checks[key[0]].discard(key[1])
        self._keys.pop(key[0], None)

    def _step(self, key: Key, given: Input) -> Events:
        state = self.states[key]
        stepped, events = step(state, given, self.rule(key))
        if stepped is not state:
            self.states[key] = stepped
            self.touched.add(key[0])
            self.changed.add(key)
        yield from self._after(key, state, stepped, events)

    def _after(self, key: Key, before: State, state: State, events: tuple[Event, ...]) -> Events:
        """Plan the check's deadline, give its events, and step its children, or the checks of a link's agent."""
        self._plan(key, state)
        if state.shown.status != before.shown.status:
            self._tally(key, before, -1)
            self._tally(key, state, 1)
        for event in events:
            yield CheckEvent(*key, event)
        if state.shown is before.shown and state.down == before.down:
            return
        if key[1] == LINK:
            yield from self._step_checks(key, before.hard.reason == AWAY, state.hard.reason == AWAY)
        if list(holds_of(key, state)) != list(holds_of(key, before)):
            for child in sorted(self.dependencies.children(key)):
                if child in self.states:
                    yield from self._hold_by_parents(child)

    def _holds_of_parents(self, key: Key) -> list[Hold]:
        """Return the holds that the parents put on a check, one of each ref, without that of its own agent's link."""
        found = {
            hold.ref: hold for parent in self.dependencies.parents(key) if parent in self.states
            for hold in holds_of(parent, self.states[parent])
        }  # fmt: skip
        return [hold for ref, hold in found.items() if ref != self._own_link(key)]

    def _own_link(self, key: Key) -> str | None:
        """Return the link of a check's agent, as AGENT/CHECK; None for a passive check, which has none."""
        return None if self.rule(key).passive else ref_of((key[0], LINK))

    def _hold_by_parents(self, key: Key) -> Events:
        """Release a check from parents that hold it back no more, and hold it by those that do."""
        wanted = {hold.ref: hold for hold in self._holds_of_parents(key)}
        for hold in self.states[key].holds:
            if hold.kind == DEPENDENCY and hold.ref not in wanted and hold.ref != self._own_link(key):
                yield from self._step(key, Released(self.clock, DEPENDENCY, hold.ref))
        for hold in wanted.values():
            if hold not in self.states[key].holds:
                yield from self._step(key, Held(self.clock, hold))

    def _step_checks(self, link: Key, was_away: bool, is_away: bool) -> Events:
        if was_away == is_away:
            return
        agent = link[0]
        given = AgentAway(self.clock, ref_of(link)) if is_away else AgentBack(self.clock, ref_of(link))
        for check_id in sorted(self._checks[agent] - {LINK}):
            if not self.rule((agent, check_id)).passive:
                yield from self._step((agent, check_id), given)

    def _listening(self, key: Key) -> float | None:
        """Return since when results of this check could have come; None while its agent is cut off."""
        up = self.started if self.rule(key).passive else self.connected.get(key[0], self.started)
        return None if up is None else max(up, self.started)

    def _plan(self, key: Key, state: State) -> None:
        self._deadlines.plan(key, deadline(state, self.rule(key), self._listening(key), self.started))

    def _plan_edge(self, window: Window) -> bool:
        """Plan the next time at which a window begins or ends; return False if it is over."""
        edge = self._next_edge(window)
        if edge is not None and edge < NEVER:
            self._deadlines.plan_edge(window.id, edge)
        return edge is not None

    def _next_edge(self, window: Window) -> float | None:
        return next_edge(window, self.clock)

    def _forget_trial(self, key: Key, ref: str) -> None:
        keys = self.tried.get(ref, set())
        keys.discard(key)
        if not keys:
            self.tried.pop(ref, None)

    # ---------------------------------------------------------------------------------------------- restoring

    def adopt(self, rules: Mapping[str, AgentRules], states: Iterable[tuple[str, str, State]]) -> None:
        """Take over rules and states that were saved, and plan their deadlines and the edges of `windows`.

        Nothing is stepped: the saved states have the holds of their windows and parents.
        """
        self.rules.update(rules)
        for agent, each in rules.items():
            self._rules[agent, LINK] = each.link
            for check_id, rule in each.checks.items():
                self._rules[agent, check_id] = rule
                self.dependencies.set_rule((agent, check_id), rule)
        for agent, check_id, state in states:
            self.states[agent, check_id] = state
            self._tally((agent, check_id), state, 1)
            self._checks.setdefault(agent, set()).add(check_id)
            if state.trial is not None:
                self.tried.setdefault(state.trial.ref, set()).add((agent, check_id))
        for key, state in self.states.items():
            self._plan(key, state)
        for window in self.windows.values():
            self._plan_edge(window)
