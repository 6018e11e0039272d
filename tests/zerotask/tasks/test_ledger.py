"""Tests a task's life, rule by rule, under a clock by hand."""

from __future__ import annotations

import pytest
from memory_task_table import MemoryTaskTable

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks.lease_ends import OVERRUN_GRACE, TOMBSTONE
from zerotask.tasks.ledger import KeptApart, Ledger
from zerotask.tasks.task import RETURNS_FREE, WATCH_SECONDS, Options, Submission
from zerotask.tasks.task_changes import BACKOFF_MOST
from zerotask.wire.jsonrpc import encode

FAILURE = {"code": 7, "message": "no"}


@pytest.fixture
def ledger():
    """Return a ledger with chance 0: each backoff has its whole length."""
    return Ledger(MemoryTaskTable(), lambda: 0.0, encode)


def order(task_id="t", client="c", method="m", params=b"[1]", key="", **options):
    return Submission(task_id, client, key, method, params, Options(**options))


def refused(call, *args):
    with pytest.raises(RpcError) as refusal:
        call(*args)
    return refusal.value


def claimed(ledger, node="n", lease=1, now=0.0, **options):
    ledger.submit(order(**options), now)
    assert ledger.claim("t", node, lease, now)


def state(ledger, now=0.0):
    task = ledger.task("t", now)
    return task.state, task.attempts, task.node


def test_a_task_from_birth_to_result(ledger):
    assert ledger.submit(order(), 1.0) == "t"
    assert state(ledger) == ("queued", 0, None)
    task, params = ledger.claim("t", "n", 1, 2.0)
    assert (task.state, task.attempts, task.claimed, params) == ("assigned", 1, 2.0, b"[1]")
    assert ledger.report("t", "n", 1, "half", {"done": 5}, 3.0)
    task = ledger.task("t", 3.0)
    assert (task.state, task.status, task.detail, task.updated) == ("running", b'"half"', b'{"done":5}', 3.0)
    assert ledger.finish("t", "n", b"42", 4.0)
    assert state(ledger) == ("finished", 1, "n")
    assert ledger.result("t", 4.0) == (True, b"42")


def test_notices_tell_what_waits_who_holds_and_what_ended(ledger):
    claimed(ledger)
    ledger.finish("t", "n", b"1", 1.0)
    told = [(notice.task.state, notice.holder, notice.stop) for notice in ledger.notices]
    assert told == [("queued", None, False), ("assigned", "n", False), ("finished", "n", False)]


def test_a_taken_id_tells_whether_it_is_the_same_submission(ledger):
    ledger.submit(order(), 0.0)
    for other, identical in [
        (order(), True),
        (order(params=b"[2]"), False),
        (order(method="other"), False),
        (order(client="other"), False),
        (order(key="other"), False),
    ]:
        refusal = refused(ledger.submit, other, 1.0)
        assert (refusal.code, refusal.data) == (errors.TASK_TAKEN, {"identical": identical})


def test_nobody_gets_what_is_taken_or_not_due(ledger):
    ledger.submit(order(delay=5.0), 0.0)
    assert ledger.claim("t", "n", 1, 4.9) is None
    assert ledger.claim("t", "n", 1, 5.0) is not None
    assert ledger.claim("t", "n", 1, 5.0) is None
    assert ledger.claim("t", "other", 2, 5.0) is None
    assert refused(ledger.claim, "none", "n", 1, 5.0).code == errors.TASK_UNKNOWN


@pytest.mark.adversary(61)
def test_only_the_holder_speaks_of_a_task(ledger):
    claimed(ledger)
    assert refused(ledger.report, "t", "other", 2, "x", {}, 1.0).code == errors.NOT_YOUR_LEASE
    assert refused(ledger.finish, "t", "other", b"1", 1.0).code == errors.NOT_YOUR_LEASE
    assert refused(ledger.fail, "t", "other", FAILURE, True, 1.0).code == errors.NOT_YOUR_LEASE
    assert state(ledger) == ("assigned", 1, "n")


def test_failures_back_off_doubling_and_the_last_one_is_final(ledger):
    ledger.submit(order(max_attempts=3), 0.0)
    now, waits = 0.0, []
    for _ in range(3):
        assert ledger.claim("t", "n", 1, now)
        assert ledger.fail("t", "n", FAILURE, True, now)
        waits.append(ledger.task("t", now).due - now)
        now += 10
    assert waits[:2] == [1.0, 2.0]
    assert state(ledger) == ("failed", 3, "n")
    assert ledger.result("t", now) == (False, encode(FAILURE))


