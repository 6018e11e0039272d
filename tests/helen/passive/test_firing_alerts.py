"""Tests alerts of Prometheus as results: which of one name fire, their hosts, and what is known after a restart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helen_running import wait_until
from hypothesis import given, settings
from hypothesis import strategies as st
from outside_stage import Stage

from helen.passive.firing_alerts import MAX_FIRING, FiringAlerts, host_of, read_alert
from helen.web.alertmanager.silences import read_time

KEY = ("node-7", "DiskFull")
OVER = "2020-01-01T00:00:00Z"
NOW = 1_800_000_000.0


def alert(instance: str = "node-7:9100", ends: str = "", severity: str = "critical", **labels: str) -> dict[str, Any]:
    named = {"alertname": "DiskFull", "instance": instance, "severity": severity, **labels}
    notes = {"summary": f"{','.join(labels.values()) or 'it'} is full"}
    return {"labels": named, "annotations": notes} | ({"endsAt": ends} if ends else {})


class Memory:
    """Holds FiringAlerts over a store that is a dict."""

    def __init__(self, store: dict[str, str]) -> None:
        self.store = store
        self.firing = FiringAlerts(self._write)
        for key, text in store.items():
            self.firing.restore(key, text)

    def _write(self, key: str, text: str | None) -> None:
        self.store.pop(key, None)
        if text is not None:
            self.store[key] = text

    def take(self, *alerts: dict[str, Any], now: float = NOW) -> tuple[str, str]:
        submission = self.firing.take(KEY, [read_alert(each, read_time) for each in alerts], now)
        return submission.document["status"], submission.document["summary"]


KINDS = [
    # labels of two alerts of one name
    ({"device": "sda"}, {"device": "sdb"}),
    ({"mountpoint": "/"}, {"mountpoint": "/srv", "fstype": "xfs"}),
    ({"pod": "a"}, {"pod": "a", "container": "b"}),
    ({"severity": "warning"}, {"severity": "critical"}),
    ({"job": "node"}, {"job": "smart"}),
]


@pytest.mark.parametrize(("one", "other"), KINDS)
def test_the_end_of_one_is_not_the_end_of_all(one: dict[str, str], other: dict[str, str]) -> None:
    """The check is ok when the last alert of a name is over, in one request or several, in either order. (F18)"""
    memory = Memory({})
    memory.take(alert(**one))
    assert memory.take(alert(**other))[1].startswith("2 alerts fire: ")
    status, summary = memory.take(alert(**one), alert(ends=OVER, **other))
    assert (status != "ok", summary.startswith("1 alert still fires: ")) == (True, True)
    memory.take(alert(ends=OVER, **other), alert(**one))
    assert memory.take(alert(ends=OVER, **one)) == ("ok", "it is over")
    assert memory.store == {}


def test_one_alert_speaks_for_itself() -> None:
    """A single alert's words are the summary, and its end is the end."""
    memory = Memory({})
    assert memory.take(alert(device="sda", severity="warning")) == ("warning", "sda is full")
    assert memory.take(alert(device="sda", severity="warning", ends=OVER)) == ("ok", "it is over")


def test_the_worst_counts_and_is_named_first() -> None:
    """The worst alert counts and is named first, whatever came last."""
    memory = Memory({})
    memory.take(alert(device="sda"))
    said = memory.take(alert(device="sdb", severity="warning"))
    assert said == ("critical", "2 alerts fire: sda is full; sdb is full")
    many = memory.take(*(alert(device=f"nvme{at}") for at in range(4)))
    assert many[1] == "6 alerts fire: sda is full; nvme0 is full; nvme1 is full; ..."


def test_one_that_is_repeated_no_more_ends_by_itself() -> None:
    """An alert that is repeated no more ends at its `endsAt`; the check is due until the last of them."""
    memory = Memory({})
    memory.take(alert(device="sda", ends="2027-01-15T08:01:00Z"))
    firing = memory.firing.take(KEY, [read_alert(alert(device="sdb", ends="2027-01-15T08:05:00Z"), read_time)], NOW)
    assert firing.within == 300
    assert memory.take(alert(device="sdb", ends="2027-01-15T08:09:00Z"), now=NOW + 61)[1] == (
        "1 alert still fires: sdb is full"
    )


