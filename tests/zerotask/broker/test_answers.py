"""Tests what the broker answers to each call, field by field, and what a call leaves behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zerotask import errors
from zerotask.broker import node_calls
from zerotask.tasks.connections import LEASE
from zerotask.wire import jsonrpc, methods


@pytest.fixture
def joined(bench: Any) -> Any:
    """Return a bench with a client c and a node n that serves m in one slot."""
    assert bench.ask("c", "client_connect", "c") == "c"
    assert bench.ask("n", "node_connect", node_id="n", methods=["m"], slots=1) == "n"
    return bench


def submit(bench: Any, task: str = "t", method: str = "m", **options: Any) -> Any:
    return bench.ask("c", "client_new_task", client_id="c", method=method, params=[], task_id=task, **options)


def operate(bench: Any, call: str, /, **named: Any) -> Any:
    return bench.ask("op", call, operator=True, **named)


# ------------------------------------------------------------------------------------------ clients


def test_a_client_that_disconnects_gives_its_name_back(joined: Any) -> None:
    assert joined.ask("c", "client_disconnect", "c") is True
    assert joined.code("c", "client_disconnect", "c") == errors.CLIENT_UNKNOWN
    assert joined.ask("other", "client_connect", "c") == "c"


def test_a_closed_task_is_gone_and_its_id_free(joined: Any) -> None:
    assert submit(joined) == "t" and joined.ask("c", "client_task_close", "c", "t") is True
    assert joined.code("c", "client_task_status", "c", "t") == errors.TASK_UNKNOWN
    assert joined.code("c", "client_task_close", "c", "t") == errors.TASK_UNKNOWN
    assert submit(joined, method="other") == "t"


def test_a_task_is_cancelled_once(joined: Any) -> None:
    submit(joined)
    assert [joined.ask("c", "client_task_cancel", "c", "t") for _ in range(2)] == [True, False]


# -------------------------------------------------------------------------------------------- nodes


def test_beats_are_answered_and_name_their_node(joined: Any) -> None:
    assert joined.ask("n", "node_heartbeat", "n") is True and joined.ask("n", "node_status") is True
    assert joined.code("n", "node_heartbeat", "x") == errors.NODE_UNKNOWN
    assert joined.code("other", "node_status") == errors.NODE_UNKNOWN


def test_a_node_that_disconnects_is_offered_nothing_more(joined: Any) -> None:
    submit(joined)
    joined.ask("n", "node_task_request", "t")
    assert joined.ask("n", "node_disconnect", "n") is True
    assert joined.ask("c", "client_task_status", "c", "t")["state"] == "queued"
    told = len(joined.told("n"))
    submit(joined, "t2")
    joined.pass_time(5.0)
    assert len(joined.told("n")) == told and operate(joined, "nodes") == []


def test_a_call_may_name_its_node_or_come_on_its_connection(joined: Any) -> None:
    submit(joined)
    given = joined.ask("n", "node_task_request", task_id="t", node_id="n", details=True)
    assert given == {
        "method": "m", "params": [], "id": "t", "attempt": 1, "time_limit": 3_600.0, "client": "c", "key": "",
    }  # fmt: skip
    assert joined.code("n", "node_task_finished", task_id="t", task_result=1, node_id="x") == errors.NODE_UNKNOWN
    assert joined.ask("n", "node_task_waits", task_id="t") is True
    assert joined.ask("n", "node_task_finished", task_id="t", task_result=1, node_id="n") is True
    assert joined.ask("c", "client_task_result", "c", "t") == 1


@pytest.mark.parametrize("more, is_taken", [(0, True), (1, False)])
def test_a_status_may_be_as_long_as_the_limit(joined: Any, monkeypatch: Any, more: int, is_taken: bool) -> None:
    monkeypatch.setattr(node_calls, "MAX_DETAIL", len(jsonrpc.encode(["half", {"text": "x" * 20}])) - more)
    submit(joined)
    joined.ask("n", "node_task_request", "t")
    answer = joined.ask("n", "task_status", node_id="n", task_id="t", status="half", text="x" * 20)
    if is_taken:
        assert answer is True and joined.ask("c", "client_task_status", "c", "t")["detail"] == {"text": "x" * 20}
    else:
        assert answer[0] == errors.INVALID_PARAMS and answer[1].endswith("report less")


def test_slots_are_one_unless_told_and_may_be_none(bench: Any) -> None:
    bench.ask("a", "node_connect", node_id="a", methods=["m"])
    bench.ask("b", "node_connect", node_id="b", methods=["m"], slots=0)
    assert {line["node"]: line["slots"] for line in operate(bench, "nodes")} == {"a": 1, "b": 0}
    assert bench.code("x", "node_connect", node_id="x", methods=["m"], slots=-1) == errors.INVALID_PARAMS
    most = methods.MAX_SLOTS
    assert bench.code("x", "node_connect", node_id="x", methods=["m"], slots=most + 1) == errors.INVALID_PARAMS


def test_a_node_that_comes_back_with_other_methods_is_offered_those_alone(joined: Any) -> None:
    joined.ask("n", "node_connect", node_id="n", methods=["other"], slots=1)
    submit(joined, "t1"), submit(joined, "t2", method="other")
    assert [params for name, params in joined.told("n") if name == "broker_new_task"] == [["other", "t2"]]
    [line] = operate(joined, "nodes")
    assert line["methods"] == ["other"]


@pytest.mark.parametrize("again", [{"methods": ["m"], "tasks": []}, {"methods": ["m"]}, {}])
def test_a_node_that_comes_back_holds_what_it_names(joined: Any, again: dict[str, Any]) -> None:
    """A node's tasks are queued at once if it names others as it comes back; without a word they stay its own for one
    lease.
    """
    submit(joined)
    joined.ask("n", "node_task_request", "t")
    assert joined.ask("n", "node_disconnect", "n") is True
    joined.ask("n", "node_connect", node_id="n", methods=["m"], slots=1)
    joined.ask("n", "node_task_request", "t")
    joined.ask("n", "node_connect", node_id="n", **again)
    [line] = operate(joined, "nodes")
    assert line["tasks"] == [] and line["waiting"] == 0
    state = joined.ask("c", "client_task_status", "c", "t")["state"]
    assert state == ("queued" if "tasks" in again else "assigned")


def test_a_node_that_left_holds_nothing_when_it_comes_again(joined: Any) -> None:
    submit(joined)
    joined.ask("n", "node_task_request", "t")
    joined.ask("n", "node_disconnect", "n")
    joined.ask("n", "node_connect", "n")
    [line] = operate(joined, "nodes")
    assert (line["tasks"], line["methods"], line["slots"]) == ([], [], None)


def test_leases_whose_end_cannot_be_stored_lapse_later(joined: Any) -> None:
    submit(joined)
    joined.ask("n", "node_task_request", "t")
    joined.store.broken = True
    assert joined.code("other", "node_connect", node_id="n", methods=["m"], tasks=["t"], key="") == errors.NODE_TAKEN
    joined.gone.add("n")
    assert joined.code("other", "node_connect", node_id="n", methods=["m"], tasks=[]) == errors.STORING_FAILED
    joined.store.broken = False
    assert joined.ask("c", "client_task_status", "c", "t")["state"] == "assigned"
    joined.pass_time(LEASE + 0.25, beating=("other",))
    assert joined.ask("c", "client_task_status", "c", "t")["state"] == "queued"


def test_which_calls_wait_for_the_disk(joined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim and a status may be lost with the power; what a caller relies on may not."""
    waits: list[bool] = []
    write = joined.store.write

    def noting(job: Any, done: Any, durable: bool = True) -> None:
        waits.append(durable)
        write(job, done, durable)

    monkeypatch.setattr(joined.store, "write", noting)
    found = {}
    for method, named in (
        ("client_new_task", {"client_id": "c", "method": "m", "params": [], "task_id": "t", "max_attempts": 2}),
        ("node_task_request", {"task_id": "t"}), ("task_status", {"node_id": "n", "task_id": "t", "status": "half"}),
        ("node_task_failed", {"task_id": "t", "error": {"code": 7, "message": "no"}, "retry": False}),
        ("client_task_cancel", {"client_id": "c", "task_id": "t"}),
        ("client_task_close", {"client_id": "c", "task_id": "t"}),
        ("node_connect", {"node_id": "n", "methods": {"m": {"priority": 7}}}),
        ("node_disconnect", {"node_id": "n"}),
    ):  # fmt: skip
        waits.clear()
        joined.ask("c" if method.startswith("client") else "n", method, **named)
        found[method] = list(waits)
    assert found == {
        "client_new_task": [True], "node_task_request": [False], "task_status": [False], "node_task_failed": [True],
        "client_task_cancel": [True], "client_task_close": [True], "node_connect": [False], "node_disconnect": [True],
    }  # fmt: skip


