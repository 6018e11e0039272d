"""Serves ZeroTask as a node: `equus.check` asks agents, now or when they come back; `equus.push` publishes checks.

    tasks = FleetTasks(reactor, sessions, library, STATE/jobs)
    node = Node(link, reactor, name, tasks.queries("helen-1"), tasks.run, tasks.cancel, SLOTS)
    tasks.on_waiting.subscribe(node.set_waiting)
    Node(link, reactor, f"{name}.push", tasks.pushes(), tasks.run, tasks.cancel, PUSH_SLOTS)

helen.jobs.asking asks the agents of one query, helen.jobs.push_task publishes. The answers to a query are kept in a
file, so that the next attempt at its task, after a restart, asks only agents that have not answered. A caller that
follows a query takes `open[task_id]` and calls `news()`. docs/zerotask.rst has the parameters and the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from equus_protocol import one_off
from groundwork.event import Event
from helen.agents.roster import Agent
from helen.jobs.asking import Asking, Tell
from helen.jobs.push_task import Note, push, submitter_of
from helen.jobs.task_targets import find_targets
from helen.library.library import Library
from helen.queries import answer_file
from helen.queries.job_outcomes import JobOutcomes, check_targets
from helen.queries.job_request import JobRequest, read_params
from helen.sessions.session_service import SessionService
from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.node.worker_processes import Work
from zerotask.wire import actions

CHECK, PUSH = actions.CHECK_TASK, actions.PUSH_TASK
SLOTS = 200  # queries that are asked at once; of each RESULT_MOST of outcomes are in memory
PUSH_SLOTS = 4  # pushes at once: they are linted one after the other anyway, and wait for no query
WAITING_MOST = 5_000  # queries that only wait for agents, beside those with a slot; some 10 kB each
WAITING_OUTCOMES = 20_000  # outcomes of all those that are in memory: 320 MB at most, 10 MB as they are
ATTEMPTS = 100  # each restart of Helen is one
LONGEST = 31 * 86_400.0  # seconds of one attempt; the question's own deadline comes before
PUSH_LIMIT = 300.0  # seconds of a push: linting a great folder takes a minute on a busy machine
RESTART_GRACE = 15.0  # seconds of a further attempt in which no agent counts as offline: they are still coming back


class FleetTasks:
    """Works on the tasks that this Helen has claimed; `open` are the queries among them.

    `is_job(task_id)` tells tasks that were submitted through this Helen's API: those may carry code of an order.
    """

    def __init__(
        self,
        reactor: Any,
        sessions: SessionService,
        library: Library,
        folder: Path,
        wall: Callable[[], float] = time.time,
        is_job: Callable[[str], bool] = lambda task_id: False,
        note: Note = lambda actor, action, subject: None,
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
        is_push = work.method == PUSH
        return Deferred.fromCoroutine(push(self._library, work, self._note) if is_push else self._check(work, tell))

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

    async def _check(self, work: Work, tell: Tell) -> dict[str, Any]:
        asked = self._read(work)
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
        self.open[work.id] = asking = Asking(
            self._reactor, self._sessions, asked, question, path, waits_until, self._wall, tell,
            lambda waits: self._note_waiting(work.id, waits),
        )  # fmt: skip
        try:
            return await asking.begin()
        finally:
            self._waiting.pop(work.id, None)
            del self.open[work.id]

    def _read(self, work: Work) -> JobRequest:
        """Return what a task asks. Raises TaskFailed for one that may not ask it."""
        try:
            asked = read_params(work.params, self._wall())
        except ValueError as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        if asked.check.startswith(one_off.RESERVED) and not self._is_job(work.id):
            said = f"{asked.check[:80]!r} is no check: such names are the protocol's own; code goes through Helen's API"
            raise TaskFailed(errors.INVALID_PARAMS, said, retry=False)
        return asked

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
            targets = await find_targets(self._sessions, asked.agents)
            check_targets(targets)
            await deferToThread(answer_file.begin, path, targets)
        except ValueError as error:
            raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
        except OSError as error:
            said = f"the answers cannot be kept in {path.parent}: {error.strerror}"
            raise TaskFailed(errors.FUNCTION_RAISED, said) from error
        return JobOutcomes(targets)
