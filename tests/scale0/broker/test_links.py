"""Tests peer brokers and Majordomo, to the option and to the count: links, tables, passing on, and ports."""

from __future__ import annotations

import pytest
from scale0_stage import BEAT, Stage, broker_config, member

from scale0.broker import peer_links, peers, scale0_commands
from scale0.broker.grants import Grants
from scale0.broker.scale0_commands import belongs
from scale0.config.schema import GroupConfig
from scale0.wire import options as opt
from scale0.wire.actions import COMMANDS
from scale0.wire.frames import D1, D2
from scale0.wire.zap import Origin

LINK = ("tcp://10.0.0.2:1", b"")


@pytest.fixture
def stage() -> Stage:
    brokers = (
        member("b1", frontend="tcp://10.0.0.1:1"), member("b2", frontend="tcp://10.0.0.2:1", public_key="k" * 40),
        member("b3"),
    )  # fmt: skip
    return Stage(broker_config(group="east", group_config=(GroupConfig("east", brokers),)))


def link(stage: Stage, up: bool = True) -> list:
    stage.run(stage.broker.link(LINK[0], up, stage.now, stage.wall))
    return stage.told(LINK)


def peer(stage: Stage, identity: str = "b2") -> tuple[str, bytes]:
    address = ("peer", identity.encode())
    named = {"identity": identity, "services": ["all"], "config_type": "JSON", "role": "peer", "config_version": "7"}
    stage.scale0(address, "CHECKCONFIG", **named)
    return address


def ack(stage: Stage, **more: object) -> list:
    options = {"config_version": "7", "hbeatinterval": 2.0, "broker": "b2", "time": stage.wall} | more
    stage.scale0(LINK, "CONFIGACK", **options)
    return stage.told(LINK)


def counted(stage: Stage) -> dict[str, int]:
    found = {name: number for name, number in stage.broker.context.counts.items() if number}
    stage.broker.context.counts.clear()
    return found


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (peer_links.PUSH_INTERVAL, peer_links.ENTRIES, peer_links.WINDOW) == (0.2, 200_000, 10_000)
    assert (peers.CHECK_RETRY, peers.MAX_PATH) == (2.0, 3)


def test_a_link_from_its_handshake_to_its_table(stage: Stage) -> None:
    options = {"identity": "b1", "services": ["all"], "config_type": "JSON", "role": "peer", "config_version": "7"}
    check = ("CHECKCONFIG", options | {"time": stage.wall}, [])
    assert link(stage) == [check]
    stage.wait(1.9)
    assert stage.told(LINK) == []
    stage.wait(0.15)
    assert [command for command, _, _ in stage.told(LINK)] == ["CHECKCONFIG"]
    told = ack(stage)
    table = {"seq": 0, "full": True, "digest": "0" * 16, "entries": {}, "part": 0, "parts": 1}
    assert told == [("TABLE", table, []), ("DOCUMENTS", {"have": {}, "want": True}, [])]
    session = stage.broker.sessions.all[LINK]
    assert (session.role, session.identity, session.interval, session.ready) == ("peer", "b2", 2.0, True)
    assert session.worker is not None and (session.worker.concurrency, session.worker.peer) == (10_000, "b2")
    assert "b2" not in stage.broker.sessions.by_identity
    stage.wait(2.5)
    assert [command for command, _, _ in stage.told(LINK, beats=True)] == ["HEARTBEAT"]


@pytest.mark.parametrize("more", [{"broker": ""}, {"broker": "b1"}])
def test_a_link_to_itself_or_to_no_broker_is_no_session(stage: Stage, more: dict) -> None:
    link(stage)
    assert ack(stage, **more) == [] and LINK not in stage.broker.sessions.all


def test_an_interval_of_a_link_is_never_shorter_than_ours(stage: Stage) -> None:
    link(stage)
    ack(stage, hbeatinterval=0.2)
    assert stage.broker.sessions.all[LINK].interval == BEAT