# ---------------------------------------------------------------------------------------- operators


def test_a_node_is_shown_with_its_silence_and_its_work(joined: Any) -> None:
    submit(joined)
    joined.ask("n", "node_task_request", "t")
    joined.now += 1.23456
    line = {"node": "n", "methods": ["m"], "slots": 1, "tasks": ["t"], "waiting": 0, "drained": False}
    assert operate(joined, "nodes") == [line | {"silent": 1.235}]
    joined.ask("n", "node_task_waits", task_id="t")
    joined.now -= 0.5
    assert operate(joined, "nodes") == [line | {"silent": 0.0, "waiting": 1}]


def test_tasks_are_listed_in_pages_and_without_long_parts(joined: Any) -> None:
    for number in range(101):
        submit(joined, f"t{number}")
    page = operate(joined, "tasks")
    assert [line["id"] for line in page] == [f"t{number}" for number in range(100, 0, -1)]
    assert [line["id"] for line in operate(joined, "tasks", before=page[-1]["seq"])] == ["t0"]
    assert [line["id"] for line in operate(joined, "tasks", limit=1)] == ["t100"]
    for wrong in ({"limit": 0}, {"limit": methods.MAX_PAGE + 1}, {"state": "asleep"}, {"before": -1}):
        assert operate(joined, "tasks", **wrong)[0] == errors.INVALID_PARAMS
    joined.ask("n", "node_task_request", "t5")
    for length, shown in ((1_022, "x" * 1_022), (1_023, None)):  # with its quotation marks 1,024 bytes
        joined.ask("n", "task_status", node_id="n", task_id="t5", status="x" * length, much="y")
        [line] = operate(joined, "tasks", state="running")
        assert line["status"] == shown and "detail" not in line
        whole = operate(joined, "task", task_id="t5")
        assert whole["status"] == "x" * length and whole["detail"] == {"much": "y"}


