"""Tests `twistd scale0` as a person meets it: a wrong option is told in a line, before anything starts."""

from __future__ import annotations

import pytest
from twisted.python.usage import UsageError

from scale0.tap import Options, security_of, signing_key_of
from scale0.wire.reader import new_keys

LEAST = '{"identity": "b1", "frontend_port": 0, "backend_port": 0}'


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--config FILE is missing"),
        (["--config", "none.json"], "none.json: line 1: No such file"),
        (["--config", "bad.json"], r"bad.json: line 1: frontend_port: is missing"),
        (["--config", "good.json", "--curve-key", "x"], "belong together"),
        (["--config", "good.json", "--curve-key", "x", "--authorized-keys", "none"], "none: no such folder"),
        (["--config", "good.json", "--curve-key", "x", "--authorized-keys", "."], "x: No such file"),
        (["--config", "good.json", "--config-signing-key", "bad.json"], "64 hex digits"),
        (["--config", "open.json"], "bound on loopback only"),
    ],
)
def test_faults_are_told_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.json").write_text(LEAST)
    (tmp_path / "bad.json").write_text('{"identity": "b1", "backend_port": 0}')
    (tmp_path / "open.json").write_text(LEAST[:-1] + ', "address": "0.0.0.0"}')
    with pytest.raises(UsageError, match=message):
        Options().parseOptions(arguments)


def test_good_options(tmp_path):
    (tmp_path / "good.json").write_text(LEAST)
    options = Options()
    options.parseOptions(["--config", str(tmp_path / "good.json")])
    assert (options.security, options.signing_key, options["state"]) == (None, None, "scale0-state")


def test_keys_are_read_from_their_files(tmp_path):
    public, secret = new_keys()
    (tmp_path / "me.secret").write_text(f'curve\n    public-key = "{public}"\n    secret-key = "{secret}"\n')
    (tmp_path / "me.secret").chmod(0o600)
    security = security_of(str(tmp_path / "me.secret"), str(tmp_path))
    assert security is not None and security.pair.public == public
    (tmp_path / "sign").write_text("ab" * 32 + "\n")
    assert signing_key_of(str(tmp_path / "sign")) is not None