def test_backoff_has_a_most_and_jitter(ledger):
    ledger._chance = lambda: 0.999
    ledger.submit(order(max_attempts=100), 0.0)
    for attempt in range(12):
        now = attempt * 1000.0
        ledger.claim("t", "n", 1, now)
        ledger.fail("t", "n", FAILURE, True, now)
        wait = ledger.task("t", now).due - now
        assert wait == pytest.approx(min(2.0**attempt, BACKOFF_MOST) * 0.5005)


def test_a_failure_that_will_not_be_better_is_final(ledger):
    claimed(ledger)
    assert ledger.fail("t", "n", FAILURE, False, 1.0)
    assert state(ledger) == ("failed", 1, "n")


@pytest.mark.adversary(64)
def test_reports_may_be_repeated(ledger):
    """A repeated report changes nothing, as its answer may have been lost; the first one stands."""
    claimed(ledger)
    assert ledger.fail("t", "n", FAILURE, True, 1.0) and ledger.fail("t", "n", FAILURE, True, 1.0)
    assert state(ledger) == ("queued", 1, None)
    ledger.claim("t", "n", 1, 5.0)
    assert ledger.finish("t", "n", b"1", 6.0) and ledger.finish("t", "n", b"2", 7.0)
    assert ledger.result("t", 7.0) == (True, b"1")


def test_a_lapsed_lease_queues_with_backoff_a_given_back_one_at_once(ledger):
    for end, wait in ((ledger.lapse, 1.0), (ledger.release, 0.0)):
        ledger.close("t")
        claimed(ledger)
        assert end(1, 10.0) == 1
        assert ledger.task("t", 10.0).due == 10.0 + wait
        assert state(ledger) == ("queued", 1, None)


def test_other_leases_stay(ledger):
    claimed(ledger)
    assert ledger.lapse(2, 1.0) == ledger.release(2, 1.0) == ledger.lapse(0, 1.0) == 0
    assert state(ledger) == ("assigned", 1, "n")


@pytest.mark.adversary(64)
def test_a_late_finish_counts_if_it_is_the_first(ledger):
    claimed(ledger)
    ledger.lapse(1, 10.0)
    assert ledger.finish("t", "n", b'"late"', 11.0)
    assert ledger.result("t", 11.0) == (True, b'"late"')


@pytest.mark.adversary(64)
def test_a_late_finish_wins_over_a_holder_that_has_not_finished(ledger):
    """The holder is told to stop, and is refused."""
    claimed(ledger)
    ledger.lapse(1, 10.0)
    ledger.claim("t", "heir", 2, 20.0)
    assert ledger.finish("t", "n", b"1", 21.0)
    assert (ledger.notices[-1].holder, ledger.notices[-1].stop) == ("heir", True)
    assert refused(ledger.finish, "t", "heir", b"2", 22.0).code == errors.NOT_YOUR_LEASE


def test_who_gave_a_task_back_or_failed_it_has_no_late_finish(ledger):
    claimed(ledger)
    ledger.release(1, 1.0)
    assert refused(ledger.finish, "t", "n", b"1", 2.0).code == errors.NOT_YOUR_LEASE
    ledger.claim("t", "m", 2, 3.0)
    ledger.fail("t", "m", FAILURE, True, 4.0)
    assert refused(ledger.finish, "t", "m", b"1", 5.0).code == errors.NOT_YOUR_LEASE


def test_a_name_within_a_name_is_another_node(ledger):
    claimed(ledger, node="node-11")
    ledger.lapse(1, 1.0)
    for stranger in ("node-1", "ode-11", "node", "1"):
        assert refused(ledger.finish, "t", stranger, b"1", 2.0).code == errors.NOT_YOUR_LEASE


