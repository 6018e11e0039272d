"""Questions asked now: one check on many agents, and what became of each. Every target is accounted for.

Pure: links are told through `ask` and `cancel`; `now` is steady time. The answers are read and journalled elsewhere.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field, frozen

from equus_protocol.results import ResultDocument, to_json

MAX_RUNS = 1_000  # questions open at once
MAX_ASKED_SECONDS = 3_600.0
ASKED_AT_ONCE = 200  # links that one call asks, some milliseconds; `advance` goes on with the others
OUTCOMES = ("answered", "failed", "refused", "offline", "expired")


class RunRefused(Exception):
    """The question cannot be asked; the text says why."""


@frozen
class Target:
    """What became of one agent: `outcome` is one of OUTCOMES, `result` the document of an answer, `why` a sentence.

    `blob` is the answer as the agent sent it, for those who pass it on.
    """

    agent: str
    outcome: str
    result: dict[str, Any] | None = None
    why: str | None = None
    blob: bytes = b""

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"agent": self.agent, "outcome": self.outcome, "result": self.result}
        return shown if self.why is None else shown | {"why": self.why}


@define(eq=False)
class Run:
    """One question. `on_target` is called once for each target, `on_end` after the last."""

    number: int
    check: str
    args: bytes
    deadline: float
    on_target: Callable[[Target], None]
    on_end: Callable[[], None]
    open: dict[str, tuple[Any, int]] = field(factory=dict)  # agent -> the link it was asked on, the message id
    unasked: deque[tuple[str, Any]] = field(factory=deque)
    ended: bool = False

    def forget(self) -> None:
        """Let go of whoever asked, who holds this run: neither would be freed else, nor a mebibyte of arguments."""
        self.on_target = lambda target: None
        self.on_end = lambda: None


@frozen
class Claim:
    """An answer that has come and is on its way through the journal."""

    run: Run
    agent: str


class Runs:
    """All questions that are open. `ask(link, check, args) -> message id` raises RunRefused if it can't."""

    def __init__(self, ask: Callable[[Any, str, bytes], int], cancel: Callable[[Any, int], None]) -> None:
        self._ask = ask
        self._cancel = cancel
        self._numbers = itertools.count(1)
        self._runs: dict[int, Run] = {}
        self._by_link: dict[Any, dict[int, tuple[Run, str]]] = {}  # link -> message id -> whose answer it is

    def __len__(self) -> int:
        return len(self._runs)

    def start(
        self,
        check: str,
        targets: Iterable[tuple[str, Any]],
        args: bytes,
        deadline: float,
        on_target: Callable[[Target], None],
        on_end: Callable[[], None],
    ) -> Run:
        """Ask each (agent, link); a link of None is offline. Outcomes may be told before this returns.

        Call `advance` again and again until it is True: a great fleet is not asked in one go.
        """
        if len(self._runs) >= MAX_RUNS:
            raise RunRefused(f"{MAX_RUNS} questions are open already; wait for some to end")
        run = Run(next(self._numbers), check, args, deadline, on_target, on_end, unasked=deque(targets))
        self._runs[run.number] = run
        self.advance(run)
        return run

    def advance(self, run: Run) -> bool:
        """Ask the next few targets. True once all have been asked, or nobody wants to know any more."""
        told = []
        for _ in range(min(ASKED_AT_ONCE, len(run.unasked))):
            agent, link = run.unasked.popleft()
            target = self._ask_one(run, agent, link)
            if target is not None:
                told.append(target)
        for target in told:
            run.on_target(target)
        self._end_if_done(run)
        return not run.unasked

    def _ask_one(self, run: Run, agent: str, link: Any) -> Target | None:
        if link is None or link.closing:
            return Target(agent, "offline", why="not connected")
        try:
            message_id = self._ask(link, run.check, run.args)
        except RunRefused as refused:
            return Target(agent, "refused", why=str(refused))
        run.open[agent] = (link, message_id)
        self._by_link.setdefault(link, {})[message_id] = (run, agent)
        return None

    def claim(self, link: Any, message_id: int) -> Claim | None:
        """An answer has come, to be read soon: from here on its link may go. None if nobody waits for it any more."""
        asked = self._forget(link, message_id)
        return Claim(*asked) if asked is not None else None

    def settle(self, claim: Claim, document: ResultDocument, blob: bytes = b"") -> None:
        """What an answer says, and the bytes that say it. Nothing, if its time ran out meanwhile."""
        run, agent = claim.run, claim.agent
        if agent not in run.open:
            return
        refused = document.reason == "denied"
        why = document.summary or document.output if refused else None
        self._close(run, Target(agent, "refused" if refused else "answered", to_json(document), why, blob))

    def gone(self, link: Any, why: str) -> None:
        """A link has ended: all that was asked on it, and not answered, has failed."""
        for run, agent in self._by_link.pop(link, {}).values():
            self._close(run, Target(agent, "failed", why=why))

    def sweep(self, now: float) -> None:
        """What is over its deadline has expired; agents of version 2 are told to give up."""
        for run in [run for run in self._runs.values() if run.deadline <= now]:
            self._give_up(run, "no answer in time")

    def abandon(self, run: Run) -> None:
        """Whoever asked has gone: nobody is told anything any more."""
        run.forget()
        self._give_up(run, "whoever asked has gone")

    def _give_up(self, run: Run, why: str) -> None:
        left = [*run.open, *(agent for agent, _ in run.unasked)]
        for link, message_id in run.open.values():
            if self._forget(link, message_id) is not None:  # else its answer is here already, if not yet on disk
                self._cancel(link, message_id)
        run.open.clear()
        run.unasked.clear()
        for agent in left:  # all of them before the end is told
            run.on_target(Target(agent, "expired", why=why))
        self._end_if_done(run)

    def _forget(self, link: Any, message_id: int) -> tuple[Run, str] | None:
        asked = self._by_link.get(link)
        found = asked.pop(message_id, None) if asked is not None else None
        if asked is not None and not asked:
            del self._by_link[link]
        return found

    def _close(self, run: Run, target: Target) -> None:
        if run.open.pop(target.agent, None) is not None:
            run.on_target(target)
            self._end_if_done(run)

    def _end_if_done(self, run: Run) -> None:
        if not run.open and not run.unasked and not run.ended:
            run.ended = True
            self._runs.pop(run.number, None)
            on_end = run.on_end
            run.forget()
            on_end()
