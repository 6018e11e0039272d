"""Requests on their way, to the frame and to the count: each end that a request can have, and what it leaves."""

from __future__ import annotations

import pytest
from scale0_stage import BEAT, Stage, broker_config, member

from scale0.broker import peer_links
from scale0.broker.requests import queues, routing
from scale0.config.schema import GroupConfig, ServicePolicy
from scale0.wire.frames import D1


@pytest.fixture
def stage() -> Stage:
    return Stage()


def counted(stage: Stage) -> dict[str, int]:
    """Return the counts that have changed since the last look."""
    counts = stage.broker.context.counts
    found = {name: number for name, number in counts.items() if number}
    counts.clear()
    return found


def final(told: list, number: int = 0) -> dict:
    return [options for command, options, _ in told if command == "FINAL"][number]


def test_a_request_and_its_reply_option_by_option(stage: Stage) -> None:
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    counted(stage)
    stage.ask(client, "tea", b"cup", id="7", timeout_ms=2500, priority=8, idempotent=False)
    token = (1).to_bytes(16, "big").hex()
    options = {"id": token, "service": "tea", "priority": 8, "idempotent": False, "timeout_ms": 2500}
    assert stage.told(worker) == [("REQUEST", options, [b"cup"])]
    stage.scale0(worker, "PARTIAL", b"half", id=token)
    assert stage.told(client) == [("PARTIAL", {"id": "7"}, [b"half"])]
    stage.scale0(worker, "FINAL", b"whole", id=token, code=299, reason="warm")
    assert stage.told(client) == [("FINAL", {"id": "7", "code": 299, "reason": "warm"}, [b"whole"])]
    assert counted(stage) == {"accepted": 1, "finished": 1}
    stage.scale0(worker, "FINAL", b"again", id=token)
    assert stage.told(client) == [] and counted(stage) == {"stray_replies": 1}
    assert not stage.broker.routing.requests and not stage.broker.routing.table.by_client
    stage.check()


@pytest.mark.parametrize("code, count", [(399, "finished"), (400, "failed")])
def test_replies_from_400_on_are_failures(stage: Stage, code: int, count: str) -> None:
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    counted(stage)
    stage.ask(client, "tea")
    [(job, _)] = stage.jobs(worker)
    stage.scale0(worker, "FINAL", id=job, code=code)
    assert counted(stage) == {"accepted": 1, count: 1}
    assert stage.told(client) == [("FINAL", {"id": "1", "code": code}, [])]


def test_without_a_timeout_a_request_tells_none_and_waits_a_minute(stage: Stage) -> None:
    client = stage.client(b"c")
    counted(stage)
    stage.ask(client, "tea")
    for _ in range(29):
        stage.wait(2.0)
        stage.beat_all(client)
    stage.wait(1.9)
    assert stage.told(client) == []
    stage.wait(0.2)
    told = {"id": "1", "code": 408, "reason": "expired", "message": "no worker within 60 s"}
    assert stage.told(client) == [("FINAL", told, [])]
    assert counted(stage) == {"accepted": 1, "errors": 1} and stage.broker.routing.queues.total() == 0
    stage.check()


@pytest.mark.parametrize("busy", [False, True])
def test_a_deadline_ends_a_request_wherever_it_is(stage: Stage, busy: bool) -> None:
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    if not busy:
        stage.ask(client, "tea", id="0", timeout_ms=9000)
    stage.ask(client, "tea", id="1", timeout_ms=700)
    jobs = stage.jobs(worker)
    stage.wait(0.69, step=0.01)
    assert stage.told(client) == []
    stage.wait(0.02, step=0.01)
    told = {"id": "1", "code": 504, "reason": "deadline", "message": "not answered within timeout_ms"}
    assert stage.told(client) == [("FINAL", told, [])]
    cancels = [options["id"] for command, options, _ in stage.told(worker) if command == "CANCEL"]
    assert cancels == ([jobs[0][0]] if busy else [])
    assert len(stage.broker.routing.table.orphans) == busy
    stage.check()


