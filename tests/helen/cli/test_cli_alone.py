"""Tests `helen` commands by themselves: values that cannot be used, and their orderly end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from helen.cli.local import quickstart
from helen.cli.local.processes import Local, until_stopped
from helen.cli.main import COMMANDS, SECTIONS, main


@pytest.mark.parametrize("timeout", ["0", "soon", "-1s", "2h", "nan"])
def test_timeouts_that_no_question_has(tmp_path: Path, timeout: str) -> None:
    """A timeout that cannot be used is a usage error before Helen is asked."""
    words = ["run", "pulse", "--on", "*", "--timeout", timeout, "--state", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "Invalid value for --timeout" in result.output) == (2, True), result.output


def test_sigterm_is_as_ctrl_c() -> None:
    """SIGTERM raises KeyboardInterrupt inside `until_stopped`, and has its former handler afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), until_stopped():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_quickstart_ends_its_children_when_it_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quickstart that is told to end stops its children and exits with 0."""
    ended: list[Local] = []
    monkeypatch.setattr(quickstart, "start", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(Local, "stop", lambda local: ended.append(local))
    result = CliRunner().invoke(main, ["quickstart", "--state", str(tmp_path)])
    assert (result.exit_code, len(ended), "stopping; `helen quickstart` goes on from here" in result.output) == (
        0, 1, True,
    ), result.output  # fmt: skip


def test_quickstart_looks_at_no_state_of_another_helen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quickstart ignores HELEN_STATE, which names another Helen's state, and uses its own folder."""
    used: list[Path] = []
    monkeypatch.setattr(quickstart, "start", lambda local, *_: used.append(local.folder) or os.kill(os.getpid(), 15))
    monkeypatch.setattr(quickstart.Local, "stop", lambda local: None)
    environment = {"HELEN_STATE": str(tmp_path / "other" / "helen"), "XDG_STATE_HOME": str(tmp_path / "xdg")}
    CliRunner(env=environment).invoke(main, ["quickstart"])
    assert used == [tmp_path / "xdg" / "helen"]


@pytest.mark.parametrize(("port", "said"), [(4166, False), (36209, True), (14166, True)])
def test_quickstart_says_that_its_port_is_another_one(tmp_path: Path, capsys: Any, port: int, said: bool) -> None:
    """A quickstart says so if its agents' port is not the usual one, which agents and people expect."""
    local = Local(tmp_path)
    local.run = {"agents": f"127.0.0.1:{port}", "web": "127.0.0.1:4167"}
    quickstart.show_places(local, "http://127.0.0.1:4167/login#KEY")
    assert ("Port 4166 is taken here" in capsys.readouterr().out) is said


def test_quickstart_names_nothing_that_only_the_source_has(tmp_path: Path, capsys: Any) -> None:
    """A quickstart names no file of the source, since an installed wheel has no folder of docs."""
    local = Local(tmp_path)
    local.run = {"agents": "127.0.0.1:1", "web": "127.0.0.1:2"}
    quickstart.show_places(local, "http://127.0.0.1:4167/login#KEY")
    said = capsys.readouterr().out
    assert "`helen keys rotate --new FILE`" in said
    assert "in a browser       http://127.0.0.1:4167/login#KEY\n" in said
    assert "docs/" not in said and ".rst" not in said


def test_each_command_is_under_one_heading_of_the_help() -> None:
    """Each command stands under one heading of the help, and quickstart is the first."""
    named = [name for names in SECTIONS.values() for name in names]
    assert (sorted(named), named[0]) == (sorted(COMMANDS), "quickstart")
    shown = CliRunner().invoke(main, ["--help"]).output
    assert [f"\n{heading}:\n" in shown for heading in SECTIONS] == [True] * len(SECTIONS)
    assert [shown.count(f"\n  {name} ") for name in named] == [1] * len(named)
