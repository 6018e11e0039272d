"""What `helen` commands do by themselves: values that can't be used, and what ends with them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from helen.cli import quickstart
from helen.cli.local import Local, until_stopped
from helen.cli.main import main


@pytest.mark.parametrize("timeout", ["0", "soon", "-1s", "2h", "nan"])
def test_timeouts_that_no_question_has(tmp_path: Path, timeout: str) -> None:
    """The same kind of fault has the same status, before anybody is asked."""
    words = ["run", "pulse", "--on", "*", "--timeout", timeout, "--state", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "Invalid value for --timeout" in result.output) == (2, True), result.output


def test_sigterm_is_as_ctrl_c() -> None:
    """It can be caught on the way out, and afterwards the signal means what it did."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), until_stopped():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_quickstart_ends_its_children_when_it_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, and with status 0: it was asked to."""
    ended: list[Local] = []
    monkeypatch.setattr(quickstart, "start", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(Local, "stop", lambda local: ended.append(local))
    result = CliRunner().invoke(main, ["quickstart", "--state", str(tmp_path)])
    assert (result.exit_code, len(ended), "stopping; `helen quickstart` goes on from here" in result.output) == (
        0, 1, True,
    ), result.output  # fmt: skip


def test_quickstart_names_nothing_that_only_the_source_has(tmp_path: Path, capsys: Any) -> None:
    """Whoever has installed a wheel has no folder of docs."""
    local = Local(tmp_path)
    local.run = {"agents": "127.0.0.1:1", "web": "127.0.0.1:2"}
    quickstart.tell(local)
    said = capsys.readouterr().out
    assert "`helen keys rotate --new FILE`" in said
    assert "docs/" not in said and ".rst" not in said
