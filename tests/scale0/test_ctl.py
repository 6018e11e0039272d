"""Tests `scale0ctl` without a broker."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from scale0_stage import Stage

from scale0.config.keys import KeyFault
from scale0.ctl import CommandFailed, ask, main
from scale0.wire.management_commands import ALIASES, COMMANDS


def test_keygen_makes_its_folder(tmp_path):
    """A folder that keygen makes has mode 0700, since a secret will lie there; one that is there keeps its mode."""
    folder = tmp_path / "etc" / "scale0"
    result = CliRunner().invoke(main, ["keygen", "b1", "--out", str(folder)])
    assert (result.exit_code, sorted(path.name for path in folder.iterdir())) == (0, ["b1.pub.key", "b1.secret"])
    assert [(path.stat().st_mode & 0o777) for path in (folder, folder / "b1.secret")] == [0o700, 0o600]
    folder.chmod(0o755)
    assert CliRunner().invoke(main, ["keygen", "b2", "--out", str(folder)]).exit_code == 0
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_cannot_be(tmp_path):
    """A folder that cannot be made ends keygen with a sentence and status 1."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["keygen", "b1", "--out", str(tmp_path / "file" / "deep")])
    assert (result.exit_code, "scale0ctl: " in result.output, "Traceback" in result.output) == (1, True, False)


def test_each_command_has_a_handler_and_a_door() -> None:
    """The broker serves each command of the table, and each can be reached from the command line."""
    stage = Stage()
    assert set(stage.broker.management._handlers) == {command.name for command in COMMANDS}
    plain = {command.cli or command.name for command in COMMANDS if command.help}
    assert plain | {"errors", "keygen", "password"} == set(main.commands)
    assert set(ALIASES.values()) <= {command.name for command in COMMANDS}


@pytest.mark.parametrize(
    "change, error",
    [
        ({"curve_key": "none.secret", "server_key": "x" * 40}, KeyFault),
        ({"curve_key": "open.secret", "server_key": "x" * 40}, KeyFault),
        ({"broker": "nonsense"}, CommandFailed),
    ],
)
def test_what_fails_before_it_is_sent_leaves_no_timer(pump, tmp_path, monkeypatch, change, error) -> None:
    """Nothing fires afterwards into a program that has ended, or goes on without the answer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open.secret").touch(0o644)
    settings = {"broker": "tcp://127.0.0.1:9", "auth_id": "op", "password": "x", "timeout": 60.0}
    before = pump.reactor.getDelayedCalls()
    with pytest.raises(error):
        ask(pump.reactor, settings | {"curve_key": None, "server_key": ""} | change, "status")
    later = pump.reactor.seconds() + 30
    assert not [call for call in pump.reactor.getDelayedCalls() if call not in before and call.getTime() > later]
