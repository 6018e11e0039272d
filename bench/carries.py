"""Measures what the checks of a fleet cost one Helen: memory for each, the time to judge, to save and to read their
states.

    python bench/carries.py [--agents 1000] [--checks 100]

All parts of a Helen in this process (helen/wiring.py), without a network and without the threads of its journal:
agents get rules for so many checks each, then results as the journal hands them back once they are durable. Figures
are of this process: bytes that it holds for each check, CPU of a result, of a copy of the states on disk (every five
minutes, in a thread beside the reactor) and of a start that reads them, and of a full garbage collection.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(sys.path.pop(0))  # behind all else: this folder has a zerotask.py of its own

import meter
from twisted.internet.task import Clock

from helen import wiring
from helen.evaluation import state_snapshot
from helen.evaluation.evaluator import RECENT
from helen.journal import lazy_parquet
from helen.journal.document import read_document
from helen.journal.values import Batch, Change, Entry, Origin, StoredChange, StoredResult
from helen.settings.settings import Settings
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.model import Rule
from helen.states.timeline_snapshot import copy_of

ROUNDS = 4  # results of each check; the last ones are timed
BATCH = 50  # as the journal hands them over
FIRST_CHECKS = 100


class Inert(Clock):
    """Stands in for a reactor: it turns by hand, and its threads do nothing."""

    def callFromThread(self, function: Any, *given: Any) -> None:
        """Drop it: batches are handed over here."""

    def callInThread(self, function: Any, *given: Any) -> None:
        """Drop it."""

    def getThreadPool(self) -> Any:
        return self

    callInThreadWithCallback = callInThread


class Carrying:
    """Holds one Helen, and the next numbers of its records."""

    def __init__(self, folder: Path) -> None:
        self.reactor = Inert()
        self.parts = wiring.wire(self.reactor, Settings(folder), print, print).parts
        self._at = 100
        lazy_parquet.load()
        self.give([self._change("helen_start", {})])

    def give(self, records: list[Any]) -> None:
        """Hand records over, and turn until they are judged."""
        for first in range(0, len(records), BATCH):
            self.parts.journal._on_durable(Batch(records=tuple(records[first : first + BATCH])))
            while self.parts.evaluator._queue:
                self.reactor.advance(0)
        self.reactor.advance(0)

    def fill(self) -> None:
        """Fill what keeps the newest records of all checks, and is as great for a small fleet."""
        self.introduce("first", FIRST_CHECKS)
        for turn in range(RECENT // FIRST_CHECKS + 1):
            self.give(list(self.results("first", FIRST_CHECKS, turn)))

    def _change(self, kind: str, document: dict[str, Any], agent: str | None = None) -> StoredChange:
        self._at += 1
        said = document if agent is None else {"agent": agent, **document}
        return StoredChange(self._at, Change(kind, time.time(), agent, None, json.dumps(said).encode()))

    def introduce(self, agent: str, checks: int) -> None:
        """Give an agent its rules, and connect it."""
        rules = AgentRules({}, {f"check-{number}": Rule(stale=600.0) for number in range(checks)})
        self.give([self._change("rule", rules_to_json(rules), agent), self._change("link", {"event": "up"}, agent)])

    def results(self, agent: str, checks: int, turn: int) -> list[StoredResult]:
        """Return a result of each check, as it comes from the disk."""
        found, now = [], time.time()
        blob = meter.DOCUMENT.replace(b"1764284400.123", b"%014.3f" % (now - 0.01))
        for number in range(checks):
            self._at += 1
            sequence = turn * checks + number + 1
            entry = Entry(agent, f"check-{number}", None, "s", sequence, Origin.SCHEDULED, now, blob)
            found.append(StoredResult(self._at, entry, read_document("disk", blob)))
        return found


def cpu_of(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--checks", type=int, default=100)
    options = parser.parse_args()
    count = options.agents * options.checks
    with tempfile.TemporaryDirectory(prefix="carries-") as name:
        folder = Path(name)
        carrying = Carrying(folder)
        names = [f"agent-{number}" for number in range(options.agents)]
        carrying.fill()
        empty = meter.rss_of(os.getpid())
        for agent in names:
            carrying.introduce(agent, options.checks)
        for turn in range(ROUNDS - 1):
            for agent in names:
                carrying.give(list(carrying.results(agent, options.checks, turn)))
        spent = 0.0
        for agent in names:
            records: list[Any] = list(carrying.results(agent, options.checks, ROUNDS - 1))
            spent += cpu_of(lambda given=records: carrying.give(given))  # type: ignore[misc]
        held = meter.rss_of(os.getpid())
        timeline = carrying.parts.evaluator.timeline
        assert len(timeline.states) == count + options.agents + FIRST_CHECKS + 1
        print(f"{options.agents:,} agents with {options.checks} checks each, {count:,} checks; {meter.machine()}")
        print(f"memory: {(held - empty) / count:,.0f} bytes a check, {held / 2**20:,.0f} MiB in all")
        print(f"a result that changes nothing: {spent / count * 1e6:.1f} us")
        print(f"a copy of the states on disk: {cpu_of(lambda: save(folder, timeline)):.2f} s of CPU, in a thread")
        print(f"a start reads them: {cpu_of(lambda: state_snapshot.load(folder)):.2f} s of CPU")
        gc.freeze()
        gc.unfreeze()
        print(f"a full garbage collection: {cpu_of(gc.collect):.2f} s; Helen freezes what it starts with")
        os._exit(0)  # the journal's threads wait for what never comes


def save(folder: Path, timeline: Any) -> None:
    state_snapshot.save(folder, 1, copy_of(timeline))


if __name__ == "__main__":
    main()
