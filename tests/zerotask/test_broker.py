"""The broker as transcripts: texts of several connections, a clock by hand, and what each is sent."""

from __future__ import annotations

import json

import pytest

from zerotask import errors, methods
from zerotask.roster import BEAT, LEASE


def client(bench, name="c"):
    assert bench.ask(name, "client_connect", name) == name
    return name


def node(bench, name="n", **told):
    assert bench.ask(name, "node_connect", node_id=name, **told) == name
    return name


def submit(bench, task="t", line="c", method="m", params=(), **options):
    named = {"client_id": line, "method": method, "params": list(params), "task_id": task}
    return bench.ask(line, "client_new_task", **named, **options)


def state(bench, task="t", line="c"):
    return bench.ask(line, "client_task_status", line, task)["state"]


# -------------------------------------------------------------------------------------------- offers


def test_a_node_that_says_what_it_serves_is_offered_tasks_directly(bench):
    """Published only to those who listen for what no such node was offered."""
    client(bench), node(bench, methods=["m"], slots=1)
    submit(bench, "t1"), submit(bench, "t2")
    assert bench.told("n") == [("broker_new_task", ["m", "t1"])]
    announced = [one["params"] for one in bench.published if one["method"] == methods.NEW_TASK]
    assert announced == [["m", "t2"]]
    assert bench.ask("n", "node_task_request", "t1") == {"method": "m", "params": [], "id": "t1"}
    bench.ask("n", "node_task_finished", "t1", 1)
    assert bench.told("n")[-1] == ("broker_new_task", ["m", "t2"])


def test_nodes_take_turns_least_recently_used_first(bench):
    client(bench)
    for name in ("n1", "n2", "n3"):
        node(bench, name, methods=["m"], slots=2)
    for number in range(6):
        submit(bench, f"t{number}")
    offers = {name: [p[1] for m, p in bench.told(name) if m == "broker_new_task"] for name in ("n1", "n2", "n3")}
    assert offers == {"n1": ["t0", "t3"], "n2": ["t1", "t4"], "n3": ["t2", "t5"]}


def test_an_offer_that_is_not_taken_up_goes_to_another(bench):
    client(bench), node(bench, "n1", methods=["m"]), submit(bench)
    node(bench, "n2", methods=["m"])
    bench.pass_time(3.0, beating=("n1", "n2"))
    assert ("broker_new_task", ["m", "t"]) in bench.told("n2")


def test_a_node_that_is_gone_loses_its_tasks_at_the_first_word(bench):
    """The next ping finds nobody: the task is queued again long before the lease is over."""
    client(bench), node(bench, "n1", methods=["m"]), submit(bench)
    bench.ask("n1", "node_task_request", "t")
    bench.gone.add("n1")
    bench.pass_time(BEAT + 0.5)
    assert state(bench) == "queued"
    node(bench, "n2", methods=["m"])
    bench.pass_time(1.0, beating=("n2",))
    assert ("broker_new_task", ["m", "t"]) in bench.told("n2")


def test_higher_priority_goes_first(bench):
    client(bench)
    for number, priority in enumerate([1, 9, 4, 9]):
        submit(bench, f"t{number}", priority=priority)
    node(bench, methods=["m"], slots=4)
    bench.pass_time(0.25)
    bundle = next(sent for sent in bench.sent["n"] if isinstance(sent, list))
    assert [one["params"][1] for one in bundle] == ["t1", "t3", "t2", "t0"]


def test_a_prefix_serves_all_that_begins_so(bench):
    client(bench), node(bench, methods={"mdp:*": {}})
    submit(bench, "t1", method="other"), submit(bench, "t2", method="mdp:echo")
    assert [p for m, p in bench.told("n") if m == "broker_new_task"] == [["mdp:echo", "t2"]]


def test_a_methods_policy_counts_unless_the_submission_says_otherwise(bench):
    client(bench), node(bench, methods={"m": {"max_attempts": 1, "time_limit": 7.5}})
    submit(bench, "t1"), submit(bench, "t2", time_limit=3)
    first = bench.ask("n", "node_task_request", task_id="t1", details=True)
    assert (first["attempt"], first["time_limit"]) == (1, 7.5)
    assert bench.ask("n", "node_task_request", task_id="t2", details=True)["time_limit"] == 3.0
    bench.ask("n", "node_task_failed", "t1", {"code": 1, "message": "no"})
    assert state(bench, "t1") == "failed"
    bench.start()
    client(bench), node(bench), submit(bench, "t3")
    assert bench.ask("n", "node_task_request", task_id="t3", details=True)["time_limit"] == 7.5


