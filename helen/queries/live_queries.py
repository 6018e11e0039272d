"""Keeps the queries that are open: one check on many agents, and the outcome of each. Every target is accounted for.

Pure: links are told through `ask` and `cancel`; `now` is monotonic seconds. Answers are read and journalled elsewhere.
Agents are asked, and given up, AT_ONCE in one step: 10,000 of them in one go would hold the reactor for long.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from attrs import define, field, frozen

from equus_protocol.results import ResultDocument, to_json

MAX_QUERIES = 1_000  # open at once
MAX_ASKED_SECONDS = 3_600.0
AT_ONCE = 50  # links that one step asks or gives up: some 20 us each
NOT_ASKED = "not asked before the time was over: Helen was asking others still"
SPOILT = "a fault of Helen's own kept it from reading the answer; its log says which"
OUTCOMES = ("answered", "failed", "refused", "offline", "expired")


Walk = Callable[[Iterable[Any], Callable[[Any], object]], None]


def at_once(things: Iterable[Any], each: Callable[[Any], object]) -> None:
    """Call `each` with every thing now: for a fleet of a few agents."""
    for thing in things:
        each(thing)


def _steps(targets: int) -> range:
    return range(-(-targets // AT_ONCE))


class QueryRefused(Exception):
    """Says that a query can't be asked; the text says why."""


