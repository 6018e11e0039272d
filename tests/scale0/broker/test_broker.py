"""Tests transcripts of one broker under a fake clock: what is sent, and what must come out, to the frame."""

from __future__ import annotations

import pytest
from scale0_stage import BEAT, PASSWORD_RECORD, Stage, broker_config, member

from scale0.broker import peer_links, sessions, worker_offers
from scale0.broker.context import Entered, Publish, Store
from scale0.broker.requests import queues
from scale0.config.schema import Credential, GroupConfig, ServicePolicy
from scale0.wire import options
from scale0.wire.frames import D1, D2
from scale0.wire.zap import Origin


@pytest.fixture
def stage():
    return Stage()


def test_a_plain_request_frame_by_frame(stage):
    """An RFC 18 client's request reaches an RFC 7 worker under a token of 16 bytes, and is answered in RFC 18."""
    worker = stage.plain_worker(b"w", "tea", D1)
    stage.hear(("frontend", b"c"), b"MDPC02", b"\1", b"tea", b"one", b"")
    token = (1).to_bytes(16, "big")
    assert stage.take(worker) == [[b"", b"MDPW01", b"\2", token, b"", b"one", b""]]
    stage.hear(worker, b"", b"MDPW01", b"\3", token, b"", b"done")
    assert stage.take(("frontend", b"c")) == [[b"MDPC02", b"\3", b"tea", b"done"]]
    assert not stage.broker.routing.requests


def test_a_body_that_is_empty_gets_a_frame_in_majordomo(stage):
    """A Scale0 request or reply may have no body; the RFCs want one."""
    worker, client = stage.plain_worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea")
    [(_, body)] = stage.plain_jobs(worker)
    assert body == [b""]


def test_a_full_worker_is_passed_over_and_comes_back(stage):
    """EAGAIN marks a worker slow, and the next one is tried, without a count; any frame of the worker's
    own ends that.
    """
    slow, other, client = stage.worker(b"slow", "tea"), stage.worker(b"other", "tea"), stage.client(b"c")
    stage.full.add(slow)
    stage.ask(client, "tea", b"1", id="1")
    assert stage.jobs(slow) == []
    [(_, body)] = stage.jobs(other)
    assert body == [b"1"] and next(iter(stage.broker.routing.requests.values())).attempt == 1
    stage.full.clear()
    stage.ask(client, "tea", b"2", id="2")
    assert stage.jobs(slow) == [], "still slow"
    stage.beat_all(slow)
    assert [body for _, body in stage.jobs(slow)] == [[b"2"]]
    stage.check()


def test_a_vanished_worker_is_found_by_sending(stage):
    """A send with EHOSTUNREACH evicts the worker and tries the next; the attempt does not count."""
    gone, other, client = stage.worker(b"gone", "tea"), stage.worker(b"other", "tea"), stage.client(b"c")
    stage.gone.add(gone)
    stage.ask(client, "tea", b"?", idempotent=False)
    assert len(stage.jobs(other)) == 1
    assert gone not in stage.broker.sessions.all


def test_a_late_reply_to_an_attempt_that_is_over_is_dropped(stage):
    """A late reply of the first worker is dropped, since each attempt has its own token."""
    first, client = stage.worker(b"first", "tea"), stage.client(b"c")
    stage.ask(client, "tea", b"?")
    [(old, _)] = stage.jobs(first)
    stage.scale0(first, "DISCONNECT")
    second = stage.worker(b"second", "tea")
    stage.ready(second, "tea")
    [(new, _)] = stage.jobs(second) or [(next(iter(stage.broker.routing.requests)).hex(), [])]
    assert new != old
    stage.worker(b"first", "tea")
    stage.scale0(first, "FINAL", b"late", id=old)
    assert stage.finals(client) == []
    stage.scale0(second, "FINAL", b"right", id=new)
    assert stage.finals(client) == [("1", 200, [b"right"])]


