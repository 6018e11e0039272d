"""Tests the broker as transcripts: texts of several connections, a clock by hand, and what each is sent."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest

from zerotask import errors
from zerotask.broker import dispatcher
from zerotask.tasks.connections import BEAT, LEASE
from zerotask.wire import methods


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
    """A task is published to listeners only if no such node was offered it."""
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
    """The next ping finds nobody, so the task is queued again long before the lease is over."""
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


def test_more_tasks_than_the_window_holds_are_all_served(bench, monkeypatch):
    monkeypatch.setattr("zerotask.broker.ready_window.WINDOW", 8)
    client(bench)
    for number in range(50):
        submit(bench, f"t{number:02}")
    assert len(bench.broker.state.window) <= 8
    node(bench, methods=["m"], slots=1)
    for number in range(50):
        bench.pass_time(0.25, beating=("n",))
        task = bench.told("n")[-1][1][1] if bench.told("n")[-1][1] else bench.told("n")[-2][1][1]
        assert task == f"t{number:02}"
        assert bench.ask("n", "node_task_request", task)["id"] == task
        bench.ask("n", "node_task_finished", task, number)


@pytest.mark.parametrize("seed", range(8))
def test_each_slot_gets_the_first_of_all_tasks_that_wait(bench, monkeypatch, seed):
    """A free slot is given the task of the highest priority, however many wait in the store and are
    given back (F60).
    """
    monkeypatch.setattr("zerotask.broker.ready_window.WINDOW", 6)
    dice, wait = random.Random(seed), {}
    client(bench), node(bench, "n", methods=["m"], slots=1), node(bench, "l")

    def add(number):
        wait[f"t{number:03}"] = (-(priority := dice.randrange(10)), number)
        submit(bench, f"t{number:03}", priority=priority)

    for number in range(40):
        add(number)
    for number in range(40, 80):
        bench.pass_time(0.25, beating=("n", "l"))
        task = [params[1] for method, params in bench.told("n") if method == "broker_new_task"][-1]
        bench.ask("n", "node_task_request", task)
        wait.pop(task)
        if dice.random() < 0.3:  # a listener takes one, and gives it back in order
            taken = dice.choice(sorted(wait))
            bench.ask("l", "node_task_request", taken)
            bench.ask("l", "node_disconnect", "l"), node(bench, "l")
        if dice.random() < 0.5:
            add(number)
        best = min(wait, key=wait.get)
        bench.ask("n", "node_task_finished", task, 1)
        bench.pass_time(0.25, beating=("n", "l"))
        offers = [params[1] for method, params in bench.told("n") if method == "broker_new_task"]
        assert offers[-1] == best, (offers[-1], wait[offers[-1]], best, wait[best])


def _announced(bench, since):
    return [one["params"][1] for one in bench.published[since:] if one["method"] == methods.NEW_TASK]


@pytest.mark.adversary(64)
def test_a_listener_that_joins_late_hears_of_every_task(bench):
    """A late listener hears of every task, however many stand before it (F61)."""
    client(bench), node(bench)
    for number in range(45):
        submit(bench, f"t{number}")
    since = len(bench.published)
    bench.pass_time(4.25, beating=("n",))
    assert set(_announced(bench, since)) == {f"t{number}" for number in range(45)}


@pytest.mark.parametrize("way", ["given back", "lost", "failed", "came due"])
def test_a_task_that_waits_again_is_announced_for_a_while_whatever_stands_before_it(bench, monkeypatch, way):
    """A task that waits again is announced to a listener that is still joining, also if the window has no room for it.
    It is not announced once it is claimed (F61).
    """
    monkeypatch.setattr("zerotask.broker.ready_window.WINDOW", 6)
    client(bench), node(bench, "l"), node(bench, "other")
    for number in range(50):
        submit(bench, f"t{number}", priority=9)
    submit(bench, "last", priority=0, delay=3.0 if way == "came due" else 0.0)
    if way != "came due":
        assert bench.ask("l", "node_task_request", "last")["id"] == "last"
    if way == "given back":
        bench.ask("l", "node_disconnect", "l")
    elif way == "failed":
        bench.ask("l", "node_task_failed", "last", {"code": 1, "message": "no"})
    elif way == "lost":
        bench.gone.add("l")
        bench.pass_time(LEASE, beating=("other",))
    bench.pass_time(3.25, beating=("other",))
    since = len(bench.published)
    bench.pass_time(4.25, beating=("other",))
    assert _announced(bench, since).count("last") >= 4
    assert bench.ask("other", "node_task_request", "last")["id"] == "last"
    since = len(bench.published)
    bench.pass_time(2.25, beating=("other",))
    assert "last" not in _announced(bench, since)


# -------------------------------------------------------------------------------------------- leases


@pytest.mark.adversary(62)
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
    for module in ("tasks.lease_ends", "broker.broker_state"):
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
    """Known ones may change; new ones beyond that are not kept."""
    monkeypatch.setattr("zerotask.broker.node_calls.MOST_POLICIES", 2)
    node(bench, "n1", methods={"a": {"priority": 1}, "b": {"priority": 2}, "c": {"priority": 3}})
    node(bench, "n2", methods={"b": {"priority": 5}})
    assert {method: policy.priority for method, policy in bench.broker.state.policies.items()} == {"a": 1, "b": 5}
    assert set(bench.store.ledger.table.policies()) == {"a", "b"}


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
    """The node's beats on the new connection do not renew what it held on the old one, as it may have
    forgotten that.
    """
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


def _cancelled(bench):
    bench.ask("c", "client_task_cancel", "c", "t")


def _finished_elsewhere(bench):
    bench.pass_time(LEASE + BEAT)
    node(bench, "other")
    assert bench.ask("other", "node_task_request", "t")["id"] == "t"
    bench.ask("other", "node_task_finished", "t", 1)


def _failed(bench):
    bench.pass_time(LEASE + BEAT)
    node(bench, "other")
    bench.ask("other", "node_task_request", "t")
    bench.ask("other", "node_task_failed", task_id="t", error={"code": 1, "message": "no"}, retry=False)


def _held_elsewhere(bench):
    bench.pass_time(LEASE + BEAT)
    node(bench, "other")
    bench.ask("other", "node_task_request", "t")
    bench.now += 0.1


def _closed(bench):
    bench.ask("c", "client_task_close", "c", "t")


LOST_MEANWHILE = [_cancelled, _finished_elsewhere, _failed, _held_elsewhere, _closed]


@pytest.mark.parametrize("meanwhile", LOST_MEANWHILE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("slots", [1, 3])
def test_a_task_that_is_the_nodes_no_more_holds_no_slot_and_is_stopped(bench, meanwhile, slots):
    """The node's slots are free at once, and it ends its work, whatever became of it while it was cut
    off (F56, F57).
    """
    client(bench), node(bench, methods=["m"], slots=slots), submit(bench)
    bench.ask("n", "node_task_request", "t")
    bench.gone.add("n")
    meanwhile(bench)
    assert bench.ask("again", "node_connect", node_id="n", methods=["m"], slots=slots, tasks=["t", "never"]) == "n"
    told = bench.told("again")
    assert ("broker_cancel", ["t"]) in told and ("broker_cancel", ["never"]) in told
    for number in range(slots):
        submit(bench, f"new{number}")
    offers = [params[1] for method, params in bench.told("again") if method == "broker_new_task"]
    assert [task for task in offers if task != "t"] == [f"new{number}" for number in range(slots)]


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
    assert len(bench.broker.state.waiters) == 0


@pytest.mark.adversary(61)
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
    """A client that asked for results is told the ends of its own tasks in bundles; the other client is told none."""
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


@pytest.mark.adversary(62)
def test_a_client_whose_connection_is_gone_gives_way_at_once(bench):
    """A client that takes notifications gives way at once; another keeps its name until it has been
    silent for a lease.
    """
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


@pytest.mark.adversary(61, 62)
def test_under_curve_names_and_tasks_belong_to_keys(bench):
    """A key takes its name over from another connection of its own; another key sees nothing of it."""
    assert bench.ask("one", "client_connect", "c", key="K") == "c"
    assert bench.ask("one", "client_new_task", "c", "m", [], "t", key="K") == "t"
    assert bench.ask("two", "client_connect", "c", key="K") == "c"
    assert bench.ask("two", "client_task_status", "c", "t", key="K")["state"] == "queued"
    bench.pass_time(LEASE + 1)
    assert bench.ask("thief", "client_connect", "c", key="L") == "c"
    assert bench.ask("thief", "client_task_status", "c", "t", key="L")[0] == errors.TASK_UNKNOWN


@pytest.mark.parametrize("task_id", ["cron:m:20261128T1825Z", "cron:", "cron:x"])
def test_no_client_takes_the_run_of_a_schedule(bench, task_id):
    """A client's task with the id of a schedule's run is refused, and the run is done (F49)."""
    client(bench)
    assert bench.ask("c", "client_new_task", "c", "other", [], task_id)[0] == errors.TASK_INVALID
    for near in (task_id.upper(), "cron", f"x{task_id}"):
        assert bench.ask("c", "client_new_task", "c", "other", [], near) == near


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
    monkeypatch.setattr("zerotask.wire.methods.MAX_BODY", 100)
    client(bench), node(bench)
    assert submit(bench, "t1", params=["x" * 96]) == "t1"
    assert submit(bench, "t2", params=["x" * 97])[0] == errors.INVALID_PARAMS
    bench.ask("n", "node_task_request", "t1")
    assert bench.code("n", "node_task_finished", "t1", "x" * 99) == errors.INVALID_PARAMS
    assert bench.ask("n", "node_task_finished", "t1", "x" * 98) is True


def test_a_batch_whose_answers_do_not_fit_into_one_message(bench, monkeypatch):
    client(bench), node(bench), submit(bench)
    bench.ask("n", "node_task_request", "t"), bench.ask("n", "node_task_finished", "t", "x" * 100)
    monkeypatch.setattr("zerotask.wire.methods.MAX_BODY", 300)
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


# ------------------------------------------------------------------------------------------- clocks


@pytest.mark.parametrize("step", [-3600.0, -1.5, 2.0, 90_000.0])
def test_a_step_of_the_wall_clock_moves_no_task(bench, step):
    """Delays, limits, backoffs and results go by lengths; the step is shown, and stamps are of the new time (F7)."""
    client(bench), node(bench)
    submit(bench, "held", time_limit=60), submit(bench, "done", result_ttl=60), submit(bench, "later", delay=5)
    submit(bench, "again")
    for task in ("held", "done", "again"):
        bench.ask("n", "node_task_request", task)
    bench.ask("n", "node_task_finished", "done", 7)
    bench.ask("n", "node_task_failed", "again", {"code": 1, "message": "no"})
    bench.wall_ahead += step
    submit(bench, "new")
    assert bench.ask("n", "node_task_request", "new")["id"] == "new"
    bench.pass_time(4.0, beating=("n",))
    assert bench.ask("n", "node_task_request", "again")["id"] == "again"
    assert bench.ask("n", "node_task_request", "later") == {}
    assert bench.ask("c", "client_task_result", "c", "done") == 7 and state(bench, "held") == "assigned"
    bench.pass_time(2.0, beating=("n",))
    assert bench.ask("n", "node_task_request", "later")["id"] == "later"
    told = bench.ask("op", "broker_status", operator=True)
    assert (told["clock_steps"], told["clock_step"]["seconds"]) == (1, step)
    line = bench.ask("op", "task", "later", operator=True)
    assert line["submitted"] == pytest.approx(1000.0 + step) and line["due"] == pytest.approx(1005.0 + step)
    bench.pass_time(70.0, step=1.0, beating=("n",))
    assert bench.code("c", "client_task_result", "c", "done") == errors.EXPIRED
    assert bench.code("c", "client_task_result", "c", "held") == errors.NOT_FINISHED


def test_a_schedule_follows_a_step_of_the_wall_clock_at_once(bench):
    """A schedule whose next look is far away is looked at anew when the wall clock is set (F7, F8)."""
    bench.ask("op", "schedule_add", "s", "0 12 * * *", "m", [], operator=True)
    bench.pass_time(2.0)
    bench.wall_ahead += 12 * 3600.0 - bench.now + 1.0
    bench.pass_time(0.5)
    assert [task["id"] for task in bench.ask("op", "tasks", operator=True)] == ["cron:s:19700101T1200Z"]
    bench.wall_ahead += 40 * 86_400.0
    bench.pass_time(0.5)
    bench.wall_ahead -= 40 * 86_400.0
    bench.pass_time(0.5)
    (line,) = bench.ask("op", "schedules", operator=True)
    assert line["next"] == 36 * 3600.0 and line["ahead"] == 40 * 86_400.0 + 12 * 3600.0
    bench.wall_ahead += 86_400.0
    bench.pass_time(0.5)
    assert "cron:s:19700102T1200Z" in [task["id"] for task in bench.ask("op", "tasks", operator=True)]


def test_time_in_which_the_broker_stood_still_counts_for_no_limit(bench):
    """The end of the work may lie in the broker's sockets, so time in which it stood still counts for no limit (F6)."""
    client(bench), node(bench), submit(bench, time_limit=10, max_attempts=1)
    bench.ask("n", "node_task_request", "t")
    bench.pass_time(15.0, step=1.0, beating=("n",))
    bench.store.clock = lambda: bench.now + 30.0
    bench.broker.woke(30.0, bench.now, bench.now + 30.0)
    bench.pass_time(0.25, beating=("n",))
    assert state(bench) == "assigned"
    bench.pass_time(14.0, step=1.0, beating=("n",))
    assert bench.code("c", "client_task_result", "c", "t") == errors.TIME_LIMIT