@frozen
class Target:
    """Holds the outcome of a query at one agent. `outcome`: one of OUTCOMES, `result`: the document of an answer,
    `why`: a sentence.

    `blob` is the answer as the agent sent it, for callers that pass it on. A thread has made more of a great answer, so
    that the reactor need not: `line`, which is `to_line()`, and `short`, which is `to_json()` in a few KiB.
    """

    agent: str
    outcome: str
    result: dict[str, Any] | None = None
    why: str | None = None
    blob: bytes = b""
    line: bytes = b""
    short: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return `agent`, `outcome`, `result`, and `why` if there is a reason."""
        shown: dict[str, Any] = {"agent": self.agent, "outcome": self.outcome, "result": self.result}
        return shown if self.why is None else shown | {"why": self.why}

    def to_line(self) -> bytes:
        """Return the same as a line of JSON."""
        return self.line or json.dumps(self.to_json(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def answered(agent: str, document: ResultDocument, blob: bytes) -> Target:
    """Return the outcome of an agent that has answered: its answer, or that its policy refuses."""
    refused = document.reason == "denied"
    why = document.summary or document.output if refused else None
    return Target(agent, "refused" if refused else "answered", to_json(document), why, blob)


@define(eq=False)
class Query:
    """Holds one query of an operator to agents. `on_target` is called once for each target, `on_end` after the last.
    `deadline`: monotonic seconds.
    """

    number: int
    check: str
    args: bytes
    deadline: float
    on_target: Callable[[Target], None]
    on_end: Callable[[], None]
    open: dict[str, tuple[Any, int]] = field(factory=dict)  # agent -> the link it was asked on, the message id
    unasked: deque[tuple[str, Callable[[], Any]]] = field(factory=deque)  # the agent, and its link once it is asked
    ended: bool = False
    given_up: str | None = None  # why those that are left expire, some at a time; None: they may still answer

    def forget_caller(self) -> None:
        """Release the caller, which holds this query: neither would be freed else, nor a mebibyte of arguments."""
        self.on_target = lambda target: None
        self.on_end = lambda: None


@frozen
class PendingAnswer:
    """Holds an answer that has come, and is on its way through the journal."""

    query: Query
    agent: str


class LiveQueries:
    """Holds all open queries. `ask(link, check, args)` returns a message id, or raises QueryRefused.

    `walk(things, each)` calls `each` with every thing, now or in the turns to come: a step of a query each.
    A fault with one agent takes no other agent's outcome: `on_fault(sentence)` is called while it is handled.
    """

    def __init__(
        self, ask: Callable[[Any, str, bytes], int], cancel: Callable[[Any, int], None],
        on_fault: Callable[[str], object], walk: Walk = at_once,
    ) -> None:  # fmt: skip
        self._walk = walk
        self._on_fault = on_fault
        self._ask = ask
        self._cancel = cancel
        self._numbers = itertools.count(1)
        self._queries: dict[int, Query] = {}
        self._by_link: dict[Any, dict[int, tuple[Query, str]]] = {}  # link -> message id -> the query, and the agent

    def __len__(self) -> int:
        return len(self._queries)

    def start(
        self,
        check: str,
        targets: Iterable[tuple[str, Callable[[], Any]]],
        args: bytes,
        deadline: float,
        on_target: Callable[[Target], None],
        on_end: Callable[[], None],
    ) -> Query:
        """Ask each (agent, link), some at a time. Outcomes may be told before this returns.

        `link()` returns the link of an agent at the moment when it is asked; None: it is offline. `deadline`: monotonic
        seconds. Raises QueryRefused if too many queries are open.
        """
        if len(self._queries) >= MAX_QUERIES:
            raise QueryRefused(f"{MAX_QUERIES} questions are open already; wait for some to end")
        query = Query(next(self._numbers), check, args, deadline, on_target, on_end, unasked=deque(targets))
        self._queries[query.number] = query
        self._advance(query)
        self._walk(_steps(len(query.unasked)), lambda _: self._advance(query))
        return query

    def _advance(self, query: Query) -> None:
        """Ask the next few targets; none is left once all have been asked, or the query is given up."""
        if query.given_up is not None:
            return
        told = []
        for _ in range(min(AT_ONCE, len(query.unasked))):
            agent, link_of = query.unasked.popleft()
            target = self._ask_one(query, agent, link_of())
            if target is not None:
                told.append(target)
        for target in told:
            self._tell(query, target)
        self._end_if_done(query)

    def _ask_one(self, query: Query, agent: str, link: Any) -> Target | None:
        if link is None or link.closing:
            return Target(agent, "offline", why="not connected")
        try:
            message_id = self._ask(link, query.check, query.args)
        except QueryRefused as refused:
            return Target(agent, "refused", why=str(refused))
        except Exception:
            self._on_fault(f"{agent} could not be asked for {query.check}")
            return Target(agent, "failed", why="a fault of Helen's own kept it from asking; its log says which")
        query.open[agent] = (link, message_id)
        self._by_link.setdefault(link, {})[message_id] = (query, agent)
        return None

    def take_answer(self, link: Any, message_id: int) -> PendingAnswer | None:
        """Take note that an answer has come, to be read soon: from here on its link may go.

        Returns None if no query waits for it any more.
        """
        if link not in self._by_link:  # nearly all that come are of schedules
            return None
        asked = self._forget(link, message_id)
        return PendingAnswer(*asked) if asked is not None else None

    def awaits(self, answer: PendingAnswer) -> bool:
        """Return False if the query has ended meanwhile, or its target has expired."""
        return answer.agent in answer.query.open

    def settle(self, answer: PendingAnswer, target: Target) -> None:
        """Give a query the outcome of an answer. Nothing happens if it awaits none any more."""
        self._close(answer.query, target)

    def spoilt(self, answer: PendingAnswer) -> None:
        """Give a query the outcome of an answer that a fault kept from being read. Called while it is handled."""
        self._on_fault(f"the answer of {answer.agent} to {answer.query.check} could not be read")
        self._close(answer.query, Target(answer.agent, "failed", why=SPOILT))

    def gone(self, link: Any, why: str) -> None:
        """Fail all that was asked on a link that has ended, and was not answered."""
        for query, agent in self._by_link.pop(link, {}).values():
            self._close(query, Target(agent, "failed", why=why))

    def sweep(self, now: float) -> None:
        """Expire the queries that are over their deadline; agents of version 2 are told to give up.

        `now`: monotonic seconds.
        """
        for query in [each for each in self._queries.values() if each.deadline <= now and each.given_up is None]:
            self._give_up(query, "no answer in time")

    def abandon(self, query: Query) -> None:
        """End a query that no caller waits for any more; agents are told to give up."""
        query.forget_caller()
        if query.given_up is None:
            self._give_up(query, "whoever asked has gone")

    def _give_up(self, query: Query, why: str) -> None:
        """Expire all that are left, some at a time; one that answers before its turn has answered."""
        query.given_up = why
        self._expire_all(query, why)

    def _expire_all(self, query: Query, why: str) -> None:
        """Expire those that are left, and those that are asked while this goes on: no other call comes back to them."""
        steps = _steps(len(query.open) + len(query.unasked))

        def expire(step: int) -> None:
            self._expire_some(query, why)
            if step == steps[-1] and (query.open or query.unasked):
                self._expire_all(query, why)

        self._walk(steps, expire)

    def _expire_some(self, query: Query, why: str) -> None:
        over = list[Target]()
        for agent in list(islice(query.open, AT_ONCE)):
            link, message_id = query.open.pop(agent)
            if self._forget(link, message_id) is not None:  # else its answer is here already, if not yet on disk
                self._call_off(agent, link, message_id)
            over.append(Target(agent, "expired", why=why))
        while query.unasked and len(over) < AT_ONCE:
            over.append(Target(query.unasked.popleft()[0], "expired", why=NOT_ASKED))
        for target in over:  # all of them before the end is told
            self._tell(query, target)
        self._end_if_done(query)

    def _call_off(self, agent: str, link: Any, message_id: int) -> None:
        try:
            self._cancel(link, message_id)
        except Exception:
            self._on_fault(f"{agent} could not be told to give up a check")

    def _tell(self, query: Query, target: Target) -> None:
        try:
            query.on_target(target)
        except Exception:
            self._on_fault(f"question {query.number}: the outcome of {target.agent} could not be taken")

    def _forget(self, link: Any, message_id: int) -> tuple[Query, str] | None:
        asked = self._by_link.get(link)
        found = asked.pop(message_id, None) if asked is not None else None
        if asked is not None and not asked:
            del self._by_link[link]
        return found

    def _close(self, query: Query, target: Target) -> None:
        if query.open.pop(target.agent, None) is not None:
            self._tell(query, target)
            self._end_if_done(query)

    def _end_if_done(self, query: Query) -> None:
        if not query.open and not query.unasked and not query.ended:
            query.ended = True
            self._queries.pop(query.number, None)
            on_end = query.on_end
            query.forget_caller()
            try:
                on_end()
            except Exception:
                self._on_fault(f"question {query.number}: its end could not be taken")