def test_busy_timeout_of_a_beating_worker_ends_the_request_and_frees_its_credit():
    stage = Stage(broker_config(service_config=(ServicePolicy("tea", True, 5.0),)))
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", b"1", id="1")
    for _ in range(6):
        stage.wait(BEAT)
        stage.beat_all(worker, client)
    assert stage.finals(client) == [("1", 504, [])]
    stage.ask(client, "tea", b"2", id="2")
    assert [body for _, body in stage.jobs(worker)] == [[b"1"], [b"2"]]


def test_an_expired_request_leaves_its_worker_busy_until_it_answers(stage):
    """The client has its 504; the worker, who does one thing at a time, is not given another."""
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", b"1", id="1", timeout_ms=500)
    [(job, _)] = stage.jobs(worker)
    stage.wait(0.6)
    assert stage.finals(client) == [("1", 504, [])]
    stage.ask(client, "tea", b"2", id="2")
    assert [c for c, _, _ in stage.told(worker)] == ["CANCEL"]
    stage.scale0(worker, "FINAL", b"late", id=job)
    assert [body for _, body in stage.jobs(worker)] == [[b"2"]]


@pytest.mark.parametrize("limit, value", [("PER_CLIENT", 2), ("PER_SERVICE", 2), ("QUEUED_BYTES", 20)])
def test_each_cap_of_the_queue_is_429(monkeypatch, stage, limit, value):
    monkeypatch.setattr(queues, limit, value)
    client = stage.client(b"c")
    for number in range(3):
        stage.ask(client, "tea", b"x" * 10, id=str(number))
    assert stage.finals(client) == [("2", 429, [])]
    stage.check()


def test_a_client_that_keeps_its_old_configuration_is_refused_in_the_end(stage):
    """A client that keeps its old configuration gets FORCENEGOTIATE after three intervals, at most REFUSALS times, and
    then an end.
    """
    worker = stage.worker(b"w", "tea")
    stage.run(stage.broker.configured(broker_config(), 8, stage.now, stage.wall))
    heard: list[str] = []
    while "DISCONNECTERROR" not in heard and len(heard) < 20:
        stage.wait(BEAT)
        stage.beat_all(worker)
        heard += [c for c, _, _ in stage.told(worker)]
    assert heard == ["FORCENEGOTIATE"] * sessions.REFUSALS + ["DISCONNECTERROR"]


def test_after_a_reload_everybody_is_told_within_an_interval_but_not_at_once(stage):
    peers = [stage.client(b"%d" % number) for number in range(50)]
    stage.run(stage.broker.reloaded(0, (broker_config(), 8), stage.now, stage.wall))
    assert not any(stage.told(peer) for peer in peers)
    stage.wait(BEAT / 2)
    half = sum(bool(stage.told(peer)) for peer in peers)
    stage.wait(BEAT / 2 + 0.1)
    assert 10 < half < 40 and half + sum(bool(stage.told(peer)) for peer in peers) == 50


def test_a_configuration_is_stored_and_published(stage):
    stage.effects.clear()
    stage.run(stage.broker.configured(broker_config(group="east"), 8, stage.now, stage.wall))
    assert [e for e in stage.effects if isinstance(e, Store | Publish)] == [Store(0), Publish()]
    assert (stage.broker.config.group, stage.broker.version) == ("east", 8)


def test_services_that_are_no_longer_served_are_sent_away(stage):
    worker, other = stage.worker(b"w", "tea"), stage.worker(b"o", "coffee")
    stage.run(stage.broker.configured(broker_config(services=("coffee",)), 8, stage.now, stage.wall))
    [(command, told, _)] = stage.told(worker)
    assert (command, told["code"]) == ("DISCONNECTERROR", 421)
    assert stage.told(other) == []


def test_an_unknown_agent_is_404_and_a_known_one_is_served(stage):
    client = stage.client(b"c")
    stage.ask(client, "equus.web-1", b"disk")
    assert stage.finals(client) == [("1", 404, [])]
    helen = stage.worker(b"helen", "equus.web-1")
    stage.ask(client, "equus.web-1", b"disk")
    assert len(stage.jobs(helen)) == 1