def test_the_first_sweep_after_a_restart_waits_for_the_reports_of_nodes(bench):
    """The first sweep does not overtake the report of a node that has finished meanwhile and connects (F6)."""
    client(bench), node(bench), submit(bench, time_limit=10, max_attempts=1)
    bench.ask("n", "node_task_request", "t")
    bench.now += 600.0
    bench.start()
    bench.pass_time(2.0)
    client(bench)
    assert bench.ask("n", "node_connect", node_id="n", tasks=["t"]) == "n"
    assert bench.ask("n", "node_task_finished", "t", 5) is True


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


def test_a_task_whose_work_waits_takes_no_slot(bench):
    """A task whose work waits takes no slot, also after a reconnection that says so, until it is told to
    go on (F58).
    """
    client(bench), node(bench, methods=["m"], slots=1), submit(bench, "t1"), submit(bench, "t2")
    bench.ask("n", "node_task_request", "t1")
    assert bench.ask("n", "node_task_waits", "t1") is True
    bench.pass_time(0.25, beating=("n",))
    assert ("broker_new_task", ["m", "t2"]) in bench.told("n")
    bench.ask("n", "node_task_request", "t2")
    (line,) = bench.ask("op", "nodes", operator=True)
    assert (line["tasks"], line["waiting"]) == (["t1", "t2"], 1)
    assert bench.ask("n", "node_task_waits", "t1", False) is True
    bench.ask("n", "node_task_finished", "t2", 1), submit(bench, "t3")
    assert ("broker_new_task", ["m", "t3"]) not in bench.told("n")
    bench.gone.add("n")
    assert bench.ask("again", "node_connect", node_id="n", methods=["m"], slots=1, tasks=["t1"]) == "n"
    assert bench.ask("again", "node_task_waits", "t1") is bench.ask("again", "node_task_waits", "none") is True
    bench.pass_time(0.25, beating=("again",))
    assert [params for method, params in bench.told("again") if method == "broker_new_task"] == [["m", "t3"]]
    assert bench.ask("again", "node_task_finished", "t1", 1) is True
    (line,) = bench.ask("op", "nodes", operator=True)
    assert (line["tasks"], line["waiting"]) == (["t3"], 0)


