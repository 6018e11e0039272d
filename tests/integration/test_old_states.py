"""Test states of older Helens under this one, and under the older one again: nothing is lost, and refusals say what to
do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from old_release import NOW, Lives, interpreter_of

from helen.journal.verify import check_history
from helen.storage.schema import STEPS

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """Yield an empty folder for states of Helens of several versions, and stop them afterwards."""
    (tmp_path / "lives").mkdir()
    made = Lives(tmp_path / "lives")
    yield made
    made.stop()


def begin(lives: Lives, python: str) -> None:
    """Let a Helen make its state: an agent with results, a token, a downtime, an agent that is revoked."""
    lives.start(python).up()
    words = lives.helen("token", "--agent", "web-1").split()
    lives.dial("--join", words[words.index("--join") + 1])
    lives.reports()
    lives.helen("web-token", "add", "ann", "--scope", "read")
    lives.helen("downtime", "--on", "web-1", "--for", "8h", "--id", "cellar", "--comment", "it is wet")


def holds(lives: Lives) -> dict[str, bool]:
    """Return what the Helen that runs still has of that, and of what was added later."""
    tokens, windows = lives.helen("web-token", "list"), lives.helen("windows")
    return {"ann": "ann " in tokens, "bob": "bob " in tokens, "cellar": "cellar " in windows and "it is wet" in windows}


def lost(lives: Lives) -> tuple[str, ...]:
    """Return the faults of the whole history, held against what the agent was promised. Nothing may run."""
    return check_history(lives.folder / "state", [lives.acked()]).problems


@pytest.mark.parametrize("schema", [4, 8])
def test_a_state_goes_on_and_back_and_on_again(lives: Lives, tmp_path: Path, schema: int) -> None:
    """An agent reports to each Helen with one identity, and the way back to the older one is the one that the refusal
    names (20).
    """
    old, state = interpreter_of(f"schema-{schema}", tmp_path), lives.folder / "state"
    begin(lives, old)
    lives.stop()

    lives.start(NOW).up()
    lives.dial()
    lives.reports()
    assert holds(lives) == {"ann": True, "bob": False, "cellar": True}
    lives.helen("web-token", "add", "bob", "--scope", "read")
    lives.stop()
    assert lost(lives) == ()

    refused = lives.start(old).program
    assert refused.wait(180) == 1
    copy = state / f"helen.db.schema-{schema}"
    assert (
        f"{state / 'helen.db'} has schema {len(STEPS)}, this Helen knows {schema}: install the newer Helen, "
        in refused.said
    )
    assert f"or go back with {copy} if it is there." in refused.said
    lives.start(NOW).up()
    assert holds(lives)["bob"]  # a refusal has changed nothing
    lives.stop()

    for name in ("helen.db-wal", "helen.db-shm"):
        (state / name).unlink(missing_ok=True)
    shutil.copyfile(copy, state / "helen.db")
    lives.start(old).up()
    lives.dial()
    lives.reports()
    assert holds(lives) == {"ann": True, "bob": False, "cellar": True}  # bob came after the copy
    lives.stop()
    assert lost(lives) == ()

    lives.start(NOW).up()
    lives.dial()
    lives.reports()
    assert holds(lives) == {"ann": True, "bob": False, "cellar": True}
    lives.stop()
    assert lost(lives) == ()