def test_a_request_before_negotiation_is_served_and_the_client_told(stage):
    worker, stranger = stage.worker(b"w", "tea"), ("frontend", b"s")
    stage.ask(stranger, "tea", b"?")
    assert [c for c, _, _ in stage.told(stranger)] == ["FORCENEGOTIATE"]
    [(job, _)] = stage.jobs(worker)
    stage.scale0(worker, "FINAL", b"!", id=job)
    assert stage.finals(stranger) == [("1", 200, [b"!"])]


def test_a_gap_in_services_makes_the_worker_begin_again(stage):
    """After a gap READY with all services is asked for; a repetition is ignored."""
    worker = stage.worker(b"w", "tea")
    stage.scale0(worker, "SERVICES", add=["a"], remove=[], seq=1)
    stage.scale0(worker, "SERVICES", add=["x"], remove=[], seq=1)
    stage.scale0(worker, "SERVICES", add=["b"], remove=[], seq=3)
    assert [c for c, _, _ in stage.told(worker)] == ["FORCENEGOTIATE"]
    assert set(stage.broker.routing.pool.services()) == {"tea", "a"}


def test_a_worker_has_a_bounded_number_of_services(monkeypatch, stage):
    monkeypatch.setattr(worker_offers, "SERVICES_PER_WORKER", 3)
    worker = stage.worker(b"w", "tea")
    stage.scale0(worker, "SERVICES", add=["a", "b"], remove=[], seq=1)
    assert stage.told(worker) == []
    stage.scale0(worker, "SERVICES", add=["c"], remove=[], seq=2)
    assert [t["code"] for _, t, _ in stage.told(worker)] == [413]


# ------------------------------------------------------------------------------- identities and keys


def keyed(stage: Stage, address: tuple[str, bytes], identity: str, key: str) -> list[str]:
    """Send CHECKCONFIG under a CURVE key, and return the commands that answer it."""
    named = {"identity": identity, "services": [], "config_type": "JSON"}
    frames = [b"SCALE0", b"\1", b"CHECKCONFIG", options.encode(named)]
    stage.hear(address, *frames, origin=Origin("10.0.0.1", key))
    return [c for c, _, _ in stage.told(address)]


def test_the_same_key_on_a_new_connection_wins(stage):
    """The old row is dropped, and its next frame is a stranger's."""
    assert keyed(stage, ("backend", b"old"), "helen", "KEY") == ["CONFIG"]
    assert keyed(stage, ("backend", b"new"), "helen", "KEY") == ["CONFIG"]
    assert list(stage.broker.sessions.all) == [("backend", b"new")]


def test_another_key_may_not_have_a_living_identity(stage):
    keyed(stage, ("backend", b"old"), "helen", "KEY")
    assert keyed(stage, ("backend", b"new"), "helen", "OTHER") == ["DISCONNECTERROR"]
    assert list(stage.broker.sessions.all) == [("backend", b"old")]


def test_without_a_key_the_holder_keeps_it_unless_its_connection_is_gone(stage):
    """A probe finds out at once, instead of after three intervals of silence."""
    holder = stage.worker(b"holder", "tea")
    claim = {"identity": "holder", "services": ["tea"], "config_type": "JSON"}
    stage.scale0(("backend", b"heir"), "CHECKCONFIG", **claim)
    assert [t["code"] for _, t, _ in stage.told(("backend", b"heir"))] == [409]
    stage.gone.add(holder)
    stage.scale0(("backend", b"heir"), "CHECKCONFIG", **claim)
    assert [c for c, _, _ in stage.told(("backend", b"heir"))] == ["CONFIG"]


def test_a_peer_must_have_the_key_of_the_groups_configuration():
    key = "a" * 40
    group = GroupConfig("east", (member("b2", public_key=key),))
    stage = Stage(broker_config(group="east", group_config=(group,)))
    assert keyed(stage, ("peer", b"liar"), "b2", "b" * 40) == ["DISCONNECTERROR"]
    assert "CONFIG" in keyed(stage, ("peer", b"true"), "b2", key)