def test_operators_cancel_and_retry(joined: Any) -> None:
    submit(joined)
    assert [operate(joined, "task_cancel", task_id="t") for _ in range(2)] == [True, False]
    assert operate(joined, "task_retry", task_id="t") is True
    assert operate(joined, "task_retry", task_id="t")[0] == errors.TASK_INVALID


def test_a_schedule_from_its_addition_to_its_removal(joined: Any) -> None:
    given = {"name": "s", "line": "0 5 * * *", "method": "m", "params": [1], "priority": 3}
    assert operate(joined, "schedule_add", **given) is True
    [line] = operate(joined, "schedules")
    assert line == {
        "name": "s", "line": "0 5 * * *", "zone": "UTC", "method": "m", "params": [1], "options": {"priority": 3},
        "catch_up": False, "done": joined.now, "missed": [], "next": 18_000.0, "ahead": None,
    }  # fmt: skip
    assert operate(joined, "schedule_remove", name="s") is True
    assert operate(joined, "schedule_remove", name="s")[0] == errors.SCHEDULE_UNKNOWN
    assert operate(joined, "schedules") == []


@pytest.mark.parametrize("wrong", [
    {"priority": "high"}, {"max_attempts": 0}, {"line": "whenever"}, {"zone": "Nowhere/None"}, {"catch_up": 1},
    {"name": "a b"},
])  # fmt: skip
def test_a_schedule_with_anything_wrong_is_not_added(joined: Any, wrong: dict[str, Any]) -> None:
    given = {"name": "s", "line": "0 5 * * *", "method": "m", "params": [1]}
    assert isinstance(operate(joined, "schedule_add", **given | wrong), tuple)
    assert operate(joined, "schedules") == []


def test_answers_are_json_of_one_line(joined: Any) -> None:
    request = {"jsonrpc": "2.0", "method": "zerotask.broker.node_heartbeat", "params": ["n"], "id": "x"}
    assert joined.receive("n", json.dumps(request).encode()) == [{"jsonrpc": "2.0", "result": True, "id": "x"}]