def test_a_lost_link_negotiates_again(stage: Stage) -> None:
    link(stage)
    ack(stage)
    assert link(stage, up=False) == [] and LINK not in stage.broker.sessions.all and "b2" not in stage.broker.peers.all
    stage.wait(2.1)
    assert [command for command, _, _ in stage.told(LINK)] == ["CHECKCONFIG"]
    ack(stage)
    stage.scale0(LINK, "FORCENEGOTIATE")
    assert [c for c, _, _ in stage.told(LINK)] == ["CHECKCONFIG"] and LINK not in stage.broker.sessions.all
    ack(stage)
    stage.wait(6.2)
    assert "CHECKCONFIG" in [c for c, _, _ in stage.told(LINK)] and LINK not in stage.broker.sessions.all
    assert stage.broker.context.counts["lapsed"] == 1


def test_a_link_that_comes_up_again_begins_anew(stage: Stage) -> None:
    """The broker behind it may be another one; a refusal ends the session as well."""
    link(stage)
    ack(stage)
    assert [command for command, _, _ in link(stage)] == ["CHECKCONFIG"] and LINK not in stage.broker.sessions.all
    ack(stage)
    stage.scale0(LINK, "DISCONNECTERROR", code=503, message="busy", retry_after_ms=2500)
    assert LINK not in stage.broker.sessions.all
    assert stage.broker.context.timers._when[("check", LINK)] == round(100 * (stage.now + 2.5))


def test_an_answered_link_is_asked_no_more(stage: Stage) -> None:
    link(stage)
    assert ("check", LINK) in stage.broker.context.timers
    ack(stage)
    assert ("check", LINK) not in stage.broker.context.timers


@pytest.mark.parametrize("state, is_known, has_session, asks", [
    ("active", True, False, True), ("disabled", True, False, False), ("active", False, False, False),
    ("active", True, True, False),
])  # fmt: skip
def test_who_is_asked_again(stage: Stage, state: str, is_known: bool, has_session: bool, asks: bool) -> None:
    """A peer without a session is asked again by its timer, or as the broker is enabled."""
    if has_session:
        link(stage)
        ack(stage)
    stage.broker.peers.links = {LINK} if is_known else set()
    stage.broker.context.state = state
    for again in (lambda: stage.broker._peer_links.check_again(LINK), stage.broker._peer_links.check_all):
        again()
        stage.run(stage.broker._effects())
        assert [command for command, _, _ in stage.told(LINK)] == ["CHECKCONFIG"] * asks


def test_a_new_peer_has_the_whole_table_and_others_the_change(stage: Stage) -> None:
    first = peer(stage, "b2")
    stage.told(first)
    stage.worker(b"w", "tea")
    second = peer(stage, "b3")
    for address, full in ((first, False), (second, True)):
        [(seq, entries, is_full)] = [
            (o["seq"], o["entries"], o["full"]) for command, o, _ in stage.told(address) if command == "TABLE"
        ]
        assert (seq, entries, is_full) == (1, {"tea": [1, 1, 0]}, full)


def test_deltas_are_a_fifth_of_a_second_apart(stage: Stage) -> None:
    """The first is told at once, and the next when that time is over."""
    address, began = peer(stage), stage.now
    stage.told(address)
    found = []
    for number in range(2):
        stage.worker(b"w%d" % number, f"s{number}")
        while not any(command == "TABLE" for command, _, _ in stage.told(address)):
            stage.wait(0.01, step=0.01)
        found.append(round(stage.now - began, 2))
    assert found[0] <= 0.02 and found[1] == pytest.approx(found[0] + 0.2, abs=0.011)


@pytest.mark.parametrize("before, after, passes", [
    ("disabled", "active", True), ("disabled", "disabled", False), ("active", "active", False),
])  # fmt: skip
def test_what_waits_goes_to_a_peer_that_is_active_again(stage: Stage, before: str, after: str, passes: bool) -> None:
    """A peer that becomes active again is passed what waits; a heartbeat of one that was active looks at no queue."""
    address, client = peer(stage), stage.client(b"c")
    beat = {"time": stage.wall, "config_version": "7", "seq": -1, "digest": "0"}
    stage.scale0(address, "HEARTBEAT", **beat | {"state": before})
    stage.ask(client, "tea")
    stage.broker.peers.all["b2"].table.set("tea", [1, 1, 0])
    stage.told(address)
    stage.scale0(address, "HEARTBEAT", **beat | {"state": after})
    assert ["FORWARD"] * passes == [command for command, _, _ in stage.told(address) if command == "FORWARD"]