def test_more_tasks_than_the_board_holds_are_all_served(bench, monkeypatch):
    monkeypatch.setattr("zerotask.board.WINDOW", 8)
    client(bench)
    for number in range(50):
        submit(bench, f"t{number:02}")
    assert len(bench.broker.office.board) <= 8
    node(bench, methods=["m"], slots=1)
    for number in range(50):
        bench.pass_time(0.25, beating=("n",))
        task = bench.told("n")[-1][1][1] if bench.told("n")[-1][1] else bench.told("n")[-2][1][1]
        assert task == f"t{number:02}"
        assert bench.ask("n", "node_task_request", task)["id"] == task
        bench.ask("n", "node_task_finished", task, number)


# -------------------------------------------------------------------------------------------- leases


def test_a_silent_nodes_tasks_are_queued_and_its_name_is_free(bench):
    client(bench), node(bench), submit(bench)
    bench.ask("n", "node_task_request", "t")
    bench.pass_time(LEASE - 0.3)
    assert state(bench) == "assigned"
    assert bench.code("other", "node_connect", "n") == errors.NODE_TAKEN
    bench.pass_time(0.6)
    assert state(bench) == "queued"
    assert bench.code("n", "node_heartbeat", "n") == errors.NODE_UNKNOWN
    assert bench.ask("other", "node_connect", "n") == "n"


def test_who_beats_keeps_its_lease(bench):
    client(bench), node(bench), submit(bench)
    bench.ask("n", "node_task_request", "t")
    bench.pass_time(5 * LEASE, step=1.0, beating=("n",))
    assert state(bench) == "assigned"


@pytest.mark.parametrize("end", ["silence", "leaving", "coming back"])
def test_a_node_that_holds_much_is_dealt_with_in_steps(bench, monkeypatch, end):
    """Others use the store between them; in the end all of it is queued."""
    for module in ("ledger", "office"):
        monkeypatch.setattr(f"zerotask.{module}.SWEEP", 2)
    client(bench), node(bench)
    for number in range(5):
        submit(bench, f"t{number}"), bench.ask("n", "node_task_request", f"t{number}")
    writes, write = [], bench.store.write
    monkeypatch.setattr(bench.store, "write", lambda *call, **named: (writes.append(call), write(*call, **named)))
    if end == "silence":
        bench.pass_time(LEASE + 0.5)
    elif end == "leaving":
        assert bench.ask("n", "node_disconnect", "n") is True
    else:
        assert bench.ask("n", "node_connect", node_id="n", tasks=["t4"]) == "n"
    left = ["assigned" if end == "coming back" and number == 4 else "queued" for number in range(5)]
    assert [state(bench, f"t{number}") for number in range(5)] == left
    assert len(writes) >= 3


def test_policies_are_remembered_within_bounds(bench, monkeypatch):
    """Those that are known may change; new ones beyond that are not kept."""
    monkeypatch.setattr("zerotask.node_calls.MOST_POLICIES", 2)
    node(bench, "n1", methods={"a": {"priority": 1}, "b": {"priority": 2}, "c": {"priority": 3}})
    node(bench, "n2", methods={"b": {"priority": 5}})
    assert {method: policy.priority for method, policy in bench.broker.office.policies.items()} == {"a": 1, "b": 5}
    assert set(bench.store.ledger.shelf.policies()) == {"a", "b"}


def test_leases_outlive_a_restart_for_one_lease(bench):
    client(bench), node(bench), submit(bench)
    bench.ask("n", "node_task_request", "t")
    bench.start()
    client(bench), node(bench, "m")
    assert bench.ask("m", "node_task_request", "t") == {}
    bench.pass_time(LEASE - 0.5, beating=("m",))
    assert state(bench) == "assigned"
    bench.pass_time(1.0, beating=("m",))
    assert state(bench) == "queued"


