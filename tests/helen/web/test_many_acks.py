"""Tests acknowledging many checks at once, by names or by a filter, with each refusal named."""

from __future__ import annotations

from typing import Any

import pytest
from helen_running import Running, pulse, wait_until
from web_client import ask

pytestmark = pytest.mark.integration
MANY = "/api/v1/acks/many"


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Provide a Helen with an agent of which two checks are critical and one is ok."""
    folder = tmp_path_factory.mktemp("sick")
    (folder / "checks").mkdir()
    for name, status in (("one", "critical"), ("two", "critical"), ("well", "ok")):
        (folder / "checks" / f"{name}.lua").write_text(pulse().replace('"ok"', f'"{status}"'))
    helen = Running(folder).up()
    agent = helen.agent("web-1")
    try:
        wait_until(lambda: statuses(helen).count("critical") == 2, "two critical checks")
        yield helen
    finally:
        agent.end()
        helen.end()


def statuses(helen: Running) -> list[str]:
    return [each["confirmed"]["status"] for each in helen.client.get("/api/v1/states?all=true")["states"]]


def acked(helen: Running) -> list[str]:
    states = helen.client.get("/api/v1/states?all=true")["states"]
    return sorted(each["check_id"] for each in states if each["acknowledged"])


def test_by_names(sick: Running) -> None:
    """Named checks are acknowledged, each that cannot be is named with the reason, and a repeated one counts once."""
    keys = [["web-1", "one"], ["web-1", "well"], ["nobody", "x"], ["web-1", "one"]]
    answer = ask(sick, "POST", MANY, {"keys": keys, "owner": "anna", "comment": "disks"})
    assert answer.json == {
        "set": 1,
        "refused": [
            {"agent": "web-1", "check": "well", "why": "it is not known to be broken"},
            {"agent": "nobody", "check": "x", "why": "nothing is known of it"},
        ],
    }
    assert acked(sick) == ["one"]
    assert ask(sick, "POST", f"{MANY.replace('many', 'clear/many')}", {"keys": keys[:2]}).json == {
        "set": 1, "refused": [{"agent": "web-1", "check": "well", "why": "it is not acknowledged"}],
    }  # fmt: skip
    assert acked(sick) == []


def test_by_a_filter(sick: Running) -> None:
    """Checks that fit a filter are acknowledged only if their number is the expected one."""
    body = {"filter": "state:critical", "owner": "anna", "expected": 3}
    assert ask(sick, "POST", MANY, body).problem[:2] == (412, "precondition failed")
    assert acked(sick) == []
    assert ask(sick, "POST", MANY, body | {"expected": 2}).json == {"set": 2, "refused": []}
    assert acked(sick) == ["one", "two"]
    everything = {"filter": "check:two", "owner": "anna", "expected": 1}
    assert ask(sick, "POST", "/api/v1/acks/clear/many", everything).json["set"] == 1
    assert acked(sick) == ["one"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "either `keys` or `filter` says which checks are meant"),
        ({"keys": [["a", "b"]], "filter": "x"}, "either `keys` or `filter` says which checks are meant"),
        ({"keys": []}, "`keys` is a list of 1 to 10,000 checks, each as [AGENT, CHECK]"),
        ({"keys": [["a"]]}, "`keys`: each is [AGENT, CHECK]"),
        ({"keys": [["a", 1]]}, "`keys`: each is [AGENT, CHECK]"),
        ({"keys": [["a", "b"]] * 10_001}, "`keys` is a list of 1 to 10,000 checks, each as [AGENT, CHECK]"),
        ({"filter": "x"}, "`filter` needs `expected`: how many checks fitted when you looked"),
        ({"filter": "x", "expected": -1}, "`expected` is a number of checks"),
        ({"filter": "state:green", "expected": 0},
         "state:green: there are ok, warning, critical, unknown (or their beginnings) and problem"),
    ],
)  # fmt: skip
def test_what_is_refused(sick: Running, body: dict[str, Any], said: str) -> None:
    assert ask(sick, "POST", MANY, {"owner": "anna"} | body).problem == (400, "bad request", said)


def test_a_downtime_of_exact_checks(sick: Running) -> None:
    """A downtime of exact checks covers these pairs of agent and check, and lists them as chosen."""
    keys = [["web-1", "one"], ["web-2", "two"]]
    body = {"kind": "downtime", "id": "exact", "keys": keys, "until": 3e9}
    shown = ask(sick, "POST", "/api/v1/windows", body).json
    assert (shown["window"]["keys"], shown["window"]["agents"], shown["covers"]["checks"]) == (keys, [], 1)
    held = {
        each["check_id"]: [hold["ref"] for hold in each["held_by"]]
        for each in sick.client.get("/api/v1/states?all=true")["states"]
    }
    assert {name for name, refs in held.items() if "exact" in refs} == {"one"}
    assert ask(sick, "POST", "/api/v1/windows", body | {"id": "x", "keys": [["a"]]}).problem[1] == "window refused"
    assert ask(sick, "POST", "/api/v1/windows", body | {"id": "x", "keys": [["a", "b"]] * 1_001}).problem[2] == (
        "`keys` is a list of at most 1000 checks, each as [AGENT, CHECK]"
    )
    assert ask(sick, "POST", "/api/v1/windows/exact/cancel", {}).json["cancelled"] is True