# ------------------------------------------------------------------------------------- management


def manage(stage: Stage, command: str, password: str = "secret", origin: Origin | None = None, **more: str) -> dict:
    admin = ("frontend", b"admin")
    asked = {"auth_id": "op", "auth_password": password, "command": command} | more
    frames = [b"SCALE0", b"\1", b"MANAGEMENTREQ", options.encode(asked)]
    stage.hear(admin, *frames, origin=origin or Origin("127.0.0.1", ""))
    answers = [told for name, told, _ in stage.told(admin) if name == "MANAGEMENTREP"]
    return answers[-1] if answers else {}


def test_management_is_refused_where_others_could_listen(stage):
    assert manage(stage, "status", origin=Origin("10.0.0.1", ""))["reason"] == "insecure_channel"
    assert manage(stage, "status", origin=Origin("10.0.0.1", "KEY"))["code"] == 200


def test_what_management_shows(stage):
    stage.worker(b"w", "tea")
    stage.ask(stage.client(b"c"), "coffee", b"?")
    assert manage(stage, "services")["data"]["services"] == {"coffee": [0, 0, 1], "tea": [1, 1, 0]}
    [entry] = manage(stage, "services")["data"]["LRU"]
    assert entry == {"identity": "w", "services": ["tea"], "last_heartbeat": stage.wall}
    assert {c["identity"] for c in manage(stage, "clients")["data"]["clients"]} == {"w", "c"}
    shown = manage(stage, "config")["data"]
    assert PASSWORD_RECORD not in str(shown) and shown["management"] == ["op"]


def test_error_clients_are_shown_and_forgiven(stage):
    bad = Origin("10.0.0.66", "")
    for _ in range(5):
        stage.hear(("frontend", b"bad"), b"garbage", origin=bad)
    shown = manage(stage, "errors")["data"]["10.0.0.66"]
    assert shown["banned"] and 299 < shown["seconds_left"] <= 300
    assert manage(stage, "clear_errors", key="10.0.0.66")["data"] == {"cleared": 1}
    stage.hear(("frontend", b"bad"), b"MDPC02", b"\1", b"mmi.x", b"?", origin=bad)
    assert len(stage.take(("frontend", b"bad"))) == 1


def test_error_clients_of_the_configuration_are_never_heard():
    stage = Stage(broker_config(error_clients=("10.0.0.66",)))
    stage.hear(("frontend", b"bad"), b"MDPC02", b"\1", b"mmi.x", b"?", origin=Origin("10.0.0.66", ""))
    assert stage.take(("frontend", b"bad")) == []


def test_guessing_passwords_puts_the_guesser_on_the_list(stage):
    guesser = Origin("127.0.0.9", "")
    codes = [manage(stage, "status", "wrong", guesser).get("code") for _ in range(6)]
    assert codes == [401] * 5 + [None]


def test_whom_a_key_or_a_socket_of_ours_names_may_ask_as_often_as_they_like(stage):
    """An address of loopback may be anybody's, so its sixth request in a minute is refused before the password is
    looked at.
    """
    for origin in (Origin("10.0.0.1", "KEY"), Origin("", "")):
        assert [manage(stage, "status", origin=origin)["code"] for _ in range(12)] == [200] * 12
    codes = [manage(stage, "status", origin=Origin("127.0.0.1", ""))["code"] for _ in range(6)]
    assert codes == [200] * 5 + [429]


def test_disable_ends_everything_with_a_code_and_enable_begins_again(stage):
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", b"running", id="1")
    stage.ask(client, "tea", b"queued", id="2")
    assert manage(stage, "disable")["code"] == 200
    told = stage.told(client)
    assert [(c, t.get("id"), t["code"]) for c, t, _ in told] == [
        ("FINAL", "1", 503),
        ("FINAL", "2", 503),
        ("DISCONNECTERROR", None, 503),
    ]
    assert not stage.broker.sessions.all and not stage.broker.routing.requests
    stage.beat_all(worker)
    assert [c for c, _, _ in stage.told(worker)] == ["REQUEST", "DISCONNECTERROR"]
    assert manage(stage, "status") == {}
    assert manage(stage, "enable")["code"] == 200
    assert [e.state for e in stage.effects if isinstance(e, Entered)] == ["active", "disabled", "joining", "active"]