def test_a_table_is_asked_for_once_an_interval(stage: Stage) -> None:
    address = peer(stage)
    stage.told(address)
    found = []
    for wait in (0.0, 0.5, 0.5, 0.5, 0.5):
        stage.now += wait
        stage.scale0(address, "HEARTBEAT", time=stage.wall, config_version="7", seq=9, digest="0")
        found += [(wait, options) for command, options, _ in stage.told(address) if command == "TABLEREQ"]
    assert found == [(0.0, {"since": 0}), (0.5, {"since": 0}), (0.5, {"since": 0})]


@pytest.mark.parametrize("retry, wait", [(0, 2.0), (1500, 2.0), (3000, 3.0)])
def test_a_refused_link_is_tried_again_and_logged_once(stage: Stage, retry: int, wait: float) -> None:
    link(stage)
    for _ in range(2):
        stage.scale0(LINK, "DISCONNECTERROR", code=503, message="busy", retry_after_ms=retry)
    lines = [e.text for e in stage.effects if getattr(e, "level", "") == "warn"]
    assert lines == ["the broker at tcp://10.0.0.2:1 refuses this one: 503 busy"]
    stage.wait(wait - 0.1)
    assert stage.told(LINK) == []
    stage.wait(0.2)
    assert [command for command, _, _ in stage.told(LINK)] == ["CHECKCONFIG"]
    stage.scale0(LINK, "DISCONNECTERROR", code=403, message="no")
    assert len([e for e in stage.effects if getattr(e, "level", "") == "warn"]) == 2
    ack(stage)
    stage.scale0(LINK, "DISCONNECTERROR", code=403, message="no")
    assert len([e for e in stage.effects if getattr(e, "level", "") == "warn"]) == 3


def test_the_same_commands_from_a_stranger_change_nothing(stage: Stage) -> None:
    told = {
        "CONFIGACK": {"config_version": "7", "broker": "b2"},
        "FORCENEGOTIATE": {},
        "DISCONNECTERROR": {"code": 503},
    }
    for command, options in told.items():
        stage.scale0(("tcp://stranger", b""), command, **options)
        assert stage.told(("tcp://stranger", b"")) == []
    assert not stage.broker.sessions.all and not stage.broker.peers.all


def test_a_peers_heartbeat_asks_for_a_table_that_is_behind(stage: Stage) -> None:
    address = peer(stage)
    stage.told(address)

    def beat(**more: object) -> list[str]:
        stage.now += 1.1
        options = {"time": stage.wall, "config_version": "9", "state": "active", "seq": 0, "digest": "0"} | more
        stage.scale0(address, "HEARTBEAT", **options)
        return [command for command, _, _ in stage.told(address) if command == "TABLEREQ"]

    held = stage.broker.peers.all["b2"]
    assert beat() == [] and (held.state, held.version) == ("active", 9)
    assert beat(digest="1") == ["TABLEREQ"] and beat(seq=1) == ["TABLEREQ"] and beat(seq=-1, digest="1") == []
    stage.scale0(address, "TABLE", seq=5, full=True, digest="0", entries={})
    assert beat(seq=5) == [] and beat(seq=4, digest="1") == [] and beat(seq=6) == ["TABLEREQ"]
    stage.now -= 0.5
    assert beat(seq=6) == []
    assert beat(state="disabled", seq=5) == [] and not held.usable
    assert beat(state="", seq=5) == [] and held.usable