def test_a_request_that_waits_has_its_timeout_cut_and_at_least_a_millisecond(stage: Stage) -> None:
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", id="1")
    stage.ask(client, "tea", id="2", timeout_ms=800)
    [(job, _)] = stage.jobs(worker)
    stage.now += 0.3
    stage.scale0(worker, "FINAL", id=job)
    [(command, options, _)] = stage.told(worker)
    assert command == "REQUEST" and options["timeout_ms"] in (499, 500)
    stage.ask(client, "tea", id="3", timeout_ms=1)
    stage.now += 0.001
    stage.scale0(worker, "FINAL", id=options["id"])
    assert [options["timeout_ms"] for _, options, _ in stage.told(worker)] == [1]


def test_cancel_drops_what_waits_and_advises_the_worker_of_the_rest(stage: Stage) -> None:
    worker, client, other = stage.worker(b"w", "tea"), stage.client(b"c"), stage.client(b"d")
    counted(stage)
    stage.ask(client, "tea", id="1")
    stage.ask(client, "tea", id="2")
    [(job, _)] = stage.jobs(worker)
    stage.scale0(other, "CANCEL", id="2")
    stage.scale0(client, "CANCEL", id="3")
    assert len(stage.broker.routing.requests) == 2
    stage.scale0(client, "CANCEL", id="2")
    assert len(stage.broker.routing.requests) == 1 and counted(stage) == {"accepted": 2, "cancelled": 1}
    stage.scale0(client, "CANCEL", id="1")
    assert stage.told(worker) == [("CANCEL", {"id": job}, [])] and len(stage.broker.routing.requests) == 1
    stage.scale0(worker, "FINAL", id=job)
    assert stage.finals(client) == [("1", 200, [])] and counted(stage) == {"finished": 1}
    stage.check()


def test_a_plain_worker_is_not_told_of_a_cancel(stage: Stage) -> None:
    worker, client = stage.plain_worker(b"p", "tea"), stage.client(b"c")
    stage.ask(client, "tea")
    assert len(stage.plain_jobs(worker)) == 1
    stage.scale0(client, "CANCEL", id="1")
    assert stage.take(worker) == []


def test_a_second_request_of_the_same_id_is_the_one_that_cancel_finds(stage: Stage) -> None:
    worker, client = stage.worker(b"w", "tea", concurrency=2), stage.client(b"c")
    stage.ask(client, "tea", id="1")
    stage.ask(client, "tea", id="1")
    [(first, _), (second, _)] = stage.jobs(worker)
    stage.scale0(worker, "FINAL", id=first)
    stage.scale0(client, "CANCEL", id="1")
    assert stage.told(worker) == [("CANCEL", {"id": second}, [])]


def test_a_lost_request_is_tried_three_times(stage: Stage) -> None:
    client = stage.client(b"c")
    counted(stage)
    stage.ask(client, "tea", b"cup")
    tokens = set()
    for number in range(routing.ATTEMPTS):
        worker = stage.worker(b"w%d" % number, "cocoa")
        stage.scale0(worker, "SERVICES", add=["tea"], seq=1)
        [(job, body)] = stage.jobs(worker)
        tokens.add(job)
        assert body == [b"cup"]
        stage.scale0(worker, "DISCONNECT")
    assert len(tokens) == 3
    told = {"id": "1", "code": 502, "reason": "worker_lost", "message": "lost with its worker at attempt 3"}
    assert stage.told(client) == [("FINAL", told, [])] and counted(stage) == {"accepted": 1, "errors": 1}
    assert not stage.broker.routing.requests and not stage.broker.routing.table.orphans
    stage.check()


@pytest.mark.parametrize("change", ["idempotent", "partial", "policy"])
def test_some_requests_are_not_tried_again(change: str) -> None:
    policy = (ServicePolicy("tea", change != "policy", 60.0),)
    stage = Stage(broker_config(service_config=policy))
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", **({"idempotent": False} if change == "idempotent" else {}))
    [(job, _)] = stage.jobs(worker)
    if change == "partial":
        stage.scale0(worker, "PARTIAL", id=job)
    stage.scale0(worker, "DISCONNECT")
    assert final(stage.told(client))["message"] == "lost with its worker at attempt 1"