def test_a_credential_needs_a_broker_that_has_some():
    stage = Stage(broker_config(management=()))
    assert manage(stage, "status")["reason"] == "not_allowed"


def test_a_large_answer_travels_in_the_body():
    stage = Stage(broker_config(management=(Credential("op", PASSWORD_RECORD),)))
    stage.worker(b"w", *(f"service-{number:04}-{'x' * 60}" for number in range(600)))
    stage.scale0(("backend", b"w"), "SERVICES", add=[f"more-{n:04}-{'x' * 60}" for n in range(700)], remove=[], seq=1)
    asked = {"auth_id": "op", "auth_password": "secret", "command": "services"}
    stage.scale0(("frontend", b"admin"), "MANAGEMENTREQ", **asked)
    [(_, told, [body])] = stage.told(("frontend", b"admin"))
    assert told["data_in_body"] and told["data"] == {} and len(options.decode_any(body)["services"]) == 1300


# ------------------------------------------------------------------------------------ peer brokers


class Peer:
    """Plays a peer broker on the peer port by hand."""

    def __init__(self, stage: Stage, identity: str = "b2") -> None:
        self.stage, self.address = stage, ("peer", identity.encode())
        named = {"identity": identity, "services": ["all"], "config_type": "JSON", "role": "peer"}
        stage.scale0(self.address, "CHECKCONFIG", **named)
        self.told()

    def told(self) -> list:
        return self.stage.told(self.address)

    def table(self, entries: dict, digest: str = "?", **more: object) -> None:
        table = {"seq": 1, "full": True, "digest": digest, "entries": entries} | more
        self.stage.scale0(self.address, "TABLE", **table)


@pytest.fixture
def group_stage():
    brokers = (member("b1"), member("b2", frontend="tcp://10.0.0.2:1"), member("b3"))
    return Stage(broker_config(group="east", group_config=(GroupConfig("east", brokers),)))


def test_what_a_peer_will_not_take_goes_elsewhere(group_stage):
    """A FINAL with refused=true is a broker's word, not a worker's: the request goes on, the attempt does not count."""
    stage, client = group_stage, group_stage.client(b"c")
    b2, b3 = Peer(stage, "b2"), Peer(stage, "b3")
    b2.table({"tea": [2, 2, 0]})
    b3.table({"tea": [1, 1, 0]})
    stage.ask(client, "tea", b"?")
    [job] = [o["id"] for c, o, _ in b2.told() if c == "FORWARD"]
    stage.scale0(b2.address, "FINAL", id=job, code=503, refused=True)
    forwards = [(o["path"], o["service"]) for c, o, _ in b3.told() if c == "FORWARD"]
    assert forwards == [(["b1"], "tea")] and stage.finals(client) == []
    stage.check()


def test_a_workers_503_at_a_peer_is_the_clients_503(group_stage):
    stage, client, b2 = group_stage, group_stage.client(b"c"), Peer(group_stage)
    b2.table({"tea": [1, 1, 0]})
    stage.ask(client, "tea", b"?")
    [job] = [o["id"] for c, o, _ in b2.told() if c == "FORWARD"]
    stage.scale0(b2.address, "FINAL", b"sorry", id=job, code=503)
    assert stage.finals(client) == [("1", 503, [b"sorry"])]