def test_deltas_follow_their_numbers(stage: Stage) -> None:
    address = peer(stage)
    table = stage.broker.peers.all["b2"].table
    for seq, full, part, parts, entries, held, asks in (
        (3, True, 0, 1, {"a": [1, 1, 0]}, {"a"}, True), (4, False, 0, 1, {"b": [1, 0, 0]}, {"a", "b"}, True),
        (4, False, 1, 2, {"c": [1, 0, 0]}, {"a", "b", "c"}, True),
        (6, False, 0, 1, {"d": [1, 0, 0]}, {"a", "b", "c"}, True),
        (5, False, 0, 2, {"a": [0, 0, 0]}, {"b", "c"}, False), (9, True, 0, 1, {"z": [1, 1, 1]}, {"z"}, True),
    ):  # fmt: skip
        stage.now += 1.1
        stage.told(address)
        stage.scale0(address, "TABLE", seq=seq, full=full, digest="1", entries=entries, part=part, parts=parts)
        assert set(table.entries) == held, seq
        assert ("TABLEREQ" in [command for command, _, _ in stage.told(address)]) is asks
    assert table.seq == 9


def test_tablereq_is_answered_with_all_and_with_holders(stage: Stage) -> None:
    address = peer(stage)
    stage.worker(b"w", "equus.x", "tea", epochs={"equus.x": 5}, seals={"equus.x": "S"})
    stage.told(address)
    stage.scale0(address, "TABLEREQ", since=0)
    delta, whole = [options for command, options, _ in stage.told(address) if command == "TABLE"]
    entries = {"equus.x": [1, 1, 0], "tea": [1, 1, 0]}
    assert (delta["full"], whole["full"], delta["entries"], whole["entries"]) == (False, True, entries, entries)
    assert whole["holders"] == {"equus.x": ["w", 5]} and whole["seals"] == {"equus.x": "S"} and whole["seq"] == 1
    assert whole["digest"] == stage.broker.peers.own.digest != "0" * 16


def test_a_higher_attach_epoch_at_a_peer_takes_the_service(stage: Stage) -> None:
    address, worker = peer(stage), stage.worker(b"w", "equus.x", epochs={"equus.x": 5})
    later = int(1000 * (stage.wall + stage.broker.config.max_skew)) + 1
    for number, (epoch, taken) in enumerate(((5, False), (later, False), (6, True)), 1):
        holders = {"equus.x": ("other", epoch)}
        options = {"entries": {}, "holders": holders, "seals": {"equus.x": "T"}}
        stage.scale0(address, "TABLE", seq=number, full=True, digest="0", **options)
        assert ("equus.x" not in stage.broker.routing.pool) is taken
    told = {"remove": ["equus.x"], "holders": {"equus.x": ["other", 6]}, "seals": {"equus.x": "T"}}
    assert stage.told(worker) == [("SERVICES", told, [])]


FORWARD = {"id": "r1", "service": "tea", "path": ["b2"], "priority": 6, "deadline": 1500.0}


@pytest.mark.parametrize(
    "more, code, reason",
    [({"path": []}, 421, "this request goes in circles"), ({"path": ["b2", "b1"]}, 421, "this request goes in circles"),
     ({"path": ["b2", "b4", "b5", "b6"]}, 421, "this request goes in circles"),
     ({"service": "milk"}, 421, "milk is not served here")],
)  # fmt: skip
def test_what_is_passed_on_and_cannot_be_taken_is_handed_back(more: dict, code: int, reason: str) -> None:
    stage = Stage(broker_config(services=("tea",)))
    address = peer(stage)
    stage.told(address)
    stage.scale0(address, "FORWARD", b"x", **FORWARD | more)
    told = {"id": "r1", "code": code, "reason": "wrong_broker", "message": reason}
    told |= {} if more.get("path") == [] else {"refused": True}  # without a path it is no broker's
    assert stage.told(address) == [("FINAL", told, [])] and counted(stage)["refused"] == 1


