"""Steps the checks of a fleet in one order of time: records go in, events come out. Pure; live and in Spark alike.

Fed with the durable records of one Helen in the order of `at`, it comes to the same events whatever the batches were,
however often it was saved as JSON and restored, and whenever `advance` was called in between. Ticks are no records:
each deadline is stepped at its own time, before the first record that came later. The time goes back only where Helen's
clock was set back: helen/states/clock_steps.py.

fleet_windows.py steps downtimes and silences, fleet_trials.py the trials of versions.

It knows what one check can't: rules, parents and children, the scopes of windows, the links and clocks of agents. Its
methods are generators: nothing happens unless they are run to their end (`run` does), and a None
among their events is a moment in which a live Helen may do something else. Times are unix seconds of Helen's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from equus_protocol.results import STATUS_WORDS
from groundwork.start_clock import Boot
from groundwork.target_ids import source_of
from helen.states.agent_rules import AgentRules, rules_from_json
from helen.states.calm_results import OWN_SPOOL, RESERVED
from helen.states.clock_offset import DOUBT_SECONDS, AgentClock, Newest, is_older, is_set_back, measure
from helen.states.clock_steps import BACK_SECONDS, SETTLE
from helen.states.downtimes import read_window
from helen.states.fleet_states import MOST_STATES, PAUSE_KEYS, Events
from helen.states.fleet_trials import FleetTrials
from helen.states.inputs import Acknowledge, Expect, Link, Result, Tick, Unacknowledge
from helen.states.machine import step
from helen.states.model import LINK, Ack, Key, Rule, State
from helen.states.quorum import NO_ROUND, take
from helen.states.silence import deadline

RETIRED_KEPT = 20_000  # checks whose results step no state, since they were retired: the newest

MEASURED_LATER = AgentClock(is_new=True)  # the clock of an agent before its first result: it is taken as right


class Timeline(FleetTrials):
    """Judges records. `clock` is the latest time of all: one that is a little earlier counts as if it came then.

    A record that is earlier by more than BACK_SECONDS shows that Helen's clock was set back: the time goes with it.
    """

    # ---------------------------------------------------------------------------------------------- time

    def advance(self, now: float) -> Events:
        """Step every deadline and window edge up to and including `now`, unix seconds."""
        number = 0
        while self._deadlines.next <= now:
            number += 1  # most entries give no event: they are put off, thousands a second in a great fleet
            if number % PAUSE_KEYS == 0:
                yield None
            time, due = self._deadlines.pop()
            self.clock = max(self.clock, time)
            if due == SETTLE:
                for window_id in list(self.windows) if self._settle() else ():
                    yield from self._update_window(window_id)
            elif isinstance(due, str):
                yield from self._update_window(due)
            elif due is not None:
                yield from self._tick(due)
        self.clock = max(self.clock, now)

    def _tick(self, key: Key) -> Events:
        state = self.states[key]
        listening = self._listening(key)
        due = deadline(state, self.rule(key), listening, self.started)
        if due is not None and due <= self.clock:
            yield from self._step(key, Tick(self.clock, listening, self.started))
        else:
            self._deadlines.plan(key, due)

    # ---------------------------------------------------------------------------------------------- results

    def result(self, agent: str, check_id: str, given: Result) -> Events:
        """Step one result that counts (scheduled or passive; asked ones never do). `ended` is by the agent's clock."""
        if given.at < self.clock - BACK_SECONDS:
            yield from self._step_back_to(given.at)
        if self._deadlines.next <= given.at:
            yield from self.advance(given.at)
        at = self.clock = given.at if given.at > self.clock else self.clock
        if check_id.startswith(RESERVED):
            return
        key = agent, check_id
        if given.ended is not None and key in self.retired:
            return  # an agent's run that was on its way when the check was retired, or in a spool: it is history
        rule = self.rule(key)
        ended = given.ended
        if ended is not None:
            source, spool = (agent, given.spool) if " " not in given.spool else source_of(agent, given.spool)
            if source != agent:  # a target's: it is the clock of the agent that looked at it
                ended -= self._offset(source, ended, evolve(given, spool=spool))
            elif not rule.passive:  # a passive result's clock is unknown
                ended -= self._offset(agent, ended, given)
        if ended != given.ended or at != given.at:  # `evolve` takes five times as long, and this is for each result
            given = Result(
                at, given.status, ended, given.spool, given.sequence, given.reason, given.code, given.summary
            )  # fmt: skip
        if rule.runners:
            judged = self._take_view(key, given, rule)
            if judged is None:
                return
            given = judged
        state = self.states.get(key)
        if state is None:
            if not self.may_be_born(key):
                self.left_out[agent] = self.left_out.get(agent, 0) + 1
                return
            state = self._create_state(key)
        stepped, events = step(state, given, rule)
        if stepped is state:
            self._hear(key, state)
            return
        self.states[key] = stepped
        self.touched.add(agent)
        self.changed.add(key)
        # A deadline that was expected later than the rule's has an entry that is too late from now on.
        if events or stepped.shown is not state.shown or key not in self._deadlines or state.expected is not None:
            yield from self._after(key, state, stepped, events)

    def _take_view(self, key: Key, given: Result, rule: Rule) -> Result | None:
        """Take what one of several agents saw; return what steps the state, if its round is sure."""
        runner, _ = source_of(key[0], given.spool)
        before = self.rounds.get(key, NO_ROUND)
        after, judged = take(before, runner, given, rule)
        self.late_results += after is before
        self.rounds[key] = after
        return judged

    def _offset(self, agent: str, ended: float, given: Result) -> float:
        """Measure an agent's clock by one more result; return the seconds that it is ahead of Helen's."""
        clock, newest = self.clocks.get(agent, MEASURED_LATER), self.newest.get(agent)
        measured = measure(clock, ended, given.at)
        if given.spool != OWN_SPOOL and not is_older(newest, given.spool, given.sequence):
            in_doubt = measured.rivals is not None or is_set_back(newest, ended, given.spool)
            doubted = in_doubt and measured.since is not None
            if doubted and self._came_at_once(agent, newest, given):
                measured, doubted = AgentClock(ended - given.at, alone=clock.alone), False
            self.newest[agent] = Newest(given.spool, given.sequence, ended, given.at, doubted)
        if measured is not clock:
            self.clocks[agent] = measured
        return measured.offset

    def _came_at_once(self, agent: str, newest: Newest | None, given: Result) -> bool:
        """Return True if a result can't have waited: the agent stayed connected since the one before, a while ago."""
        up = self.connected.get(agent)
        if up is None or newest is None or newest.spool != given.spool:
            return False
        return up <= newest.received <= given.at - DOUBT_SECONDS

    def _hear(self, key: Key, state: State) -> None:
        """Take note of a late result: if only its agent's clock makes it late, the check is not silent."""
        self.late_results += 1
        newest = self.newest.get(key[0])
        if newest is not None and newest.doubted and state.seen is not None:
            self.states[key] = evolve(state, seen=evolve(state.seen, at=self.clock))

    # ---------------------------------------------------------------------------------------------- changes

    def change(
        self, kind: str, at: float, agent: str | None, check_id: str | None, document: Mapping[str, Any]
    ) -> Events:
        """Step a change of the journal; `at`: unix seconds, `document`: its JSON object.

        Records that Helen writes itself (transition, flap, decision) only advance the time.
        """
        if kind in ("clock", "helen_start") and "boot" in document:
            self.boot = Boot(**document["boot"])
        if kind == "clock":
            yield from self.jump(at, document.get("stepped", 0.0), document.get("slept", 0.0))
            return
        if at < self.clock - BACK_SECONDS:
            yield from self._step_back_to(at)
        if kind == "helen_start":
            self.most_states = document.get("states", MOST_STATES)
            yield from self.helen_started(at)
            return
        yield from self.advance(at)
        agent = agent if agent is not None else document.get("agent")
        if kind == "link" and agent is not None:
            forgotten = document.get("event") == "forgotten"
            yield from self.forget(agent) if forgotten else self.link(agent, document.get("event") == "up")
        elif kind == "rule" and agent is not None:
            yield from self.set_rules(agent, rules_from_json(document))
        elif kind in ("ack", "expect") and agent is not None and check_id is not None:
            yield from self._command(kind, (agent, check_id), document)
        elif kind in ("downtime", "silence"):
            if document.get("action") == "cancel":
                yield from self.cancel(document["id"], document.get("author", ""))
            else:
                fields = {name: value for name, value in document.items() if name not in ("action", "agent")}
                yield from self.open_window(read_window({"kind": kind, **fields}, self.clock))
        elif kind == "rollout":
            yield from self.rollout(document)

    def helen_started(self, at: float) -> Events:
        """Step a start of Helen at `at`, unix seconds. It heard no agent before, so every deadline counts from here.

        `change` has put the clock back before, if what was stored is ahead of `at`.
        """
        self.started = max(self.clock, at)
        yield from self.advance(self.started)
        for agent in sorted(self.connected):
            yield from self.link(agent, False)

    def link(self, agent: str, up: bool) -> Events:
        """Step an agent that connected, or that lost its connection."""
        key = agent, LINK
        if not up and agent not in self.connected:
            return  # the agent was forgotten, and its connection ends after that
        if key not in self.states:
            self._create_state(key)
        self.connected[agent] = self.clock if up else None
        yield from self._step(key, Link(self.clock, up))
        for check_id in sorted(self._checks[agent]) if up else ():
            self._plan((agent, check_id), self.states[agent, check_id])  # it may be stale sooner than was planned

    def forget(self, agent: str) -> Events:
        """Retire the checks of an agent that was taken out of service; its history stays."""
        self.rules.pop(agent, None)
        self._rules.pop((agent, LINK), None)
        for key in self.keys_of(agent):
            yield from self._retire(key)
        self.connected.pop(agent, None)
        self.clocks.pop(agent, None)
        self.newest.pop(agent, None)
        self._checks.pop(agent, None)
        self._keys.pop(agent, None)
        self.tallies.pop(agent, None)
        self.left_out.pop(agent, None)
        for key in [key for key in self.retired if key[0] == agent]:
            del self.retired[key]
        self.touched.discard(agent)

    def set_rules(self, agent: str, rules: AgentRules) -> Events:
        """Replace the rules of an agent. Checks that it ran before and runs no more are retired."""
        before = self.rules.get(agent, AgentRules())
        self.rules[agent] = rules
        self._rules[agent, LINK] = rules.link
        for check_id in sorted(before.checks.keys() - rules.checks.keys()):
            yield from self._retire((agent, check_id))
            self._remember_retired((agent, check_id))
        for number, (check_id, rule) in enumerate(rules.checks.items(), 1):
            yield from self._set_rule((agent, check_id), rule)
            if number % PAUSE_KEYS == 0:
                yield None
        if before.labels != rules.labels:
            self.changed.update(self.keys_of(agent))
            for window_id in list(self.active):
                yield from self._apply_window(self.windows[window_id], self.keys_of(agent))

    def _remember_retired(self, key: Key) -> None:
        self.retired[key] = None
        if len(self.retired) > RETIRED_KEPT:
            del self.retired[next(iter(self.retired))]

    def _set_rule(self, key: Key, rule: Rule) -> Events:
        self._rules[key] = rule
        self.retired.pop(key, None)
        if not rule.runners:
            self.rounds.pop(key, None)
        self.dependencies.set_rule(key, rule)
        state = self.states.get(key)
        if state is None:
            self._plan(key, self._create_state(key))
            return
        yield from self._hold_by_parents(key)
        self._plan(key, self.states[key])

    def _command(self, kind: str, key: Key, document: Mapping[str, Any]) -> Events:
        """Step an `expect` or `ack` record of one check, if the check has a state."""
        if key in self.states:
            given = _expect(document, self.clock) if kind == "expect" else _acknowledge(document, self.clock)
            yield from self._step(key, given)


def _expect(document: Mapping[str, Any], at: float) -> Expect:
    return Expect(at, document["within"], document.get("why", ""), document.get("begun", False))


def _acknowledge(document: Mapping[str, Any], at: float) -> Acknowledge | Unacknowledge:
    if document.get("action") == "clear":
        return Unacknowledge(at, document.get("owner", ""), document.get("at"))
    ack = Ack(document["owner"], document.get("comment", ""), document.get("until"), document.get("sticky", False))
    if document.get("action") == "carry":
        return Acknowledge(at, evolve(ack, status=STATUS_WORDS.index(document["status"])), document["at"])
    return Acknowledge(at, ack)
