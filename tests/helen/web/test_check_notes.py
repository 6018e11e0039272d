"""Tests that the notes of a check are in the schedule, explanations, figures and pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from helen_running import Running, pulse, wait_until
from web_client import Web

from groundwork.check_notes import CheckNotes
from helen.notify import message_text, payloads
from helen.notify.messages import Alert, Message, alert_of

NOTED = pulse().replace(
    "  needs = {},", '  needs = {},\n  owner = "web",\n  runbook = "https://wiki.example.org/{agent}/{check}",'
)
ASSIGN = '[[assign]]\ncheck = "pulse"\nevery = "1s"\nowner = "storage"\nnotes = "Ask first.\\nThen act."\n'
WANTED = {"runbook": "https://wiki.example.org/a/pulse", "owner": "storage", "notes": "Ask first.\nThen act."}


@pytest.mark.integration
def test_table_and_assignment_reach_people(tmp_path: Path) -> None:
    """Notes of the assignment replace those of the check's table field by field, and agents are not sent them."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pulse.lua").write_text(NOTED)
    helen = Running(tmp_path).up()
    agent = helen.agent("a")
    try:
        client, web = helen.client, Web(helen)
        wait_until(lambda: client.get("/api/v1/results")["results"], "result")
        (entry,) = client.get("/api/v1/agents/a")["schedule"]
        assert (entry["owner"], entry["notes"]) == ("web", None)
        client.put("/api/v1/assignments", {"text": ASSIGN})

        def shown() -> dict[str, str]:
            (entry,) = client.get("/api/v1/agents/a")["schedule"]
            return {name: entry[name] for name in WANTED}

        wait_until(lambda: shown() == WANTED, "notes")
        explained = client.get("/api/v1/explain/a/pulse")
        assert {name: explained[name] for name in WANTED} == WANTED
        figures = web.ask("GET", "/metrics").raw.decode()
        assert 'helen_check_info{agent="a",check="pulse",owner="storage"} 1' in figures
        page = web.ask("GET", "/checks/a/pulse", accept="text/html").raw.decode()
        assert 'href="https://wiki.example.org/a/pulse"' in page and "storage" in page and "Then act." in page
        refused = web.ask(
            "PUT", "/api/v1/assignments", b'{"text": "[[assign]]\\ncheck = \\"x\\"\\nrunbook = \\"http://x\\""}'
        )
        assert refused.problem[0] == 400 and "number 1: runbook must be an https URL" in refused.problem[2]
    finally:
        agent.end()
        helen.end()


def alert(notes: CheckNotes) -> Alert:
    decision = {"at": 5.0, "what": "problem", "status": "critical", "why": "91 is above 90"}
    return alert_of("a", "disk", 1, decision, {}, "full", notes)


def test_messages_have_them_as_text_and_as_fields() -> None:
    """A message has notes as lines of text and as fields, and an older message without them is read."""
    noted = alert(CheckNotes("https://h/x", "storage", "one\n\x1btwo"))
    message = Message("i", "g", "c", "r", {}, 6.0, (noted,), frozenset({noted.key}))
    lines = list(message_text.lines(message, ""))
    assert [line for line in lines if line.startswith("    ")][3:] == [
        "    owner: storage", "    runbook: https://h/x", "    one", "    \\x1btwo",
    ]  # fmt: skip
    (shown,) = payloads.own_document(message, "")["alerts"]
    assert (shown["runbook"], shown["owner"]) == ("https://h/x", "storage")
    assert payloads.alert_annotations(noted)["runbook_url"] == "https://h/x"
    assert "owner" not in payloads.alert_annotations(alert(CheckNotes()))
    old = {name: value for name, value in noted.to_json().items() if name not in ("runbook", "owner", "notes")}
    assert Alert.from_json(old) == alert(CheckNotes())
