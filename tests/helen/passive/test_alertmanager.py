"""Tests states, windows and routes in Alertmanager's words."""

from __future__ import annotations

import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.notify.config import read
from helen.states.downtimes import Scope, read_window
from helen.states.linear_regex import read_expression
from helen.states.matchers import Matcher, read_matchers
from helen.states.model import Ack, Condition, Flap, Hold, Seen, State
from helen.web.alertmanager.alerts import AlertFilter, Facts, View, alerts, groups
from helen.web.alertmanager.configuration import configuration
from helen.web.alertmanager.globs import expression_of
from helen.web.alertmanager.silences import (
    ack_id,
    matchers_of,
    read_time,
    silence_of_ack,
    silence_of_window,
    uuid_of,
)

NOW = 1_800_000_000.0
CONFIG = read("""
external_url = "https://helen.example"
[channels.ops]
type = "webhook"
url = "https://ops.example/x"
[channels."mail-a"]
type = "webhook"
url = "https://mail.example/x"
[route]
channels = "ops"
group_by = ["agent", "my-site"]
group_wait = "1500ms"
repeat_interval = "30d"
[[route.routes]]
match = ["role=db*", "severity!=warning"]
channels = ["ops", "mail-a"]
group_by = []
group_wait = "0s"
  [[route.routes.routes]]
  name = "quiet"
  match = "agent=test-[0-9]"
  channels = []
[[route.routes]]
match = 'check=a"b'
continue = true
""")
BROKEN = State(Condition(2, NOW - 60), Condition(2, NOW - 60), Seen(NOW - 5, None, "s", 1))
CALM = State(Condition(0, NOW - 60), Condition(0, NOW - 60))


def view(**states: State) -> View:
    """Return states of checks of `a`; `b__c` is c of b."""
    named = {tuple((name if "__" in name else f"a__{name}").split("__")): state for name, state in states.items()}
    return View(named, lambda key: Facts({"role": "web", "my-site": "x"}, "words"), CONFIG, NOW)  # type: ignore[arg-type]


def test_an_alert() -> None:
    """An alert has all of Alertmanager's fields."""
    ((_, alert),) = alerts(view(c=BROKEN), [("a", "c")])
    labels = {
        "agent": "a",
        "alertname": "HelenCheck",
        "check": "c",
        "my_site": "x",
        "role": "web",
        "severity": "critical",
    }
    fingerprint = alert.pop("fingerprint")
    assert (len(fingerprint), int(fingerprint, 16) > 0) == (16, True)
    assert alert == {
        "labels": labels, "annotations": {"summary": "words"}, "startsAt": "2027-01-15T07:59:00.000Z",
        "updatedAt": "2027-01-15T07:59:55.000Z", "endsAt": "2027-01-15T08:04:00.000Z", "receivers": [{"name": "ops"}],
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": []},
        "generatorURL": "https://helen.example/api/v1/explain/a/c",
    }  # fmt: skip


CASES: dict[str, tuple[State, str | None]] = {
    "calm": (CALM, None),
    "not confirmed": (evolve(CALM, shown=Condition(2, NOW, attempt=1)), None),
    "nothing known yet": (State.pending(NOW), None),
    "flapping": (evolve(CALM, flap=Flap(3, True)), "active"),
    "broken": (BROKEN, "active"),
    "in a downtime": (evolve(BROKEN, holds=(Hold("downtime", "d"),)), "silenced"),
    "acknowledged": (evolve(BROKEN, ack=Ack("eva")), "silenced"),
    "below a parent": (evolve(BROKEN, holds=(Hold("dependency", "b/p"),)), "inhibited"),
}


@pytest.mark.parametrize("title", CASES)
def test_which_states_are_alerts(title: str) -> None:
    """A state is an alert that is active, silenced or inhibited, or none; each kind can be left out."""
    state, wanted = CASES[title]
    shown = view(c=state, b__p=BROKEN)
    found = alerts(shown, [("a", "c")])
    assert len(found) == (wanted is not None)
    for _, alert in found:
        status = alert["status"]
        assert status["state"] == ("active" if wanted == "active" else "suppressed")
        assert (bool(status["silencedBy"]), bool(status["inhibitedBy"])) == (
            wanted == "silenced",
            wanted == "inhibited",
        )
        left_out: dict[str, Any] = {wanted: False} if wanted else {}
        assert (AlertFilter().takes(alert), AlertFilter(**left_out).takes(alert)) == (True, False)
        assert AlertFilter(matchers=read_matchers('check="x"')).takes(alert) is False
        assert AlertFilter(receiver=lambda name: name == "x").takes(alert) is False
    if wanted == "inhibited":
        ((_, parent),) = alerts(shown, [("b", "p")])
        assert found[0][1]["status"]["inhibitedBy"] == [parent["fingerprint"]]


def test_groups() -> None:
    """Alerts are grouped by channel, and by the labels of its rule."""
    listed = alerts(view(c=BROKEN, d=BROKEN, b__c=BROKEN), [("a", "c"), ("a", "d"), ("b", "c")])
    grouped = [(each["receiver"]["name"], each["labels"], len(each["alerts"])) for each in groups(CONFIG, listed)]
    assert grouped == [
        ("ops", {"agent": "a", "my_site": "x"}, 2),
        ("ops", {"agent": "b", "my_site": "x"}, 1),
    ]
    assert [each["receiver"]["name"] for each in groups(None, listed)] == ["nobody"]