def test_more_than_can_be_remembered() -> None:
    """The alerts that are remembered keep the check as it is; the others are heard of with their next repeat."""
    memory = Memory({})
    everything = [alert(device=f"d{at}") for at in range(MAX_FIRING + 5)]
    assert memory.take(*everything)[1].startswith(f"{MAX_FIRING} alerts fire: ")
    memory.take(*(each | {"endsAt": OVER} for each in everything[:MAX_FIRING]), *everything[MAX_FIRING:])
    assert memory.take()[1].startswith("5 alerts fire: ")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), max_size=30))
def test_it_is_ok_just_when_none_fires(steps: list[tuple[str, bool, bool]]) -> None:
    """The check is ok just when none fires, after any order of begins and ends, with restarts between them. (F18)"""
    memory, fire = Memory({}), set[str]()
    for device, fires, restarts in steps:
        status, summary = memory.take(alert(device=device, ends="" if fires else OVER))
        fire = fire | {device} if fires else fire - {device}
        assert (status == "ok") == (not fire)
        assert len(fire) < 2 or summary.startswith(f"{len(fire)} alerts fire")
        memory = Memory(json.loads(json.dumps(memory.store))) if restarts else memory


HOSTS = [
    ("node-7:9100", "node-7"),
    ("node-7", "node-7"),
    ("https://shop.example/health", "shop.example"),
    ("http://shop.example:8080/a:b?c=d", "shop.example"),
    ("shop.example/health", "shop.example"),
    ("shop.example:443/health", "shop.example"),
    ("tcp://db.example:5432", "db.example"),
    ("[2001:db8::7]:9100", "2001:db8::7"),
    ("[2001:db8::7]", "2001:db8::7"),
    ("2001:db8::7", "2001:db8::7"),
    ("http://[2001:db8::7]:80/x", "2001:db8::7"),
    ("10.1.2.3:9100", "10.1.2.3"),
    ("http://user@shop.example/", "shop.example"),
    ("", ""),
    ("[2001:db8", ""),
    ("https:///", ""),
]


@pytest.mark.parametrize(("instance", "host"), HOSTS)
def test_the_host_of_an_instance(instance: str, host: str) -> None:
    """The host is found in a URL, in an IPv6 address, with and without a port. (F18)"""
    assert host_of(instance) == host


@pytest.mark.integration
def test_prometheus_sends(stage: Stage) -> None:
    """People are told once of the problem that Prometheus sends to a real Helen, and of the recovery when the last has
    ended. (F18)
    """
    stage.command("passive", "add", "node-7/*")
    stage.command("passive", "add", "shop.example/*")
    token = (stage.helen.state / "web.token").read_text().strip()

    def send(*alerts: dict[str, Any]) -> None:
        words = ("-H", f"Authorization: Bearer {token}", "-H", "content-type: application/json")
        assert stage.curl(*words, "--data", json.dumps(alerts), f"{stage.web}/api/v2/alerts")[0] == 200

    send(alert(device="sda"), alert(device="sdb"), alert("https://shop.example/health"))
    stage.becomes("node-7/DiskFull", "critical")
    stage.becomes("shop.example/DiskFull", "critical")
    stage.told("DiskFull", "problem")
    send(alert(device="sda"), alert(device="sdb", ends=OVER))
    wait_until(lambda: "still" in stage.latest("node-7/DiskFull")["summary"], "word that one is over")
    assert stage.state("node-7/DiskFull") == "critical"
    stage.again()
    send(alert(device="sdb", ends=OVER))
    assert stage.latest("node-7/DiskFull")["summary"] == "1 alert still fires: sda is full"
    send(alert(device="sda", ends=OVER))
    stage.becomes("node-7/DiskFull", "ok")
