"""Tests management requests, to the option: who is refused and why, what each command shows, and what is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scale0_stage import Stage, broker_config, member

from groundwork.authority import Refusal
from scale0.broker import management_requests as module
from scale0.broker.context import Effect, Log, Reload, Store, Verify
from scale0.config.schema import GroupConfig
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.zap import Origin

OPERATOR = ("frontend", b"op")
LOCAL, KNOWN, AFAR = Origin("127.0.0.1", ""), Origin("192.0.2.7", "k" * 40), Origin("192.0.2.7", "")
ANSWER = {"code": 200, "reason": "ok", "message": "", "data": {}}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def manage(stage: Stage, command: str, origin: Origin = LOCAL, password: str = "secret", **more: Any) -> dict[str, Any]:
    """Return the answer to a request that comes by the network."""
    options = {"auth_id": "op", "auth_password": password, "command": command} | more
    stage.hear(OPERATOR, *wire.scale0(S0, "MANAGEMENTREQ", opt.encode(options), ()), origin=origin)
    [(command, answer, body)] = stage.told(OPERATOR)
    assert command == "MANAGEMENTREP" and body == []
    return answer


def ask_here(stage: Stage, command: str) -> list[Effect]:
    """Return what a request from within this process leads to at once; its password was right before."""
    return stage.broker.manage(b"t", opt.ManagementReq("op", "secret", command), LOCAL, stage.now, stage.wall, True)


def ticket_of(stage: Stage) -> int:
    [ticket] = stage.broker.management._pending
    return ticket


def pending(stage: Stage) -> int:
    return len(stage.broker.management._pending)


def test_the_record_that_nothing_matches_costs_as_much_as_others() -> None:
    kind, cost, block, lanes, salt, digest = module.DUMMY_RECORD.split("$")
    assert (kind, cost, block, lanes, len(salt), len(digest)) == ("scrypt", "16384", "8", "1", 32, 128)


@pytest.mark.parametrize(
    "origin, password, command, code, reason",
    [(AFAR, "secret", "status", 403, "insecure_channel"), (LOCAL, "wrong", "status", 401, "bad_credentials"),
     (KNOWN, "secret", "dance", 400, "malformed"), (KNOWN, "secret", "status", 200, "ok")],
)  # fmt: skip
def test_each_verdict_leaves_nothing_behind(
    stage: Stage, origin: Origin, password: str, command: str, code: int, reason: str
) -> None:
    answer = manage(stage, command, origin, password)
    assert (answer["code"], answer["reason"], pending(stage)) == (code, reason, 0)


def test_an_unknown_command_is_answered_with_those_there_are(stage: Stage) -> None:
    answer = manage(stage, "dance")
    assert answer["message"].startswith("no such command: 'dance'; there are status, peers, clients, services, config")


def test_an_unknown_name_is_compared_as_long_as_a_known_one(stage: Stage) -> None:
    """An unknown name is compared with a record that nothing matches, under a ticket of its own."""
    for number, (name, known) in enumerate((("op", True), ("nobody", False)), 1):
        options = opt.ManagementReq(name, "x", "status")
        effects = stage.broker.manage(b"t", options, LOCAL, stage.now, stage.wall)
        stored = stage.broker.config.management[0].auth_password if known else module.DUMMY_RECORD
        assert effects == [Verify(number, stored, "x")]


def test_without_credentials_nothing_is_managed() -> None:
    answer = manage(Stage(broker_config(management=())), "status")
    assert (answer["code"], answer["message"]) == (403, "the configuration names no `management` credentials")


def test_the_sixth_request_of_an_address_within_a_minute_is_refused(stage: Stage) -> None:
    """A key that is known is not counted, and a refusal costs no place."""
    for _ in range(5):
        assert manage(stage, "status")["code"] == 200
        stage.now += 1.0
    for _ in range(3):
        answer = manage(stage, "status")
        assert (answer["code"], answer["reason"]) == (429, "too_many")
        assert answer["message"] == "more than 5 requests of this address within a minute: wait, or come by ipc"
    assert all(manage(stage, "status", KNOWN)["code"] == 200 for _ in range(9))
    stage.now += 54.5
    assert manage(stage, "status")["code"] == 429
    stage.now += 0.5
    stage.broker.tick(stage.now, stage.wall)
    assert manage(stage, "status")["code"] == 200


def test_addresses_that_were_counted_long_ago_are_forgotten_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASKERS", 2)
    for last in (1, 2, 1, 3):
        manage(stage, "status", Origin(f"127.0.0.{last}", ""))
    assert list(stage.broker.management._times) == ["127.0.0.1", "127.0.0.3"]


def test_a_hundred_requests_at_once_are_the_most(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PENDING", 2)
    for number in range(2):
        options = opt.ManagementReq("op", "x", "status")
        stage.broker.manage(b"%d" % number, options, KNOWN, stage.now, stage.wall)
    answer = manage(stage, "status", KNOWN)
    assert (answer["code"], answer["reason"], pending(stage)) == (503, "busy", 2)


def test_a_wrong_password_counts_twice(stage: Stage) -> None:
    """A wrong password counts as a failure of the peer, and as a guess."""
    manage(stage, "status", password="wrong")
    for failures in (stage.broker.context.failures, stage.broker.context.guesses):
        assert "127.0.0.1" in failures.show(stage.now)


def test_clearing_forgets_failures_and_guesses(stage: Stage) -> None:
    manage(stage, "status", password="wrong")
    answer = manage(stage, "clear_errors", KNOWN, key="127.0.0.1")
    assert answer["data"] == {"cleared": 1} and not stage.broker.context.guesses.show(stage.now)
    assert not stage.broker.context.failures.show(stage.now)


def test_what_is_asked_is_logged(stage: Stage) -> None:
    stage.effects.clear()
    manage(stage, "peers")
    assert [e.text for e in stage.effects if isinstance(e, Log)] == ["management: op asks for peers, from 127.0.0.1"]


# ------------------------------------------------------------------------------ what changes something


@pytest.mark.parametrize("command, state", [("disable", "disabled"), ("enable", "active")])
def test_a_state_is_stored_before_it_is_entered(stage: Stage, command: str, state: str) -> None:
    if command == "enable":
        manage(stage, "disable")
    before = stage.broker.state
    effects = ask_here(stage, command)
    ticket = ticket_of(stage)
    assert Store(ticket, state) in effects and stage.broker.state == before
    stage.run(stage.broker.stored(ticket, "", stage.now, stage.wall))
    assert stage.broker.state == state and pending(stage) == 0
    assert stage.told(("local", b"t")) == [("MANAGEMENTREP", ANSWER, [])]
    stage.run(stage.broker.stored(ticket, "", stage.now, stage.wall))
    assert stage.told(("local", b"t")) == []


def test_a_state_that_cannot_be_stored_is_not_entered(stage: Stage) -> None:
    ask_here(stage, "disable")
    stage.run(stage.broker.stored(ticket_of(stage), "disk full", stage.now, stage.wall))
    told = ANSWER | {"code": 500, "reason": "internal", "message": "the state could not be stored: disk full"}
    assert stage.told(("local", b"t")) == [("MANAGEMENTREP", told, [])] and stage.broker.state == "active"


def test_a_disabled_broker_can_only_be_enabled(stage: Stage) -> None:
    manage(stage, "disable")
    stage.run(ask_here(stage, "status"))
    message = "this broker is disabled; only enable is answered"
    assert stage.told(("local", b"t"))[0][1] == ANSWER | {"code": 503, "reason": "disabled", "message": message}
    assert pending(stage) == 0


@pytest.mark.parametrize("error", ["", "line 3: no such key"])
def test_a_reload_is_answered_with_its_outcome(stage: Stage, error: str) -> None:
    effects = ask_here(stage, "reload_config")
    ticket = ticket_of(stage)
    assert Reload(ticket) in effects
    stage.broker.management.reloaded(ticket, error)
    stage.broker.management.reloaded(ticket, error)  # nobody asked for this one, such as one by SIGHUP
    stage.run(stage.broker._effects())
    [(_, answer, _)] = stage.told(("local", b"t"))
    expected = (400, "malformed", error) if error else (200, "ok", "")
    assert (answer["code"], answer["reason"], answer["message"]) == expected
    assert answer["data"] == {"config_version": "7"} and list(stage.broker.context.alarms) == [error] * 2 * bool(error)


# ------------------------------------------------------------------------------ what shows something


def test_status_shows_counts_and_what_waits() -> None:
    group = GroupConfig("east", (member("b1"), member("b2")))
    stage = Stage(broker_config(group="east", group_config=(group,)))
    worker, client = stage.worker(b"w", "tea", "milk"), stage.client(b"c")
    for number in range(3):
        stage.ask(client, "tea", id=str(number))
    stage.scale0(("peer", b"b2"), "CHECKCONFIG", identity="b2", services=["all"], config_type="JSON", role="peer")
    for skew, address in ((5.01, worker), (5.0, client)):
        stage.broker.sessions.all[address].skew = -skew
    stage.broker.context.alarm("the roof burns")
    status = stage.broker.management.status()
    assert status.pop("counts")["accepted"] == 3
    assert status == {
        "identity": "b1", "state": "active", "group": "east", "config_version": "7", "time": stage.wall, "sessions": 3,
        "services": 2, "queued": 2, "running": 1, "peers": ["b2"], "skewed_clocks": ["w"], "alarms": ["the roof burns"],
    }  # fmt: skip


def test_backends_are_shown_by_their_turns_and_others_not_at_all(stage: Stage) -> None:
    """The backend that has answered last comes last; a worker that is not ready, and a client, have no turn."""
    one, two, client = stage.worker(b"w1", "tea"), stage.worker(b"w2", "tea"), stage.client(b"c")
    stage.scale0(("backend", b"w3"), "CHECKCONFIG", identity="w3", services=["tea"], config_type="JSON")
    for number in range(2):
        stage.ask(client, "tea", id=str(number))
    for worker in (two, one):
        [(job, _)] = stage.jobs(worker)
        stage.scale0(worker, "FINAL", id=job)
        stage.now += 0.01
    stage.broker.sessions.all[one].last_received -= 1.2345
    lru = manage(stage, "services", KNOWN)["data"]["LRU"]
    assert [(each["identity"], each["services"]) for each in lru] == [("w2", ["tea"]), ("w1", ["tea"])]
    assert lru[1]["last_heartbeat"] == round(stage.wall - 1.2445, 3) != round(stage.wall - 1.2445, 2)


def test_a_caller_that_may_not_is_told_why(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "decide", lambda caller, action: Refusal(f"{caller.actor} may not {action.name}"))
    answer = manage(stage, "peers")
    assert (answer["code"], answer["reason"], pending(stage)) == (403, "not_allowed", 0)
    assert answer["message"].startswith("auth_id op may not ")


@pytest.mark.parametrize("more, is_body", [(0, False), (1, True)])
def test_options_are_full_to_the_byte(stage: Stage, monkeypatch: pytest.MonkeyPatch, more: int, is_body: bool) -> None:
    stage.run(ask_here(stage, "errors"))
    [frames] = stage.take(("local", b"t"))
    size = len(wire.parse(frames).options)
    monkeypatch.setattr(module, "MAX_OPTIONS", size - more)
    stage.run(ask_here(stage, "errors"))
    [(_, answer, body)] = stage.told(("local", b"t"))
    assert (answer.get("data_in_body", False), len(body)) == (is_body, is_body)


def test_a_hundred_skewed_clocks_are_named(stage: Stage) -> None:
    for number in range(102):
        stage.broker.sessions.all[stage.client(b"c%d" % number)].skew = 9.0
    assert len(stage.broker.management.status()["skewed_clocks"]) == 100


def test_clients_and_services_are_shown_as_they_are(stage: Stage) -> None:
    first, second, client = stage.worker(b"w1", "tea", "milk"), stage.worker(b"w2", "tea"), stage.client(b"c")
    for number in range(4):
        stage.ask(client, "tea", id=str(number))
    for address, skew in ((first, 0.25), (second, 0.0), (client, -1.5)):
        stage.broker.sessions.all[address].skew = skew
    stage.broker.sessions.all[second].last_received -= 0.5
    [(job, _)] = stage.jobs(second)
    stage.scale0(second, "FINAL", id=job)
    seen = round(stage.wall, 3)
    shown = {each["identity"]: each for each in manage(stage, "clients", KNOWN)["data"]["clients"]}
    assert {(each["ready"], each["config_version"], each["last_heartbeat"]) for each in shown.values()} == {
        (True, "7", seen), (False, "0", seen),
    }  # fmt: skip
    assert {name: each["skew_ms"] for name, each in shown.items()} == {"w1": 250, "w2": 0, "c": -1500}
    assert {name: (each["services"], each["inflight"]) for name, each in shown.items()} == {
        "w1": (2, 1), "w2": (1, 1), "c": (0, 0),
    }  # fmt: skip
    data = manage(stage, "services", KNOWN)["data"]
    assert data["services"] == {"milk": [1, 0, 0], "tea": [2, 0, 1]}
    lru = [(each["identity"], each["services"]) for each in data["LRU"]]
    assert lru == [("w1", ["milk", "tea"]), ("w2", ["tea"])]


def test_when_a_client_was_heard_is_told_in_unix_seconds(stage: Stage) -> None:
    client = stage.client(b"c")
    stage.now += 1.25
    [shown] = manage(stage, "clients", KNOWN)["data"]["clients"]
    assert shown["last_heartbeat"] == round(stage.wall - 1.25, 3) and client in stage.broker.sessions.all


def test_the_configuration_is_shown_without_passwords(stage: Stage) -> None:
    manage(stage, "status", password="wrong")
    shown = manage(stage, "config", KNOWN)["data"]
    assert shown["management"] == ["op"] and shown["identity"] == "b1" and shown["LRU"] == []
    assert (shown["state"], shown["config_version"], shown["error_clients"]) == ("active", "7", ["127.0.0.1"])


def test_an_answer_that_is_too_long_for_options_comes_as_body(stage: Stage) -> None:
    for number in range(60):
        stage.broker.context.failures.add(f"peer {number} {'x' * 200}", "y" * 1000, stage.now)
    stage.run(ask_here(stage, "errors"))
    [(_, answer, body)] = stage.told(("local", b"t"))
    assert (answer["data"], answer["data_in_body"], len(body)) == ({}, True, 1)
    assert len(body[0]) > opt.MAX_OPTIONS and len(msgspec.json.decode(body[0])) == 60
