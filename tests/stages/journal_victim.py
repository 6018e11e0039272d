"""Appends results and prints what was acked, until this process is killed. Run by test_crash.py, not a test.

journal_victim.py STATE SEED STEP COUNT

Kills itself the COUNTth time that STEP is reached ("-": never; then its parent does). STEP may be FIRST>STEP: only what
comes after FIRST was reached counts. It goes on where its agents are:
an agent sends again from its first unacked sequence, sometimes twice, and drops some of it with a gap record. Its check
ids change from run to run, so that there are new series to be written.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from journal_running import mark_of

from helen.journal.disk import Disk
from helen.journal.journal import Journal
from helen.journal.limits import Limits
from helen.journal.values import Ack, Batch, Entry, Origin, StoredResult

AGENTS = ("web1", "web2", "db1")
OWN = "helen"


class DeadlyDisk(Disk):
    """Kills the process at a named step."""

    def __init__(self, step: str, count: int) -> None:
        self.first, _, self.step = step.rpartition(">")
        self.left = count

    def reached(self, step: str) -> None:
        if self.first:
            self.first = "" if step == self.first else self.first
        elif step == self.step:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Victim:
    def __init__(self, state: Path, seed: int, disk: Disk) -> None:
        self.acked = os.open(state / "acked", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.seed = seed
        self.random = random.Random(seed)
        self.calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.journal = Journal(
            state / "journal", state / "history", lambda *call: self.calls.append((call[0], call[1:])), self.durable,
            self.trouble,
            limits=Limits(results_per_segment=40, group_records=7, group_seconds=0.001), disk=disk,
        )  # fmt: skip

    def durable(self, batch: Batch) -> None:
        """Note what is acknowledged: a line of one write can't be torn by a kill."""
        lines = [self.line(ack) for ack in batch.acks]
        for record in batch.records:
            if isinstance(record, StoredResult) and record.entry.spool == OWN:
                lines.append(self.line(Ack(record.entry.agent, OWN, record.entry.sequence)))
        os.write(self.acked, "".join(lines).encode())

    def line(self, ack: Ack) -> str:
        return f"{ack.agent} {ack.spool} {ack.sequence}\n"

    def trouble(self, trouble: object) -> None:
        print(trouble, file=sys.stderr)

    def run(self) -> None:
        self.journal.open()
        following = {agent: mark_of(self.journal, agent, "s1")[0] + 1 for agent in AGENTS}
        print("open", flush=True)
        while True:
            for agent in AGENTS:
                following[agent] = self.send(agent, following[agent])
            time.sleep(0.0005)
            self.turn()

    def turn(self) -> None:
        """Make the calls that the journal's threads have asked for."""
        while self.calls:
            call, given = self.calls.popleft()
            call(*given)

    def send(self, agent: str, sequence: int) -> int:
        if self.random.random() < 0.1:  # as after a reconnect
            sequence = max(1, sequence - self.random.randrange(10))
        if self.random.random() < 0.05:
            gap = {"from": sequence, "to": sequence + 2, "reason": "gap", "status": "unknown"}
            self.append(agent, "equus:gap", sequence + 3, json.dumps(gap).encode())
            return sequence + 4
        for _ in range(3):
            self.append(agent, f"check{self.seed}-{sequence % 5}", sequence, b'{"status":"ok","summary":"fine"}')
            sequence += 1
        if self.random.random() < 0.2:
            self.journal.append_own(agent, "asked", None, Origin.ASKED, time.time(), b"{}")
            self.journal.change("flap", {"n": sequence}, agent, "asked")
        return sequence

    def append(self, agent: str, check_id: str, sequence: int, blob: bytes) -> None:
        entry = Entry(agent, check_id, None, "s1", sequence, Origin.SCHEDULED, time.time(), blob)
        while not self.journal.append(entry):
            time.sleep(0.001)
            self.turn()


if __name__ == "__main__":
    folder, seed, step, count = sys.argv[1:]
    Victim(Path(folder), int(seed), DeadlyDisk(step, int(count))).run()
