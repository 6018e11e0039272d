"""Kills broker, nodes and clients at random while 2,000 tasks go through; a program judges the logs of
the run.

The same with more: `python tests/stages/kill_run.py FOLDER --tasks 100000 --kills 50 --nodes 8 --clients 4`, then
`python tests/stages/kill_check.py FOLDER 25000`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

STAGES = Path(__file__).parents[1] / "stages"
TASKS, KILLS, NODES, CLIENTS = 2000, 10, 4, 2


def program(name, *arguments):
    return subprocess.run(
        [sys.executable, str(STAGES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run, which is made once and judged several times."""
    folder = tmp_path_factory.mktemp("kills")
    sizes = {"--tasks": TASKS, "--kills": KILLS, "--nodes": NODES, "--clients": CLIENTS}
    ran = program("kill_run.py", folder, *(word for pair in sizes.items() for word in pair))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.mark.adversary(63)
@pytest.mark.integration
def test_every_task_ends_once_and_none_is_lost(folder):
    judged = program("kill_check.py", folder, TASKS // CLIENTS)
    assert (judged.stdout, judged.returncode) == ("", 0)
    assert len((folder / "kills.log").read_text().split()) == KILLS


def _lose(folder, database, task_id):
    database.execute("DELETE FROM tasks WHERE id = ?", (task_id,))


def _change(folder, database, task_id):
    database.execute("UPDATE tasks SET outcome = '1' WHERE id = ?", (task_id,))


def _leave(folder, database, task_id):
    database.execute("UPDATE tasks SET state = 'queued', outcome = NULL WHERE id = ?", (task_id,))


def _see_otherwise(folder, database, task_id):
    log = folder / "client-c0.log"
    log.write_text(log.read_text() + json.dumps({"ended": task_id, "outcome": ["finished", 1]}) + "\n")


def _never_ran(folder, database, task_id):
    for log in folder.glob("node-*.log"):
        log.write_text("".join(line for line in log.read_text().splitlines(True) if f'"{task_id}"' not in line))


@pytest.mark.adversary(63)
@pytest.mark.integration
@pytest.mark.parametrize("spoil", [_lose, _change, _leave, _see_otherwise, _never_ran], ids=lambda f: f.__name__)
def test_the_judge_finds_what_is_wrong(folder, tmp_path, spoil):
    """A run with one fault put in is not passed."""
    spoilt = tmp_path / "run"
    shutil.copytree(folder, spoilt, ignore=shutil.ignore_patterns("*.sock"))
    with sqlite3.connect(spoilt / "state" / "tasks.db") as database:
        spoil(spoilt, database, "c0-5")
    database.close()
    judged = program("kill_check.py", spoilt, TASKS // CLIENTS)
    assert judged.returncode == 1 and "c0-5" in judged.stdout
