"""Moves the times of a fleet when Helen's clock was set, or when Helen stood still. Pure.

Three rules. A silence counts only while Helen could hear: what was heard last moves by the step and by the time slept.
A length of time that an operator gave from now on (an acknowledgement, a downtime for two hours) lasts as long as it
was given for: its end moves by the step. A window that was planned goes by the time before the step until the new one
has stood for SETTLE_SECONDS: a clock that is wrong for minutes neither ends a maintenance nor loses one.
"""

from __future__ import annotations

from attrs import evolve

from helen.states.clock_offset import AgentClock, after_step
from helen.states.deadlines import Deadlines
from helen.states.downtimes import Window, next_edge, on_at
from helen.states.fleet_states import Events, FleetStates
from helen.states.model import PENDING, Condition, State

BACK_SECONDS = 2.0  # a record may be so much older than the newest time; one that is older comes from a clock set back
SETTLE_SECONDS = 3_600.0  # that a new time has to stand before planned windows go by it
FROM_NOW_SECONDS = 60.0  # a window that begins so soon after it was made was given as a length from now on
PAUSE_STATES = 100  # states between two pauses of a move: two milliseconds
PAUSE_AGENTS = 500  # agents: one
RIGHT = AgentClock(is_new=True)  # of an agent without a result so far
SETTLE = ""  # in place of a window's id, which is never empty: the time has stood


class ClockSteps(FleetStates):
    """Follows steps of the clock. `lag`: seconds that planned windows are ahead of `clock`.

    `settles`: when they go by it again, unix seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lag = 0.0
        self.settles: float | None = None

    # ---------------------------------------------------------------------------------------------- steps

    def jump(self, at: float, stepped: float, slept: float = 0.0) -> Events:
        """Make `at` (unix seconds) the time of now. The clock was set by `stepped` seconds, Helen slept for `slept`.

        A step back is negative. Each part of the time that Helen was awake counts as before.
        """
        self.clock = at
        silent = stepped + slept
        self.started += silent
        self.connected = {agent: None if up is None else up + silent for agent, up in self.connected.items()}
        if stepped:
            self._move_windows(stepped)
        yield from self._move_agents(silent, stepped)
        for number, key in enumerate(self.rounds):
            if number % PAUSE_STATES == 0:
                yield None
            self.rounds[key] = self.rounds[key].moved(silent, stepped)
        for number, (key, state) in enumerate(self.states.items()):
            if number % PAUSE_STATES == 0:
                yield None
            self.states[key] = _moved(state, silent, stepped, at)
            self.changed.add(key)
        self.touched.update(self._checks)
        yield from self._plan_anew()

    def _move_agents(self, silent: float, stepped: float) -> Events:
        """Move the clocks of agents, and when each was heard last, some agents between two pauses."""
        known = self._checks.keys() | self.clocks.keys() if stepped else ()
        for number, agent in enumerate(known):
            if number % PAUSE_AGENTS == 0:
                yield None
            self.clocks[agent] = after_step(self.clocks.get(agent, RIGHT), stepped)
        for number, (agent, newest) in enumerate(self.newest.items()):
            if number % PAUSE_AGENTS == 0:
                yield None
            self.newest[agent] = evolve(newest, received=newest.received + silent)

    def _step_back_to(self, at: float) -> Events:
        """Jump to the time of a record that is older than the clock by more than BACK_SECONDS."""
        yield from self.jump(at, at - self.clock)

    def _plan_anew(self) -> Events:
        self._deadlines = Deadlines()
        for number, (key, state) in enumerate(self.states.items()):
            if number % PAUSE_STATES == 0:
                yield None
            self._plan(key, state)
        for window in self.windows.values():
            self._plan_edge(window)
        self.plan_settling()

    def plan_settling(self) -> None:
        """Plan the time at which planned windows go by the clock again, if they don't."""
        if self.settles is not None:
            self._deadlines.plan_edge(SETTLE, self.settles)

    # ---------------------------------------------------------------------------------------------- windows

    def _move_windows(self, stepped: float) -> None:
        for window in list(self.windows.values()):
            if _is_from_now(window):
                self.windows[window.id] = moved = _moved_window(window, stepped)
                if window.id in self.active and moved.until is not None:
                    self.active[window.id] = moved.until
        self.lag -= stepped
        if abs(self.lag) < BACK_SECONDS:
            self.lag, self.settles = 0.0, None
        else:
            self.settles = self.clock + SETTLE_SECONDS

    def _settle(self) -> bool:
        """Let planned windows go by the clock again, if their time has come; return True if it has."""
        if self.settles is None or self.clock < self.settles:
            return False
        self.lag, self.settles = 0.0, None
        return True

    def _on(self, window: Window) -> float | None:
        """Return when a window ends, if it is on now, else None; unix seconds."""
        lag = self._lag_of(window)
        end = on_at(window, self.clock + lag)
        return None if end is None else end - lag

    def _next_edge(self, window: Window) -> float | None:
        lag = self._lag_of(window)
        edge = next_edge(window, self.clock + lag)
        return None if edge is None else edge - lag

    def _lag_of(self, window: Window) -> float:
        return 0.0 if _is_from_now(window) else self.lag


def _is_from_now(window: Window) -> bool:
    return window.recurrence is None and window.begin - window.created <= FROM_NOW_SECONDS


def _moved_window(window: Window, by: float) -> Window:
    until = None if window.until is None else window.until + by
    return evolve(window, begin=window.begin + by, until=until, created=window.created + by)


def _moved(state: State, silent: float, stepped: float, now: float) -> State:
    """Return a state whose silences have moved by `silent` seconds, and lengths that an operator gave by `stepped`."""
    seen, ack, expected, trial = state.seen, state.ack, state.expected, state.trial
    if seen is not None:
        ended = None if seen.ended is None else seen.ended + stepped
        seen = evolve(seen, at=seen.at + silent, ended=ended)
    if ack is not None and ack.until is not None:
        ack = evolve(ack, until=ack.until + stepped)
    if trial is not None:
        trial = evolve(trial, hard=_moved_condition(trial.hard, silent, stepped, now))
    return evolve(
        state, seen=seen, ack=ack, trial=trial,
        shown=_moved_condition(state.shown, silent, stepped, now),
        hard=_moved_condition(state.hard, silent, stepped, now),
        expected=None if expected is None else evolve(expected, at=expected.at + silent),
        lost=None if state.lost is None else state.lost + silent,
    )  # fmt: skip


def _moved_condition(condition: Condition, silent: float, stepped: float, now: float) -> Condition:
    """Move the begin of a wait for the first result, and one that lies ahead of `now`: the wrong clock gave it."""
    if condition.reason == PENDING:
        return evolve(condition, since=condition.since + silent)
    return evolve(condition, since=condition.since + stepped) if condition.since > now else condition
