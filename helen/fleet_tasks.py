"""Helen as a node of ZeroTask: `equus.check` asks agents, now or when they come back; `equus.push` publishes checks.

    tasks = FleetTasks(reactor, house, library, STATE/jobs)
    Node(link, reactor, name, tasks.served("helen-1"), tasks.run, tasks.cancel, SLOTS)

What is known of a question is kept in a file, so that the next attempt at its task, after a restart, asks only those
who have not answered. Whoever follows a question looks at `open[task_id]` and calls `news()`. docs/zerotask.rst has
the parameters and what comes back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import once
from helen import answers
from helen.certificates import BadRequest, checked_name
from helen.house import House
from helen.library import Library
from helen.lint import LintFailed
from helen.question import ANSWER_MOST, Asked, Outcome, Question, fit, judge_targets, plain_names, read_params
from helen.releases import PushRefused
from helen.roster import Agent
from helen.runs import Run, RunRefused, Target
from helen.store import StoreClosed, StoreFailed, StoreOverloaded
from helen.web.bodies import read_files, read_plan
from helen.web.problems import Problem
from zerotask import errors
from zerotask.children import Work
from zerotask.errors import TaskFailed

CHECK, PUSH = "equus.check", "equus.push"
SLOTS = 200  # questions that are open at once; of each RESULT_MOST of outcomes are in memory
ATTEMPTS = 100  # each restart of Helen is one
LONGEST = 31 * 86_400.0  # seconds of one attempt; the question's own deadline comes before
PUSH_LIMIT = 300.0  # seconds of a push: linting a great folder takes a minute on a busy machine
RETURN_SECONDS = 1.0  # in which those who come back are gathered, and find their checks
RESTART_GRACE = 15.0  # seconds of a further attempt in which nobody counts as offline: agents are still coming back
TELL_SECONDS = 1.0  # between two partial statuses, each of which is a write of the broker's
A_TURN = 200  # targets that get their outcome in one go, some 20 us each: a fleet must not hold the reactor up
WRITE_SECONDS = 0.2  # between two writes to the file of a question

Tell = Callable[[Any, dict[str, Any]], None]


class FleetTasks:
    """All tasks that this Helen works on."""

    log = Logger()

    def __init__(
        self, reactor: Any, house: House, library: Library, folder: Path, wall: Callable[[], float] = time.time
    ) -> None:
        self.open: dict[str, Asking] = {}
        self.is_job: Callable[[str], bool] = lambda task_id: False  # whether people have asked this through Helen
        self.folder = folder
        self._reactor = reactor
        self._house = house
        self._library = library
        self._wall = wall
        self._beginning: dict[str, bool] = {}  # task -> whether it is to be done at all

    def served(self, identity: str) -> dict[str, dict[str, Any]]:
        """Methods with their policies. Under a name of her own as well: a question to her agents is hers to ask."""
        question = {"max_attempts": ATTEMPTS, "time_limit": LONGEST, "result_ttl": answers.KEEP_SECONDS}
        return {CHECK: question, f"{CHECK}.{identity}": question, PUSH: {"time_limit": PUSH_LIMIT}}

    def start(self) -> None:
        self._house.on_attached.append(self._attached)

    def stop(self) -> None:
        self._house.on_attached.remove(self._attached)

    def run(self, work: Work, tell: Tell) -> Deferred[Any]:
        """For zerotask.node: fires with the result, fails with TaskFailed."""
        return Deferred.fromCoroutine(self._push(work) if work.method == PUSH else self._check(work, tell))

    def cancel(self, task_id: str) -> None:
        """The work is in vain, or to be given back. A push is not: agents may have it already."""
        if task_id in self.open:
            self.open[task_id].abandon()
        elif task_id in self._beginning:
            self._beginning[task_id] = False

    def path_of(self, task_id: str) -> Path:
        return self.folder / f"{task_id}{answers.ENDING}"

    def _attached(self, agent: Agent) -> None:
        for asking in list(self.open.values()):
            asking.returned(agent.name)

    # ---------------------------------------------------------------------------------------------- equus.check

    async def _check(self, work: Work, tell: Tell) -> dict[str, Any]:
        try:
            asked = read_params(work.params, self._wall())
        except ValueError as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        if asked.check.startswith(once.RESERVED) and not self.is_job(work.id):
            said = f"{asked.check[:80]!r} is no check: such names are the protocol's own; code goes through Helen's API"
            raise TaskFailed(errors.INVALID_PARAMS, said, retry=False)
        path, self._beginning[work.id] = self.path_of(work.id), True
        try:
            question = await self._known(asked, path, work.attempt)
        finally:
            is_wanted = self._beginning.pop(work.id)
        if not is_wanted:
            raise TaskFailed(errors.CANCELLED, "given up")
        grace = self._wall() + RESTART_GRACE if work.attempt > 1 else 0.0
        waits_until = grace if asked.deadline is None else asked.deadline
        asking = Asking(self._reactor, self._house, asked, question, path, waits_until, self._wall, tell)
        self.open[work.id] = asking
        try:
            return await asking.begin()
        finally:
            del self.open[work.id]

    async def _known(self, asked: Asked, path: Path, attempt: int) -> Question:
        """As an earlier attempt left it, or new. What lies there at the first is of a task that had this id once."""
        try:
            known: Question | None = await deferToThread(answers.load if attempt > 1 else answers.forget, path)
            if known is not None:
                return known
            targets = self._targets(asked.agents)
            judge_targets(targets)
            await deferToThread(answers.begin, path, targets)
        except ValueError as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        except OSError as error:
            said = f"the answers cannot be kept in {path.parent}: {error.strerror}"
            raise TaskFailed(errors.FUNCTION_RAISED, said) from error
        return Question(targets)

    def _targets(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        plain = dict.fromkeys(plain_names(patterns))
        wild = [pattern for pattern in patterns if pattern not in plain]
        found = {agent.name for agent in self._house.roster.askable(wild)} if wild else set()
        try:
            found.update(map(checked_name, plain))
        except BadRequest as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        if not found:
            said = f"no agent fits {' or '.join(patterns)}: `helen agents` lists them"
            raise TaskFailed(errors.INVALID_PARAMS, said, retry=False)
        return tuple(sorted(found))

    # ---------------------------------------------------------------------------------------------- equus.push

    async def _push(self, work: Work) -> dict[str, Any]:
        params = work.params if isinstance(work.params, dict) else {}
        try:
            files, tests = read_files(params, "files"), read_files(params, "tests")
            plan = read_plan(params, self._library.plan)
            verdicts = await self._library.push(files, tests, "zerotask", plan, params.get("dry_run") is True)
        except Problem as problem:
            raise TaskFailed(errors.INVALID_PARAMS, str(problem), retry=False) from problem
        except PushRefused as refused:
            raise TaskFailed(errors.FUNCTION_RAISED, f"push refused: {refused}", retry=False) from refused
        except (LintFailed, StoreFailed, StoreOverloaded, StoreClosed) as trouble:
            raise TaskFailed(errors.FUNCTION_RAISED, str(trouble)) from trouble
        newest = self._library.releases.newest
        warnings = [problem.at(name) for name, found in verdicts.items() for problem in found.problems]
        return {"version": newest.version if newest is not None else None, "warnings": warnings}


class Asking:
    """One question, while it is open here."""

    log = Logger()

    def __init__(
        self, reactor: Any, house: House, asked: Asked, question: Question, path: Path, waits_until: float,
        wall: Callable[[], float], tell: Tell,
    ) -> None:  # fmt: skip
        self.question = question
        self._reactor = reactor
        self._house = house
        self._asked = asked
        self._path = path
        self._waits_until = waits_until
        self._gives_up_at = max(waits_until, wall() + asked.timeout)
        self._wall = wall
        self._tell = tell
        self._done: Deferred[None] = Deferred()
        self._away: set[str] = set()
        self._back: set[str] = set()
        self._runs: dict[int, Run] = {}
        self._timers: dict[str, Any] = {}
        self._missing: deque[Outcome] = deque()  # known, and not settled yet
        self._unwritten: list[Outcome] = []
        self._writing: Deferred[None] | None = None
        self._news: list[Deferred[None]] = []
        self._told = -1
        self._telling = LoopingCall(self._tell_counts)
        self._telling.clock = reactor

    async def begin(self) -> dict[str, Any]:
        """Ask; returns the result once every target has an outcome."""
        self._telling.start(TELL_SECONDS, now=False)
        self._later("end", max(0.0, self._waits_until - self._wall()), self._stop_waiting)
        try:
            self._ask(self.question.open)
            self._end_if_over()
            await self._done
            return self.question.result()
        finally:
            self._clean_up()
            await self._write()
            self._spread()

    def abandon(self) -> None:
        """Nobody wants to know any more, or not from us: agents are told to give up."""
        if not self._done.called:
            for run in list(self._runs.values()):
                self._house.runs.abandon(run)
            self._done.errback(TaskFailed(errors.CANCELLED, "given up"))

    def news(self) -> Deferred[None]:
        """Fires when there are new outcomes in the file, and at the end."""
        waiting: Deferred[None] = Deferred()
        self._news = [each for each in self._news if not each.called] + [waiting]
        return waiting

    def returned(self, name: str) -> None:
        """An agent has come. Those of a second are asked together: after a restart thousands come at once."""
        if name in self._away:
            self._back.add(name)
            self._later("back", RETURN_SECONDS, self._ask_back)

    # ---------------------------------------------------------------------------------------------- asking

    def _ask_back(self) -> None:
        back, self._back = self._back, set()
        self._ask(sorted(back & self._away))

    def _ask(self, names: list[str]) -> None:
        """Those who are here now; the others are waited for, as long as there is time."""
        here: list[Agent] = []
        for name in names:
            agent = self._house.roster.agents.get(name)
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
            run = self._house.ask(
                self._asked.check, agents, self._asked.args, self._timeout(), self._target, lambda: self._forget_runs()
            )
        except RunRefused as refused:
            self._again([agent.name for agent in agents], str(refused))
        else:
            self._runs[run.number] = run
            self._forget_runs()

    def _again(self, names: list[str], why: str) -> None:
        """Too many questions are open: in a moment there may be fewer, if the time for that is not over."""
        if self._wall() >= self._gives_up_at:
            self._missing.extend({"agent": name, "outcome": "expired", "result": None, "why": why} for name in names)
            self._miss()
            return
        self._away.update(names)
        self._back.update(names)
        self._later("back", RETURN_SECONDS, self._ask_back)

    def _timeout(self) -> float:
        """Not beyond the deadline; who is asked at the very last has a second."""
        if self._asked.deadline is None:
            return self._asked.timeout
        return max(1.0, min(self._asked.timeout, self._asked.deadline - self._wall()))

    def _target(self, target: Target) -> None:
        if target.outcome == "offline":
            self._is_away(target.agent, target.why or "not connected")
            self._miss()
        else:
            self._settle(target.to_json())

    def _forget_runs(self) -> None:
        self._runs = {number: run for number, run in self._runs.items() if not run.ended}

    def _is_away(self, name: str, why: str) -> None:
        if self._wall() < self._waits_until:
            self._away.add(name)
        else:
            self._missing.append({"agent": name, "outcome": "offline", "result": None, "why": why})

    def _miss(self) -> None:
        """Settle some of those that nobody can ask; the others in the next turns."""
        for _ in range(min(A_TURN, len(self._missing))):
            self._settle(self._missing.popleft())
        if self._missing and not self._done.called:
            self._later("miss", 0.0, self._miss)

    def _stop_waiting(self) -> None:
        """Who has not come by now is offline; who was asked just now still has its time."""
        away, self._away = sorted(self._away - self._back), set(self._back)
        self._waits_until = 0.0
        for name in away:
            self._is_away(name, "it did not come back in time")
        self._miss()

    # ---------------------------------------------------------------------------------------------- outcomes

    def _settle(self, outcome: Outcome) -> None:
        outcome = fit(outcome, ANSWER_MOST)
        if self._done.called or not self.question.settle(outcome):
            return
        self._unwritten.append(outcome)
        self._later("write", WRITE_SECONDS, self._begin_to_write)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self.question.is_over and not self._done.called:
            self._done.callback(None)

    def _spread(self) -> None:
        news, self._news = self._news, []
        for waiting in news:
            waiting.callback(None)

    def _tell_counts(self) -> None:
        if len(self.question.outcomes) != self._told:
            self._told = len(self.question.outcomes)
            self._tell("asking", self.question.status())

    # ---------------------------------------------------------------------------------------------- the file

    def _begin_to_write(self) -> None:
        Deferred.fromCoroutine(self._write())

    async def _write(self) -> None:
        """One write at a time; whatever the disk says, the question goes on."""
        while self._unwritten:
            if self._writing is not None:
                waiting: Deferred[None] = Deferred()
                self._writing.chainDeferred(waiting)
                await waiting
                continue
            outcomes, self._unwritten = self._unwritten, []
            self._writing = Deferred()
            try:
                await deferToThread(answers.append, self._path, outcomes)
            except OSError as error:
                self.log.error("answers are not kept in {path}: {error}", path=self._path, error=error.strerror)
            finally:
                written, self._writing = self._writing, None
                written.callback(None)
                self._spread()

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
