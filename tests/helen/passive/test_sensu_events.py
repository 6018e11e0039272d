"""Tests events of Sensu as its documentation has them, and texts that are no event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outside_stage import Stage

from helen.passive.sensu_events import MAX_POINTS, read_event
from helen.passive.submission import NoSubmission

# As Sensu Go's documentation of the agent has it, but for the entity.
DOCUMENTED: dict[str, Any] = {
    "check": {"metadata": {"name": "check-mysql-status"}, "status": 1, "output": "could not connect to mysql"}
}


def event(entity: Any = None, metrics: Any = None, **check: Any) -> dict[str, Any]:
    return {
        "check": {**DOCUMENTED["check"], **check},
        "entity": entity or {"metadata": {"name": "nas"}},
        "metrics": metrics,
    }


def test_the_documented_event() -> None:
    found = read_event(DOCUMENTED, "nas", "id-1")
    assert (found.host, found.check, found.via) == ("nas", "check-mysql-status", "sensu")
    assert (found.id, found.within) == ("id-1", None)
    assert (found.document["status"], found.document["summary"]) == ("warning", "could not connect to mysql")


def test_times_figures_and_the_deadline() -> None:
    points = [{"name": "took", "value": 5, "timestamp": 1, "tags": [{"name": "disk", "value": "sda"}, {"name": 5}]}]
    times = {"ttl": 90, "executed": 1_800_000_000, "duration": 0.25}
    found = read_event(event(metrics={"points": points}, output="fine | a=1;2", status=0, **times), "other", None)
    assert (found.host, found.within, found.why) == ("nas", 90.0, "by its ttl")
    document = found.document
    assert (document["status"], document["started"], document["took_ms"]) == ("ok", 1_800_000_000.0, 250.0)
    assert [(metric["name"], metric["value"]) for metric in document["metrics"]] == [("a", 1.0), ("took", 5)]
    assert document["metrics"][1]["labels"] == {"disk": "sda"}


def test_whose_it_is() -> None:
    """The host is the entity, in its metadata or as of old, a proxy, or the address; without them the
    event is refused.
    """
    assert read_event(event({"name": "old"}), None, None).host == "old"
    assert read_event({"check": {"name": "x", "proxy_entity_name": "www"}}, "other", None).host == "www"
    assert read_event({"check": {"name": "x"}}, "other", None).check == "x"
    with pytest.raises(NoSubmission, match="whose event is it"):
        read_event(DOCUMENTED, None, None)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "an event has a `check`"),
        ({"check": []}, "an event has a `check`"),
        ({"check": {"metadata": {"name": 5}}}, "the name of the check, a text"),
        (event(status="bad"), "the exit status is a number"),
        (event(ttl=-1), "check.ttl is a number of seconds"),
        (event(ttl=1e9), "check.ttl is in seconds, at most"),
        (event(executed="now"), "check.executed is a number of seconds"),
        (event(metrics={"points": {}}), "metrics.points is a list"),
        (event(metrics={"points": [{}] * (MAX_POINTS + 1)}), "metrics.points is a list of at most 1,000"),
        (event(metrics={"points": [{"name": "a", "value": "1"}]}), "a value that is a number"),
        (event(metrics={"points": [5]}), "a value that is a number"),
    ],
)
def test_what_is_no_event(body: dict[str, Any], why: str) -> None:
    with pytest.raises(NoSubmission) as fault:
        read_event(body, "nas", None)
    assert why in str(fault.value)


KEYS = st.sampled_from(["metadata", "name", "status", "ttl", "points", "value"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(JSON, JSON, JSON)
def test_anything(check: Any, entity: Any, metrics: Any) -> None:
    """Nothing but NoSubmission is raised, whatever comes."""
    try:
        read_event({"check": check, "entity": entity, "metrics": metrics}, "nas", None)
    except NoSubmission:
        return


@pytest.mark.integration
def test_by_curl(stage: Stage) -> None:
    """An event by curl is a result like any other; a wrong key, an unknown check and a broken body are told."""
    stage.command("passive", "add", "nas2/mysql")
    key = stage.command("passive", "key", "nas2")
    body = json.dumps({"check": {"metadata": {"name": "mysql"}, "status": 2, "output": "gone"}})
    words = ["-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json"]
    status, said = stage.curl(*words, f"{stage.web}/events?entity=nas2", "-d", body)
    assert (status, json.loads(said)) == (202, {"duplicate": False})
    stage.becomes("nas2/mysql", "critical")
    assert stage.curl(*words, f"{stage.web}/events?entity=nas3", "-d", body)[0] in (401, 404)
    assert stage.curl("-H", "Authorization: Bearer hs_no", f"{stage.web}/events?entity=nas2", "-d", body)[0] == 401
    assert stage.curl(*words, f"{stage.web}/events", "-d", body)[0] == 400
    assert stage.curl(*words, f"{stage.web}/events?entity=nas2", "-d", body.replace("mysql", "none"))[0] == 404