def test_a_drained_node_goes_on_with_what_it_has_and_gets_nothing_more(bench):
    """A drained node stays drained when it comes back, and asks for tasks in vain, until an operator
    undoes it (F62).
    """
    client(bench), node(bench, methods=["m"], slots=2), submit(bench, "held")
    bench.ask("n", "node_task_request", "held")
    assert bench.ask("op", "node_drain", "n", operator=True) is True
    submit(bench, "later")
    assert bench.told("n")[-1] == ("broker_new_task", ["m", "held"])
    assert bench.ask("n", "node_task_request", "later") == {}
    assert bench.ask("n", "node_task_finished", "held", 1) is True
    assert bench.ask("n", "node_connect", node_id="n", methods=["m"], slots=2, tasks=[]) == "n"
    bench.pass_time(1.0, beating=("n",))
    assert ("broker_new_task", ["m", "later"]) not in bench.told("n")
    (line,) = bench.ask("op", "nodes", operator=True)
    assert (line["drained"], line["slots"]) == (True, 2)
    assert bench.ask("op", "node_drain", "n", False, operator=True) is True
    bench.pass_time(0.25, beating=("n",))
    assert bench.told("n")[-1] == ("broker_new_task", ["m", "later"])
    assert bench.ask("op", "node_drain", "none", operator=True)[0] == errors.NODE_UNKNOWN