def test_a_node_that_says_nothing_of_its_tasks_keeps_them_for_one_lease_only(bench):
    """It may have forgotten them: its beats on the new connection do not renew what it held on the old one."""
    client(bench), node(bench), submit(bench, "kept"), submit(bench, "lost")
    for task in ("kept", "lost"):
        bench.ask("n", "node_task_request", task)
    bench.start()
    client(bench)
    assert bench.ask("again", "node_connect", "n") == "n"
    bench.ask("again", "task_status", "n", "kept", "still at it")
    bench.pass_time(LEASE + 0.5, beating=("again",))
    assert (state(bench, "kept"), state(bench, "lost")) == ("running", "queued")


def test_a_node_that_names_its_tasks_goes_on_with_those_and_loses_the_others_at_once(bench):
    client(bench), node(bench, methods=["m"], slots=2), submit(bench, "kept"), submit(bench, "lost")
    for task in ("kept", "lost"):
        bench.ask("n", "node_task_request", task)
    bench.gone.add("n")
    assert bench.ask("again", "node_connect", node_id="n", methods=["m"], slots=2, tasks=["kept"]) == "n"
    assert (state(bench, "kept"), state(bench, "lost")) == ("assigned", "queued")
    bench.pass_time(3 * LEASE, step=1.0, beating=("again",))
    assert state(bench, "kept") == "assigned"
    assert bench.ask("again", "node_task_finished", "kept", 1) is True


def test_the_time_limit_is_kept_for_nodes_that_do_not(bench):
    client(bench), node(bench), submit(bench, time_limit=10, max_attempts=1)
    bench.ask("n", "node_task_request", "t")
    bench.pass_time(17.0, step=1.0, beating=("n",))
    assert state(bench) == "assigned"
    bench.pass_time(6.0, step=1.0, beating=("n",))
    assert bench.code("c", "client_task_result", "c", "t") == errors.TIME_LIMIT


# ------------------------------------------------------------------------------------------- clients


def test_a_result_may_be_waited_for(bench):
    client(bench), node(bench), submit(bench)
    assert bench.ask("c", "client_task_result", client_id="c", task_id="t", wait=30) is None
    bench.ask("n", "node_task_request", "t"), bench.ask("n", "node_task_finished", "t", [7])
    assert bench.sent["c"][-1] == {"jsonrpc": "2.0", "result": [7], "id": 1}


def test_waiting_ends_with_not_finished(bench):
    client(bench), submit(bench)
    assert bench.ask("c", "client_task_result", client_id="c", task_id="t", wait=5) is None
    bench.pass_time(5.5)
    assert [one["error"]["code"] for one in bench.sent["c"] if "error" in one] == [errors.NOT_FINISHED]
    assert len(bench.broker.office.waiters) == 0


def test_waiting_for_anothers_task_is_refused_at_once(bench):
    client(bench), client(bench, "d"), submit(bench)
    assert bench.code("d", "client_task_result", client_id="d", task_id="t", wait=5) == errors.TASK_UNKNOWN


def test_a_failed_task_answers_its_waiters_with_the_stored_error(bench):
    client(bench), node(bench), submit(bench, max_attempts=1)
    bench.ask("c", "client_task_result", client_id="c", task_id="t", wait=30)
    bench.ask("n", "node_task_request", "t")
    bench.ask("n", "node_task_failed", "t", {"code": 5, "message": "no", "data": [1]})
    assert bench.sent["c"][-1]["error"] == {"code": 5, "message": "no", "data": [1]}


def test_a_client_that_wants_to_be_told_is_told_of_its_own_tasks(bench):
    """In bundles; others and those that did not ask are not."""
    assert bench.ask("c", "client_connect", client_id="c", results=True) == "c"
    client(bench, "d"), node(bench)
    submit(bench, "t1"), submit(bench, "t2", max_attempts=1), submit(bench, "t3", line="d")
    for task in ("t1", "t2", "t3"):
        bench.ask("n", "node_task_request", task)
    bench.ask("n", "node_task_finished", "t1", {"x": 1}), bench.ask("n", "node_task_finished", "t3", 3)
    bench.ask("n", "node_task_failed", "t2", {"code": 5, "message": "no"})
    error = {"code": 5, "message": "no"}
    assert bench.told("c") == [("task_ended", ["t1", True, {"x": 1}]), ("task_ended", ["t2", False, error])]
    assert bench.told("d") == []


