"""Test the push without a gap on a small scale by bench/push.py itself, whose exit status says if any agent lost a
result.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long  # a hundred agents and Helen take all processors
@pytest.mark.integration
def test_fifty_pushes_cost_a_hundred_agents_nothing():
    """Fifty pushes disconnect no agent, lose and double no sequence number, and no result names code that was never
    pushed.
    """
    words = [sys.executable, str(ROOT / "bench" / "push.py"), "--agents", "100", "--pushes", "50"]
    words += ["--processes", "2", "--output", "json"]
    done = subprocess.run(words, cwd=ROOT, env=None, capture_output=True, text=True, timeout=900)
    assert done.stdout.strip(), done.stderr
    report = json.loads(done.stdout)
    assert (report["faults"], report["agents"], report["pushes"]) == ([], 100, 50)
    assert report["results"] > 100


@pytest.mark.integration
def test_bare_connections_carry_the_bytes_of_pushes():
    """Bare connections carry the bytes of pushes: each client answers three times in each push, or this would
    not end.
    """
    words = [sys.executable, str(ROOT / "bench" / "bare_push.py"), "--agents", "11", "--pushes", "3"]
    done = subprocess.run(words, cwd=ROOT, env=None, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip(), done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {"confirmation_p50", "confirmation_p95", "helen_cpu", "agents_cpu"}
    assert 0 <= report["confirmation_p50"] <= report["confirmation_p95"]
