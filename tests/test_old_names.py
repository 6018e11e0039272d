"""Tests names of modules that users type and that have changed: the old ones go on to work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helen.jobs import pipeline_tasks
from helen.journal import verify_many
from zerotask.functions import load


def test_the_check_of_several_histories(tmp_path: Path) -> None:
    """The old name tells the new one on stderr, and answers as that one does: the same words, the same exit status."""
    words = [str(tmp_path / "none")]
    ran = [
        subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
        for module in ("helen.journal.verify_many", "helen.journal.together")
    ]
    new, old = ran
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert old.stderr == f"helen.journal.together is called {verify_many.__name__} now\n{new.stderr}"


def test_tasks_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old name of the module serves the same functions as the new one, after the same check."""
    monkeypatch.setenv("HELEN_STATE", "/nowhere")
    monkeypatch.setattr(pipeline_tasks, "NEEDED", ())
    old, new = (load([module], False) for module in ("helen.pipeline_tasks", "helen.jobs.pipeline_tasks"))
    assert old == new
    assert set(new) == {"pipeline.run", "pipeline.report", "pipeline.compact"}