def test_a_client_whose_connection_is_gone_gives_way_at_once(bench):
    """One that takes notifications can be tried; another keeps its name until it has been silent for a lease."""
    assert bench.ask("old", "client_connect", client_id="c", results=True) == "c"
    assert bench.code("new", "client_connect", "c") == errors.CLIENT_TAKEN
    assert bench.told("old") == [("broker_client_status", [])]
    bench.gone.add("old")
    assert bench.ask("new", "client_connect", "c") == "c"
    bench.gone.add("new")
    assert bench.code("third", "client_connect", "c") == errors.CLIENT_TAKEN
    bench.pass_time(LEASE)
    assert bench.ask("third", "client_connect", "c") == "c"


def test_a_cancelled_task_stops_its_node(bench):
    client(bench), node(bench, methods=["m"]), submit(bench)
    bench.ask("n", "node_task_request", "t")
    assert bench.ask("c", "client_task_cancel", "c", "t") is True
    assert bench.told("n")[-1] == ("broker_cancel", ["t"])
    assert bench.code("c", "client_task_result", "c", "t") == errors.CANCELLED
    assert bench.ask("c", "client_task_cancel", "c", "t") is False


def test_under_curve_names_and_tasks_belong_to_keys(bench):
    """The same key takes its name over from another connection; another key sees nothing of it."""
    assert bench.ask("one", "client_connect", "c", key="K") == "c"
    assert bench.ask("one", "client_new_task", "c", "m", [], "t", key="K") == "t"
    assert bench.ask("two", "client_connect", "c", key="K") == "c"
    assert bench.ask("two", "client_task_status", "c", "t", key="K")["state"] == "queued"
    bench.pass_time(LEASE + 1)
    assert bench.ask("thief", "client_connect", "c", key="L") == "c"
    assert bench.ask("thief", "client_task_status", "c", "t", key="L")[0] == errors.TASK_UNKNOWN


def test_a_node_is_known_by_its_key_on_any_connection(bench):
    bench.ask("c", "client_connect", "c"), submit(bench)
    bench.ask("one", "node_connect", "n", key="K")
    assert bench.ask("two", "node_task_request", "t", key="K")["id"] == "t"


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 10},
        {"priority": -1},
        {"priority": 1.5},
        {"priority": True},
        {"max_attempts": 0},
        {"max_attempts": 101},
        {"delay": -1},
        {"delay": "1"},
        {"time_limit": 0},
        {"result_ttl": 1e12},
    ],
    ids=str,
)
def test_options_out_of_bounds_are_refused(bench, options):
    client(bench)
    assert submit(bench, **options)[0] == errors.INVALID_PARAMS


def test_bodies_have_a_limit(bench, monkeypatch):
    monkeypatch.setattr("zerotask.methods.MAX_BODY", 100)
    client(bench), node(bench)
    assert submit(bench, "t1", params=["x" * 96]) == "t1"
    assert submit(bench, "t2", params=["x" * 97])[0] == errors.INVALID_PARAMS
    bench.ask("n", "node_task_request", "t1")
    assert bench.code("n", "node_task_finished", "t1", "x" * 99) == errors.INVALID_PARAMS
    assert bench.ask("n", "node_task_finished", "t1", "x" * 98) is True


def test_a_batch_whose_answers_do_not_fit_into_one_message(bench, monkeypatch):
    client(bench), node(bench), submit(bench)
    bench.ask("n", "node_task_request", "t"), bench.ask("n", "node_task_finished", "t", "x" * 100)
    monkeypatch.setattr("zerotask.methods.MAX_BODY", 300)
    one = {"jsonrpc": "2.0", "method": "zerotask.broker.client_task_result", "params": ["c", "t"]}
    (answers,) = bench.receive("c", json.dumps([one | {"id": number} for number in range(3)]).encode())
    assert [(a["id"], a.get("error", {}).get("code")) for a in answers] == [
        (0, None),
        (1, None),
        (2, errors.OVERLOADED),
    ]


# ------------------------------------------------------------------------------------ trouble and load


