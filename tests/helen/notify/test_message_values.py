"""Tests alerts and messages as values, as texts for people, and in the shapes that receivers get."""

from __future__ import annotations

import json
from email.message import EmailMessage
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from telling import WALL, alert

from groundwork.check_notes import CheckNotes
from helen.notify.channels.alertmanager import api_v2
from helen.notify.channels.apprise import title_and_text
from helen.notify.channels.smtp import compose
from helen.notify.channels.webhook import NEVER, _common, webhook_v4
from helen.notify.message_text import lines, one_line, subject_line
from helen.notify.messages import Alert, Message, alert_of, labels_of, message_id
from helen.notify.payloads import (
    alert_annotations,
    alert_url,
    encode_json,
    fingerprint,
    own_document,
    rfc3339,
    status_of,
)

FIRES = alert("web-1/disk")
OVER = alert("db-1/load", "recovery", "ok", 5.0)


def message(*alerts: Alert, **more: Any) -> Message:
    given: dict[str, Any] = {"fresh": frozenset(each.key for each in alerts)}
    return Message("id1", "g", "hook", "night", {"site": "y"}, WALL, alerts, **given | more)


# ------------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize(("what", "status", "firing", "severity"), [
    ("problem", "critical", True, "critical"), ("change", "warning", True, "warning"),
    ("still", "unknown", True, "unknown"),
    ("recovery", "ok", False, "ok"), ("closed", "critical", False, "critical"), ("closed", "ok", False, "ok"),
    ("flapping", "ok", True, "warning"), ("flapping", "critical", True, "critical"),
    ("flapping-ended", "ok", False, "ok"), ("flapping-ended", "warning", True, "warning"),
])  # fmt: skip
def test_the_alert_of_a_decision(what: str, status: str, firing: bool, severity: str) -> None:
    """A check that flaps is a warning at least; a closed alert fires no more, whatever its status was."""
    decision = {"status": status, "what": what, "at": WALL + 3.0, "why": "so"}
    notes = CheckNotes("https://r", "ops", "be careful")
    made = alert_of("web-1", "disk", 7, decision, {"site": "x", "agent": "liar"}, "99 % used", notes)
    labels = {"alertname": "HelenCheck", "agent": "web-1", "check": "disk", "severity": severity, "site": "x"}
    assert made == Alert("web-1", "disk", 7, WALL + 3.0, what, status, "so", labels, "99 % used", WALL + 3.0, firing,
                         "https://r", "ops", "be careful")  # fmt: skip
    assert alert_of("a", "c", 1, decision, {}, "").runbook is None


def test_labels() -> None:
    """Ours win over the agent's, and every value is a text."""
    given: Any = {"alertname": "x", "severity": "low", "rack": 7}
    assert labels_of("a", "c", "ok", given) == {
        "alertname": "HelenCheck", "agent": "a", "check": "c", "severity": "ok", "rack": "7",
    }  # fmt: skip


def test_the_usual_alert_and_message() -> None:
    """An alert fires and has no notes; a message is a repeat without anything cut, and no test."""
    plain = Alert("a", "c", 1, WALL, "problem", "critical", "so", {}, "", WALL)
    assert (plain.firing, plain.runbook, plain.owner, plain.notes, plain.key) == (True, None, None, None, "a/c")
    made = Message("id", "g", "hook", "r", {}, WALL, ())
    assert (made.fresh, made.truncated, made.test, made.firing) == (frozenset(), 0, False, False)


@given(st.booleans(), st.booleans(), st.integers(0, 9), st.booleans())
def test_a_message_goes_through_json(first: bool, second: bool, truncated: int, is_test: bool) -> None:
    """A message comes back from JSON with its alerts, the fresh ones of them, and all else."""
    alerts = (evolve(FIRES, firing=first, notes="n"), evolve(OVER, firing=second, owner="o", runbook="r"))
    sent = message(*alerts, fresh=frozenset(("web-1/disk",) if first else ()), truncated=truncated, test=is_test)
    assert Message.from_json(json.loads(json.dumps(sent.to_json()))) == sent
    assert sent.firing is (first or second)
    assert status_of(sent) == ("firing" if first or second or truncated else "resolved")


