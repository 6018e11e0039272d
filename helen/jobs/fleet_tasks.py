"""Serves ZeroTask as a node: `equus.check` asks agents, now or when they come back; `equus.push` publishes checks.

    tasks = FleetTasks(reactor, sessions, library, STATE/jobs)
    node = Node(link, reactor, name, tasks.queries("helen-1"), tasks.run, tasks.cancel, SLOTS)
    tasks.on_waiting.subscribe(node.set_waiting)
    Node(link, reactor, f"{name}.push", tasks.pushes(), tasks.run, tasks.cancel, PUSH_SLOTS)

The answers to a query are kept in a file, so that the next attempt at its task, after a restart, asks only agents that
have not answered. A caller that follows a query takes `open[task_id]` and calls `news()`. docs/zerotask.rst has the
parameters and the result.
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

from equus_protocol import one_off
from groundwork.event import Event
from groundwork.globs import reader_of_all
from helen.agents.roster import Agent
from helen.keys.certificates import BadRequest, checked_name
from helen.library.library import Library
from helen.library.linter import LintFailed
from helen.library.published import PushRefused
from helen.library.push_request import BadPushRequest, read_files, read_plan
from helen.queries import answer_file
from helen.queries.job_outcomes import ANSWER_MOST, JobOutcomes, Outcome, check_targets, fit
from helen.queries.job_request import JobRequest, plain_names, read_params
from helen.queries.live_queries import Query, QueryRefused, Target
from helen.rollout import care
from helen.rollout.rollout import Plan
from helen.sessions.fair_turns import TurnsOver
from helen.sessions.session_service import SessionService
from helen.storage.database import StoreClosed, StoreFailed, StoreOverloaded
from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.node.worker_processes import Work
from zerotask.wire import actions

CHECK, PUSH = actions.CHECK_TASK, actions.PUSH_TASK
SLOTS = 200  # queries that are asked at once; of each RESULT_MOST of outcomes are in memory
PUSH_SLOTS = 4  # pushes at once: they are linted one after the other anyway, and wait for no query
WAITING_MOST = 5_000  # queries that only wait for agents, beside those with a slot; some 10 kB each
WAITING_OUTCOMES = 20_000  # outcomes of all those that are in memory: 320 MB at most, 10 MB as they are
LOOKED_AT_ONCE = 100  # agents that are held against the patterns of a query, some microseconds each
ATTEMPTS = 100  # each restart of Helen is one
LONGEST = 31 * 86_400.0  # seconds of one attempt; the question's own deadline comes before
PUSH_LIMIT = 300.0  # seconds of a push: linting a great folder takes a minute on a busy machine
RETURN_SECONDS = 1.0  # in which agents that come back are gathered, and load their checks
RESTART_GRACE = 15.0  # seconds of a further attempt in which no agent counts as offline: they are still coming back
TELL_SECONDS = 1.0  # between two partial statuses, each of which is a write of the broker's
A_TURN = 200  # targets that get their outcome in one go, some 20 us each: a fleet must not hold the reactor up
WRITE_SECONDS = 0.2  # between two writes to the file of a question

Tell = Callable[[Any, dict[str, Any]], None]


class FleetTasks:
    """Works on the tasks that this Helen has claimed; `open` are the queries among them.

    `is_job(task_id)` tells tasks that were submitted through this Helen's API: those may carry code of an order.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        sessions: SessionService,
        library: Library,
        folder: Path,
        wall: Callable[[], float] = time.time,
        is_job: Callable[[str], bool] = lambda task_id: False,
        note: Callable[[str, str, str], None] = lambda actor, action, subject: None,
    ) -> None:
        """Make them without starting. `note(actor, action, subject)` writes what a task does into the audit."""
        self._note = note
        self.open: dict[str, Asking] = {}
        self.on_waiting: Event[[str, bool]] = Event()  # a query begins to wait for agents alone, or ends that
        self._waiting: dict[str, int] = {}  # queries that wait, and how many outcomes each has
        self._is_job = is_job
        self.folder = folder
        self._reactor = reactor
        self._sessions = sessions
        self._library = library
        self._wall = wall
        self._beginning: dict[str, bool] = {}  # task -> whether it is to be done at all

    def queries(self, identity: str) -> dict[str, dict[str, Any]]:
        """Return the methods of queries with their policies.

        `equus.check.IDENTITY` is for queries that only this Helen can ask.
        """
        question = {"max_attempts": ATTEMPTS, "time_limit": LONGEST, "result_ttl": answer_file.KEEP_SECONDS}
        return {CHECK: question, f"{CHECK}.{identity}": question}

    def pushes(self) -> dict[str, dict[str, Any]]:
        """Return the method of pushes with its policy, for a node of its own: no query takes a slot from a push."""
        return {PUSH: {"time_limit": PUSH_LIMIT}}

    def start(self) -> None:
        """Ask agents that come back what waits for them."""
        self._sessions.attached.subscribe(self._attached)

    def stop(self) -> None:
        """Ask no further agent that comes back."""
        self._sessions.attached.unsubscribe(self._attached)

    def run(self, work: Work, tell: Tell) -> Deferred[Any]:
        """Work on a task, for zerotask.node: the Deferred fires with the result, or fails with TaskFailed."""
        return Deferred.fromCoroutine(self._push(work) if work.method == PUSH else self._check(work, tell))

    def cancel(self, task_id: str) -> None:
        """Give up a query that is cancelled or to be given back. A push goes on: agents may have it already."""
        if task_id in self.open:
            self.open[task_id].abandon()
        elif task_id in self._beginning:
            self._beginning[task_id] = False

    def path_of(self, task_id: str) -> Path:
        """Return the file of a task's answers."""
        return self.folder / f"{task_id}{answer_file.ENDING}"

    def _attached(self, agent: Agent) -> None:
        for asking in list(self.open.values()):
            asking.returned(agent.name)

    # ---------------------------------------------------------------------------------------------- equus.check

    async def _check(self, work: Work, tell: Tell) -> dict[str, Any]:
        try:
            asked = read_params(work.params, self._wall())
        except ValueError as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        if asked.check.startswith(one_off.RESERVED) and not self._is_job(work.id):
            said = f"{asked.check[:80]!r} is no check: such names are the protocol's own; code goes through Helen's API"
            raise TaskFailed(errors.INVALID_PARAMS, said, retry=False)
        if work.attempt == 1 and not self._is_job(work.id):  # a job was audited where it was submitted
            self._note(submitter_of(work), actions.RUN.name, f"{asked.check} on {' '.join(asked.agents)}")
        path, self._beginning[work.id] = self.path_of(work.id), True
        try:
            question = await self._known(asked, path, work.attempt)
        finally:
            is_wanted = self._beginning.pop(work.id)
        if not is_wanted:
            raise TaskFailed(errors.CANCELLED, "given up")
        grace = self._wall() + RESTART_GRACE if work.attempt > 1 else 0.0
        waits_until = grace if asked.deadline is None else asked.deadline
        asking = Asking(
            self._reactor, self._sessions, asked, question, path, waits_until, self._wall, tell,
            lambda waits: self._note_waiting(work.id, waits),
        )  # fmt: skip
        self.open[work.id] = asking
        try:
            return await asking.begin()
        finally:
            self._waiting.pop(work.id, None)
            del self.open[work.id]

    def _note_waiting(self, task_id: str, waits: bool) -> None:
        """Let a query that only waits for agents hold no slot, within bounds of memory."""
        count = len(self.open[task_id].question.outcomes)
        if not waits:
            self._waiting.pop(task_id, None)
        elif len(self._waiting) < WAITING_MOST and sum(self._waiting.values()) + count <= WAITING_OUTCOMES:
            self._waiting[task_id] = count
        else:
            return
        self.on_waiting(task_id, waits)

    async def _known(self, asked: JobRequest, path: Path, attempt: int) -> JobOutcomes:
        """Return the query as an earlier attempt left it, or a new one.

        A file that lies there at the first attempt is of an older task of the same id, and is removed.
        """
        try:
            known: JobOutcomes | None = await deferToThread(
                answer_file.load if attempt > 1 else answer_file.forget, path
            )
            if known is not None:
                return known
            targets = await self._targets(asked.agents)
            check_targets(targets)
            await deferToThread(answer_file.begin, path, targets)
        except ValueError as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        except OSError as error:
            said = f"the answers cannot be kept in {path.parent}: {error.strerror}"
            raise TaskFailed(errors.FUNCTION_RAISED, said) from error
        return JobOutcomes(targets)

    async def _targets(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        plain = dict.fromkeys(plain_names(patterns))
        wild = [pattern for pattern in patterns if pattern not in plain]
        found = await self._fitting(wild) if wild else set()
        try:
            found.update(map(checked_name, plain))
        except BadRequest as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        if not found:
            said = f"no agent fits {' or '.join(patterns)}: `helen agents` lists them"
            raise TaskFailed(errors.INVALID_PARAMS, said, retry=False)
        return tuple(sorted(found))

    async def _fitting(self, patterns: list[str]) -> set[str]:
        """Return the agents that fit one of the patterns, without hosts that can't be asked, found in short turns."""
        fits, found, agents = reader_of_all(patterns), set[str](), list(self._sessions.roster.agents.values())

        def take(some: list[Agent]) -> None:
            asked = (agent for agent in some if agent.revoked_at is None and not agent.is_host)
            found.update(agent.name for agent in asked if fits(agent.name, agent.labels))

        pieces = [agents[first : first + LOOKED_AT_ONCE] for first in range(0, len(agents), LOOKED_AT_ONCE)]
        try:
            await self._sessions.fair_turns.walk_all(pieces, take)
        except TurnsOver as over:
            raise TaskFailed(errors.CANCELLED, str(over)) from over
        return found

    # ---------------------------------------------------------------------------------------------- equus.push

    async def _push(self, work: Work) -> dict[str, Any]:
        params = work.params if isinstance(work.params, dict) else {}
        try:
            files, tests = read_files(params, "files"), read_files(params, "tests")
            plan = read_plan(params, self._library.plan)
            check_care(plan, self._library.plan)
            is_dry = params.get("dry_run") is True
            verdicts = await self._library.push(files, tests, submitter_of(work), plan, is_dry)
            if not is_dry:
                self._note(submitter_of(work), actions.PUSH.name, ", ".join(sorted(files)))
        except BadPushRequest as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        except PushRefused as refused:
            raise TaskFailed(errors.FUNCTION_RAISED, f"push refused: {refused}", retry=False) from refused
        except (LintFailed, StoreFailed, StoreOverloaded, StoreClosed) as trouble:
            raise TaskFailed(errors.FUNCTION_RAISED, str(trouble)) from trouble
        newest = self._library.releases.newest
        warnings = [problem.at(name) for name, found in verdicts.items() for problem in found.problems]
        return {"version": newest.version if newest is not None else None, "warnings": warnings}


def submitter_of(work: Work) -> str:
    """Return who submitted a task, for the audit: through which entry, under which name, with which key."""
    if not work.client:
        return "zerotask"  # by a broker of an older version, which does not say
    return f"zerotask:{work.client}" + (f" key:{work.key}" if work.key else "")


def check_care(plan: Plan, usual: Plan) -> None:
    """Raise BadPushRequest if a task would try a version less than pushes of the operator's do.

    An operator may do so by `helen push --rings` and `--gate`; a program may only be more careful.
    """
    why = care.looser(plan, usual)
    if why is not None:
        raise BadPushRequest(f"{why}; `helen push` may do so")


class Asking:
    """Asks the agents of one query, and gathers their outcomes until each has one."""

    log = Logger()

    def __init__(
        self, reactor: Any, sessions: SessionService, asked: JobRequest, question: JobOutcomes, path: Path,
        waits_until: float, wall: Callable[[], float], tell: Tell,
        on_waiting: Callable[[bool], None] = lambda waits: None,
    ) -> None:  # fmt: skip
        self.question = question
        self._reactor = reactor
        self._sessions = sessions
        self._asked = asked
        self._path = path
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
        self._unwritten: list[Outcome] = []
        self._writing: Deferred[None] | None = None
        self._news: list[Deferred[None]] = []
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
            await self._write()
            self._spread()

    def abandon(self) -> None:
        """Give the query up, and tell agents that are still at it."""
        if not self._done.called:
            for run in list(self._runs.values()):
                self._sessions.queries.abandon(run)
            self._done.errback(TaskFailed(errors.CANCELLED, "given up"))

    def news(self) -> Deferred[None]:
        """Return a Deferred that fires when there are new outcomes in the file, and at the end."""
        waiting: Deferred[None] = Deferred()
        self._news = [each for each in self._news if not each.called] + [waiting]
        return waiting

    def returned(self, name: str) -> None:
        """Note an agent that has come back.

        Those of a second are asked together: after a restart thousands come at once.
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
            self._settle(target.to_json())

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
        """Write new outcomes, one write at a time. A failing disk is told in the log, and the query goes on."""
        while self._unwritten:
            if self._writing is not None:
                waiting: Deferred[None] = Deferred()
                self._writing.chainDeferred(waiting)
                await waiting
                continue
            outcomes, self._unwritten = self._unwritten, []
            self._writing = Deferred()
            try:
                await deferToThread(answer_file.append, self._path, outcomes)
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
