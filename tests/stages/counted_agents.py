"""Counts 2,000 agents in each turn of the reactor, and what follows a request to its answer.

No clock is looked at. An agent counts once in a turn; a walk over all of them at once, wherever it is made, is a turn
with as many agents.
"""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock, Cooperator
from twisted.python.failure import Failure
from twisted.web.test.requesthelper import DummyChannel

from helen.agents.roster import Agent, Roster
from helen.agents.sight import Sight
from helen.assignments.known_notes import KnownNotes
from helen.assignments.schedule import Assignments
from helen.rollout.rings import read_rings
from helen.states.fleet_timeline import Timeline
from helen.web.access import OWNER
from helen.web.connections import short_turns
from helen.web.request import ApiRequest
from helen.web.routes import metrics, results
from helen.web.sight.agents_in_turns import AGENTS_A_STEP

AGENTS = 2_000
MOST = 2 * AGENTS_A_STEP  # of one turn: the end of a step, and the next one


class Fleet:
    """Has 2,000 agents, half of them with the role r1, and knows which of them were looked at in this turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, touched = Clock(), set[str]()
        self.touched = touched

        class Counted(Agent):
            def __getattribute__(self, name: str) -> Any:
                if name not in ("name", "__class__"):  # alone, it is how a list is sorted, in a millisecond
                    touched.add(object.__getattribute__(self, "name"))
                return super().__getattribute__(name)

        made = Cooperator(lambda: lambda: True, lambda step: self.clock.callLater(1.0, step))  # a step is a turn
        monkeypatch.setattr(short_turns, "_cooperator", made)
        for module in (metrics, results):
            monkeypatch.setattr(module, "deferToThread", lambda call, *given: succeed(call(*given)))
        self.roster = Roster(lambda agent: None, lambda agent, link: None)
        self.roster.agents = {
            f"a{number}": Counted(f"a{number}", labels={"role": f"r{number % 2}", "own": f"v{number}"})
            for number in range(AGENTS)
        }

    def parts(self, limit: tuple[str, ...] | None) -> Any:
        """Return the parts that the routes below need; their caller is limited so."""
        sight = None if limit is None else Sight(limit, self.roster.agents)
        return SimpleNamespace(
            visible=lambda caller: sight, sessions=SimpleNamespace(
                roster=self.roster, queries=(), delivery=SimpleNamespace(assignments=Assignments()),
                fair_turns=SimpleNamespace(walk=lambda things, each: [each(thing) for thing in things]),
            ), version="1",
            evaluator=SimpleNamespace(timeline=Timeline()), notes=KnownNotes(), started_at=1.0, exports=KnownExports(),
            library=SimpleNamespace(published=None), clock=SimpleNamespace(steps={}, slept=0.0), network=None,
            drain=SimpleNamespace(overview=lambda: {"phase": "no", "agents": 0}),
            targets=SimpleNamespace(entries_of=lambda name: ()),
            notifier=SimpleNamespace(config_file=SimpleNamespace(config=None)),
            live=SimpleNamespace(settings=SimpleNamespace(rings=read_rings("tier=test,nowhere=x"))),
        )  # fmt: skip

    def follow(self, begin: Coroutine[Deferred[Any], Any, Any]) -> tuple[Any, list[int]]:
        """Return the answer, and how many agents each turn looked at."""
        sizes, done = list[int](), list[Any]()
        self.touched.clear()
        Deferred.fromCoroutine(begin).addBoth(done.append)
        while not done:
            sizes.append(len(self.touched))
            self.touched.clear()
            assert len(sizes) < 10_000
            self.clock.advance(1.0)
        if isinstance(done[0], Failure):
            done[0].raiseException()
        return done[0], [*sizes, len(self.touched)]


class KnownExports:
    """Exports nothing."""

    def of(self, name: str) -> dict[str, tuple[str, ...]]:
        return {}


def asked(written: list[bytes], query: dict[str, str] | None = None) -> ApiRequest:
    request = ApiRequest(DummyChannel(), False)
    request.method, request.uri, request.path, request.clientproto = b"GET", b"/x", b"/x", b"HTTP/1.1"
    request.args = {name.encode(): [value.encode()] for name, value in (query or {}).items()}
    request.caller = OWNER
    request.write = written.append
    return request