def test_an_id_is_of_the_group_and_the_time() -> None:
    """An id is 32 hex digits, the same for the same group and time in each process."""
    assert message_id("g", 1.5) == "a4057bfb465030470fc0de08165fd7f1"
    assert len({message_id("g", 1.5), message_id("g", 1.25), message_id("h", 1.5)}) == 3


# ------------------------------------------------------------------------------------------------ texts


@pytest.mark.parametrize(("given", "subject"), [
    (message(FIRES), "[FIRING 1] web-1/disk CRITICAL"),
    (message(OVER), "[RESOLVED] db-1/load OK"),
    (message(evolve(OVER, status="critical", what="closed")), "[RESOLVED] db-1/load CLOSED"),
    (message(OVER, FIRES), "[FIRING 1] web-1/disk CRITICAL, db-1/load OK"),
    (message(FIRES, alert("n/c", status="warning"), fresh=frozenset(("n/c",))),
     "[FIRING 2] n/c WARNING, web-1/disk CRITICAL"),
    (message(*(alert(f"a{at}/c") for at in range(3))), "[FIRING 3] a0/c CRITICAL, a1/c CRITICAL, a2/c CRITICAL"),
    (message(*(alert(f"a{at}/c") for at in range(4))),
     "[FIRING 4] a0/c CRITICAL, a1/c CRITICAL, a2/c CRITICAL and 1 more"),
    (message(FIRES, truncated=5), "[FIRING 6] web-1/disk CRITICAL and 5 more"),
    (message(OVER, truncated=1), "[FIRING 1] db-1/load OK and 1 more"),
    (message(FIRES, test=True), "[TEST] Helen can reach this channel"),
    (message(alert("a/c\r\nBcc: x@y")), "[FIRING 1] a/c\\r\\nBcc: x@y CRITICAL"),
])  # fmt: skip
def test_a_subject(given: Message, subject: str) -> None:
    """A subject counts all that fire, also those not shown, and names three: the newest first, then those that fire."""
    assert subject_line(given) == subject


def test_a_subject_has_two_hundred_characters_at_most() -> None:
    """A subject has 200 characters at most, with any name of a check."""
    subject = subject_line(message(alert("a/" + "c" * 300)))
    assert (len(subject), subject[-3:]) == (200, "ccc")


FOOT = "-- \nHelen. Rule night, grouped by site=y. Why: helen explain web-1/disk"


def test_the_lines_of_a_text() -> None:
    """A text has each alert with its summary, reason and begin, notes for people, and where to look; then the rule."""
    noted = evolve(FIRES, owner="ops", runbook="https://r", notes="first\nsecond")
    assert list(lines(message(noted, OVER, fresh=frozenset(("web-1/disk",))), "http://helen")) == [
        "CRITICAL  web-1/disk", "    words", "    problem: so it is", "    since 2027-01-15 08:00:00 UTC",
        "    owner: ops", "    runbook: https://r", "    first", "    second",
        "    http://helen/api/v1/explain/web-1/disk", "",
        "OK  db-1/load (as before)", "    words", "    recovery: so it is", "    since 2027-01-15 08:00:05 UTC",
        "    http://helen/api/v1/explain/db-1/load", "",
        FOOT,
    ]  # fmt: skip


def test_without_a_link_or_a_group() -> None:
    """A text without a URL of ours has no line of it; a group by nothing says so; a test leads nowhere."""
    plain = evolve(message(FIRES), by={}, fresh=frozenset())
    assert next(iter(lines(plain, ""))) == "CRITICAL  web-1/disk (as before)"
    assert list(lines(plain, ""))[4:] == [
        "", "-- \nHelen. Rule night, grouped by nothing. Why: helen explain web-1/disk",
    ]  # fmt: skip
    tried = list(lines(evolve(plain, test=True), ""))
    assert (tried[0], tried[-1]) == ("CRITICAL  web-1/disk", "-- \nHelen. Rule night, grouped by nothing. ")
    assert list(lines(evolve(plain, alerts=()), "")) == ["-- \nHelen. Rule night, grouped by nothing. "]