@pytest.mark.parametrize("most", [1, 2, 5])
def test_what_is_given_back_in_order_costs_no_attempt_within_bounds(ledger, most):
    """A deploy may give work back ten times; then it counts like a failure, so that a restart loop ends (F62)."""
    ledger.submit(order(max_attempts=most), 0.0)
    for number in range(RETURNS_FREE + most):
        assert ledger.claim("t", "n", number + 1, float(number))[0].attempts == number + 1
        ledger.release(number + 1, float(number))
    finished, error = ledger.result("t", 99.0)
    assert not finished and str(errors.NODE_LOST).encode() in error
    assert ledger.retry("t", 99.0) and ledger.claim("t", "n", 98, 99.0)
    ledger.release(98, 99.0)
    assert state(ledger, 99.0)[0] == "queued"


@pytest.mark.parametrize("most", [2, 3, 7])
def test_losses_of_nodes_count_apart_from_failures(ledger, most):
    """A task's losses of nodes use up none of its failures, and its failures none of its losses (F63)."""
    ledger.submit(order(max_attempts=most), 0.0)
    for number in range(2 * (most - 1)):
        assert ledger.claim("t", "n", number + 1, number * 1000.0)
        if number % 2:
            ledger.fail("t", "n", FAILURE, True, number * 1000.0)
        else:
            ledger.lapse(number + 1, number * 1000.0)
    assert ledger.claim("t", "n", 99, 99_000.0)
    ledger.lapse(99, 99_000.0)
    assert str(errors.NODE_LOST).encode() in ledger.result("t", 99_000.0)[1]


def lost_twice(ledger, *task_ids, **options):
    """Let two nodes be lost that held these tasks together; they are due again one time limit later."""
    for task_id in task_ids:
        ledger.submit(order(task_id=task_id, **options), 0.0)
    for lease, now in ((1, 0.0), (2, 50.0)):
        assert all(ledger.claim(task_id, f"old{lease}", lease, now) for task_id in task_ids)
        assert ledger.lapse(lease, now) == len(task_ids)


def test_a_node_holds_one_task_at_a_time_that_lost_two_nodes(ledger):
    """A node holds one such task for five minutes, whatever else it holds; another node may have the
    other one (F63).
    """
    lost_twice(ledger, "a", "b", "c", max_attempts=9)
    ledger.submit(order(task_id="sound"), 0.0)
    assert ledger.claim("a", "n", 3, 100.0) and ledger.claim("sound", "n", 3, 100.0)
    for now in (100.0, 100.0 + WATCH_SECONDS - 0.1):
        with pytest.raises(KeptApart):
            ledger.claim("b", "n", 3, now)
        assert state_of(ledger, "b", now) == "queued"
    assert ledger.claim("b", "m", 4, 100.0)
    with pytest.raises(KeptApart):
        ledger.claim("c", "n", 3, 100.0 + WATCH_SECONDS - 0.1)
    assert ledger.claim("c", "n", 3, 100.0 + WATCH_SECONDS)


def test_a_task_that_kills_its_node_takes_no_neighbour_along_where_three_attempts_are_left(ledger):
    """Two losses of nodes that only listen are shared, and the third tells which task it was (F63)."""
    lost_twice(ledger, "good", "kills", "fine", max_attempts=3)
    lease, now = 3, 100.0
    for _ in range(3):
        for task_id in ("fine", "kills", "good"):
            try:
                held = ledger.claim(task_id, f"n{lease}", lease, now)
            except KeptApart:
                continue
            if held and task_id == "kills":
                ledger.lapse(lease, now)
                lease += 1
            elif held:
                ledger.finish(task_id, f"n{lease}", b"1", now)
    ends = {task_id: state_of(ledger, task_id, now) for task_id in ("good", "kills", "fine")}
    assert ends == {"good": "finished", "kills": "failed", "fine": "finished"}


def test_a_node_may_take_over_all_that_another_lost_once(ledger):
    for task_id in ("a", "b"):
        ledger.submit(order(task_id=task_id), 0.0)
        assert ledger.claim(task_id, "old", 1, 0.0)
    ledger.lapse(1, 0.0)
    assert ledger.claim("a", "n", 2, 9.0) and ledger.claim("b", "n", 2, 9.0)


def test_a_node_whose_doubtful_task_has_ended_takes_the_next(ledger):
    lost_twice(ledger, "a", "b")
    assert ledger.claim("a", "n", 3, 99.0) and ledger.finish("a", "n", b"1", 99.0)
    assert ledger.claim("b", "n", 3, 99.0)


