"""Tests kill -9 at named steps and at random: each acked result is in the history once, and numbers are dense."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helen_running import wait_until
from journal_running import PATIENCE, Running

from helen.journal.verify import check_history, read_acked

VICTIM = Path(__file__).parents[2] / "stages" / "journal_victim.py"
STEPS = (
    "wal-written", "wal-synced", "series-replaced", "segment-renamed", "changes-renamed", "marks-moved",
    "marks-renamed", "wal-deleted",
)  # fmt: skip
RANDOM_ROUNDS = 6  # and two for each step: 22 kills in a usual run


def run_victim(
    state: Path, seed: int, step: str = "-", count: int = 1, seconds: float = PATIENCE, acks: bool = False
) -> int:
    """Run a journal until it kills itself, or for `seconds` after its start or first `acks`; return its exit status."""
    victim = subprocess.Popen(
        [sys.executable, VICTIM, state, str(seed), step, str(count)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "open\n"
        if acks:
            held = (state / "acked").stat().st_size
            wait_until(lambda: (state / "acked").stat().st_size > held, "acknowledgement")
        with contextlib.suppress(subprocess.TimeoutExpired):
            victim.wait(seconds)
    finally:
        victim.kill()
        _, errors = victim.communicate()
    assert errors == ""
    return victim.returncode


def check(state: Path) -> int:
    """Check the history as the kill left it and again after the next start has sealed it; return the number of
    results."""
    acked = list(read_acked(state / "acked")) if (state / "acked").exists() else []
    as_left = check_history(state, acked)
    assert as_left.problems == ()
    running = Running(state).open()
    running.journal.close()
    assert running.recovery.quarantined == 0
    sealed = check_history(state, acked)
    assert (sealed.problems, sealed.wals) == ((), 0)
    assert (sealed.results, sealed.changes) == (as_left.results, as_left.changes)
    return sealed.results


@pytest.mark.adversary(51)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(tmp_path: Path, step: str) -> None:
    """Two kills in a row at one step, the first time and a later one, leave a history without problems."""
    counts = (1, 1) if step == "series-replaced" else (1, 3)  # a run's series are new once
    for seed, count in enumerate(counts):
        assert run_victim(tmp_path, seed, step, count) == -signal.SIGKILL
        check(tmp_path)


@pytest.mark.adversary(51)
def test_killed_at_random(tmp_path: Path) -> None:
    """Many kills at any time leave one whole history, which grows."""
    rng = random.Random()  # another time each run; the seed of a failure doesn't make threads repeat
    results = [0]
    for seed in range(RANDOM_ROUNDS):
        run_victim(tmp_path, seed, seconds=rng.uniform(0.005, 0.15), acks=seed % 2 > 0)
        results.append(check(tmp_path))
    assert results == sorted(results)
    assert results[-1] > 0
