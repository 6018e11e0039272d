"""Holds an evaluator of states over a journal that is a list, on a folder that the next one may go on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from helen.agents.roster import Agent
from helen.assignments.schedule import ScheduleEntry
from helen.assignments.state_rules import NO_SETTINGS
from helen.evaluation.evaluator import Evaluator
from helen.journal.document import read_document
from helen.journal.values import Change, Entry, Origin, StoredChange, StoredResult
from helen.states.model import Rule

WALL = 1_800_000_000.0
BAD = b'{"status": "critical", "summary": "no"}'


class Paper:
    """Stands in for the journal: its records are durable when `deliver` says so."""

    def __init__(self, clock: Clock) -> None:
        self.at = 0
        self.records: list[StoredResult | StoredChange] = []
        self.waiting: list[StoredResult | StoredChange] = []
        self.has_undelivered = False
        self._clock = clock

    def change(
        self, kind: str, document: Mapping[str, Any], agent: str | None = None, check_id: str | None = None
    ) -> None:
        document = document if agent is None or check_id is not None else {"agent": agent, **document}
        change = Change(kind, WALL + self._clock.seconds(), agent, check_id, json.dumps(document).encode())
        self._keep(lambda at: StoredChange(at, change))

    def result(self, blob: bytes, sequence: int, origin: Origin = Origin.SCHEDULED) -> None:
        entry = Entry("a", "c", None, "s", sequence, origin, WALL + self._clock.seconds(), blob)
        self._keep(lambda at: StoredResult(at, entry, read_document("c", blob)))

    def _keep(self, made: Callable[[int], StoredResult | StoredChange]) -> None:
        self.at += 1
        self.waiting.append(made(self.at))

    def deliver(self, evaluator: Evaluator) -> None:
        """Make all that waits durable, and also the records that come of it."""
        while self.waiting:
            batch, self.waiting = self.waiting, []
            self.records += batch
            evaluator.durable(batch)
            self._clock.advance(0)

    def written(self, *kinds: str) -> list[tuple[str, Any]]:
        """Return the kind and the action or status of each output."""
        return [
            (each.change.kind, document.get("action") or document.get("now", {}).get("status"))
            for each in (*self.records, *self.waiting)
            if isinstance(each, StoredChange) and each.change.kind in (kinds or ("transition", "decision"))
            for document in [json.loads(each.change.document)]
        ]


class Scene:
    """Holds one evaluator on one folder; `again` makes the next one, as after a restart."""

    def __init__(self, folder: Path, clock: Clock | None = None, paper: Paper | None = None, **more: Any) -> None:
        self.folder, self.clock = folder, clock or Clock()
        self.paper = paper or Paper(self.clock)
        self.asked: list[tuple[str, str]] = []
        self.evaluator = Evaluator(
            self.clock, folder, self.paper, lambda *key: self.asked.append(key),  # type: ignore[arg-type]
            **{"wall": lambda: WALL + self.clock.seconds(), "steady": self.clock.seconds} | more,
        )  # fmt: skip

    def begin(self, rule: Rule = Rule(attempts=1, stale=60.0)) -> Scene:  # noqa: B008  # frozen
        self.paper.change("helen_start", {})
        agent = Agent("a", link=object())  # type: ignore[arg-type]
        self.evaluator.write_rules(agent, [ScheduleEntry("c", "c", 10.0, 0.0, 5.0, {}, rule=rule)], NO_SETTINGS)
        self.paper.change("link", {"event": "up"}, "a")
        self.paper.deliver(self.evaluator)
        return self

    def next(self, recovered: Any = ()) -> tuple[Scene, list[str]]:
        scene = Scene(self.folder, self.clock, self.paper)
        return scene, scene.evaluator.open(recovered)