def test_a_node_that_comes_back_takes_one_loss_back_of_several(ledger):
    lost_twice(ledger, "t", max_attempts=9)
    assert ledger.adopt("old2", 3, ["t"], 51.0) == 1
    assert (ledger.task("t", 51.0).losses, ledger.task("t", 51.0).state) == (1, "assigned")


def state_of(ledger, task_id, now):
    return ledger.task(task_id, now).state


def test_a_node_that_comes_back_takes_its_loss_back(ledger):
    """Cut off and back, any number of times: it was never lost (F63)."""
    claimed(ledger, max_attempts=2)
    for number in range(1, 6):
        assert ledger.lapse(number, float(number)) == 1
        assert ledger.adopt("n", number + 1, ["t"], number + 0.5) == 1
    assert ledger.finish("t", "n", b"1", 9.0)


@pytest.mark.parametrize("end", ["lapse"])
def test_a_node_lost_on_the_last_attempt_is_final(ledger, end):
    claimed(ledger, max_attempts=1)
    getattr(ledger, end)(1, 1.0)
    finished, error = ledger.result("t", 1.0)
    assert not finished and str(errors.NODE_LOST).encode() in error
    assert refused(ledger.finish, "t", "n", b"1", 2.0).code == errors.NOT_YOUR_LEASE


def test_a_node_that_came_back_goes_on_with_what_it_names(ledger):
    """The node goes on with what it still holds or what was queued because it seemed lost, not with what others have
    taken.
    """
    claimed(ledger)
    assert ledger.adopt("n", 2, ["t", "none"], 1.0) == 1
    assert ledger.lapse(1, 2.0) == 0
    assert ledger.lapse(2, 3.0) == 1
    assert ledger.adopt("n", 3, ["t"], 3.5) == 1
    assert state(ledger) == ("assigned", 1, "n")
    ledger.lapse(3, 4.0)
    ledger.claim("t", "heir", 4, 10.0)
    assert ledger.adopt("n", 5, ["t"], 11.0) == 0
    assert state(ledger) == ("assigned", 2, "heir")


def test_a_report_moves_the_task_to_the_nodes_newest_lease(ledger):
    claimed(ledger)
    ledger.report("t", "n", 9, "still here", {}, 1.0)
    assert ledger.lapse(1, 2.0) == 0 and ledger.lapse(9, 2.0) == 1


def test_a_time_limit_is_kept_by_the_broker_too(ledger):
    """The broker ends a task a grace period after its limit, in which the node may say so itself."""
    claimed(ledger, time_limit=10.0, max_attempts=2)
    assert ledger.overrun(10.0 + OVERRUN_GRACE - 0.1) == 0
    assert ledger.overrun(10.0 + OVERRUN_GRACE) == 1
    assert state(ledger) == ("queued", 1, None) and ledger.notices[-1].stop
    ledger.claim("t", "n", 1, 50.0)
    assert ledger.overrun(100.0) == 1
    assert str(errors.TIME_LIMIT).encode() in ledger.result("t", 100.0)[1]


def test_results_expire_then_their_ids_do(ledger):
    claimed(ledger, result_ttl=60.0)
    ledger.finish("t", "n", b"1", 100.0)
    assert ledger.result("t", 159.9) == (True, b"1")
    assert refused(ledger.result, "t", 160.0).code == errors.EXPIRED
    assert ledger.expire(160.0) == 1
    assert state(ledger, 160.0) == ("expired", 1, "n")
    assert refused(ledger.submit, order(), 161.0).data == {"identical": False}
    assert ledger.expire(160.0 + TOMBSTONE - 0.1) == 0
    assert ledger.expire(160.0 + TOMBSTONE) == 1
    assert refused(ledger.task, "t", 0.0).code == errors.TASK_UNKNOWN


def test_unfinished_is_said_with_the_state(ledger):
    ledger.submit(order(), 0.0)
    refusal = refused(ledger.result, "t", 0.0)
    assert (refusal.code, refusal.data) == (errors.NOT_FINISHED, {"state": "queued"})


@pytest.mark.adversary(61)
def test_others_tasks_are_unknown(ledger):
    ledger.submit(order(client="c", key="k"), 0.0)
    for client, key in (("d", "k"), ("c", ""), ("c", "l")):
        assert refused(ledger.task, "t", 0.0, client, key).code == errors.TASK_UNKNOWN
        assert refused(ledger.result, "t", 0.0, client, key).code == errors.TASK_UNKNOWN
        assert refused(ledger.cancel, "t", 0.0, client, key).code == errors.TASK_UNKNOWN
    assert ledger.task("t", 0.0, "c", "k").state == "queued"