def test_while_nothing_can_be_stored_new_tasks_are_refused_and_reads_go_on(bench):
    client(bench), node(bench), submit(bench)
    bench.store.broken = True
    assert submit(bench, "t2")[0] == errors.STORING_FAILED
    bench.store.on_trouble("no room")
    assert submit(bench, "t2")[0] == errors.DISABLED
    assert state(bench) == "queued"
    bench.store.broken = False
    bench.store.on_trouble(None)
    assert submit(bench, "t2") == "t2"
    bench.pass_time(1.5, beating=("n",))
    again = [one["params"][1] for one in bench.published if one["method"] == methods.NEW_TASK]
    assert {"t", "t2"} <= set(again)


def test_a_lease_whose_end_cannot_be_stored_ends_later(bench):
    client(bench), node(bench), submit(bench)
    bench.ask("n", "node_task_request", "t")
    bench.store.broken = True
    assert bench.code("n", "node_disconnect", "n") == errors.STORING_FAILED
    bench.pass_time(LEASE + 1)
    assert state(bench) == "assigned"
    bench.store.broken = False
    bench.pass_time(LEASE + 1)
    assert state(bench) == "queued"


def test_too_much_on_its_way_is_refused(bench):
    client(bench)
    bench.store.pending = 20_000
    assert submit(bench)[0] == errors.OVERLOADED
    bench.store.pending = 19_999
    assert submit(bench) == "t"


# ----------------------------------------------------------------------------------------- operators


def test_operators_methods_are_for_the_control_socket(bench):
    for name, method in methods.METHODS.items():
        if method.operator:
            assert bench.code("c", name, *["x"] * method.required) == errors.UNAUTHORISED


def test_an_operator_sees_everything(bench):
    client(bench), node(bench, methods=["m"], slots=3)
    submit(bench, "t1"), submit(bench, "t2", max_attempts=1)
    bench.ask("n", "node_task_request", "t2"), bench.ask("n", "node_task_failed", "t2", {"code": 1, "message": "no"})

    def ask(method, **named):
        return bench.ask("op", method, operator=True, **named)

    assert [(task["id"], task["state"]) for task in ask("tasks")] == [("t2", "failed"), ("t1", "queued")]
    assert [task["id"] for task in ask("tasks", state="failed")] == ["t2"]
    assert [task["id"] for task in ask("tasks", limit=1, before=2)] == ["t1"]
    assert ask("tasks", state="nonsense")[0] == errors.INVALID_PARAMS
    assert ask("task", task_id="t1")["client"] == "c"
    assert ask("task_result", task_id="t2")[0] == 1
    assert [(one["node"], one["slots"], one["tasks"]) for one in ask("nodes")] == [("n", 3, ["t1"])]
    assert ask("broker_status")["tasks"] == {"failed": 1, "queued": 1}
    assert ask("task_retry", task_id="t2") is True and state(bench, "t2") == "queued"
    assert ask("task_cancel", task_id="t1") is True and state(bench, "t1") == "failed"


def test_tasks_without_a_result_time_out_of_sight(bench):
    client(bench), node(bench), submit(bench, result_ttl=10)
    bench.ask("n", "node_task_request", "t"), bench.ask("n", "node_task_finished", "t", 1)
    bench.pass_time(16.0, step=1.0)
    rows = bench.store.connection.execute("SELECT state, params, outcome FROM tasks").fetchall()
    assert rows == [("expired", None, None)]


def test_what_a_clock_set_back_kept_off_the_board_is_found_again(bench):
    """A claim that comes before a task is due, by the store's clock, takes it off the board."""
    client(bench), node(bench, methods=["m"]), submit(bench)
    bench.now -= 5.0
    assert bench.ask("n", "node_task_request", "t") == {}
    bench.pass_time(310.0, step=0.5, beating=("n",))
    assert (
        bench.told("n")[-1] == ("broker_new_task", ["m", "t"]) or ("broker_new_task", ["m", "t"]) in bench.told("n")[1:]
    )
    assert bench.ask("n", "node_task_request", "t")["id"] == "t"


def test_methods_that_wait_are_found_without_reading_all(bench):
    client(bench)
    for number, method in enumerate(["b", "a", "b", "c", "a"]):
        submit(bench, f"t{number}", method=method)
    assert bench.store.ledger.shelf.waiting_methods(9) == ["a", "b", "c"]
    assert bench.store.ledger.shelf.waiting_methods(2) == ["a", "b"]