# ------------------------------------------------------------------------------------------------ silences


def window(**changes: Any) -> Any:
    document = {"id": "patch", "kind": "downtime", "begin": NOW - 10, "until": NOW + 60, "author": "eva"}
    return read_window({**document, "comment": "kernel", "created": NOW - 10, **changes}, NOW)


def test_a_downtime_is_a_silence() -> None:
    """A downtime is a silence with a UUID that stays, and with its scope as matchers."""
    shown = silence_of_window(window(agents=["web-*", "db-1"], checks=["disk"], labels={"my-site": "x"}), NOW)
    assert shown == {
        "id": uuid_of("patch"), "status": {"state": "active"}, "createdBy": "eva", "comment": "downtime: kernel",
        "startsAt": "2027-01-15T07:59:50.000Z", "endsAt": "2027-01-15T08:01:00.000Z",
        "updatedAt": "2027-01-15T07:59:50.000Z",
        "matchers": [
            {"name": "agent", "value": "web\\-.*|db\\-1", "isRegex": True, "isEqual": True},
            {"name": "check", "value": "disk", "isRegex": False, "isEqual": True},
            {"name": "my_site", "value": "x", "isRegex": False, "isEqual": True},
        ],
    }  # fmt: skip
    assert uuid_of(uuid_of("patch")) == uuid_of("patch") != uuid_of("other")


@pytest.mark.parametrize(
    ("changes", "ended", "state", "ends"),
    [
        ({"begin": NOW + 5}, None, "pending", "2027-01-15T08:01:00.000Z"),
        ({}, NOW - 1, "expired", "2027-01-15T07:59:59.000Z"),
        ({"until": None, "recurrence": {"begin": "07:00", "end": "09:00", "zone": "UTC"}}, None, "active",
         "2027-01-15T09:00:00.000Z"),
        ({"until": None, "recurrence": {"begin": "09:00", "end": "10:00", "zone": "UTC"}}, None, "pending",
         "2027-01-15T10:00:00.000Z"),
    ],
)  # fmt: skip
def test_when_it_is_on(changes: dict[str, Any], ended: float | None, state: str, ends: str) -> None:
    """A window is to come, on, or over, or comes again and again."""
    shown = silence_of_window(window(**changes), NOW, ended)
    assert (shown["status"], shown["endsAt"]) == ({"state": state}, ends)


def test_an_acknowledgement_is_a_silence() -> None:
    """The silence is of one check, with an end in any case."""
    shown = silence_of_ack(("a", "c"), evolve(BROKEN, ack=Ack("eva", "on it")), NOW)
    assert (shown["id"], shown["createdBy"], shown["comment"]) == (ack_id(("a", "c")), "eva", "acknowledged: on it")
    assert (shown["matchers"], shown["endsAt"][:4]) == (
        [Matcher("agent", "a").to_json(), Matcher("check", "c").to_json()], "2037",
    )  # fmt: skip


def test_what_covers_all() -> None:
    """Has a matcher all the same: theirs need one."""
    assert matchers_of(Scope()) == (Matcher("alertname", "HelenCheck"),)
    own = (Matcher("role", "db"),)
    assert matchers_of(Scope(matchers=own)) == own


@settings(max_examples=100, deadline=None)
@given(st.text("ab*?[]!-.\\", max_size=8), st.text("ab-.\\!]", max_size=6))
def test_a_pattern_as_an_expression(glob: str, name: str) -> None:
    """The expression of a pattern matches the same names, if both can say it."""
    try:
        expression = read_expression(expression_of(glob))
    except ValueError:
        return  # [] and the like: odd classes, which a name has no use for
    assert expression.fullmatch(name) == fnmatchcase(name, glob)


@pytest.mark.parametrize("text", [None, 3, "", "today", "2026-11-28T14:00:00"])
def test_no_time(text: Any) -> None:
    """A text that is no time is refused with the name of the field."""
    with pytest.raises(ValueError, match="startsAt"):
        read_time(text, "startsAt")
    assert read_time("2027-01-15T08:00:00Z", "x") == read_time("2027-01-15T09:00:00.0+01:00", "x") == NOW


def test_routes_as_their_configuration(tmp_path: Path) -> None:
    """A configuration of routes is taken by amtool for its own, and comes to the same channels."""
    program = shutil.which("amtool")
    assert program, "amtool is missing: apt-get install prometheus-alertmanager"
    path = tmp_path / "alertmanager.yml"
    path.write_text(configuration(CONFIG))
    assert "\n  group_wait: 1500ms\n" in path.read_text() and "\n  repeat_interval: 30d\n" in path.read_text()

    def run(*words: str) -> str:
        return subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    assert "SUCCESS" in run("check-config", str(path))
    test = ("config", "routes", "test", f"--config.file={path}")
    cases = {
        ("agent=a",): "ops",
        ("role=db-x", "severity=critical", "agent=a"): "ops, mail-a",
        ("role=db-x", "severity=warning"): "ops",
        ("role=db-x", "severity=critical", "agent=test-1"): "nobody",
    }
    assert {labels: run(*test, *labels) for labels in cases} == cases
    path.write_text(configuration(None))
    assert "SUCCESS" in run("check-config", str(path))
