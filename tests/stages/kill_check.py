"""Judges a kill run by its logs and by the broker's database; knows nothing of how the run was made.

    python kill_check.py FOLDER COUNT_PER_CLIENT

Prints each fault, and exits with 1 if there is one. Checks what must hold: every task that was acknowledged is in the
database; every task ended, in the way and with the result that its id demands; no client saw another outcome than the
database has; no task finished that no node ran; none is left queued or held.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BAD_EVERY, BAD_CODE = 40, 4711


def lines(folder: Path, pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text("utf-8").splitlines():
            yield path.stem, json.loads(line)


def stored(folder: Path) -> dict[str, tuple[str, Any]]:
    """Return by task how it ended, and its result or the code of its error."""
    with sqlite3.connect(folder / "state" / "tasks.db") as database:
        rows = database.execute("SELECT id, state, outcome FROM tasks").fetchall()
    database.close()
    ends: dict[str, tuple[str, Any]] = {}
    for task_id, state, outcome in rows:
        value = None if outcome is None else json.loads(outcome)
        ends[task_id] = (state, value["code"] if state == "failed" else value)
    return ends


def demanded(task_id: str) -> tuple[str, Any]:
    number = int(task_id.rpartition("-")[2])
    return ("failed", BAD_CODE) if number % BAD_EVERY == BAD_EVERY - 1 else ("finished", sum(task_id.encode()))


def faults(folder: Path, count: int) -> Iterator[str]:
    ends, ran = stored(folder), {line["ran"] for _, line in lines(folder, "node-*.log") if "ran" in line}
    clients = {path.stem.removeprefix("client-") for path in folder.glob("client-*.log")}
    for task_id in (f"{client}-{number}" for client in clients for number in range(count)):
        if task_id not in ends:
            yield f"{task_id} is not in the store"
        elif ends[task_id] != demanded(task_id):
            yield f"{task_id} ended as {ends[task_id]}, not as {demanded(task_id)}"
        elif task_id not in ran:
            yield f"{task_id} ended, and nobody ran it"
    seen: set[str] = set()
    for name, line in lines(folder, "client-*.log"):
        if "acknowledged" in line and line["acknowledged"] not in ends:
            yield f"{line['acknowledged']} was acknowledged to {name} and is lost"
        if "ended" in line:
            seen.add(line["ended"])
            if tuple(line["outcome"]) != ends.get(line["ended"]):
                yield f"{name} saw {line['outcome']} of {line['ended']}, stored is {ends.get(line['ended'])}"
    yield from (f"nobody saw the end of {task_id}" for task_id in sorted(ends.keys() - seen))


def main() -> None:
    found = list(faults(Path(sys.argv[1]), int(sys.argv[2])))
    for fault in found:
        print(fault)
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
