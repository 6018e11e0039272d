"""Tests Debian's amtool with Helen as its Alertmanager: alerts, groups, silences, receivers, routes, status."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from helen_running import wait_until
from outside_stage import Stage

pytestmark = pytest.mark.integration

Amtool = Callable[..., str]


@pytest.fixture(scope="module")
def amtool(stage: Stage) -> Amtool:
    """Return a function that runs amtool and returns what it printed; `fails` is its exit status."""
    program = shutil.which("amtool")
    assert program, "amtool is missing: apt-get install prometheus-alertmanager"
    for check in ("disk", "load"):
        stage.command("passive", "add", f"am-1/{check}", "--label", "role=db")
    report(stage, "disk", "critical")
    report(stage, "load", "warning")
    stage.becomes("am-1/disk", "critical")
    stage.becomes("am-1/load", "warning")

    def run(*words: str, fails: int = 0) -> str:
        token = (stage.helen.state / "web.token").read_text().strip()
        url = f"--alertmanager.url=http://amtool:{token}@{stage.helen.run['web']}"
        done = subprocess.run([program, url, *words], capture_output=True, text=True, timeout=30)
        assert done.returncode == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def report(stage: Stage, check: str, status: str) -> None:
    body = {"host": "am-1", "check": check, "status": status, "summary": f"{check} is {status}"}
    stage.helen.client.post("/api/v1/passive/results", body)


def alerts(amtool: Amtool, *words: str) -> dict[str, str]:
    """Check -> state, of those that are ours."""
    listed = json.loads(amtool("alert", "query", "-o", "json", "agent=am-1", *words))
    return {each["labels"]["check"]: each["status"]["state"] for each in listed}


def silences(amtool: Amtool, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(amtool("silence", "query", "-o", "json", *words))
    return found


def test_alerts(amtool: Amtool) -> None:
    """Alerts are listed with their words and receivers, and by matchers of every kind."""
    table = amtool("alert", "query", "agent=am-1", "check=disk")
    assert [line.split("  ")[0] for line in table.splitlines()] == ["Alertname", "HelenCheck"]
    assert "disk is critical" in table and table.rstrip().endswith("active")
    listed = json.loads(amtool("alert", "query", "-o", "json", 'check=~"di.*"', "role!=web", "severity!~warn.*"))
    (alert,) = [each for each in listed if each["labels"]["agent"] == "am-1"]
    labels = {"alertname": "HelenCheck", "agent": "am-1", "check": "disk", "severity": "critical", "role": "db"}
    assert (alert["labels"], alert["receivers"]) == (labels, [{"name": "hook"}])
    assert (alert["status"], len(alert["fingerprint"])) == (
        {"state": "active", "silencedBy": [], "inhibitedBy": []}, 16,
    )  # fmt: skip
    assert alerts(amtool, "severity=warning") == {"load": "active"}
    assert alerts(amtool, "--receiver=none") == {}
    assert "can't be used" in amtool("alert", "query", r"check=~\bdisk", fails=1)


def test_a_silence_from_its_begin_to_its_end(stage: Stage, amtool: Amtool) -> None:
    """A silence is added, seen at once, changed and ended; what is still broken is told then."""
    name = amtool("silence", "add", "agent=am-1", "check=~di.*", "-d", "2h", "-a", "eva", "-c", "new disk").strip()
    assert alerts(amtool) == {"load": "active"}
    assert alerts(amtool, "--silenced") == {"disk": "suppressed"}
    state = stage.helen.client.get("/api/v1/states/am-1/disk")
    assert [(hold["kind"], hold["ref"]) for hold in state["held_by"]] == [("silence", name)]
    (window,) = [each for each in stage.helen.client.get("/api/v1/windows")["windows"] if each["id"] == name]
    assert (window["author"], window["comment"], window["active"]) == ("eva", "new disk", True)
    (shown,) = silences(amtool, "agent=am-1")
    assert (shown["id"], shown["status"], shown["createdBy"]) == (name, {"state": "active"}, "eva")
    assert shown["matchers"] == [
        {"name": "agent", "value": "am-1", "isRegex": False, "isEqual": True},
        {"name": "check", "value": "di.*", "isRegex": True, "isEqual": True},
    ]
    assert amtool("silence", "update", name, "-d", "4h", "-c", "still new").strip().startswith("ID")
    (changed,) = silences(amtool, "agent=am-1")
    assert (changed["id"], changed["comment"], changed["startsAt"]) == (name, "still new", shown["startsAt"])
    assert changed["endsAt"] > shown["endsAt"]
    before = len([a for d in stage.receiver.documents() for a in d["alerts"] if a["check"] == "disk"])
    amtool("silence", "expire", name)
    assert alerts(amtool) == {"disk": "active", "load": "active"}
    wait_until(
        lambda: len([a for d in stage.receiver.documents() for a in d["alerts"] if a["check"] == "disk"]) > before,
        "word that it is still broken", 20.0,
    )  # fmt: skip
    assert silences(amtool, "agent=am-1") == []
    (ended,) = silences(amtool, "--expired", "agent=am-1")
    assert (ended["id"], ended["status"]) == (name, {"state": "expired"})
    assert "404" in amtool("silence", "expire", name, fails=1)


def test_three_faces_of_one_table(stage: Stage, amtool: Amtool) -> None:
    """A downtime and an acknowledgement are silences here, with ids that are UUIDs, and end when they are expired."""
    stage.command("downtime", "--on", "am-*", "--check", "load", "--for", "1h", "--comment", "kernel", "--id", "patch")
    stage.command("ack", "am-1/disk", "--owner", "eva", "--comment", "on it")
    shown = {each["comment"]: each for each in silences(amtool)}
    assert shown.keys() >= {"downtime: kernel", "acknowledged: on it"}
    assert [m["value"] for m in shown["downtime: kernel"]["matchers"]] == ["am\\-.*", "load"]
    assert all(len(each["id"]) == 36 for each in shown.values())
    assert alerts(amtool, "--silenced") == {"disk": "suppressed", "load": "suppressed"}
    amtool("silence", "update", shown["downtime: kernel"]["id"], "-d", "3h")
    (window,) = [each for each in stage.helen.client.get("/api/v1/windows")["windows"] if each["id"] == "patch"]
    assert (window["kind"], window["agents"], window["until"] > time.time() + 7_200) == ("downtime", ["am-*"], True)
    amtool("silence", "expire", *(each["id"] for each in shown.values()))
    assert alerts(amtool) == {"disk": "active", "load": "active"}


@pytest.mark.parametrize(
    ("matchers", "said"),
    [(["severity=critical"], "leave the matcher for `severity` out"), ([r"check=~\bdisk"], "can't stand at 1")],
)
def test_a_silence_that_cannot_be(amtool: Amtool, matchers: list[str], said: str) -> None:
    """A silence that cannot be is refused in words that amtool prints."""
    assert said in amtool("silence", "add", *matchers, "-c", "x", fails=1)


def test_its_configuration(amtool: Amtool) -> None:
    """amtool reads the receivers and routes, and tests them as its own."""
    assert "hook" in amtool("config", "routes")
    assert amtool("config", "routes", "test", "agent=am-1", "severity=critical").strip() == "hook"
    assert "status:  disabled" in amtool("cluster", "show").lower().replace("cluster ", "")


def test_groups_and_names(stage: Stage, amtool: Amtool) -> None:
    """Karma's further questions are answered: alerts by receiver and labels, and the receivers."""
    token = (stage.helen.state / "web.token").read_text().strip()
    auth = ("-H", f"Authorization: Bearer {token}")
    _, said = stage.curl(*auth, f"{stage.web}/api/v2/alerts/groups?filter=agent%3D%22am-1%22")
    grouped = [(each["receiver"], each["labels"], len(each["alerts"])) for each in json.loads(said)]
    hook = {"name": "hook"}
    assert grouped == [(hook, {"agent": "am-1", "check": "disk"}, 1), (hook, {"agent": "am-1", "check": "load"}, 1)]
    _, said = stage.curl(*auth, f"{stage.web}/api/v2/receivers")
    assert json.loads(said) == [{"name": "hook"}, {"name": "nobody"}]


def test_an_alert_of_others_is_a_result(stage: Stage, amtool: Amtool) -> None:
    """An alert of amtool or Prometheus is a result when it fires, and when it is over."""
    stage.command("passive", "add", "am-2/Probe*")
    labels = ("alertname=ProbeFailed", "instance=am-2:9115", "severity=warning")
    amtool("alert", "add", *labels, "--annotation=summary=no answer")
    stage.becomes("am-2/ProbeFailed", "warning")
    assert stage.latest("am-2/ProbeFailed")["summary"] == "no answer"
    amtool("alert", "add", *labels, "--end=2020-01-01T00:00:00Z")
    stage.becomes("am-2/ProbeFailed", "ok")
    assert "nothing from outside is expected of x/y" in amtool("alert", "add", "alertname=y", "host=x", fails=1)