def test_cancelling_ends_a_task_once(ledger):
    claimed(ledger)
    assert ledger.cancel("t", 1.0, "c") is True
    assert (ledger.notices[-1].holder, ledger.notices[-1].stop) == ("n", True)
    assert ledger.cancel("t", 2.0, "c") is False
    assert str(errors.CANCELLED).encode() in ledger.result("t", 2.0)[1]
    assert refused(ledger.finish, "t", "n", b"1", 3.0).code == errors.NOT_YOUR_LEASE


def test_a_failed_task_can_be_retried_and_no_other(ledger):
    claimed(ledger, max_attempts=1)
    assert refused(ledger.retry, "t", 1.0).code == errors.TASK_INVALID
    ledger.fail("t", "n", FAILURE, True, 1.0)
    assert ledger.retry("t", 2.0)
    assert state(ledger) == ("queued", 0, None)
    assert ledger.claim("t", "n", 1, 2.0) and ledger.finish("t", "n", b"1", 3.0)
    assert ledger.result("t", 3.0) == (True, b"1")


def test_a_closed_task_is_gone_and_its_holder_is_told(ledger):
    claimed(ledger)
    ledger.close("t")
    ledger.close("t")
    assert (ledger.notices[-1].task.state, ledger.notices[-1].holder, ledger.notices[-1].stop) == ("expired", "n", True)
    assert refused(ledger.task, "t", 0.0).code == errors.TASK_UNKNOWN


def test_stamps_are_of_the_wall_clock_and_due_times_of_the_clock_of_tasks(ledger):
    """The field `updated` is unix seconds whatever happens to a task, and nothing else is moved by them."""
    ledger.unix_ahead = 5_000.0

    def stamps(now):
        task = ledger.task("t", now)
        return task.state, task.updated, task.due, task.claimed

    ledger.submit(order(delay=1.0, max_attempts=9), 1.0)
    assert stamps(1.0) == ("queued", 5_001.0, 2.0, 0.0)
    ledger.claim("t", "n", 1, 3.0)
    assert stamps(3.0) == ("assigned", 5_003.0, 2.0, 3.0)
    ledger.report("t", "n", 1, "half", {}, 4.0)
    assert stamps(4.0) == ("running", 5_004.0, 2.0, 3.0)
    ledger.fail("t", "n", FAILURE, True, 5.0)
    assert stamps(5.0)[:3] == ("queued", 5_005.0, 6.0)
    ledger.claim("t", "n", 1, 7.0)
    ledger.fail("t", "n", FAILURE, False, 8.0)
    assert stamps(8.0)[:2] == ("failed", 5_008.0)
    ledger.retry("t", 9.0)
    assert stamps(9.0)[:3] == ("queued", 5_009.0, 9.0)
    ledger.claim("t", "n", 1, 10.0)
    ledger.release(1, 11.0)
    assert stamps(11.0)[:2] == ("queued", 5_011.0)
    ledger.claim("t", "n", 2, 11.5)
    assert ledger.adopt("n", 3, ["t"], 12.0) == 1
    assert stamps(12.0)[:2] == ("assigned", 5_012.0)
    ledger.finish("t", "n", b"1", 13.0)
    assert stamps(13.0)[:2] == ("finished", 5_013.0)


def test_what_a_node_does_not_hold(ledger):
    claimed(ledger)
    ledger.submit(order("queued"), 0.0)
    assert ledger.not_held("n", ["t", "queued", "gone"]) == ["queued", "gone"]
    assert ledger.not_held("other", ["t"]) == ["t"]
    ledger.finish("t", "n", b"1", 1.0)
    assert ledger.not_held("n", ["t"]) == ["t"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_task_that_damage_took_is_told_from_one_that_never_was(ledger, monkeypatch, is_lost):
    monkeypatch.setattr(ledger.table, "is_lost", lambda task_id: is_lost)
    error = refused(ledger.task, "t", 0.0)
    assert (
        error.code == errors.TASK_UNKNOWN
        and ("was lost when the broker's database was damaged" in str(error)) is is_lost
    )
