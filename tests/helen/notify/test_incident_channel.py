"""Tests the channel `incident` over HTTP: what arrives, what is refused, and what is shown of its secrets."""

from __future__ import annotations

from typing import Any

import pytest
import telling
from attrs import evolve
from remotes import Receiver
from telling import WALL, Pump, alert

from helen.files.toml_table import Secret
from helen.notify.channels.incident import Incident
from helen.notify.config import NotificationsError, read
from helen.notify.http_receiver import HttpReceiver
from helen.notify.messages import Message

KEY = "r0uting-k3y"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    monkeypatch.setenv("INCIDENT_KEY", KEY)


def incident(shape: str, url: str) -> Incident:
    return Incident(shape, HttpReceiver(url), None if shape == "splunk-on-call" else Secret("env", "INCIDENT_KEY"))


def told(pump: Pump, via: Incident, *alerts: Any, test: bool = False) -> str:
    given = Message("id1", "g", "x", "r", {}, WALL, alerts, frozenset(a.key for a in alerts), test=test)
    return telling.told(pump, via, given)


def test_pagerduty_hears_of_begin_and_end(pump: Pump, receiver: Receiver) -> None:
    """PagerDuty is told begin and end by one key; the routing key is in the body, and in no answer that people see."""
    receiver.answers = [(202, {}, b'{"status":"success"}'), (400, {}, f"bad key {KEY}".encode())]
    via = incident("pagerduty", f"{receiver.url}/v2/enqueue")
    assert told(pump, via, alert("a/disk")) == 'ok 202 Accepted: {"status":"success"}'
    over = evolve(alert("a/disk", "recovery", "ok"), labels={"severity": "ok"})
    assert told(pump, via, over) == "failed 400 Bad Request: bad key ****"
    assert [path for path, _, _ in receiver.got] == ["/v2/enqueue"] * 2
    first, last = receiver.documents()
    assert (first["event_action"], last["event_action"]) == ("trigger", "resolve")
    assert first["dedup_key"] == last["dedup_key"] == "helen/a/disk"
    assert first["routing_key"] == last["routing_key"] == KEY


def test_opsgenie_is_asked_by_alias(pump: Pump, receiver: Receiver) -> None:
    """Opsgenie is asked by alias, with its own kind of Authorization."""
    receiver.answers = [(202, {}, b"")]
    via = incident("opsgenie", f"{receiver.url}/v2/alerts")
    assert told(pump, via, alert("a/disk")) == "ok 202 Accepted"
    assert told(pump, via, alert("a/disk", "recovery", "ok")) == "ok 202 Accepted"
    assert [path for path, _, _ in receiver.got] == [
        "/v2/alerts", "/v2/alerts/helen%2Fa%2Fdisk/close?identifierType=alias",
    ]  # fmt: skip
    assert [headers["authorization"] for _, headers, _ in receiver.got] == [f"GenieKey {KEY}"] * 2


def test_a_test_leaves_no_incident(pump: Pump, receiver: Receiver) -> None:
    """A test opens an incident and ends it, in this order."""
    assert told(pump, incident("splunk-on-call", receiver.url), alert("a/disk"), test=True).startswith("ok 200")
    assert [each["message_type"] for each in receiver.documents()] == ["CRITICAL", "RECOVERY"]


def test_several_alerts_are_several_events_and_the_first_fault_ends_it(pump: Pump, receiver: Receiver) -> None:
    """The events come again as a whole after a fault, as the keys make one of two."""
    receiver.answers = [(200, {}, b""), (429, {"retry-after": "9"}, b"slow"), (200, {}, b"")]
    via = incident("splunk-on-call", receiver.url)
    given = [alert(f"a/c{number}") for number in range(3)]
    assert told(pump, via, *given) == "failed 429 Too Many Requests: slow"
    assert told(pump, via, *given) == "ok 200 OK"
    assert [each["entity_id"] for each in receiver.documents()] == [
        f"helen/a/c{number}" for number in (0, 1, 0, 1, 2)
    ]  # fmt: skip


def test_its_settings() -> None:
    """A URL is needed where the service has none of its own; the key is a reference, and is shown as one."""
    found = read(
        '[channels.p]\ntype="incident"\nshape="pagerduty"\nkey={env="K"}\n'
        '[channels.o]\ntype="incident"\nshape="opsgenie"\nkey={file="/k"}\nurl="https://api.eu.opsgenie.com/v2/alerts"\n'
        '[channels.s]\ntype="incident"\nshape="splunk-on-call"\nurl={env="U"}\n'
    ).channels
    assert {name: (each.settings.show()["url"], each.settings.show()["key"]) for name, each in found.items()} == {
        "p": ("https://events.pagerduty.com/****", "(env K)"),
        "o": ("https://api.eu.opsgenie.com/****", "(file /k)"),
        "s": ("(env U)", None),
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('shape="pagerduty"', "channels.p: key is missing"),
        ('shape="pagerduty"\nkey="written-out"', "channels.p: key is written out"),
        ('shape="splunk-on-call"', "channels.p: url is missing"),
        ('shape="splunk-on-call"\nurl="https://x/y"\nkey={env="K"}', "key is not used by splunk-on-call"),
        ('shape="pigeon"', "shape is 'pigeon': write pagerduty or opsgenie or splunk-on-call"),
        ('shape="opsgenie"\nkey={env="K"}\nurl="ftp://x"', "url can't be used"),
    ],
)
def test_faults_of_its_settings(text: str, fault: str) -> None:
    """A fault of a setting is named, and a secret that was written out is not repeated."""
    with pytest.raises(NotificationsError) as caught:
        read(f'[channels.p]\ntype="incident"\n{text}\n')
    assert fault in str(caught.value)
    assert "written-out" not in str(caught.value)