def test_a_node_that_listens_alone_takes_one_task_that_lost_two_nodes_at_a_time(bench):
    """The node is answered {} for the other such task, which stays for others, until the first has ended (F63)."""
    client(bench), submit(bench, "a", max_attempts=5), submit(bench, "b", max_attempts=5), submit(bench, "sound")
    for name in ("old", "older"):
        node(bench, name)
        for task_id in ("a", "b"):
            assert bench.ask(name, "node_task_request", task_id)["id"] == task_id
        bench.gone.add(name)
        bench.pass_time(20.0)
    node(bench), node(bench, "other")
    asked = [bench.ask("n", "node_task_request", task_id) for task_id in ("a", "b", "sound")]
    assert [answer.get("id") for answer in asked] == ["a", None, "sound"]
    bench.published.clear()
    bench.pass_time(1.0)
    assert ["m", "b"] in [message["params"] for message in bench.published]
    assert bench.ask("other", "node_task_request", "b")["id"] == "b"
    assert bench.ask("n", "node_task_finished", "a", 1) is True


def test_a_lost_task_is_counted_and_nothing_waits_for_it(bench):
    """A lost task frees its node's slot, answers its client, and may be forgotten by an operator (F64)."""
    client(bench), node(bench, methods=["m"], slots=1), submit(bench, "held"), submit(bench, "next")
    bench.ask("n", "node_task_request", "held")
    assert bench.ask("c", "client_task_result", client_id="c", task_id="held", wait=30) is None
    bench.store.connection.execute("DELETE FROM tasks WHERE id = 'held'")
    bench.store.ledger.table._cache.clear()
    bench.store.connection.execute("INSERT INTO damaged VALUES ('held', 77.5)")
    bench.store.on_damage("the database was damaged", ("held",))
    (line,) = bench.ask("op", "nodes", operator=True)
    assert line["tasks"] == ["next"]
    assert ("broker_cancel", ["held"]) in bench.told("n") and bench.told("n")[-1] == ("broker_new_task", ["m", "next"])
    answer = bench.sent["c"][-1]["error"]
    assert (answer["code"], answer["message"].partition(";")[0]) == (
        errors.TASK_UNKNOWN,
        "task held was lost when the broker's database was damaged",
    )
    assert bench.code("n", "node_task_finished", "held", 1) == errors.TASK_UNKNOWN
    assert bench.ask("op", "damaged", operator=True) == [{"task_id": "held", "noticed": 77.5}]
    told = bench.ask("op", "broker_status", operator=True)
    assert (told["lost"], told["damage"], told["state"]) == (1, "the database was damaged", "active")
    assert bench.ask("op", "damaged", operator=True, forget=True) == 1
    told = bench.ask("op", "broker_status", operator=True)
    assert (told["lost"], told["damage"]) == (0, None)
    assert bench.ask("c", "client_task_status", client_id="c", task_id="held")[1] == "no task held"


