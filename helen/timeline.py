"""All checks of a fleet in one order of time: records go in, events come out. Pure; live and in Spark it is this one.

Fed with the durable records of one Helen in the order of `at`, it comes to the same events whatever the batches were,
however often it was put away as JSON and taken up again, and whoever called `advance` in between. Ticks are no records:
each deadline is stepped at its own time, before the first record that came later.

It knows what one check can't: rules, parents and children, which windows cover what, who is connected, whose clock is
wrong. Its methods are generators: nothing happens unless they are run to their end (`run` does), and a None among what
they give is a moment in which a live Helen may do something else.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from equus_protocol.results import CRITICAL
from helen.clocks import AgentClock, measure
from helen.judged import (
    AWAY,
    DEPENDENCY,
    LINK,
    Ack,
    Acknowledge,
    AgentAway,
    AgentBack,
    Approved,
    Event,
    Expect,
    Held,
    Hold,
    Input,
    Link,
    Released,
    Result,
    Retired,
    Rule,
    State,
    TakenBack,
    Tick,
    Trial,
    Tried,
    Unacknowledge,
)
from helen.states import deadline, step
from helen.trials import BACK, OPEN, PASSED, UNDONE, TrialScope
from helen.windows import Window, next_edge, on_at, read_window

RESERVED = "equus:"  # check ids of an agent's own reports, such as gaps: they are facts about the history, not checks
PAUSE_KEYS = 50  # checks between two pauses of a walk through the fleet: half a millisecond
Key = tuple[str, str]  # agent, check_id
NEVER = float("inf")
ENDED_KEPT = 200  # windows that have ended and are still shown: what somebody may want to have back
EDGE, TICK = 0, 1  # what is due at one moment: windows first, so that a problem confirmed then is judged by them
RIGHT = AgentClock()  # until it is measured
NO_RULE = Rule()  # of what nobody assigned: passive results, and those that came before the first rule


@frozen
class Said:
    """An event, and whose."""

    agent: str
    check_id: str
    event: Event


@frozen
class AgentRules:
    """What an agent runs, how each is judged, by which labels windows find it, and the rule of its link."""

    labels: dict[str, str] = field(factory=dict)
    checks: dict[str, Rule] = field(factory=dict)
    link: Rule = NO_RULE


Spoken = Iterator[Said | None]


def run(spoken: Spoken) -> list[Said]:
    """Everything at once, without a pause."""
    return [said for said in spoken if said is not None]


class Timeline:
    """`clock` never goes back: a record with an earlier time counts as if it came at the latest one."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.started = 0.0  # when Helen began to listen, this time
        self.states: dict[Key, State] = {}
        self.rules: dict[str, AgentRules] = {}
        self.windows: dict[str, Window] = {}
        self.active: dict[str, float] = {}  # windows that are on -> until when
        self.clocks: dict[str, AgentClock] = {}
        self.ended: deque[tuple[Window, float]] = deque(maxlen=ENDED_KEPT)  # windows that are no more, and since when
        self.ignored: dict[Key, tuple[str, ...]] = {}  # parents that would make a circle
        self.trial: TrialScope | None = None  # the ring that is open
        self.tried: dict[str, set[Key]] = {}  # version -> checks that it is being tried on, or was and is not gone yet
        self.history = 0  # results that were late or older than what is known
        self._up: dict[str, float | None] = {}  # agents that ever linked -> since when they are connected
        self._rules: dict[Key, Rule] = {}  # the same as `rules`, for one look-up instead of three
        self.touched: set[str] = set()  # agents of which something may have changed, for whoever takes them out
        self._checks: dict[str, set[str]] = {}  # agent -> check ids with a state
        self._keys: dict[str, Sequence[Key]] = {}  # the same in order, as far as somebody has asked
        self._parents: dict[Key, tuple[Key, ...]] = {}
        self._children: dict[Key, set[Key]] = {}
        self._heap: list[tuple[float, int, str, str]] = []
        self._planned: dict[Key, float] = {}  # the earliest place in the heap; NEVER: no place, and none is needed

    # ---------------------------------------------------------------------------------------------- time

    def due(self) -> float | None:
        """When `advance` would have something to look at."""
        return self._heap[0][0] if self._heap else None

    def advance(self, now: float) -> Spoken:
        """Everything that comes of time alone, up to and including `now`."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            time, kind, name, check_id = heapq.heappop(heap)
            self.clock = max(self.clock, time)
            if kind == EDGE:
                yield from self._edge(name)
                continue
            key = name, check_id
            if self._planned.get(key) == time:
                del self._planned[key]
                yield from self._tick(key)
        self.clock = max(self.clock, now)

    def _tick(self, key: Key) -> Spoken:
        state = self.states[key]
        listening = self._listening(key)
        due = deadline(state, self.rule(key), listening, self.started)
        if due is not None and due <= self.clock:
            yield from self._step(key, Tick(self.clock, listening, self.started))
        else:
            self._place(key, due)

    def _listening(self, key: Key) -> float | None:
        """Since when it could have been heard of; None while its agent is cut off."""
        up = self.started if self.rule(key).passive else self._up.get(key[0], self.started)
        return None if up is None else max(up, self.started)

    def _plan(self, key: Key, state: State) -> None:
        self._place(key, deadline(state, self.rule(key), self._listening(key), self.started))

    def _place(self, key: Key, due: float | None) -> None:
        planned = self._planned.get(key, NEVER)
        if due is None or due >= planned:  # one that came later finds its place when the earlier one is looked at
            self._planned.setdefault(key, NEVER)
            return
        self._planned[key] = due
        heapq.heappush(self._heap, (due, TICK, *key))

    # ---------------------------------------------------------------------------------------------- results

    def result(self, agent: str, check_id: str, given: Result) -> Spoken:
        """One result that counts (scheduled or passive; asked ones never do). `ended` is still by the agent's clock."""
        if self._heap and self._heap[0][0] <= given.at:
            yield from self.advance(given.at)
        at = self.clock = given.at if given.at > self.clock else self.clock
        if check_id.startswith(RESERVED):
            return
        key = agent, check_id
        rule = self.rule(key)
        ended = given.ended
        if ended is not None and not rule.passive:  # who knows whose clock that is
            clock = self.clocks.get(agent, RIGHT)
            measured = measure(clock, ended, given.at)
            if measured is not clock:
                self.clocks[agent] = measured
            ended -= measured.offset
        if ended != given.ended or at != given.at:  # `evolve` takes five times as long, and this is for each result
            given = Result(
                at, given.status, ended, given.spool, given.sequence, given.reason, given.code, given.summary
            )  # fmt: skip
        state = self.states.get(key)
        if state is None:
            state = self._bear(key)
        stepped, events = step(state, given, rule)
        if stepped is state:
            self.history += 1
            return
        self.states[key] = stepped
        self.touched.add(agent)
        # What was expected later than the rule would have it has a place in the heap that is too late from now on.
        if events or stepped.shown is not state.shown or key not in self._planned or state.expected is not None:
            yield from self._after(key, state, stepped, events)

    # ---------------------------------------------------------------------------------------------- changes

    def change(
        self, kind: str, at: float, agent: str | None, check_id: str | None, document: Mapping[str, Any]
    ) -> Spoken:
        """A change of the journal. Outputs (transition, flap, decision) only say how late it is."""
        if kind == "helen_start":
            yield from self.helen_started(at)
            return
        yield from self.advance(at)
        agent = agent if agent is not None else document.get("agent")
        if kind == "link" and agent is not None:
            forgotten = document.get("event") == "forgotten"
            yield from self.forget(agent) if forgotten else self.link(agent, document.get("event") == "up")
        elif kind == "rule" and agent is not None:
            yield from self.set_rules(agent, rules_from_json(document))
        elif kind == "ack" and agent is not None and check_id is not None:
            yield from self._acknowledge((agent, check_id), document)
        elif kind == "expect" and (agent, check_id) in self.states:
            yield from self._step((agent, check_id), Expect(self.clock, document["within"], document.get("why", "")))
        elif kind in ("downtime", "silence"):
            if document.get("action") == "cancel":
                yield from self.cancel(document["id"], document.get("author", ""))
            else:
                fields = {name: value for name, value in document.items() if name not in ("action", "agent")}
                yield from self.open_window(read_window({"kind": kind, **fields}, self.clock))
        elif kind == "rollout":
            yield from self.rollout(document)

    def helen_started(self, at: float) -> Spoken:
        """She was not there to hear anybody: nobody is late, and every deadline counts from here anew."""
        self.started = max(self.clock, at)
        yield from self.advance(self.started)
        for agent in sorted(self._up):
            yield from self.link(agent, False)

    def link(self, agent: str, up: bool) -> Spoken:
        key = agent, LINK
        if not up and agent not in self._up:
            return  # the end of a connection of one that was forgotten
        if key not in self.states:
            self._bear(key)
        self._up[agent] = self.clock if up else None
        yield from self._step(key, Link(self.clock, up))
        for check_id in sorted(self._checks[agent]) if up else ():
            self._plan((agent, check_id), self.states[agent, check_id])  # it may be stale sooner than it was to be

    def forget(self, agent: str) -> Spoken:
        """An agent that was taken out of service: what is open of it is closed, its history stays."""
        self.rules.pop(agent, None)
        self._rules.pop((agent, LINK), None)
        for key in self.keys_of(agent):
            yield from self._retire(key)
        self._up.pop(agent, None)
        self.clocks.pop(agent, None)
        self._checks.pop(agent, None)
        self._keys.pop(agent, None)
        self.touched.discard(agent)

    def set_rules(self, agent: str, rules: AgentRules) -> Spoken:
        """All that an agent runs from now on. What it ran before and runs no more is retired."""
        before = self.rules.get(agent, AgentRules())
        self.rules[agent] = rules
        self._rules[agent, LINK] = rules.link
        for check_id in sorted(before.checks.keys() - rules.checks.keys()):
            yield from self._retire((agent, check_id))
        for check_id, rule in rules.checks.items():
            yield from self._set_rule((agent, check_id), rule)
        if before.labels != rules.labels:
            for window_id in list(self.active):
                yield from self._cover(self.windows[window_id], self.keys_of(agent))

    def _set_rule(self, key: Key, rule: Rule) -> Spoken:
        self._rules[key] = rule
        self._link_parents(key, rule)
        state = self.states.get(key)
        if state is None:
            self._plan(key, self._bear(key))
            return
        wanted = {_ref(parent) for parent in self._parents.get(key, ()) if self._is_broken(parent)}
        own = None if rule.passive else _ref((key[0], LINK))
        for hold in state.holds:
            if hold.kind == DEPENDENCY and hold.ref not in wanted and hold.ref != own:
                yield from self._step(key, Released(self.clock, DEPENDENCY, hold.ref))
        for parent in self._parents.get(key, ()):
            if self._is_broken(parent):
                yield from self._step(key, Held(self.clock, _hold_of(parent)))
        self._plan(key, self.states[key])

    def _acknowledge(self, key: Key, document: Mapping[str, Any]) -> Spoken:
        if key not in self.states:
            return
        if document.get("action") == "clear":
            yield from self._step(key, Unacknowledge(self.clock, document.get("owner", "")))
            return
        ack = Ack(document["owner"], document.get("comment", ""), document.get("until"), document.get("sticky", False))
        yield from self._step(key, Acknowledge(self.clock, ack))

    # ---------------------------------------------------------------------------------------------- windows

    def open_window(self, window: Window) -> Spoken:
        """A new downtime or silence, or a changed one; what it covers before and after stays held back throughout."""
        before = self.windows.get(window.id)
        if before is not None and before.kind != window.kind:
            yield from self._close(before, f"{before.kind} {window.id} has become a {window.kind}")
        self.windows[window.id] = window
        if window.id in self.active and on_at(window, self.clock) is not None:
            yield from self._cover(window, self._all_keys())
        yield from self._edge(window.id)

    def cancel(self, window_id: str, who: str) -> Spoken:
        window = self._put_away(window_id)
        if window is not None:
            by = f" by {who}" if who else ""
            yield from self._close(window, f"{window.kind} {window_id} has been cancelled{by}")

    def _put_away(self, window_id: str) -> Window | None:
        window = self.windows.pop(window_id, None)
        if window is not None:
            self.ended.append((window, self.clock))
        return window

    def _edge(self, window_id: str) -> Spoken:
        """Bring a window to what it is now, and find its next edge. An edge that was planned before may come late."""
        window = self.windows.get(window_id)
        if window is None:
            return
        end = on_at(window, self.clock)
        if end is not None and window_id not in self.active:
            self.active[window_id] = end
            yield from self._cover(window, self._all_keys())
        elif end is None and window_id in self.active:
            yield from self._close(window, f"{window.kind} {window_id} has ended")
        edge = next_edge(window, self.clock)
        if edge is None:
            self._put_away(window_id)
        elif edge < NEVER:
            heapq.heappush(self._heap, (edge, EDGE, window_id, ""))

    def _cover(self, window: Window, keys: Iterable[Key]) -> Spoken:
        """Hold back what is in its scope, and let go of what is there no more."""
        for at, key in enumerate(keys):
            if at % PAUSE_KEYS == 0:
                yield None
            state = self.states[key]
            held = any(hold.kind == window.kind and hold.ref == window.id for hold in state.holds)
            covered = self.covers(window, key)
            if covered and not held:
                yield from self._step(key, Held(self.clock, Hold(window.kind, window.id, window.sentence)))
            elif held and not covered:
                why = f"{window.kind} {window.id} covers it no more"
                yield from self._step(key, Released(self.clock, window.kind, window.id, why))

    def _close(self, window: Window, why: str) -> Spoken:
        if self.active.pop(window.id, None) is None:
            return
        for at, key in enumerate(self._all_keys()):
            if at % PAUSE_KEYS == 0:
                yield None
            if self.states[key].holds:
                yield from self._step(key, Released(self.clock, window.kind, window.id, why))

    def covers(self, window: Window, key: Key) -> bool:
        """Whether it is in the window's scope, at whatever time."""
        rules = self.rules.get(key[0])
        return window.scope.covers(*key, rules.labels if rules is not None else {})

    # ---------------------------------------------------------------------------------------------- rollouts

    def rollout(self, document: Mapping[str, Any]) -> Spoken:
        """A version is tried on a ring, has passed there, is taken back, or has gone from some agents."""
        action, ref = document["action"], str(document["version"])
        if action == OPEN:
            yield from self._try(TrialScope.from_json(document))
        elif action == PASSED:
            self.trial = None
            yield from self._end_trial(ref, None, Approved(self.clock, ref, document["why"]))
        elif action == UNDONE:
            self.trial = None
        elif action == BACK:
            yield from self._end_trial(ref, frozenset(document["agents"]), TakenBack(self.clock, ref, document["why"]))

    def _try(self, scope: TrialScope) -> Spoken:
        self.trial = scope
        agents = self._checks if scope.agents is None else scope.agents & self._checks.keys()
        for at, agent in enumerate(sorted(agents)):
            if at % PAUSE_KEYS == 0:
                yield None
            for check_id in sorted(self._checks[agent] & scope.checks) if scope.has(agent) else ():
                self._mark_trial((agent, check_id), scope.ref)
                yield from self._step((agent, check_id), Tried(self.clock, scope.ref, scope.detail))

    def _mark_trial(self, key: Key, ref: str) -> None:
        held = self.states[key].trial
        if held is not None:
            self._forget_trial(key, held.ref)
        self.tried.setdefault(ref, set()).add(key)

    def _forget_trial(self, key: Key, ref: str) -> None:
        keys = self.tried.get(ref, set())
        keys.discard(key)
        if not keys:
            self.tried.pop(ref, None)

    def _end_trial(self, ref: str, agents: frozenset[str] | None, given: Input) -> Spoken:
        """On these agents, or everywhere."""
        for at, key in enumerate(sorted(self.tried.get(ref, ()))):
            if at % PAUSE_KEYS == 0:
                yield None
            if agents is None or key[0] in agents:
                self._forget_trial(key, ref)
                yield from self._step(key, given)

    # ---------------------------------------------------------------------------------------------- one check

    def _bear(self, key: Key) -> State:
        holds = [
            Hold(window.kind, window.id, window.sentence)
            for window in map(self.windows.__getitem__, self.active) if self.covers(window, key)
        ]  # fmt: skip
        holds += [_hold_of(parent) for parent in self._parents.get(key, ()) if self._is_broken(parent)]
        link = self.states.get((key[0], LINK))
        if link is not None and link.hard.reason == AWAY and key[1] != LINK and not self.rule(key).passive:
            holds.append(Hold(DEPENDENCY, _ref((key[0], LINK)), "its agent is away"))
        state = evolve(State.born(self.clock), holds=tuple(holds))
        if self.trial is not None and self.trial.covers(*key):
            state = evolve(state, trial=Trial(self.trial.ref, self.trial.detail, state.hard))
            self.tried.setdefault(self.trial.ref, set()).add(key)
        self.states[key] = state
        self._checks.setdefault(key[0], set()).add(key[1])
        self._keys.pop(key[0], None)
        return state

    def _retire(self, key: Key) -> Spoken:
        self._link_parents(key, NO_RULE)
        self._rules.pop(key, None)
        if key not in self.states:
            return
        yield from self._step(key, Retired(self.clock))
        trial = self.states.pop(key).trial
        if trial is not None:
            self._forget_trial(key, trial.ref)
        self._planned.pop(key, None)
        self._checks[key[0]].discard(key[1])
        self._keys.pop(key[0], None)

    def _step(self, key: Key, given: Input) -> Spoken:
        state = self.states[key]
        stepped, events = step(state, given, self.rule(key))
        if stepped is not state:
            self.states[key] = stepped
            self.touched.add(key[0])
        yield from self._after(key, state, stepped, events)

    def _after(self, key: Key, before: State, state: State, events: tuple[Event, ...]) -> Spoken:
        self._plan(key, state)
        for event in events:
            yield Said(*key, event)
        if state.shown is before.shown:
            return
        if key[1] == LINK:
            yield from self._tell_checks(key, before.hard.reason == AWAY, state.hard.reason == AWAY)
        broken = _broken(state)
        if broken != _broken(before):
            for child in sorted(self._children.get(key, ())):
                if child in self.states:
                    given = Held(self.clock, _hold_of(key)) if broken else Released(self.clock, DEPENDENCY, _ref(key))
                    yield from self._step(child, given)

    def _tell_checks(self, link: Key, was_away: bool, is_away: bool) -> Spoken:
        if was_away == is_away:
            return
        agent = link[0]
        given = AgentAway(self.clock, _ref(link)) if is_away else AgentBack(self.clock, _ref(link))
        for check_id in sorted(self._checks[agent] - {LINK}):
            if not self.rule((agent, check_id)).passive:
                yield from self._step((agent, check_id), given)

    def rule(self, key: Key) -> Rule:
        """How it is judged."""
        return self._rules.get(key, NO_RULE)

    def _all_keys(self) -> Iterator[Key]:
        """In an order that doesn't depend on who came first."""
        for agent in sorted(self._checks):
            yield from self.keys_of(agent)

    def agents(self) -> list[str]:
        """Those that have a state, by name."""
        return sorted(self._checks)

    def keys_of(self, agent: str) -> Sequence[Key]:
        """Its checks that have a state, its link included. The same list until one comes or goes."""
        keys = self._keys.get(agent)
        if keys is None:
            keys = self._keys[agent] = [(agent, check_id) for check_id in sorted(self._checks.get(agent, ()))]
        return keys

    # ---------------------------------------------------------------------------------------------- parents

    def _is_broken(self, key: Key) -> bool:
        state = self.states.get(key)
        return state is not None and _broken(state)

    def _link_parents(self, key: Key, rule: Rule) -> None:
        """Parents of a check, without those that would make a circle: both ends of one would be silent for ever."""
        wanted = tuple(_parse_ref(ref, key[0]) for ref in rule.depends)
        for parent in self._parents.pop(key, ()):
            self._children[parent].discard(key)
        self.ignored.pop(key, None)
        sound = tuple(parent for parent in wanted if not self._is_above(key, parent))
        if len(sound) != len(wanted):
            self.ignored[key] = tuple(_ref(parent) for parent in wanted if parent not in sound)
        if sound:
            self._parents[key] = sound
        for parent in sound:
            self._children.setdefault(parent, set()).add(key)

    def _is_above(self, key: Key, start: Key) -> bool:
        """Whether `key` is `start` or one of those that `start` depends on."""
        waiting, seen = [start], {start}
        while waiting:
            each = waiting.pop()
            if each == key:
                return True
            fresh = [parent for parent in self._parents.get(each, ()) if parent not in seen]
            seen.update(fresh)
            waiting += fresh
        return False

    # ---------------------------------------------------------------------------------------------- put away

    def copied(self) -> Timeline:
        """As it is at this moment, to be put away by another thread: the values are frozen, so their tables do."""
        copy = Timeline()
        copy.clock, copy.started, copy.history = self.clock, self.started, self.history
        copy.windows, copy.active, copy.clocks = dict(self.windows), dict(self.active), dict(self.clocks)
        copy.ended = self.ended.copy()
        copy.states, copy.rules, copy._up = dict(self.states), dict(self.rules), dict(self._up)
        copy.trial = self.trial
        return copy

    def header(self) -> dict[str, Any]:
        """Everything but the states, for JSON."""
        return {
            "clock": self.clock,
            "started": self.started,
            "windows": [window.to_json() for window in self.windows.values()],
            "active": self.active,
            "ended": [[window.to_json(), at] for window, at in self.ended],
            "up": self._up,
            "clocks": {agent: clock.to_json() for agent, clock in self.clocks.items()},
            "rules": {agent: rules_to_json(rules) for agent, rules in self.rules.items()},
            "history": self.history,
            "trial": None if self.trial is None else self.trial.to_json(),
        }

    @classmethod
    def restore(cls, header: Mapping[str, Any], states: Iterable[tuple[str, str, State]]) -> Timeline:
        """From `header` and all states, by agent and check_id. The heap is made anew: it holds nothing of its own."""
        made = cls()
        made.clock, made.started, made.history = header["clock"], header["started"], header["history"]
        made.windows = {each["id"]: read_window(each, 0.0) for each in header["windows"]}
        made.ended.extend((read_window(each, 0.0), at) for each, at in header.get("ended", ()))
        made.active, made._up = dict(header["active"]), dict(header["up"])
        made.clocks = {agent: AgentClock(**clock) for agent, clock in header["clocks"].items()}
        for agent, document in header["rules"].items():
            rules = made.rules[agent] = rules_from_json(document)
            made._rules[agent, LINK] = rules.link
            for check_id, rule in rules.checks.items():
                made._rules[agent, check_id] = rule
                made._link_parents((agent, check_id), rule)
        for agent, check_id, state in states:
            made.states[agent, check_id] = state
            made._checks.setdefault(agent, set()).add(check_id)
            if state.trial is not None:
                made.tried.setdefault(state.trial.ref, set()).add((agent, check_id))
        if header.get("trial") is not None:
            made.trial = TrialScope.from_json(header["trial"])
        for key, state in made.states.items():
            made._plan(key, state)
        for window in made.windows.values():
            edge = next_edge(window, made.clock)
            if edge is not None and edge < NEVER:
                heapq.heappush(made._heap, (edge, EDGE, window.id, ""))
        return made


def rules_to_json(rules: AgentRules) -> dict[str, Any]:
    """The document of a `rule` change."""
    checks = {name: rule.to_json() for name, rule in rules.checks.items()}
    return {"labels": rules.labels, "checks": checks, "link": rules.link.to_json()}


def rules_from_json(document: Mapping[str, Any]) -> AgentRules:
    checks = {name: Rule.from_json(rule) for name, rule in document["checks"].items()}
    return AgentRules(dict(document["labels"]), checks, Rule.from_json(document.get("link", {})))


def _broken(state: State) -> bool:
    """Whether it holds back its children: critical, confirmed or not, until a recovery is confirmed."""
    return CRITICAL in (state.shown.status, state.hard.status)


def _ref(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def _parse_ref(ref: str, agent: str) -> Key:
    """`AGENT/CHECK`, or `CHECK` on the same agent."""
    name, slash, check_id = ref.partition("/")
    return (name, check_id) if slash else (agent, ref)


def _hold_of(parent: Key) -> Hold:
    return Hold(DEPENDENCY, _ref(parent), f"{_ref(parent)} is critical")