def test_what_is_passed_on_is_served_with_what_is_left_of_its_time(stage: Stage) -> None:
    address, worker = peer(stage), stage.worker(b"w", "tea")
    stage.told(address)
    stage.scale0(address, "FORWARD", b"x", **FORWARD | {"path": ["b2", "b4", "b5"], "idempotent": False})
    [(command, options, body)] = stage.told(worker)
    found = (command, options["timeout_ms"], options["priority"], options["idempotent"], body)
    assert found == ("REQUEST", 1500, 6, False, [b"x"])
    stage.scale0(worker, "FINAL", b"y", id=options["id"])
    assert ("FINAL", {"id": "r1", "code": 200}, [b"y"]) in stage.told(address)


def test_leaving_ends_all_channels_and_asks_for_no_table(stage: Stage) -> None:
    address = peer(stage)
    link(stage)
    ack(stage)
    stage.told(address)
    stage.run(stage.broker.stop(stage.now, stage.wall))
    assert [c for c, _, _ in stage.told(address)] == ["DISCONNECT"] and [c for c, _, _ in stage.told(LINK)] == [
        "DISCONNECT"
    ]
    assert not stage.broker.peers.all


# ------------------------------------------------------------------------------- which request goes where


def test_the_peer_with_most_idle_workers_comes_first(stage: Stage) -> None:
    client = stage.client(b"c")
    one, two = peer(stage, "b2"), peer(stage, "b3")
    for address, idle in ((one, 1), (two, 2)):
        stage.scale0(address, "TABLE", seq=1, full=True, digest="0", entries={"tea": [3, idle, 0]})
        stage.told(address)
    for number in range(4):
        stage.ask(client, "tea", id=str(number))
    passed = [[c for c, _, _ in stage.told(address)].count("FORWARD") for address in (one, two)]
    assert passed == [1, 2] and stage.broker.routing.queues.length("tea") == 1
    assert stage.broker.peers.all["b3"].guess == {"tea": 0} and stage.broker.peers.all["b2"].idle("tea") == 0


def test_a_link_goes_before_the_peers_own_connection(stage: Stage) -> None:
    client, address = stage.client(b"c"), peer(stage, "b2")
    link(stage)
    ack(stage)
    stage.scale0(address, "TABLE", seq=1, full=True, digest="0", entries={"tea": [1, 1, 0]})
    stage.told(LINK)
    stage.told(address)
    stage.ask(client, "tea")
    assert [c for c, _, _ in stage.told(LINK)] == ["FORWARD"]
    assert "FORWARD" not in [c for c, _, _ in stage.told(address)]


def test_needbroker_names_a_broker_that_is_reachable_and_serves_it(stage: Stage) -> None:
    client = stage.client(b"c")

    def ask(**options: object) -> dict:
        stage.scale0(client, "NEEDBROKER", **options)
        return stage.told(client)[0][1]

    own = {"identity": "b1", "config_version": "7", "frontend": "tcp://10.0.0.1:1", "backend": "", "public_key": ""}
    assert ask(services=["tea"]) == own
    client = stage.client(b"d")
    assert ask(failed=["b1"])["code"] == 503
    peer(stage, "b2")
    peer(stage, "b3")
    client = stage.client(b"e")
    told = own | {"identity": "b2", "config_version": "0", "frontend": "tcp://10.0.0.2:1", "public_key": "k" * 40}
    assert ask(failed=["b1"]) == told
    client = stage.client(b"f")
    assert ask(failed=["b1", "b2"])["message"] == "no other broker that is reachable serves this"


# ------------------------------------------------------------------------------- ports