@pytest.mark.parametrize(("alerts", "truncated", "shown", "more"), [
    (99, 0, 99, None), (100, 0, 100, None), (101, 0, 100, 1), (100, 3, 100, 3), (105, 3, 100, 8),
])  # fmt: skip
def test_a_hundred_alerts_of_a_text(alerts: int, truncated: int, shown: int, more: int | None) -> None:
    """A text has a hundred alerts, and the others are a number, with those for which the message had no room."""
    text = list(lines(message(*(alert(f"a{at}/c") for at in range(alerts)), truncated=truncated), ""))
    assert sum(line.startswith("CRITICAL") for line in text) == shown
    expected = [] if more is None else [f"... and {more} more; `helen status` has them all."]
    assert [line for line in text if line.startswith("...")] == expected


@pytest.mark.parametrize(("text", "shown"), [("plain ä", "plain ä"), ("a\nb", "a\\nb"), ("\x1b[2J", "\\x1b[2J"),
                                             ("'", "'"), ("\u202e", "\\u202e"), ("", "")])  # fmt: skip
def test_one_line(text: str, shown: str) -> None:
    """A character that ends a line, or moves a cursor, is an escape."""
    assert one_line(text) == shown


# ------------------------------------------------------------------------------------------------ shapes


def test_our_own_document() -> None:
    """Our own document is of version 1, with every field, as docs/notifications.rst has it."""
    noted = evolve(FIRES, owner="ops", runbook="https://r", notes="n")
    assert own_document(message(noted, OVER, fresh=frozenset(("db-1/load",)), truncated=2), "http://helen") == {
        "version": 1, "id": "id1", "channel": "hook", "route": "night", "kind": "change", "status": "firing",
        "group": {"site": "y"}, "sent": WALL, "truncated": 2,
        "alerts": [
            {"agent": "web-1", "check": "disk", "status": "critical", "firing": True, "new": False, "what": "problem",
             "why": "so it is", "summary": "words", "labels": FIRES.labels, "began": WALL, "decided": WALL,
             "url": "http://helen/api/v1/explain/web-1/disk", "runbook": "https://r", "owner": "ops", "notes": "n"},
            {"agent": "db-1", "check": "load", "status": "ok", "firing": False, "new": True, "what": "recovery",
             "why": "so it is", "summary": "words", "labels": OVER.labels, "began": WALL + 5, "decided": WALL + 5,
             "url": "http://helen/api/v1/explain/db-1/load", "runbook": None, "owner": None, "notes": None},
        ],
    }  # fmt: skip
    assert own_document(message(FIRES, fresh=frozenset()), "")["kind"] == "repeat"
    assert own_document(message(FIRES, test=True), "")["kind"] == "test"
    assert own_document(message(FIRES), "")["alerts"][0]["url"] == ""


def test_parts_of_documents() -> None:
    """Names in a URL are quoted, whatever they hold; empty notes are left out; a time is in UTC to the millisecond."""
    strange = evolve(FIRES, agent="a/b", check="c d?")
    assert alert_url("http://h", strange) == "http://h/api/v1/explain/a%2Fb/c%20d%3F"
    assert alert_url("", strange) == ""
    assert alert_annotations(evolve(FIRES, summary="", owner="ops", runbook="https://r", notes="n")) == {
        "what": "problem", "why": "so it is", "runbook_url": "https://r", "owner": "ops", "notes": "n",
    }  # fmt: skip
    assert (rfc3339(0.0), rfc3339(1.0625)) == ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.062Z")
    assert encode_json({"a": "ä\ud800"}) == '{"a": "ä?"}'.encode()


def test_fingerprints() -> None:
    """A fingerprint is 16 hex digits of the labels, in whatever order they come."""
    first = fingerprint({"a": "1", "b": "2"})
    assert (len(first), first) == (16, fingerprint({"b": "2", "a": "1"}))
    assert (
        len({first, fingerprint({"a": "1"}), fingerprint({"a": "1b", "": "2"}), fingerprint({"a": "2", "b": "1"})}) == 4
    )


