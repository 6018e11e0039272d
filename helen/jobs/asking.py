"""Asks the agents of one query: at once those that are connected, the others when they come back.

Each target gets one outcome: an answer, or the reason for which there is none. helen.jobs.answer_writer keeps them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall

from helen.agents.roster import Agent
from helen.jobs.answer_writer import AnswerWriter
from helen.queries.job_outcomes import ANSWER_MOST, JobOutcomes, Outcome, fit
from helen.queries.job_request import JobRequest
from helen.queries.live_queries import Query, QueryRefused, Target
from helen.sessions.session_service import SessionService
from zerotask import errors
from zerotask.errors import TaskFailed

RETURN_SECONDS = 1.0  # in which agents that come back are gathered, and load their checks
TELL_SECONDS = 1.0  # between two partial statuses, each of which is a write of the broker's
A_TURN = 200  # targets that get their outcome in one go, some 20 us each: a fleet must not hold the reactor up

Tell = Callable[[Any, dict[str, Any]], None]


class Asking:
    """Asks the agents of one query, and gathers their outcomes until each has one.

    `waits_until`: unix seconds until which agents that are away are waited for; `tell(state, counts)` is called at most
    once in TELL_SECONDS, `on_waiting(waits)` as it begins or ends to wait for agents alone.
    """

    def __init__(
        self, reactor: Any, sessions: SessionService, asked: JobRequest, question: JobOutcomes, path: Path,
        waits_until: float, wall: Callable[[], float], tell: Tell,
        on_waiting: Callable[[bool], None] = lambda waits: None,
    ) -> None:  # fmt: skip
        self.question = question
        self._reactor = reactor
        self._sessions = sessions
        self._asked = asked
        self._waits_until = waits_until
        self._gives_up_at = max(waits_until, wall() + asked.timeout)
        self._ahead: float = wall() - reactor.seconds()
        self._tell = tell
        self._on_waiting = on_waiting
        self._is_waiting = False
        self._done: Deferred[None] = Deferred()
        self._away: set[str] = set()
        self._back: set[str] = set()
        self._runs: dict[int, Query] = {}
        self._timers: dict[str, Any] = {}
        self._missing: deque[Outcome] = deque()  # known, and not settled yet
        self._answers = AnswerWriter(reactor, path)
        self._told = -1
        self._telling = LoopingCall(self._tell_counts)
        self._telling.clock = reactor

    def _wall(self) -> float:
        """Return the unix seconds that it is by the clock of this question's begin: a step moves none of its limits."""
        return self._ahead + float(self._reactor.seconds())

    async def begin(self) -> dict[str, Any]:
        """Ask, and return the result once every target has an outcome. Raises TaskFailed if it is abandoned."""
        self._telling.start(TELL_SECONDS, now=False)
        self._later("end", max(0.0, self._waits_until - self._wall()), self._stop_waiting)
        try:
            self._ask(self.question.open)
            self._end_if_over()
            self._note_waiting()
            await self._done
            return self.question.result()
        finally:
            self._clean_up()
            await self._answers.close()

    def abandon(self) -> None:
        """Give the query up, and tell agents that are still at it."""
        if not self._done.called:
            for run in list(self._runs.values()):
                self._sessions.queries.abandon(run)
            self._done.errback(TaskFailed(errors.CANCELLED, "given up"))

    def news(self) -> Deferred[None]:
        """Return a Deferred that fires when there are new outcomes in the file, and at the end."""
        return self._answers.news()

    def returned(self, name: str) -> None:
        """Note an agent that has come back.

        Agents that come back within one second are asked together: after a restart thousands come at once.
        """
        if name in self._away:
            self._back.add(name)
            self._later("back", RETURN_SECONDS, self._ask_back)
            self._note_waiting()

    def away(self) -> list[str]:
        """Return the agents that are waited for, sorted."""
        return sorted(self._away)

    def _note_waiting(self) -> None:
        """Tell when nothing is left to do but to wait for agents, and when there is something again."""
        waits = bool(self._away) and not (self._back or self._runs or self._missing)
        if self._done.called or waits is self._is_waiting:
            return
        self._is_waiting = waits
        if waits:
            self._tell_counts()
            self._telling.stop()
        else:
            self._telling.start(TELL_SECONDS, now=False)
        self._on_waiting(waits)

    # ---------------------------------------------------------------------------------------------- asking

    def _ask_back(self) -> None:
        back, self._back = self._back, set()
        self._ask(sorted(back & self._away))
        self._note_waiting()

    def _ask(self, names: list[str]) -> None:
        """Ask agents that are connected; the others are waited for, as long as there is time."""
        here: list[Agent] = []
        for name in names:
            agent = self._sessions.roster.agents.get(name)
            if agent is None or agent.link is None or agent.link.closing:
                self._is_away(name, "not connected" if agent is not None else "no agent of this name is known")
            else:
                here.append(agent)
        self._miss()
        if here:
            self._ask_them(here)

    def _ask_them(self, agents: list[Agent]) -> None:
        self._away.difference_update(agent.name for agent in agents)
        try:
            run = self._sessions.ask(
                self._asked.check, agents, self._asked.args, self._timeout(), self._target, lambda: self._forget_runs()
            )
        except QueryRefused as refused:
            self._again([agent.name for agent in agents], str(refused))
        else:
            self._runs[run.number] = run
            self._forget_runs()

    def _again(self, names: list[str], why: str) -> None:
        """Try again in a moment, when fewer queries may be open, if there is time left for that."""
        if self._wall() >= self._gives_up_at:
            self._missing.extend({"agent": name, "outcome": "expired", "result": None, "why": why} for name in names)
            self._miss()
            return
        self._away.update(names)
        self._back.update(names)
        self._later("back", RETURN_SECONDS, self._ask_back)

    def _timeout(self) -> float:
        """Return the seconds that agents have: not beyond the deadline, but one at least."""
        if self._asked.deadline is None:
            return self._asked.timeout
        return max(1.0, min(self._asked.timeout, self._asked.deadline - self._wall()))

    def _target(self, target: Target) -> None:
        if target.outcome == "offline":
            self._is_away(target.agent, target.why or "not connected")
            self._miss_on()
        else:
            self._settle(target.short or target.to_json())

    def _forget_runs(self) -> None:
        self._runs = {number: run for number, run in self._runs.items() if not run.ended}
        self._note_waiting()

    def _is_away(self, name: str, why: str) -> None:
        if self._wall() < self._waits_until:
            self._away.add(name)
        else:
            self._missing.append({"agent": name, "outcome": "offline", "result": None, "why": why})

    def _miss(self) -> None:
        """Settle some of the targets that can't be asked; the others in the next turns."""
        for _ in range(min(A_TURN, len(self._missing))):
            self._settle(self._missing.popleft())
        if self._missing and not self._done.called:
            self._later("miss", 0.0, self._miss_on)

    def _miss_on(self) -> None:
        self._miss()
        self._note_waiting()

    def _stop_waiting(self) -> None:
        """Count agents that have not come back as offline; one that was asked just now still has its time."""
        away, self._away = sorted(self._away - self._back), set(self._back)
        self._waits_until = 0.0
        for name in away:
            self._is_away(name, "it did not come back in time")
        self._miss_on()

    # ---------------------------------------------------------------------------------------------- outcomes

    def _settle(self, outcome: Outcome) -> None:
        outcome = fit(outcome, ANSWER_MOST)
        if self._done.called or not self.question.settle(outcome):
            return
        self._answers.add(outcome)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self.question.is_over and not self._done.called:
            self._done.callback(None)

    def _tell_counts(self) -> None:
        if len(self.question.outcomes) != self._told:
            self._told = len(self.question.outcomes)
            self._tell("asking", self.question.status())

    # ---------------------------------------------------------------------------------------------- time

    def _later(self, what: str, seconds: float, call: Callable[[], None]) -> None:
        timer = self._timers.get(what)
        if timer is None or not timer.active():
            self._timers[what] = self._reactor.callLater(seconds, call)

    def _clean_up(self) -> None:
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        if self._telling.running:
            self._telling.stop()
