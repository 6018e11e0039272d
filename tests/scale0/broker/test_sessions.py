"""Tests sessions from their first command to their last: what is answered, when a peer is told, and when it is given
up.
"""

from __future__ import annotations

import pytest
from scale0_stage import BEAT, Stage, broker_config, member

from scale0.broker import negotiation, sessions, worker_offers
from scale0.config.schema import GroupConfig
from scale0.wire import options as opt
from scale0.wire.zap import Origin

FRONT, BACK, PEER = ("frontend", b"f"), ("backend", b"b"), ("peer", b"p")


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.run(stage.broker.tick(stage.now, stage.wall))
    return stage


def check(stage: Stage, address, **changes) -> list:
    named = {"identity": "me", "services": [], "config_type": "JSON", "config_version": "7"} | changes
    stage.scale0(address, "CHECKCONFIG", **named)
    return stage.told(address)


def refusal(told: list) -> tuple[int, str]:
    [(command, options, _)] = told
    assert command == "DISCONNECTERROR"
    return options["code"], options["reason"]


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (sessions.BEHIND_BEATS, sessions.WARN_SKEW, sessions.FORCED, negotiation.CLAIMS) == (3, 5.0, 65_536, 1_000)
    assert (sessions.REFUSALS, worker_offers.SERVICES_PER_WORKER) == (5, 20_000)
    assert (sessions.RETRY_LATER, sessions.RETRY_DISABLED) == (1_000, 30_000)


@pytest.mark.parametrize("wanted, interval", [(None, 1.0), (0.5, 1.0), (1.0, 1.0), (2.5, 2.5)])
def test_an_interval_is_never_shorter_than_the_default(stage: Stage, wanted, interval) -> None:
    told = {"config_version": "7", "time": stage.wall, "hbeatinterval": interval, "broker": "b1"}
    assert check(stage, FRONT, hbeatinterval=wanted) == [("CONFIGACK", told, [])]
    session = stage.broker.sessions.all[FRONT]
    assert (session.interval, session.role, session.identity, session.version) == (interval, "frontend", "me", 7)
    assert not session.ready and session.since == stage.now == session.last_received


def test_another_version_is_answered_with_the_whole(stage: Stage) -> None:
    [(command, options, [body])] = check(stage, FRONT, config_version="6")
    assert command == "CONFIG" and options["config_type"] == "JSON" and options["config_version"] == "7"
    assert len(options["digest"]) == 64 and body.startswith(b"{")
    assert stage.broker.sessions.all[FRONT].version == 0


ROLES = [
    (FRONT, "", "frontend"), (FRONT, "frontend", "frontend"), (FRONT, "backend", None), (FRONT, "peer", None),
    (BACK, "", "backend"), (BACK, "backend", "backend"), (BACK, "frontend", None), (BACK, "peer", None),
    (PEER, "", "peer"), (PEER, "peer", "peer"), (PEER, "backend", None),
]  # fmt: skip


@pytest.mark.parametrize("address, wanted, role", ROLES)
def test_each_port_has_its_role(stage: Stage, address, wanted, role) -> None:
    told = check(stage, address, role=wanted)
    if role is None:
        assert refusal(told) == (400, "malformed") and address not in stage.broker.sessions.all
    else:
        assert told[0][0] == "CONFIGACK" and stage.broker.sessions.all[address].role == role
        assert stage.broker.sessions.all[address].ready is (role == "peer")


@pytest.mark.parametrize("wanted, role", [("", "frontend"), ("backend", "backend"), ("peer", None)])
def test_one_port_takes_both_roles(wanted, role) -> None:
    stage = Stage(broker_config(frontend_port=5555, backend_port=5555))
    told = check(stage, FRONT, role=wanted)
    if role is None:
        assert refusal(told) == (400, "malformed")
    else:
        assert stage.broker.sessions.all[FRONT].role == role


@pytest.mark.parametrize("identity, good", [("a", True), ("a" * 128, True), ("a" * 129, False), ("-a", False)])
def test_an_identity_is_a_name(stage: Stage, identity: str, good: bool) -> None:
    told = check(stage, FRONT, identity=identity)
    assert told[0][0] == "CONFIGACK" if good else refusal(told) == (400, "malformed")


def test_services_are_looked_at_for_backends_alone() -> None:
    stage = Stage(broker_config(services=("tea",)))
    assert check(stage, FRONT, services=["milk"])[0][0] == "CONFIGACK"
    [(_, options, _)] = check(stage, BACK, identity="w", services=["tea", "milk"])
    told = {"code": 421, "reason": "wrong_broker"}
    told["message"] = "milk is not served here; ask NEEDBROKER for a broker that does"
    assert options == told
    assert refusal(check(stage, BACK, identity="w", services=["mmi.x"])) == (403, "not_allowed")