def test_the_webhook_of_alertmanager() -> None:
    """The webhook of version 4 has what all alerts share, the group, and each alert with when it ended."""
    hook = webhook_v4(message(FIRES, OVER, truncated=4), "http://helen")
    assert {name: hook[name] for name in hook if name != "alerts"} == {
        "receiver": "hook", "status": "firing", "groupLabels": {"site": "y"}, "externalURL": "http://helen",
        "commonLabels": {"alertname": "HelenCheck"}, "commonAnnotations": {"summary": "words", "why": "so it is"},
        "version": "4", "groupKey": '{}/{night}:{site="y"}', "truncatedAlerts": 4,
    }  # fmt: skip
    assert [(each["status"], each["startsAt"], each["endsAt"]) for each in hook["alerts"]] == [
        ("firing", "2027-01-15T08:00:00.000Z", NEVER),
        ("resolved", "2027-01-15T08:00:05.000Z", "2027-01-15T08:00:05.000Z"),
    ]
    assert hook["alerts"][0]["fingerprint"] == fingerprint(hook["alerts"][0]["labels"])
    assert webhook_v4(evolve(message(OVER), by={"b": "2", "a": "1"}), "")["groupKey"] == '{}/{night}:{a="1", b="2"}'


def test_what_all_have() -> None:
    """Names with the same value everywhere are common; of no alerts there are none."""
    assert _common([]) == {}
    assert _common([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1"}]) == {"a": "1"}
    assert _common([{"a": "1"}, {}]) == {}


def test_the_api_of_alertmanager() -> None:
    """A firing alert ends in four minutes unless it is sent again; an end is never before its begin."""
    given = message(FIRES, OVER, evolve(OVER, began=WALL + 9.0))
    found = api_v2(given, "http://helen", WALL + 100.0)
    assert [(each["startsAt"][11:19], each["endsAt"][11:19]) for each in found] == [
        ("08:00:00", "08:05:40"),
        ("08:00:05", "08:00:05"),
        ("08:00:09", "08:00:09"),
    ]
    assert found[0]["labels"] == FIRES.labels
    assert found[0]["generatorURL"] == "http://helen/api/v1/explain/web-1/disk"
    assert found[0]["annotations"] == {"summary": "words", "what": "problem", "why": "so it is"}


@pytest.mark.parametrize(("given", "kind"), [
    (message(FIRES), "failure"), (message(alert(status="warning")), "warning"), (message(OVER), "success"),
    (message(alert(status="warning"), FIRES), "failure"), (message(OVER, alert(status="warning")), "warning"),
    (message(evolve(OVER, status="critical")), "success"), (message(FIRES, test=True), "info"),
    (message(evolve(FIRES, status="unknown")), "failure"),
])  # fmt: skip
def test_how_bad_it_is_for_apprise(given: Message, kind: str) -> None:
    """The type for Apprise follows from the alerts that still fire."""
    found = title_and_text(given, "")
    assert (found["type"], found["title"]) == (kind, subject_line(given))
    assert found["body"] == "\n".join(lines(given, ""))


def test_a_mail() -> None:
    """A mail has headers by which people filter and programs thread: all mails of a group are one thread."""
    mail: EmailMessage = compose(message(FIRES), "", "helen@example.org", ("a@x.org", "b@x.org"))
    thread = "<cd0aa9856147b6c5b4ff2b7dfee5da20@example.org>"
    assert {name: str(value) for name, value in mail.items()} | {"Date": ""} == {
        "From": "helen@example.org", "To": "a@x.org, b@x.org", "Subject": "[FIRING 1] web-1/disk CRITICAL",
        "Date": "", "Message-ID": "<id1@example.org>", "In-Reply-To": thread, "References": thread,
        "Auto-Submitted": "auto-generated", "X-Helen-Status": "firing", "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="utf-8"', "Content-Transfer-Encoding": "7bit",
    }  # fmt: skip
    assert str(mail["Date"]) == "Fri, 15 Jan 2027 08:00:00 +0000"
    assert mail.get_content() == "\n".join(lines(message(FIRES), "")) + "\n"
    assert compose(message(OVER), "", "nobody", ())["Message-ID"] == "<id1@nobody>"
    assert compose(message(OVER), "", "", ("a@b",))["Message-ID"] == "<id1@helen.invalid>"
