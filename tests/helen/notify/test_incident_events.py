"""Tests events of incident tools: one key for a check from trigger to end, and what each service takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from telling import WALL, alert

from helen.notify.incident_events import (
    MAX_KEY,
    MAX_SUMMARY,
    MAX_TEXT,
    MAX_TITLE,
    SHAPES,
    alerts_to_tell,
    incident_key,
    opsgenie,
    pagerduty,
    splunk_on_call,
    title,
)
from helen.notify.messages import Message

URL = "https://helen.example"
FIRES = evolve(alert("db-1/disk", role="db"), owner="storage", runbook="https://wiki/disk", notes="ask first")


def message(*alerts: Any, fresh: tuple[str, ...] = (), test: bool = False) -> Message:
    return Message("id", "g", "pager", "r", {}, WALL, alerts, frozenset(fresh), test=test)


def test_pagerduty_trigger() -> None:
    """A trigger has all fields of the Events API v2 that we fill."""
    event = pagerduty(FIRES, True, URL, "R0UTING")
    assert event.path == ""
    assert event.document == {
        "routing_key": "R0UTING", "dedup_key": "helen/db-1/disk", "event_action": "trigger", "client": "Helen",
        "client_url": URL,
        "links": [
            {"href": "https://wiki/disk", "text": "runbook"},
            {"href": f"{URL}/api/v1/explain/db-1/disk", "text": "why"},
        ],
        "payload": {
            "summary": "db-1/disk CRITICAL: words", "source": "db-1", "severity": "critical", "component": "disk",
            "timestamp": "2027-01-15T08:00:00.000Z",
            "custom_details": {
                "agent": "db-1", "check": "disk", "status": "critical", "what": "problem", "why": "so it is",
                "runbook": "https://wiki/disk", "owner": "storage", "notes": "ask first", "labels": FIRES.labels,
            },
        },
    }  # fmt: skip


def test_pagerduty_end() -> None:
    """An end has only what names the incident."""
    event = pagerduty(evolve(FIRES, firing=False, what="recovery", status="ok"), False, URL, "R0UTING")
    assert event.document == {"routing_key": "R0UTING", "dedup_key": "helen/db-1/disk", "event_action": "resolve"}


def test_opsgenie() -> None:
    """The alias is the key; it is quoted where it stands in a path, and the key of the API is in no document."""
    event = opsgenie(FIRES, True, URL, "s3cr3t")
    assert {name: event.document[name] for name in ("message", "alias", "entity", "source", "priority")} == {
        "message": "db-1/disk CRITICAL: words", "alias": "helen/db-1/disk", "entity": "db-1", "source": "Helen",
        "priority": "P1",
    }  # fmt: skip
    assert event.document["description"] == f"words\nproblem: so it is\n{URL}/api/v1/explain/db-1/disk"
    assert event.document["details"]["role"] == "db"
    assert all(isinstance(each, str) for each in event.document["details"].values())
    over = opsgenie(FIRES, False, "", "s3cr3t")
    assert over.path == "/helen%2Fdb-1%2Fdisk/close?identifierType=alias"
    assert over.document == {"source": "Helen", "note": "problem: so it is"}
    assert "s3cr3t" not in json.dumps([event.document, over.document])


def test_splunk_on_call() -> None:
    """The entity of Splunk On-Call is the key, and RECOVERY ends it."""
    found = [splunk_on_call(FIRES, fires, "", "").document for fires in (True, False)]
    assert [(each["entity_id"], each["message_type"]) for each in found] == [
        ("helen/db-1/disk", "CRITICAL"), ("helen/db-1/disk", "RECOVERY"),
    ]  # fmt: skip
    assert found[0]["state_message"] == "words\nproblem: so it is"
    assert found[0]["state_start_time"] == int(WALL)
    assert "helen_url" not in found[0]


@pytest.mark.parametrize(
    ("status", "severity", "priority", "kind"),
    [
        ("critical", "critical", "P1", "CRITICAL"), ("warning", "warning", "P3", "WARNING"),
        ("unknown", "error", "P2", "CRITICAL"), ("stale", "error", "P2", "CRITICAL"), ("ok", "info", "P5", "INFO"),
    ],
)  # fmt: skip
def test_how_bad_it_is(status: str, severity: str, priority: str, kind: str) -> None:
    """Each service gets its own word for a status; an unknown state is worse than a warning."""
    given = evolve(FIRES, status=status)
    assert pagerduty(given, True, "", "k").document["payload"]["severity"] == severity
    assert opsgenie(given, True, "", "k").document["priority"] == priority
    assert splunk_on_call(given, True, "", "k").document["message_type"] == kind


def test_the_key_stays_while_all_else_changes() -> None:
    """The key does not change with severity, labels, summary, times and the place of the decision in the history."""
    later = evolve(
        FIRES, number=99, at=WALL + 9, status="warning", what="changed", labels={"a": "b"}, summary="x", began=WALL + 5
    )
    assert incident_key(later) == incident_key(FIRES) == "helen/db-1/disk"
    assert incident_key(evolve(FIRES, check="disk2")) != incident_key(FIRES)


def test_long_keys_differ_by_their_ends() -> None:
    """Two checks whose names begin alike for longer than a key may be have two incidents."""
    given = [evolve(FIRES, check="c" * 300 + end) for end in "ab"]
    keys = [incident_key(each) for each in given]
    assert [len(key) for key in keys] == [MAX_KEY, MAX_KEY]
    assert keys[0] != keys[1]
    exact = evolve(FIRES, agent="a", check="c" * (MAX_KEY - len("helen/a/")))
    assert incident_key(exact) == f"helen/{exact.key}"


TEXT = st.text(max_size=60) | st.text("\x1b\n\u202e\ud800\N{PILE OF POO}", max_size=40) | st.just("x" * 5_000)


NAMES = st.text("abc-._:/ ", min_size=1, max_size=300)


@given(agent=NAMES, check=NAMES, summary=TEXT, why=TEXT, status=st.sampled_from(["ok", "critical", "stale"]))
def test_what_any_text_becomes(agent: str, check: str, summary: str, why: str, status: str) -> None:
    """An event stays within the lengths of each service, is printable where it is one line, and is JSON in UTF-8."""
    hostile = evolve(FIRES, agent=agent, check=check, summary=summary, why=why, status=status)
    key = incident_key(hostile)
    assert 0 < len(key) <= MAX_KEY and key.isprintable()
    assert title(hostile).isprintable()
    for make in SHAPES.values():
        for fires in (True, False):
            json.dumps(make(hostile, fires, URL, "k").document).encode()
    assert len(pagerduty(hostile, True, URL, "k").document["payload"]["summary"]) <= MAX_SUMMARY
    document = opsgenie(hostile, True, URL, "k").document
    assert len(document["message"]) <= MAX_TITLE
    assert len(document["description"]) <= MAX_TEXT
    assert len(document["entity"]) <= 512


def test_links_are_links() -> None:
    """A runbook that is no URL is among the details alone."""
    event = pagerduty(evolve(FIRES, runbook="javascript:alert(1)"), True, "", "k")
    assert event.document["links"] == []
    assert event.document["payload"]["custom_details"]["runbook"] == "javascript:alert(1)"
    assert "client_url" not in event.document


def test_which_alerts_are_told() -> None:
    """Alerts that have changed are told; in a repeat all of them; a test begins and ends an incident."""
    a, b = alert("a/c"), alert("b/c", "recovery", "ok")
    assert list(alerts_to_tell(message(a, b, fresh=("b/c",)))) == [(b, False)]
    assert list(alerts_to_tell(message(a))) == [(a, True)]
    assert list(alerts_to_tell(message(a, test=True))) == [(a, True), (a, False)]