PORTS = {  # command: frontend, backend, peer, link, and the one port of both
    **dict.fromkeys(scale0_commands.ANYWHERE, (1, 1, 1, 1, 1)),
    "REQUEST": (1, 1, 0, 0, 1), "READY": (0, 1, 0, 0, 1), "SERVICES": (0, 1, 0, 0, 1),
    "PARTIAL": (0, 1, 1, 1, 1), "FINAL": (0, 1, 1, 1, 1), "PUBLISH": (0, 1, 1, 1, 1), "DOCUMENTS": (0, 1, 1, 1, 1),
    "FORWARD": (0, 0, 1, 1, 0), "TABLE": (0, 0, 1, 1, 0), "TABLEREQ": (0, 0, 1, 1, 0),
    **dict.fromkeys(("CONFIG", "CONFIGACK", "FORCENEGOTIATE", "DISCONNECTERROR", "PUBLISHED"), (0, 0, 0, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_which_port_takes_which_command(command: str) -> None:
    taken = [belongs(command, socket, is_link=False, one_port=False) for socket in ("frontend", "backend", "peer")]
    taken.append(belongs(command, "tcp://x", is_link=True, one_port=False))
    taken.append(belongs(command, "frontend", is_link=False, one_port=True))
    assert tuple(taken) == PORTS[command]


def test_a_command_on_the_wrong_port_is_malformed(stage: Stage) -> None:
    stage.scale0(("frontend", b"x"), "READY", services=[], heartbeat=True, time=stage.wall, config_version="7")
    told = {"code": 400, "reason": "malformed", "message": "READY does not belong on this port"}
    assert stage.told(("frontend", b"x")) == [("DISCONNECTERROR", told, [])]
    assert {"FORWARD", "TABLE", "TABLEREQ"} == scale0_commands.FROM_PEERS


def test_backends_that_are_not_ready_may_not_ask(stage: Stage) -> None:
    for address in (("backend", b"x"), stage.plain_worker(b"p", "tea")):
        stage.ask(address, "tea")
        told = {"code": 400, "reason": "malformed", "message": "on this port only a backend that is ready may ask"}
        assert stage.told(address)[-1] == ("DISCONNECTERROR", told, [])
    worker = stage.worker(b"w", "milk")
    stage.ask(worker, "mmi.service", b"milk")
    assert stage.told(worker) == [("FINAL", {"id": "1", "code": 200}, [b"200"])]


def test_a_reply_to_a_request_of_another_worker_ends_the_session(stage: Stage) -> None:
    one, two, client = stage.worker(b"one", "tea"), stage.worker(b"two", "milk"), stage.client(b"c")
    stage.ask(client, "tea")
    [(job, _)] = stage.jobs(one)
    stage.scale0(two, "FINAL", id=job)
    told = {"code": 400, "reason": "malformed", "message": "a reply to a request that another worker has"}
    assert stage.told(two) == [("DISCONNECTERROR", told, [])] and stage.finals(client) == []
    stage.scale0(one, "FINAL", id="no hex")
    assert stage.told(one) == [] and counted(stage)["stray_replies"] == 1
    stage.scale0(("backend", b"unknown"), "FINAL", id=job)
    assert stage.told(("backend", b"unknown")) == [("FORCENEGOTIATE", {"reason": "unknown worker"}, [])]


def test_a_joining_broker_serves_management_alone() -> None:
    stage = Stage(broker_config(state="joining"))
    stage.scale0(("frontend", b"x"), "CHECKCONFIG", identity="x", services=[], config_type="JSON")
    told = {"code": 503, "reason": "joining", "message": "this broker has no configuration yet", "retry_after_ms": 1000}
    assert stage.told(("frontend", b"x")) == [("DISCONNECTERROR", told, [])]
    stage.hear(("frontend", b"y"), b"MDPC02", b"\1", b"tea", b"x")
    assert stage.take(("frontend", b"y")) == [] and counted(stage)["dropped_joining"] == 1
    asked = {"auth_id": "op", "auth_password": "secret", "command": "status"}
    stage.scale0(("frontend", b"z"), "MANAGEMENTREQ", **asked)
    assert [c for c, _, _ in stage.told(("frontend", b"z"))] == ["MANAGEMENTREP"]


# ------------------------------------------------------------------------------- Majordomo


@pytest.mark.parametrize(
    "service, body, code",
    [
        ("mmi.service", [b"tea"], b"200"),
        ("mmi.service", [b"milk"], b"404"),
        ("mmi.service", [b""], b"404"),
        ("mmi.other", [b"tea"], b"501"),
    ],
)
def test_mmi_frame_by_frame(stage: Stage, service: str, body: list[bytes], code: bytes) -> None:
    stage.plain_worker(b"w", "tea")
    stage.hear(("frontend", b"c"), b"MDPC02", b"\1", service.encode(), *body)
    assert stage.take(("frontend", b"c")) == [[b"MDPC02", b"\3", service.encode(), code]]
    stage.hear(("frontend", b"d"), b"", b"MDPC01", service.encode(), *body)
    assert stage.take(("frontend", b"d")) == [[b"", b"MDPC01", service.encode(), code]]


@pytest.mark.parametrize(
    "changes, count", [({"allow_plain_mdp": False}, "dropped_plain"), ({"services": ("milk",)}, "dropped_elsewhere")]
)
def test_plain_requests_that_cannot_be_served_are_dropped_and_counted(changes: dict, count: str) -> None:
    stage = Stage(broker_config(**changes))
    stage.hear(("frontend", b"c"), b"MDPC02", b"\1", b"tea", b"x")
    assert stage.take(("frontend", b"c")) == [] and counted(stage) == {count: 1}
    stage.hear(("backend", b"w"), b"MDPW02", b"\1", b"tea")
    assert stage.take(("backend", b"w")) == [[b"MDPW02", b"\6"]] and not stage.broker.sessions.all


@pytest.mark.parametrize("dialect", [D1, D2])
def test_a_plain_worker_from_ready_to_disconnect(stage: Stage, dialect) -> None:
    lead, marks = ([b"", b"MDPW01"], (b"\4", b"\5")) if dialect is D1 else ([b"MDPW02"], (b"\5", b"\6"))
    address = ("backend", b"w")
    stage.hear(address, *lead, b"\1", b"tea")
    assert stage.take(address) == [[*lead, marks[0]]]
    session = stage.broker.sessions.all[address]
    assert (session.role, session.identity, session.interval, session.ready) == ("backend", "", BEAT, True)
    assert session.worker is not None and not session.worker.beats_while_busy and session.worker.concurrency == 1
    stage.hear(address, *lead, marks[0])
    assert stage.take(address) == []
    stage.hear(address, *lead, marks[1])
    assert stage.take(address) == [] and not stage.broker.sessions.all


def test_a_plain_worker_of_mmi_counts_as_a_failure(stage: Stage) -> None:
    origin = Origin("10.0.0.5", "")
    stage.hear(("backend", b"w"), b"MDPW02", b"\1", b"mmi.x", origin=origin)
    assert stage.take(("backend", b"w")) == [[b"MDPW02", b"\6"]] and not stage.broker.sessions.all
    shown = stage.broker.context.failures.show(stage.now)
    assert (shown["10.0.0.5"]["failures"], shown["10.0.0.5"]["reason"]) == (1, "READY for mmi.*")


def test_a_plain_request_has_the_middle_priority_and_no_end_but_the_queues(stage: Stage) -> None:
    stage.hear(("frontend", b"c"), b"MDPC02", b"\1", b"tea", b"x")
    [request] = stage.broker.routing.requests.values()
    assert (request.priority, request.deadline, request.idempotent, request.correlation) == (4, None, True, "")


def test_a_plain_reply_to_a_request_of_another_ends_the_worker(stage: Stage) -> None:
    worker, plain = stage.worker(b"w", "tea"), stage.plain_worker(b"p", "milk")
    stage.ask(stage.client(b"c"), "tea")
    [(job, _)] = stage.jobs(worker)
    stage.hear(plain, b"MDPW02", b"\4", bytes.fromhex(job), b"", b"x")
    assert stage.take(plain) == [[b"MDPW02", b"\6"]] and plain not in stage.broker.sessions.all


def test_a_plain_worker_comes_behind_those_that_are_free_already(stage: Stage) -> None:
    """The READY of a plain worker gives it a turn behind the free ones, like that of a worker that was freed."""
    first, client = stage.worker(b"w", "tea"), stage.client(b"c")
    plain = stage.plain_worker(b"p", "tea")
    stage.ask(client, "tea")
    assert len(stage.jobs(first)) == 1 and stage.plain_jobs(plain) == []


def test_a_table_that_is_too_long_is_cut_and_counted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known services within the limit may still change."""
    monkeypatch.setattr(peer_links, "ENTRIES", 2)
    address = peer(stage)
    stage.scale0(address, "TABLE", seq=1, full=True, digest="0", entries={key: [1, 1, 0] for key in "abcd"})
    table = stage.broker.peers.all["b2"].table
    assert list(table.entries) == ["a", "b"] and stage.broker.context.counts["table_overflow"] == 1
    stage.scale0(address, "TABLE", seq=2, full=False, digest="0", entries={"b": [2, 2, 0], "e": [1, 1, 0]})
    assert table.entries == {"a": [1, 1, 0], "b": [2, 2, 0]} and stage.broker.context.counts["table_overflow"] == 2


def test_a_table_says_what_is_idle_again(stage: Stage) -> None:
    """A guess of what is idle ends with the entry of a table that tells better."""
    client, address = stage.client(b"c"), peer(stage)
    stage.scale0(address, "TABLE", seq=1, full=True, digest="0", entries={"tea": [2, 1, 0], "milk": [2, 2, 0]})
    stage.ask(client, "tea")
    stage.ask(client, "milk", id="2")
    held = stage.broker.peers.all["b2"]
    assert held.guess == {"tea": 0, "milk": 1}
    stage.scale0(address, "TABLE", seq=2, full=False, digest="0", entries={"tea": [2, 2, 0]})
    assert held.guess == {"milk": 1} and held.idle("tea") == 2


def test_a_broker_without_a_key_speaks_for_no_agents() -> None:
    group = GroupConfig("east", (member("b1"), member("b2", public_key="k" * 40)))
    stage = Stage(broker_config(group="east", group_config=(group,)))
    stage.broker.context.grants = Grants()
    address, agent = peer(stage), stage.client(b"c")
    entries = {"tea": [1, 1, 0], "equus.web-1": [1, 1, 0]}
    stage.scale0(address, "TABLE", seq=1, full=True, digest="0", entries=entries)
    assert list(stage.broker.peers.all["b2"].table.entries) == ["tea"]
    stage.told(address)
    stage.scale0(address, "FORWARD", b"x", **FORWARD | {"service": "equus.web-1"})
    message = "equus.web-1 is passed on by brokers with a key that `group_config` names"
    told = {"id": "r1", "code": 403, "reason": "not_allowed", "message": message, "refused": True}
    assert stage.told(address) == [("FINAL", told, [])] and agent in stage.broker.sessions.all


@pytest.mark.parametrize("state", ["disabled", "draining"])
def test_a_broker_that_is_not_active_hands_back(stage: Stage, state: str) -> None:
    address = peer(stage)
    stage.told(address)
    stage.broker.context.state = state
    stage.broker._peer_links.forward(
        stage.broker.sessions.all[address], opt.Forward("r1", "tea", ["b2"], priority=4, deadline=0.0), [b"x"]
    )
    stage.run(stage.broker._effects())
    told = {"id": "r1", "code": 503, "reason": state, "message": f"this broker is {state}", "refused": True}
    assert stage.told(address) == [("FINAL", told, [])] and not stage.broker.routing.requests


def test_a_change_is_told_once(stage: Stage) -> None:
    """A change of workers or of waiting requests is in the next delta and in no later one."""
    address, client = peer(stage), stage.client(b"c")
    stage.told(address)

    def deltas() -> list[dict]:
        stage.wait(0.25)
        return [options["entries"] for command, options, _ in stage.told(address) if command == "TABLE"]

    stage.ask(client, "tea")
    assert deltas() == [{"tea": [0, 0, 1]}] and deltas() == []
    worker = stage.worker(b"w", "tea", "milk")
    assert deltas() == [{"tea": [1, 0, 0], "milk": [1, 0, 0]}] and deltas() == []
    assert not stage.broker.routing.queues.changed and not stage.broker.routing.pool.changed
    [token] = stage.broker.routing.requests
    stage.scale0(worker, "FINAL", id=token.hex())
    assert deltas() == [{"tea": [1, 1, 0], "milk": [1, 1, 0]}]