def test_a_table_in_parts_and_a_digest_that_does_not_match(group_stage):
    """The whole table is asked for again when the digests differ, at most once an interval."""
    stage, b2 = group_stage, Peer(group_stage)
    b2.table({"tea": [1, 1, 0]}, digest="0", parts=2, part=0)
    assert [c for c, _, _ in b2.told()] == []
    b2.table({"coffee": [1, 0, 3]}, digest="0", full=False, parts=2, part=1)
    assert [(c, o) for c, o, _ in b2.told()] == [("TABLEREQ", {"since": 0})]
    assert stage.broker.peers.all["b2"].table.entries == {"tea": [1, 1, 0], "coffee": [1, 0, 3]}
    b2.table({"coffee": [0, 0, 0]}, digest="0", full=False, seq=9)
    assert [c for c, _, _ in b2.told()] == []
    stage.wait(BEAT)
    b2.table({"coffee": [0, 0, 0]}, digest="0", full=False, seq=9)
    assert "TABLEREQ" in [c for c, _, _ in b2.told()]


def test_changes_are_pushed_at_most_every_fifth_of_a_second(group_stage):
    stage, b2 = group_stage, Peer(group_stage)
    stage.worker(b"w", "tea")
    stage.wait(0.01, step=0.01)
    pushed = [o for c, o, _ in b2.told() if c == "TABLE"]
    assert [o["entries"] for o in pushed] == [{"tea": [1, 1, 0]}]
    for number in range(5):
        stage.worker(b"w%d" % number, "tea")
        stage.wait(0.02, step=0.02)
    assert [c for c, _, _ in b2.told()] == []
    stage.wait(peer_links.PUSH_INTERVAL)
    [delta] = [o for c, o, _ in b2.told() if c == "TABLE"]
    assert (delta["full"], delta["seq"], delta["entries"]) == (False, pushed[0]["seq"] + 1, {"tea": [6, 6, 0]})
    assert delta["digest"] == stage.broker.peers.own.digest


def test_a_large_table_travels_in_parts_that_fit(group_stage):
    stage = group_stage
    stage.worker(b"w", *(f"s{number}" for number in range(100)))
    for at in range(10):
        added = [f"equus.agent-{at}-{number}-{'x' * 40}" for number in range(500)]
        stage.scale0(("backend", b"w"), "SERVICES", add=added, remove=[], seq=at + 1)
    address = ("peer", b"b2")
    stage.scale0(address, "CHECKCONFIG", identity="b2", services=["all"], config_type="JSON", role="peer")
    tables = [o for c, o, _ in stage.told(address) if c == "TABLE"]
    assert [t["full"] for t in tables] == [True] + [False] * (len(tables) - 1) and len(tables) > 2
    assert all(len(options.encode(t)) <= options.MAX_OPTIONS for t in tables)
    assert sum(len(t["entries"]) for t in tables) == 5100


def test_a_peer_that_is_disabled_gets_no_requests(group_stage):
    stage, client, b2 = group_stage, group_stage.client(b"c"), Peer(group_stage)
    b2.table({"tea": [1, 1, 0]})
    stage.scale0(b2.address, "HEARTBEAT", time=stage.wall, config_version="7", state="disabled", seq=1, digest="?")
    stage.ask(client, "tea", b"?")
    assert "FORWARD" not in [c for c, _, _ in b2.told()]
    stage.scale0(b2.address, "HEARTBEAT", time=stage.wall, config_version="7", state="active", seq=1, digest="?")
    assert "FORWARD" in [c for c, _, _ in b2.told()]


def test_cancel_and_busy_credit_reach_over_a_peer(group_stage):
    stage, client, b2 = group_stage, group_stage.client(b"c"), Peer(group_stage)
    b2.table({"tea": [1, 1, 0]})
    stage.ask(client, "tea", b"?")
    [job] = [o["id"] for c, o, _ in b2.told() if c == "FORWARD"]
    stage.scale0(client, "CANCEL", id="1")
    assert [o["id"] for c, o, _ in b2.told() if c == "CANCEL"] == [job]
    stage.ask(client, "tea", b"second", id="2")
    assert [c for c, _, _ in b2.told() if c == "FORWARD"] == [], "its one worker is thought to be busy"
    stage.scale0(b2.address, "FINAL", id=job, code=200)
    stage.wait(0.1)


