"""Tests that no command prints raw text that agents choose: names, versions, reasons, summaries (F44)."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from click.testing import CliRunner
from helen_running import Running

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed
from helen.cli.events import show
from helen.cli.main import main

pytestmark = pytest.mark.integration
EVIL = "\x1b]0;x\x07\u009b31m\u202e\u2028\u0085\r"
UNSAFE = {"Cc", "Cf", "Zl", "Zp", "Cs"}
# Fields of answers that agents, peers or other operators fill with words of their own.
CHOSEN = {
    "summary", "reason", "equus", "version", "why", "detail", "comment", "error", "output", "text", "address", "actor",
    "subject", "owner", "created_by", "author", "hostname", "os", "arch", "isolation", "kernel", "trouble", "refusal",
    "problem", "said", "host", "facts", "labels", "claims", "by", "description",
}  # fmt: skip


def poisoned(document: Any, is_chosen: bool = False) -> Any:
    """Return an answer with hostile characters behind each text that others choose."""
    if isinstance(document, dict):
        return {key: poisoned(value, key in CHOSEN) for key, value in document.items()}
    if isinstance(document, list):
        return [poisoned(each, is_chosen) for each in document]
    return document + EVIL if is_chosen and isinstance(document, str) else document


COMMANDS = [
    "agents", "checks", "status", "status web-1", "status web-1/pulse", "explain web-1/pulse", "audit", "windows",
    "renewals --all", "web-token list", "keys", "rollout status", "notify list", "passive list", "assign", "drain",
    "run pulse --on *",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_what_others_choose(fleet: Running, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Each command escapes unsafe characters of Helen's answers, in lines and in JSON."""
    answer, stream = Client._answer, Client.stream
    monkeypatch.setattr(Client, "_answer", lambda client, response: poisoned(answer(client, response)))
    monkeypatch.setattr(Client, "stream", lambda client, *given: map(poisoned, stream(client, *given)))
    words = [*command.split(), "--state", str(fleet.state)]
    for more in ([], ["--output", "json"]):
        result = CliRunner().invoke(main, words + more)
        if "No such option" in result.output:
            assert more, result.output  # it prints no JSON
            continue
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert [c for c in result.output if unicodedata.category(c) in UNSAFE and c != "\n"] == []


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("link", {"event": EVIL}),
        ("notice", {"action": "sent", "channel": EVIL, "why": EVIL}),
        ("transition", {"was": {"status": "ok"}, "now": {"status": "critical", "kind": "hard"}, "summary": EVIL}),
    ],
)
def test_events(capsys: Any, kind: str, document: dict[str, Any], as_json: bool) -> None:
    """An event is one line, with unsafe characters escaped as in text or in JSON."""
    show("1", kind, {"received": 0.0, "agent": EVIL, "check_id": None, "document": document}, as_json)
    written = capsys.readouterr().out
    assert [c for c in written if unicodedata.category(c) in UNSAFE] == ["\n"]
    assert ("\\u009b" if as_json else "\\x9b") in written
    if as_json:
        assert json.loads(written)["document"] == document


def test_a_refusal(capsys: Any) -> None:
    """An error escapes unsafe characters of a name that an agent has chosen."""
    Failed(f"agent x says {EVIL}").show()
    assert capsys.readouterr().err == "Error: agent x says \\x1b]0;x\\x07\\x9b31m\\u202e\\u2028\\x85\\r\n"