def test_tasks_without_a_result_time_out_of_sight(bench):
    client(bench), node(bench), submit(bench, result_ttl=10)
    bench.ask("n", "node_task_request", "t"), bench.ask("n", "node_task_finished", "t", 1)
    bench.pass_time(16.0, step=1.0)
    rows = bench.store.connection.execute("SELECT state, params, outcome FROM tasks").fetchall()
    assert rows == [("expired", None, None)]


def test_what_a_clock_set_back_kept_out_of_the_window_is_found_again(bench):
    """A claim that comes before a task is due, by the store's clock, takes it off the window."""
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
    assert bench.store.ledger.table.queued_methods(9) == ["a", "b", "c"]
    assert bench.store.ledger.table.queued_methods(2) == ["a", "b"]


def test_a_silent_node_is_lost_after_three_beats_of_the_page(bench):
    """A beat is 2.5 s: a name is still its node's after 7.4 s of silence; after 7.8 s its task waits again."""
    client(bench), node(bench), submit(bench)
    assert bench.ask("n", "node_task_request", "t")["id"] == "t"
    bench.pass_time(7.4)
    assert (bench.code("m", "node_connect", "n"), state(bench)) == (errors.NODE_TAKEN, "assigned")
    bench.pass_time(0.4)
    assert (bench.ask("m", "node_connect", "n"), state(bench)) == ("n", "queued")