def test_a_connection_that_changes_its_name_is_another(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    first = stage.broker.sessions.all[worker]
    check(stage, worker, identity="w", services=["tea"])
    assert stage.broker.sessions.all[worker] is first and stage.broker.routing.pool.counts("tea") == (1, 1)
    check(stage, worker, identity="other", services=["tea"])
    assert stage.broker.sessions.all[worker] is not first and "tea" not in stage.broker.routing.pool
    assert list(stage.broker.sessions.by_identity) == ["other"]


def test_too_many_contests_at_once_are_refused(monkeypatch, stage: Stage) -> None:
    monkeypatch.setattr(negotiation, "CLAIMS", 1)
    check(stage, FRONT)
    o = opt.CheckConfig("me", [], "JSON")
    origin = Origin("10.0.0.9", "")
    dialect = stage.broker.sessions.all[FRONT].dialect
    assert stage.broker.negotiation.check_config(("frontend", b"x"), origin, dialect, o) is None
    with pytest.raises(opt.Fault) as caught:
        stage.broker.negotiation.check_config(("frontend", b"y"), origin, dialect, o)
    assert (caught.value.code, caught.value.message) == (409, "me is held by another connection")
    assert list(stage.broker.negotiation._claims) == [1]
    stage.broker.context.effects.clear()
    stage.run(stage.broker.probed(1, True, stage.now, stage.wall))
    assert set(stage.broker.sessions.all) == {("frontend", b"x")}


# ------------------------------------------------------------------------------- workers


def test_ready_sets_everything_of_a_worker(stage: Stage) -> None:
    check(stage, BACK, identity="w", services=["tea"])
    stage.ready(BACK, "tea", "milk", concurrency=3, heartbeat=False, hbeatinterval=4.0, epochs={"tea": 5, "x": 6},
                seals={"tea": "seal"})  # fmt: skip
    session = stage.broker.sessions.all[BACK]
    worker = session.worker
    assert worker is not None and (worker.concurrency, worker.beats_while_busy, set(worker.services)) == (
        3, False, {"tea", "milk"},
    )  # fmt: skip
    assert (worker.epochs, worker.seals, session.interval, session.ready, session.seq) == (
        {"tea": 5}, {"tea": "seal"}, 4.0, True, 0,
    )  # fmt: skip
    beats = [(c, o) for c, o, _ in stage.told(BACK, beats=True)]
    assert beats == [("HEARTBEAT", {"time": stage.wall, "config_version": "7"})]
    stage.ready(BACK, "milk", epochs={"milk": 7})
    assert session.worker is worker and (worker.epochs, worker.seals) == ({"milk": 7}, {})


def test_services_follow_their_numbers(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    session = stage.broker.sessions.all[worker]
    for add, remove, seq, now in (
        (["a"], [], 1, {"tea", "a"}), (["b"], ["a"], 2, {"tea", "b"}),
        (["c"], [], 2, {"tea", "b"}), (["c"], [], 1, {"tea", "b"}),
        (["d"], [], 0, {"tea", "b", "d"}), (["e"], [], 3, {"tea", "b", "d", "e"}),
    ):  # fmt: skip
        stage.scale0(worker, "SERVICES", add=add, remove=remove, seq=seq)
        assert set(session.worker.services) == now
    assert session.seq == 3 and stage.told(worker) == []
    stage.scale0(worker, "SERVICES", add=["f"], seq=5)
    assert stage.told(worker) == [("FORCENEGOTIATE", {"reason": "send READY with all services"}, [])]


@pytest.mark.parametrize("most, good", [(3, True), (2, False)])
def test_a_worker_has_so_many_services(monkeypatch, stage: Stage, most: int, good: bool) -> None:
    monkeypatch.setattr(worker_offers, "SERVICES_PER_WORKER", most)
    check(stage, BACK, identity="w", services=["tea"])
    stage.ready(BACK, "a", "b", "c")
    told = stage.told(BACK)
    if good:
        assert told == []
    else:
        message = {"code": 413, "reason": "too_large", "message": "a worker has at most 2 services"}
        assert told == [("DISCONNECTERROR", message, [])] and BACK not in stage.broker.sessions.all


def test_of_two_workers_the_one_that_attached_later_keeps_the_service(stage: Stage) -> None:
    first, second = stage.worker(b"one", "equus.a", epochs={"equus.a": 5}), stage.worker(b"two", "equus.a")
    stage.ready(second, "equus.a", epochs={"equus.a": 6}, seals={"equus.a": "S"})
    told = {"remove": ["equus.a"], "holders": {"equus.a": ["two", 6]}, "seals": {"equus.a": "S"}}
    assert stage.told(first) == [("SERVICES", told, [])] and stage.broker.context.counts["moved"] == 1
    stage.told(second)
    stage.ready(first, "equus.a", epochs={"equus.a": 6})
    assert stage.told(first) == [("SERVICES", told, [])] and stage.told(second) == []
    assert [w.address for w in stage.broker.routing.pool.workers("equus.a")] == [second]
    assert stage.broker.context.counts["moved"] == 2


@pytest.mark.parametrize("beyond, good", [(0, True), (1, False)])
def test_an_agent_is_not_attached_in_the_future(stage: Stage, beyond: int, good: bool) -> None:
    limit = int(1000 * (stage.wall + stage.broker.config.max_skew))
    check(stage, BACK, identity="w", services=["equus.a"])
    stage.ready(BACK, "equus.a", epochs={"equus.a": limit + beyond, "tea": 10**18})
    assert (stage.told(BACK) == []) is good
    assert (BACK in stage.broker.sessions.all) is good


# ------------------------------------------------------------------------------- clocks and versions


@pytest.mark.parametrize("skew, beats", [(5.0, None), (-5.0, None), (5.1, 1), (-5.1, 3)])
def test_a_wrong_clock_is_refused_ahead_at_once_and_behind_the_third_time(skew: float, beats: int | None) -> None:
    stage = Stage(broker_config(max_skew=5.0))
    worker = stage.worker(b"w", "tea")
    for number in range(1, 5):
        stage.scale0(worker, "HEARTBEAT", time=stage.wall + skew, config_version="7")
        told = stage.told(worker)
        if number == beats:
            [(command, options, _)] = told
            assert command == "DISCONNECTERROR" and (options["code"], options["reason"]) == (422, "clock_skew")
            assert options["message"] == "the clocks differ by 5.1 s; set them right"
            assert options["skew_ms"] in (int(1000 * skew), int(1000 * skew) + 1, int(1000 * skew) - 1)
            assert options["server_time"] == stage.wall
            return
        assert told == []
    assert beats is None and stage.broker.sessions.all[worker].skew == pytest.approx(skew)


def test_a_clock_that_was_behind_twice_and_is_right_again_starts_anew() -> None:
    stage = Stage(broker_config(max_skew=5.0))
    worker = stage.worker(b"w", "tea")
    for skew in (-9.0, -9.0, 0.0, -9.0, -9.0):
        stage.scale0(worker, "HEARTBEAT", time=stage.wall + skew, config_version="7")
    assert stage.told(worker) == [] and stage.broker.sessions.all[worker].behind == 2


def test_an_old_configuration_is_offered_five_times(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    stage.run(stage.broker.configured(broker_config(), 8, stage.now, stage.wall))
    stage.beat_all(worker)
    session = stage.broker.sessions.all[worker]
    since = session.stale_since
    assert since is not None and stage.now <= since < stage.now + BEAT
    for number in range(6):
        session.stale_since = stage.now - 3 * BEAT
        stage.beat_all(worker)
        assert stage.told(worker) == []
        stage.now += 1.5
        session.last_received = stage.now
        session.stale_since = stage.now - 3 * BEAT - 0.01
        stage.beat_all(worker)
        told = stage.told(worker)
        if number < 5:
            assert told == [("FORCENEGOTIATE", {"reason": "there is a newer configuration"}, [])]
            assert (session.refusals, session.stale_since) == (number + 1, stage.now)
    fault = {"code": 412, "reason": "config_rejected", "message": "version 8 was offered 5 times"}
    assert told == [("DISCONNECTERROR", fault, [])]


def test_the_new_configuration_ends_the_offers(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    stage.run(stage.broker.configured(broker_config(), 8, stage.now, stage.wall))
    stage.beat_all(worker)
    session = stage.broker.sessions.all[worker]
    session.refusals = 4
    stage.scale0(worker, "HEARTBEAT", time=stage.wall, config_version="8")
    assert (session.stale_since, session.refusals, session.version) == (None, 0, 8)


# ------------------------------------------------------------------------------- force, lapse, refuse


def test_a_stranger_is_told_once_an_interval(stage: Stage) -> None:
    told = ("FORCENEGOTIATE", {"reason": "unknown here"}, [])
    for passed, heard in ((0.0, [told]), (0.99, []), (0.02, [told]), (0.5, [])):
        stage.now += passed
        stage.scale0(FRONT, "HEARTBEAT", time=stage.wall, config_version="7")
        assert stage.told(FRONT) == heard


def test_the_connection_that_was_forced_longest_ago_is_forgotten(monkeypatch, stage: Stage) -> None:
    monkeypatch.setattr(sessions, "FORCED", 2)
    for name in (b"1", b"2", b"3"):
        stage.scale0(("frontend", name), "HEARTBEAT", time=stage.wall, config_version="7")
    assert list(stage.broker.sessions._forced) == [("frontend", b"2"), ("frontend", b"3")]


def test_beats_go_out_each_interval_and_silence_ends_a_session(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea", hbeatinterval=2.0)
    stage.wait(1.9)
    assert stage.told(worker, beats=True) == []
    stage.wait(4.0)
    assert [c for c, _, _ in stage.told(worker, beats=True)] == ["HEARTBEAT"] * 2
    stage.wait(0.05)
    assert worker in stage.broker.sessions.all
    stage.wait(0.1)
    told = stage.told(worker)
    fault = {"code": 408, "reason": "heartbeat_lost", "message": "nothing received for 3 intervals"}
    assert told == [("DISCONNECTERROR", fault, [])] and worker not in stage.broker.sessions.all
    assert stage.broker.context.counts["lapsed"] == 1 and stage.broker.context.counts["refused_408"] == 1
    assert not [key for key in stage.broker.context.timers._when if key[0] in ("beat", "lapse")]


def test_a_refusal_for_now_says_when_to_come_back(stage: Stage) -> None:
    refuse, dialect = stage.broker.sessions.refuse, check(stage, FRONT) and stage.broker.sessions.all[FRONT].dialect
    for fault, more, wanted in (
        (opt.Fault(503, "r", "m"), {}, {"retry_after_ms": 1000}),
        (opt.Fault(503, "r", "m"), {"retry_after_ms": 5}, {"retry_after_ms": 5}),
        (opt.Fault(400, "r", "m"), {}, {}), (opt.Fault(422, "r", "m"), {}, {}),
    ):  # fmt: skip
        refuse(("frontend", b"x"), dialect, fault, **more)
        stage.run(stage.broker._effects())
        told = {"code": fault.code, "reason": "r", "message": "m"} | wanted
        assert stage.told(("frontend", b"x")) == [("DISCONNECTERROR", told, [])]
    assert FRONT in stage.broker.sessions.all


def test_a_session_that_has_ended_is_ended_once(stage: Stage) -> None:
    worker = stage.worker(b"w", "tea")
    session = stage.broker.sessions.all[worker]
    stage.broker.sessions.drop(session)
    assert worker not in stage.broker.sessions.all and "w" not in stage.broker.sessions.by_identity
    stage.broker.sessions.drop(session)
    again = stage.worker(b"w", "tea")
    stage.broker.sessions.drop(session)
    assert again in stage.broker.sessions.all and stage.broker.routing.pool.counts("tea") == (1, 1)


def test_after_a_reload_all_but_peers_and_plain_workers_negotiate_within_an_interval(stage: Stage) -> None:
    client, worker, plain = (
        stage.client(b"c"),
        stage.worker(b"w", "tea", hbeatinterval=5.0),
        stage.plain_worker(b"p", "tea"),
    )
    check(stage, PEER, identity="b2", role="peer", services=["all"])
    stage.broker.sessions.force_all("why")
    keys = {key[1]: when for key, when in stage.broker.context.timers._when.items() if key[0] == "force"}
    assert set(keys) == {client, worker} and all(
        key[2] == "why" for key in stage.broker.context.timers._when if key[0] == "force"
    )
    assert plain in stage.broker.sessions.all
    assert keys[client] * 0.01 <= stage.now + 1.01 and keys[worker] * 0.01 <= stage.now + 5.01


def test_a_peers_beat_tells_its_state_and_table() -> None:
    stage = Stage(broker_config(group="east", group_config=(GroupConfig("east", (member("b1"), member("b2"))),)))
    check(stage, PEER, identity="b2", role="peer", services=["all"])
    session = stage.broker.sessions.all[PEER]
    stage.told(PEER)
    stage.broker.sessions.beat(session)
    stage.run(stage.broker._effects())
    [(command, options, _)] = stage.told(PEER, beats=True)
    assert command == "HEARTBEAT" and options == {
        "time": stage.wall, "config_version": "7", "state": "active", "seq": 0, "digest": "0" * 16, "broker": "b1",
        "documents": "0" * 16,
    }  # fmt: skip