def test_a_retried_request_goes_before_those_that_wait(stage: Stage) -> None:
    first, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", b"1", id="1", priority=0)
    stage.ask(client, "tea", b"2", id="2", priority=9)
    stage.scale0(first, "DISCONNECT")
    second = stage.worker(b"x", "cocoa", concurrency=2)
    stage.scale0(second, "SERVICES", add=["tea"], seq=1)
    assert [body for _, body in stage.jobs(second)] == [[b"1"], [b"2"]]
    stage.check()


def test_parts_for_a_client_that_has_one_reply_are_held_and_dropped_with_a_lost_worker(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    client = ("frontend", b"c")
    stage.hear(client, b"", b"MDPC01", b"tea", b"cup")
    [(job, _)] = stage.jobs(worker)
    stage.scale0(worker, "PARTIAL", b"lost", id=job)
    other = stage.worker(b"x", "tea")
    stage.scale0(worker, "DISCONNECT")
    [(job, _)] = stage.jobs(other)
    stage.scale0(other, "PARTIAL", b"kept", id=job)
    assert stage.take(client) == []
    stage.scale0(other, "FINAL", b"end", id=job)
    assert stage.take(client) == [[b"", b"MDPC01", b"tea", b"kept", b"end"]]


def test_an_error_for_a_plain_client_is_silence(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    client = ("frontend", b"c")
    counted(stage)
    stage.hear(client, b"MDPC02", b"\1", b"tea", b"cup")
    [(job, _)] = stage.jobs(worker)
    stage.scale0(worker, "FINAL", b"no", id=job, code=500)
    assert stage.take(client) == [] and counted(stage) == {"accepted": 1, "failed": 1}


def test_a_worker_with_many_services_serves_each_in_turn(stage: Stage) -> None:
    client = stage.client(b"c")
    for number in range(4):
        for service in ("tea", "milk", "cocoa"):
            stage.ask(client, service, service.encode(), id=f"{service}{number}")
    worker = stage.worker(b"w", "none", concurrency=1)
    stage.ready(worker, "tea", "milk", "cocoa", *(f"s{n}" for n in range(100)))
    served = []
    for _ in range(6):
        [(job, [body])] = stage.jobs(worker)
        served.append(body)
        stage.scale0(worker, "FINAL", id=job)
    assert served[:3] == [b"tea", b"milk", b"cocoa"] and served[3:] == served[:3]
    stage.check()


# ------------------------------------------------------------------------------- busy workers


def test_busy_timeout_ends_a_request_of_a_worker_that_beats() -> None:
    stage = Stage(broker_config(service_config=(ServicePolicy("tea", True, 5.0),)))
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    counted(stage)
    stage.ask(client, "tea")
    [(job, _)] = stage.jobs(worker)
    for _ in range(4):
        stage.wait(BEAT)
        stage.beat_all(worker, client)
    stage.wait(0.98, step=0.02)
    assert stage.told(client) == [] and stage.told(worker) == []
    stage.wait(0.04, step=0.02)
    told = {"id": "1", "code": 504, "reason": "deadline", "message": "not answered within busy_timeout"}
    assert stage.told(client) == [("FINAL", told, [])]
    assert stage.told(worker) == [("CANCEL", {"id": job}, [])]
    assert counted(stage) == {"accepted": 1, "overdue": 1, "errors": 1}
    stage.check()


def test_busy_timeout_ends_the_session_of_a_worker_that_is_silent_while_busy() -> None:
    stage = Stage(broker_config(service_config=(ServicePolicy("tea", True, 5.0),)))
    worker, client = stage.plain_worker(b"p", "tea", D1), stage.client(b"c")
    stage.ask(client, "tea", b"cup")
    assert len(stage.plain_jobs(worker)) == 1
    for _ in range(5):
        stage.wait(0.99)
        stage.beat_all(client)
    assert worker in stage.broker.sessions.all
    other = stage.plain_worker(b"q", "cocoa")
    stage.wait(0.1)
    assert worker not in stage.broker.sessions.all and stage.take(worker)[-1] == [b"", b"MDPW01", b"\5"]
    assert stage.broker.routing.queues.length("tea") == 1 and other in stage.broker.sessions.all
    stage.check()


def test_an_orphan_holds_its_worker_until_busy_timeout() -> None:
    stage = Stage(broker_config(service_config=(ServicePolicy("tea", True, 3.0),)))
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    counted(stage)
    stage.ask(client, "tea", b"1", id="1", timeout_ms=100)
    stage.wait(0.2)
    stage.ask(client, "tea", b"2", id="2")
    for _ in range(3):
        stage.wait(0.9)
        stage.beat_all(worker, client)
    assert [body for _, body in stage.jobs(worker)] == [[b"1"]]
    stage.wait(0.2)
    assert [body for _, body in stage.jobs(worker)] == [[b"2"]]
    assert counted(stage) == {"accepted": 2, "errors": 1, "overdue": 1}
    stage.check()


def test_a_worker_with_a_full_pipe_costs_no_attempt(stage: Stage) -> None:
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    counted(stage)
    stage.full.add(worker)
    stage.ask(client, "tea", idempotent=False)
    [request] = stage.broker.routing.requests.values()
    assert (request.attempt, stage.broker.routing.queues.length("tea")) == (0, 1)
    assert counted(stage) == {"accepted": 1, "slow_workers": 1}
    stage.full.clear()
    stage.beat_all(worker)
    assert len(stage.jobs(worker)) == 1 and request.attempt == 1
    stage.check()


# ------------------------------------------------------------------------------- to peer brokers


@pytest.fixture
def group() -> Stage:
    brokers = (member("b1"), member("b2", frontend="tcp://10.0.0.2:1"), member("b3"))
    return Stage(broker_config(group="east", group_config=(GroupConfig("east", brokers),), spill_ms=300))


def peer(stage: Stage, identity: str, table: dict[str, list[int]]) -> tuple[str, bytes]:
    address = ("peer", identity.encode())
    options = {"identity": identity, "services": ["all"], "config_type": "JSON", "role": "peer"}
    stage.scale0(address, "CHECKCONFIG", **options)
    stage.scale0(address, "TABLE", seq=1, full=True, digest="0", entries=table)
    stage.take(address)
    return address


def forwards(stage: Stage, address: tuple[str, bytes]) -> list[dict]:
    return [options for command, options, _ in stage.told(address) if command == "FORWARD"]


def ids(forwarded: list[dict]) -> list[str]:
    return [options["id"] for options in forwarded]


def test_a_request_without_a_worker_here_goes_to_a_peer_at_once(group: Stage) -> None:
    b2, client = peer(group, "b2", {"tea": [1, 1, 0]}), group.client(b"c")
    group.ask(client, "tea", timeout_ms=5000, priority=7)
    group.ask(client, "tea", id="2")
    token = (1).to_bytes(16, "big").hex()
    options = {"id": token, "service": "tea", "priority": 7, "idempotent": True, "path": ["b1"], "deadline": 5000}
    assert forwards(group, b2) == [options]
    group.scale0(b2, "FINAL", b"x", id=token, code=200)
    [second] = forwards(group, b2)
    assert second["deadline"] == 0 and group.finals(client) == [("1", 200, [b"x"])]
    group.check()


def test_the_place_that_a_late_reply_frees_at_a_peer_is_taken_again(group: Stage) -> None:
    """A late reply frees its place at a peer, whether the request ended by its deadline or by too many parts."""
    b2, client = peer(group, "b2", {"tea": [1, 1, 0]}), group.client(b"c")
    group.ask(client, "tea", id="1", timeout_ms=100)
    group.ask(client, "tea", id="2")
    [late] = ids(forwards(group, b2))
    group.wait(0.15)
    assert group.finals(client) == [("1", 504, [])] and forwards(group, b2) == []
    group.scale0(b2, "PARTIAL", id=late)
    assert forwards(group, b2) == []
    group.scale0(b2, "FINAL", id=late)
    [second] = ids(forwards(group, b2))
    group.scale0(b2, "FINAL", id=late)
    group.ask(client, "tea", id="3")
    assert forwards(group, b2) == [] and group.broker.peers.all["b2"].guess == {"tea": 0}
    group.scale0(b2, "FINAL", id=second)
    assert len(forwards(group, b2)) == 1
    group.check()


def test_a_channel_that_was_full_goes_on_with_every_service(group: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_links, "WINDOW", 1)
    b2, client = peer(group, "b2", {"tea": [5, 5, 0], "milk": [5, 5, 0]}), group.client(b"c")
    for number, service in enumerate(("tea", "milk", "tea")):
        group.ask(client, service, id=str(number))
    served = []
    for _ in range(3):
        [options] = forwards(group, b2)
        served.append(options["service"])
        group.scale0(b2, "FINAL", id=options["id"])
    assert served == ["tea", "milk", "tea"] and forwards(group, b2) == []


def test_a_reply_to_the_attempt_of_another_worker_frees_nothing(stage: Stage) -> None:
    """A late reply frees nothing, also when the request has ended, and the attempt is all that is left of it."""
    one, two, client = stage.worker(b"one", "tea"), stage.worker(b"two", "milk"), stage.client(b"c")
    stage.ask(client, "tea", timeout_ms=100)
    [(job, _)] = stage.jobs(one)
    stage.wait(0.15)
    stage.scale0(two, "FINAL", id=job)
    assert ("running", bytes.fromhex(job)) in stage.broker.context.timers
    stage.check()
    stage.scale0(one, "FINAL", id=job)
    assert not stage.broker.routing.table.orphans and ("running", bytes.fromhex(job)) not in stage.broker.context.timers


@pytest.mark.parametrize("idle", [0.0, 3600.0])
def test_a_deadline_is_exact_also_before_the_first_timer_and_after_a_long_silence(idle: float) -> None:
    stage = Stage()
    stage.now += idle
    worker, client = stage.plain_worker(b"p", "tea"), stage.client(b"c")
    stage.ask(client, "tea", timeout_ms=70)
    stage.wait(0.081, step=0.01)
    assert stage.finals(client) == [("1", 504, [])] and stage.plain_jobs(worker)


def test_a_request_waits_spill_ms_for_a_worker_here(group: Stage) -> None:
    b2, client = peer(group, "b2", {"tea": [1, 1, 0]}), group.client(b"c")
    worker = group.worker(b"w", "tea")
    group.ask(client, "tea", id="1")
    group.ask(client, "tea", id="2")
    group.wait(0.28, step=0.02)
    assert forwards(group, b2) == [] and len(group.jobs(worker)) == 1
    group.wait(0.06, step=0.02)
    assert len(forwards(group, b2)) == 1
    group.check()


@pytest.mark.parametrize(("waited", "passed"), [(0.2999, 0), (0.3001, 1)])
def test_spill_ms_are_milliseconds(group: Stage, waited: float, passed: int) -> None:
    """A request is passed on after 300 ms and not a millisecond earlier, which is finer than timers are."""
    b2, client = peer(group, "b2", {"tea": [1, 1, 0]}), group.client(b"c")
    group.worker(b"w", "tea")
    group.ask(client, "tea", id="1")
    group.ask(client, "tea", id="2")
    context = group.broker.context
    context.now += waited
    assert context.effects == []
    group.broker.routing.spill("tea")
    assert [effect.address for effect in context.effects] == [b2] * passed


def test_requests_that_are_barred_from_a_peer_are_passed_over(group: Stage) -> None:
    b2, client = peer(group, "b2", {"tea": [9, 9, 0]}), group.client(b"c")
    for number in range(3):
        group.ask(client, "tea", id=str(number))
    jobs = [options["id"] for options in forwards(group, b2)]
    assert len(jobs) == 3
    for job in jobs[:2]:
        group.scale0(b2, "FINAL", id=job, code=503, refused=True)
    assert forwards(group, b2) == [] and group.broker.routing.queues.length("tea") == 2
    assert all(r.attempt == 0 for r in group.broker.routing.requests.values() if r.state is queues.RequestState.QUEUED)
    group.ask(client, "tea", id="new")
    assert len(forwards(group, b2)) == 1 and group.broker.routing.queues.length("tea") == 2
    assert routing.SPILL_SCAN == 16
    group.check()


def test_a_refusal_of_a_worker_is_no_refusal_of_a_broker(group: Stage) -> None:
    worker, client = group.worker(b"w", "tea"), group.client(b"c")
    group.ask(client, "tea")
    [(job, _)] = group.jobs(worker)
    group.scale0(worker, "FINAL", b"no", id=job, code=503, refused=True)
    assert group.finals(client) == [("1", 503, [b"no"])]


# ------------------------------------------------------------------------------- stalls


def test_a_stall_moves_the_ends_of_requests(stage: Stage) -> None:
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", id="1", timeout_ms=2000)
    stage.ask(client, "tea", id="2", timeout_ms=90_000)
    stage.ask(client, "tea", id="3")
    requests = {request.correlation: request for request in stage.broker.routing.requests.values()}
    before = {name: (request.deadline, request.waiting_since) for name, request in requests.items()}
    [held] = [dict(session.worker.inflight) for session in stage.broker.sessions.all.values() if session.worker]
    stage.broker.routing.ends.slept(10.0)
    for name, request in requests.items():
        deadline, since = before[name]
        assert request.deadline == (None if deadline is None else deadline + 10.0)
        assert request.waiting_since == since + 10.0
    token = requests["1"].token
    assert requests["1"].worker.inflight == {token: held[token] + 10.0}
    stage.now += 50.0
    stage.broker.context.now = stage.now
    stage.broker.routing.ends.slept(1.0)
    assert requests["1"].deadline == stage.now + BEAT and requests["2"].deadline == before["2"][0] + 11.0
    assert [key[0] for key in stage.broker.context.timers.due(stage.now + 1.01) if key[0] == "request"] == ["request"]
    assert worker in stage.broker.sessions.all
    assert stage.broker.context.timers._when[("running", token)] == pytest.approx(100 * (held[token] + 11.0), abs=1)


def test_a_plain_workers_reply_is_a_200(stage: Stage) -> None:
    worker, client = stage.plain_worker(b"p", "tea"), stage.client(b"c")
    stage.ask(client, "tea")
    [(token, _)] = stage.plain_jobs(worker)
    stage.hear(worker, b"MDPW02", b"\4", token, b"", b"x")
    assert stage.told(client) == [("FINAL", {"id": "1", "code": 200}, [b"x"])]


def test_too_many_parts_for_a_client_that_has_one_reply_end_its_request(monkeypatch, stage: Stage) -> None:
    monkeypatch.setattr(queues, "HELD_PARTS", 1)
    worker = stage.worker(b"w", "tea")
    stage.hear(("frontend", b"c"), b"", b"MDPC01", b"tea", b"cup")
    [(job, _)] = stage.jobs(worker)
    counted(stage)
    stage.scale0(worker, "PARTIAL", b"1", id=job)
    assert len(stage.broker.routing.requests) == 1
    stage.scale0(worker, "PARTIAL", b"2", id=job)
    assert not stage.broker.routing.requests and list(stage.broker.routing.table.orphans) == [bytes.fromhex(job)]
    assert stage.take(("frontend", b"c")) == [] and counted(stage) == {"errors": 1}


def test_a_client_of_rfc_18_is_given_parts_as_parts(stage: Stage) -> None:
    worker, client = stage.worker(b"w", "tea"), ("frontend", b"c")
    stage.hear(client, b"MDPC02", b"\1", b"tea", b"cup")
    [(job, _)] = stage.jobs(worker)
    stage.scale0(worker, "PARTIAL", b"half", id=job)
    stage.scale0(worker, "FINAL", b"whole", id=job)
    assert stage.take(client) == [[b"MDPC02", b"\2", b"tea", b"half"], [b"MDPC02", b"\3", b"tea", b"whole"]]