def test_expired_results_are_looked_for_each_five_seconds(bench, monkeypatch):
    """The broker looks for expired results each five seconds and not with each tick, as that costs the disk a
    transaction.
    """
    sweeps = []
    monkeypatch.setattr(bench.store.ledger, "expire", lambda now: sweeps.append(now) or 0)
    bench.pass_time(20.0)
    assert 4 <= len(sweeps) <= 5
    assert {round(later - sooner, 3) for sooner, later in pairwise(sweeps)} == {5.0}


def test_delayed_tasks_are_read_in_steps_and_not_while_none_is_due(bench, monkeypatch):
    """A full step is followed by the next one at once; then the store is quiet until a task comes due."""
    monkeypatch.setattr(dispatcher, "DUE_MOST", 3)
    reads, real = [], bench.store.ledger.table.newly_due
    monkeypatch.setattr(
        bench.store.ledger.table, "newly_due", lambda *given: reads.append(found := real(*given)) or found
    )
    client(bench)
    for number in range(7):
        submit(bench, f"t{number}", delay=5)
    submit(bench, "late", delay=60)
    bench.pass_time(4.5)
    reads.clear()
    bench.pass_time(2.0)
    assert [len(found) for found in reads] == [3, 3, 1]
    bench.pass_time(30.0)
    assert len(reads) == 3


def test_a_task_has_three_attempts_unless_it_is_said_otherwise(bench):
    """A task has failed after three failures, which is the default of the page."""
    client(bench), node(bench), submit(bench)
    for left in (True, True, False):
        assert bench.ask("n", "node_task_request", "t")["id"] == "t"
        bench.ask("n", "node_task_failed", "t", {"code": 1, "message": "no"})
        assert state(bench) == ("queued" if left else "failed")
        bench.pass_time(5.0, beating=("n",))