def test_needbroker_passes_over_brokers_that_do_not_serve_it(group_stage):
    stage, client = group_stage, group_stage.client(b"c")
    Peer(stage, "b2")
    stage.scale0(client, "NEEDBROKER", identity="c", services=["tea"], failed=["b1"])
    [(command, told, _)] = stage.told(client)
    assert (command, told["identity"], told["frontend"]) == ("USEBROKER", "b2", "tcp://10.0.0.2:1")


def test_a_broker_does_not_become_its_own_peer(group_stage):
    stage, address = group_stage, ("peer", b"self")
    stage.scale0(address, "CHECKCONFIG", identity="b1", services=["all"], config_type="JSON", role="peer")
    assert [o["code"] for _, o, _ in stage.told(address)] == [409]
    assert not stage.broker.peers.all


def test_a_peers_table_is_bounded(monkeypatch, group_stage):
    monkeypatch.setattr(peer_links, "ENTRIES", 3)
    b2 = Peer(group_stage)
    b2.table({f"s{number}": [1, 1, 0] for number in range(5)})
    assert len(group_stage.broker.peers.all["b2"].table.entries) == 3


def test_a_peer_with_a_full_pipe_gets_requests_again_once_it_sends_something(group_stage):
    stage, client, b2 = group_stage, group_stage.client(b"c"), Peer(group_stage)
    stage.full.add(b2.address)
    b2.table({"tea": [1, 1, 0]})
    stage.ask(client, "tea", b"?")
    assert "FORWARD" not in [c for c, _, _ in b2.told()]
    stage.full.clear()
    stage.scale0(b2.address, "HEARTBEAT", time=stage.wall, config_version="7", state="active", seq=1, digest="?")
    assert "FORWARD" in [c for c, _, _ in b2.told()]
    stage.check()


# ------------------------------------------------------------------------------- the ends of plain sessions


@pytest.mark.parametrize("dialect, lead, goodbye", [(D1, [b"", b"MDPW01"], b"\5"), (D2, [b"MDPW02"], b"\6")])
def test_a_plain_worker_whose_session_ends_is_told_so(stage, dialect, lead, goodbye):
    """A worker that is silent, sends a second READY or is unknown is told so; it opens a new socket then and begins
    anew.
    """
    worker = stage.plain_worker(b"w", "tea", dialect)
    stage.hear(worker, *lead, b"\1", b"tea")
    assert [frames for frames in stage.take(worker) if frames[-1] == goodbye] == [[*lead, goodbye]]
    silent = stage.plain_worker(b"s", "tea", dialect)
    assert stage.broker.sessions.all[silent].skew == 0.0  # it tells no time, so its clock is as good as ours
    stage.wait(4 * BEAT)
    assert stage.take(silent)[-1] == [*lead, goodbye]
    stage.hear(("backend", b"unknown"), *lead, b"\4" if dialect is D1 else b"\5")
    assert stage.take(("backend", b"unknown")) == [[*lead, goodbye]]


@pytest.mark.parametrize("rest, whole", [(1 << 19, True), ((1 << 19) + 1, False)])
def test_a_client_without_partial_replies_is_held_a_mebibyte_of_parts(stage, rest, whole):
    """A client of MDP/0.1 has one reply, so the parts wait for it. Beyond a mebibyte the request ends, and the worker
    goes on.
    """
    worker = stage.plain_worker(b"w", "tea", D2)
    stage.hear(("frontend", b"c"), b"", b"MDPC01", b"tea", b"cup")
    [(token, _)] = stage.plain_jobs(worker)
    for size in (1 << 19, rest):
        stage.hear(worker, b"MDPW02", b"\3", token, b"", bytes(size))
    stage.hear(worker, b"MDPW02", b"\4", token, b"", b"end")
    sizes = [[len(frame) for frame in frames[3:]] for frames in stage.take(("frontend", b"c"))]
    assert (sizes == [[1 << 19, rest, 3]]) == whole
    assert not stage.broker.routing.requests
    stage.ask(stage.client(b"d"), "tea", b"next")
    assert [body for _, body in stage.plain_jobs(worker)] == [[b"next"]]
