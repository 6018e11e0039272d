"""Keeps the queries that are open: one check on many agents, and the outcome of each. Every target is accounted for.

Pure: links are told through `ask` and `cancel`; `now` is monotonic seconds. Answers are read and journalled elsewhere.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field, frozen

from equus_protocol.results import ResultDocument, to_json

MAX_QUERIES = 1_000  # open at once
MAX_ASKED_SECONDS = 3_600.0
ASKED_AT_ONCE = 200  # links that one call asks, some milliseconds; `advance` goes on with the others
OUTCOMES = ("answered", "failed", "refused", "offline", "expired")


class QueryRefused(Exception):
    """A check cannot be asked for; the text says why."""


@frozen
class Target:
    """The outcome of one agent. `outcome`: one of OUTCOMES, `result`: the document of an answer, `why`: a sentence.

    `blob` is the answer as the agent sent it, for callers that pass it on.
    """

    agent: str
    outcome: str
    result: dict[str, Any] | None = None
    why: str | None = None
    blob: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """Return `agent`, `outcome`, `result`, and `why` if there is a reason."""
        shown: dict[str, Any] = {"agent": self.agent, "outcome": self.outcome, "result": self.result}
        return shown if self.why is None else shown | {"why": self.why}


@define(eq=False)
class Query:
    """One query. `on_target` is called once for each target, `on_end` after the last. `deadline`: monotonic seconds."""

    number: int
    check: str
    args: bytes
    deadline: float
    on_target: Callable[[Target], None]
    on_end: Callable[[], None]
    open: dict[str, tuple[Any, int]] = field(factory=dict)  # agent -> the link it was asked on, the message id
    unasked: deque[tuple[str, Any]] = field(factory=deque)
    ended: bool = False

    def forget_caller(self) -> None:
        """Release the caller, which holds this query: neither would be freed else, nor a mebibyte of arguments."""
        self.on_target = lambda target: None
        self.on_end = lambda: None


@frozen
class PendingAnswer:
    """An answer that has come, and is on its way through the journal."""

    query: Query
    agent: str


class LiveQueries:
    """Holds all open queries. `ask(link, check, args)` returns a message id, or raises QueryRefused."""

    def __init__(self, ask: Callable[[Any, str, bytes], int], cancel: Callable[[Any, int], None]) -> None:
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
        targets: Iterable[tuple[str, Any]],
        args: bytes,
        deadline: float,
        on_target: Callable[[Target], None],
        on_end: Callable[[], None],
    ) -> Query:
        """Ask each (agent, link); a link of None is offline. Outcomes may be told before this returns.

        Call `advance` again and again until it is True: a great fleet is not asked in one go. `deadline`: monotonic
        seconds. Raises QueryRefused if too many queries are open.
        """
        if len(self._queries) >= MAX_QUERIES:
            raise QueryRefused(f"{MAX_QUERIES} questions are open already; wait for some to end")
        query = Query(next(self._numbers), check, args, deadline, on_target, on_end, unasked=deque(targets))
        self._queries[query.number] = query
        self.advance(query)
        return query

    def advance(self, query: Query) -> bool:
        """Ask the next few targets. True once all have been asked, or the query was abandoned."""
        told = []
        for _ in range(min(ASKED_AT_ONCE, len(query.unasked))):
            agent, link = query.unasked.popleft()
            target = self._ask_one(query, agent, link)
            if target is not None:
                told.append(target)
        for target in told:
            query.on_target(target)
        self._end_if_done(query)
        return not query.unasked

    def _ask_one(self, query: Query, agent: str, link: Any) -> Target | None:
        if link is None or link.closing:
            return Target(agent, "offline", why="not connected")
        try:
            message_id = self._ask(link, query.check, query.args)
        except QueryRefused as refused:
            return Target(agent, "refused", why=str(refused))
        query.open[agent] = (link, message_id)
        self._by_link.setdefault(link, {})[message_id] = (query, agent)
        return None

    def take_answer(self, link: Any, message_id: int) -> PendingAnswer | None:
        """Take note that an answer has come, to be read soon: from here on its link may go.

        Returns None if no query waits for it any more.
        """
        asked = self._forget(link, message_id)
        return PendingAnswer(*asked) if asked is not None else None

    def settle(self, answer: PendingAnswer, document: ResultDocument, blob: bytes = b"") -> None:
        """Give a query the content of an answer, and its bytes. Nothing happens if the query has ended meanwhile."""
        query, agent = answer.query, answer.agent
        if agent not in query.open:
            return
        refused = document.reason == "denied"
        why = document.summary or document.output if refused else None
        self._close(query, Target(agent, "refused" if refused else "answered", to_json(document), why, blob))

    def gone(self, link: Any, why: str) -> None:
        """Fail all that was asked on a link that has ended, and was not answered."""
        for query, agent in self._by_link.pop(link, {}).values():
            self._close(query, Target(agent, "failed", why=why))

    def sweep(self, now: float) -> None:
        """Expire the queries that are over their deadline; agents of version 2 are told to give up.

        `now`: monotonic seconds.
        """
        for query in [query for query in self._queries.values() if query.deadline <= now]:
            self._give_up(query, "no answer in time")

    def abandon(self, query: Query) -> None:
        """End a query that no caller waits for any more; agents are told to give up."""
        query.forget_caller()
        self._give_up(query, "whoever asked has gone")

    def _give_up(self, query: Query, why: str) -> None:
        left = [*query.open, *(agent for agent, _ in query.unasked)]
        for link, message_id in query.open.values():
            if self._forget(link, message_id) is not None:  # else its answer is here already, if not yet on disk
                self._cancel(link, message_id)
        query.open.clear()
        query.unasked.clear()
        for agent in left:  # all of them before the end is told
            query.on_target(Target(agent, "expired", why=why))
        self._end_if_done(query)

    def _forget(self, link: Any, message_id: int) -> tuple[Query, str] | None:
        asked = self._by_link.get(link)
        found = asked.pop(message_id, None) if asked is not None else None
        if asked is not None and not asked:
            del self._by_link[link]
        return found

    def _close(self, query: Query, target: Target) -> None:
        if query.open.pop(target.agent, None) is not None:
            query.on_target(target)
            self._end_if_done(query)

    def _end_if_done(self, query: Query) -> None:
        if not query.open and not query.unasked and not query.ended:
            query.ended = True
            self._queries.pop(query.number, None)
            on_end = query.on_end
            query.forget_caller()
            on_end()
