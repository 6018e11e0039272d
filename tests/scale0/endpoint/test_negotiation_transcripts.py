"""Tests a client's negotiation, effect by effect: each waiting time, each refusal, each way to the next broker."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from scale0.endpoint import broker_choice, negotiation
from scale0.endpoint.effects import Configured, Dial, SendCommand, State, StateChanged, Target
from scale0.endpoint.negotiation import Negotiation
from scale0.wire import options as opt

A, B, C = Target("tcp://a", "ka", "a"), Target("tcp://b", "kb", "b"), Target("tcp://c", "kc", "c")
WALL = 1_700_000_000.0


class Half(random.Random):
    """Throws a half each time, so that a delay is half of its longest."""

    def random(self) -> float:
        return 0.5


class Client:
    """Drives one Negotiation with its time by hand."""

    def __init__(self, role: str = "frontend", *targets: Target, interval: float | None = 1.0) -> None:
        self.machine, self.now = Negotiation(role, "me", targets or (A,), Half(), interval), 100.0
        self.started = self.machine.start(self.now)

    def hear(self, command: str, *body: bytes, **options: Any) -> list:
        o = opt.decode(command, msgspec.json.encode(options), commands=opt.TO_CLIENT)
        return self.machine.received(command, o, body, self.now, WALL)

    def handshake(self) -> list:
        return self.machine.handshake(self.now, WALL)

    def after(self, seconds: float) -> list:
        self.now += seconds
        return self.machine.tick(self.now, WALL)

    def config(self, **more: Any) -> list:
        return self.hear("CONFIGACK", **{"config_version": "7", "hbeatinterval": 1.0, "broker": "a"} | more)

    def active(self) -> Client:
        self.handshake()
        self.config()
        if self.machine.role == "backend":
            self.machine.ready_sent(self.now)
        assert self.machine.state is State.ACTIVE
        return self

    def error(self, code: int, **more: Any) -> list:
        return self.hear("DISCONNECTERROR", code=code, reason="r", message="m", **more)


def know(client: Client, preferred: str = "a") -> None:
    brokers = [
        {"identity": t.identity, "frontend": t.endpoint, "backend": f"{t.endpoint}:b", "public_key": t.key}
        for t in (A, B, C)
    ]
    client.machine.set_known_brokers([{"name": "east", "brokers": brokers}, {"name": "empty"}], preferred)


def lost(why: str) -> StateChanged:
    return StateChanged(State.LOST, why)


DIALLING = StateChanged(State.DIALLING)


def test_the_waiting_times_are_those_of_the_documentation() -> None:
    assert (negotiation.CHECK_TIMEOUT, negotiation.CHECK_TRIES, negotiation.DIAL_TIMEOUT) == (2.0, 3, 6.0)
    assert (negotiation.FIRST_DELAY, negotiation.LONGEST_DELAY, broker_choice.PREFERRED_TRIES) == (0.25, 30.0, 3)
    assert (negotiation.LIVENESS, negotiation.DEFAULT_RETRY, negotiation.LAPSED) == (3, 30.0, 408)
    assert ({401, 403, 426}, {421, 503}) == (negotiation.NEVER, negotiation.ELSEWHERE)


def test_a_client_before_its_start() -> None:
    machine = Negotiation("frontend", "me", [A], Half())
    assert (machine.state, machine.due, machine.interval, machine.version) == (State.LOST, None, 2.5, "0")
    assert (machine.services, machine.choice.preferred, machine.target) == ([], "", None)
    assert Negotiation("frontend", "me", [A], Half(), 4.0).interval == 4.0


def test_checkconfig_option_by_option() -> None:
    client = Client("backend", Target("tcp://a", token="T"), interval=3.0)
    assert client.started == [DIALLING, Dial(Target("tcp://a", token="T"))] and client.machine.due == 106.0
    client.machine.services = [str(number) for number in range(200)]
    options = {
        "identity": "me", "services": client.machine.services, "config_type": "JSON", "config_version": "0",
        "role": "backend", "time": WALL, "hbeatinterval": 3.0, "token": "T",
    }  # fmt: skip
    assert client.handshake() == [StateChanged(State.CHECKING), SendCommand("CHECKCONFIG", options)]
    assert client.machine.due == 102.0
    client.machine.services = [*client.machine.services, "one more"]
    assert client.after(1.99) == []
    assert client.after(0.01) == [SendCommand("CHECKCONFIG", options | {"services": []})]
    plain = Client("frontend", A, interval=None)
    [_, tell] = plain.handshake()
    assert "hbeatinterval" not in tell.options and "token" not in tell.options


def test_three_tries_and_then_the_broker_is_given_up() -> None:
    client = Client()
    client.handshake()
    assert [len(client.after(2.0)) for _ in range(2)] == [1, 1]
    assert client.after(1.999) == []
    assert client.after(0.001) == [lost("no answer")]
    assert client.machine.due == client.now + 0.25, "half of twice a quarter of a second"
    assert client.after(0.24) == [] and client.after(0.01) == [DIALLING, Dial(A)]


def test_a_handshake_that_does_not_come_is_waited_for_six_seconds() -> None:
    client = Client()
    assert client.after(5.99) == [] and client.after(0.01) == [lost("no answer")]


def test_configurations_set_version_and_interval() -> None:
    client = Client()
    client.handshake()
    assert client.hear("CONFIG", b"{", b"}", config_version="9", hbeatinterval=2.0, config_type="XML") == [
        StateChanged(State.CONFIGURED), Configured(b"{}", "XML", "9"), StateChanged(State.ACTIVE),
    ]  # fmt: skip
    assert (client.machine.version, client.machine.interval, client.machine.due) == ("9", 2.0, 102.0)
    assert client.after(1.99) == []
    assert client.after(0.01) == [SendCommand("HEARTBEAT", {"time": WALL, "config_version": "9"})]
    assert client.machine.due == 104.0
    assert client.config(hbeatinterval=0.0) == [
        StateChanged(State.CONFIGURED), Configured(None, "JSON", "7"), StateChanged(State.ACTIVE),
    ]  # fmt: skip
    assert client.machine.interval == 2.0


def test_a_backend_waits_for_its_ready_without_an_end() -> None:
    client = Client("backend")
    client.handshake()
    client.config()
    assert (client.machine.state, client.machine.due) == (State.CONFIGURED, None)
    assert client.machine.ready_sent(client.now) == [StateChanged(State.ACTIVE)] and client.machine.due == 101.0
    assert client.machine.ready_sent(client.now) == []


def test_silence_of_three_intervals_ends_it() -> None:
    client = Client().active()
    beats = [len(client.after(1.0)) for _ in range(2)]
    assert beats == [1, 1] and client.machine.state is State.ACTIVE
    client.now += 1.0
    client.machine.tick(client.now, WALL)
    assert client.machine.state is State.ACTIVE
    assert client.after(0.01) == [lost("nothing received for 3 intervals")]
    assert client.machine.due == client.now + 0.25


def test_anything_that_is_heard_is_a_sign_of_life() -> None:
    client = Client().active()
    for _ in range(5):
        client.after(1.0)
        client.hear("HEARTBEAT", time=WALL, config_version="7")
    assert client.machine.state is State.ACTIVE and client.machine.due == client.now + 1.0


# ------------------------------------------------------------------------------- events in each state


def in_state(state: State) -> Client:
    client = Client("backend")
    if state is State.ASKING:
        know(client)
        client.active().error(503)
        client.after(0.2)
        client.handshake()
    elif state is State.LOST:
        client.machine.disconnected(client.now)
    elif state is not State.DIALLING:
        client.handshake()
        if state in (State.CONFIGURED, State.ACTIVE):
            client.config()
        if state is State.ACTIVE:
            client.machine.ready_sent(client.now)
        if state is State.BACKOFF:
            client.error(429)
        if state is State.STOPPED:
            client.error(401)
    assert client.machine.state is state
    return client


ALIVE = (State.CHECKING, State.CONFIGURED, State.ACTIVE)
EVENTS = {  # event: the states in which it changes something, and what comes out
    "broken": dict.fromkeys((*ALIVE, State.ASKING), "the connection was lost")
    | {State.DIALLING: "no connection can be made"},
    "refused": {State.DIALLING: "the connection is refused: keys do not match"},
    "failed": {State.DIALLING: "why"},
    "again": dict.fromkeys((*ALIVE, State.ASKING), "the broker was restarted"),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", EVENTS)
def test_each_event_in_each_state(event: str, state: State) -> None:
    client = in_state(state)
    machine, now = client.machine, client.now
    if event == "again" and state is State.DIALLING:
        return  # its first one
    call = {
        "broken": lambda: machine.disconnected(now), "refused": lambda: machine.refused(now),
        "failed": lambda: machine.failed("why", now), "again": lambda: machine.handshake(now, WALL),
    }  # fmt: skip
    why = EVENTS[event].get(state)
    assert call[event]() == ([lost(why)] if why else [])
    if why:
        assert machine.state is State.LOST and machine._beat_at is None
        assert machine.due == now + (0.125 if event == "again" or state is State.ASKING else 0.25)


@pytest.mark.parametrize("state", State)
def test_commands_in_each_state(state: State) -> None:
    client = in_state(state)
    told = client.config()
    assert bool(told) is (state in (State.CHECKING, State.ACTIVE))
    client = in_state(state)
    told = [e.command for e in client.hear("FORCENEGOTIATE") if isinstance(e, SendCommand)]
    assert told == (["CHECKCONFIG"] if state in (State.CONFIGURED, State.ACTIVE) else [])
    client = in_state(state)
    told = client.hear("USEBROKER", identity="z", backend="tcp://z", public_key="kz", frontend="tcp://no")
    assert told == ([DIALLING, Dial(Target("tcp://z", "kz", "z"))] if state is State.ASKING else [])
    client = in_state(state)
    assert client.hear("DISCONNECT") == ([] if state is State.LOST else [lost("the broker has ended the session")])
    client = in_state(state)
    told = client.machine.leave()
    says = [SendCommand("DISCONNECT", {})] if state in ALIVE else []
    assert told == says + ([StateChanged(State.STOPPED, "left")] if state is not State.STOPPED else [])
    assert client.machine.due is None


def test_forcenegotiate_begins_with_three_new_tries() -> None:
    client = Client().active()
    client.hear("FORCENEGOTIATE")
    told = [client.after(2.0) for _ in range(3)]
    assert [sum(isinstance(e, SendCommand) and e.command == "CHECKCONFIG" for e in each) for each in told] == [1, 1, 0]


def test_it_beats_while_it_is_checking() -> None:
    client = Client().active()
    client.hear("FORCENEGOTIATE")
    assert [e.command for e in client.after(1.0)] == ["HEARTBEAT"]


# ------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "code, more, wait",
    [(429, {}, 30.0), (429, {"retry_after_ms": 1500}, 1.5), (409, {}, 3.0), (409, {"retry_after_ms": 500}, 0.5),
     (422, {}, 30.0), (503, {"retry_after_ms": 700}, 0.7), (421, {}, 30.0)],
)  # fmt: skip
def test_other_errors_are_waited_out(code: int, more: dict, wait: float) -> None:
    client = Client().active()
    assert client.error(code, **more) == [StateChanged(State.BACKOFF, f"{code} r: m", code)]
    assert client.machine.due == client.now + wait and client.machine._beat_at is None
    assert client.after(wait - 0.01) == [] and client.after(0.02) == [DIALLING, Dial(A)]


def test_who_was_given_up_for_silence_comes_back_soon() -> None:
    client = Client().active()
    assert client.error(408) == [lost("408 r: m")] and client.machine.due == client.now + 0.125


@pytest.mark.parametrize("code", [421, 503])
def test_a_broker_that_cannot_serve_it_sends_it_to_the_others(code: int) -> None:
    client = Client("frontend", A)
    know(client)
    client.active()
    client.machine.target = A
    assert client.error(code) == [lost(f"{code} r: m")] and client.machine.due == client.now + 0.125
    assert client.after(0.125) == [DIALLING, Dial(B)]
    client.machine.services = [str(number) for number in range(1001)]
    options = {"identity": "me", "services": client.machine.services[:1000], "failed": ["a"]}
    assert client.handshake() == [StateChanged(State.ASKING), SendCommand("NEEDBROKER", options)]
    assert client.machine.due == client.now + 2.0
    assert client.after(1.99) == []
    assert client.after(0.01) == [lost("NEEDBROKER was not answered")] and client.machine.due == client.now + 0.125
    assert client.after(0.125) == [DIALLING, Dial(C)]
    client.handshake()
    assert client.error(503) == [lost("503 r: m")] and client.machine.due == client.now + 0.25
    assert client.after(0.25) == [DIALLING, Dial(A)], "all have been asked; it begins again"
    assert client.machine.choice.failed == []


def test_an_answer_without_an_endpoint_is_none() -> None:
    client = in_state(State.ASKING)
    assert client.hear("USEBROKER", identity="z", frontend="tcp://z") == [lost("USEBROKER without an endpoint")]
    assert not client.machine.choice.is_asking and client.machine.choice.failed == []


def test_the_third_failure_asks_the_others() -> None:
    client = Client("frontend", A)
    know(client, "b")
    delays, dialled = [], []
    for _ in range(6):
        client.machine.disconnected(client.now)
        delays.append(client.machine.due - client.now)
        [_, dial] = client.after(delays[-1])
        dialled.append(dial.target.endpoint)
    assert dialled == [f"tcp://{name}" for name in "bbacaa"]
    assert delays[:3] == [0.25, 0.5, 1.0]


def test_delays_double_up_to_half_a_minute() -> None:
    client, delays = Client(), []
    for _ in range(10):
        client.machine.disconnected(client.now)
        delays.append(client.machine.due - client.now)
        client.after(delays[-1])
    assert delays == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0])


def test_targets_take_turns_without_a_preferred_broker() -> None:
    client, dialled = Client("frontend", Target("tcp://x"), Target("tcp://y")), []
    for _ in range(2):
        client.machine.disconnected(client.now)
        [_, dial] = client.after(client.machine.due - client.now)
        dialled.append(dial.target.endpoint)
    assert dialled == ["tcp://y", "tcp://x"]


def test_known_brokers_are_those_with_an_end_for_the_role() -> None:
    brokers = [
        {"identity": "a", "frontend": "f"},
        {"identity": "b", "backend": "g", "public_key": "k"},
        {"backend": "h"},
    ]
    for role, known in (("frontend", [Target("f", "", "a")]), ("backend", [Target("g", "k", "b"), Target("h")])):
        client = Client(role)
        client.machine.set_known_brokers([{"brokers": brokers}], "b")
        assert client.machine.choice._known == known and client.machine.choice.preferred == "b"


# ------------------------------------------------------------------------------- stalls


@pytest.mark.parametrize("slept, doubts", [(1.9, False), (2.0, False), (2.1, True), (4.0, True)])
def test_who_stood_still_reads_first_and_judges_later(slept: float, doubts: bool) -> None:
    client = Client("backend").active()
    told = client.after(1.0 + slept)
    checks = [e for e in told if isinstance(e, SendCommand) and e.command == "CHECKCONFIG"]
    assert len(checks) == doubts and client.machine.state is (State.CHECKING if doubts else State.ACTIVE)
    received = client.machine._received_at
    assert client.now - received <= 2.0 and received <= client.now
    assert received == pytest.approx(min(client.now, max(100.0 + slept, client.now - 2.0)))


def test_a_frontend_has_no_doubts() -> None:
    client = Client("frontend").active()
    assert [e.command for e in client.after(60.0)] == ["HEARTBEAT"] and client.machine.state is State.ACTIVE


def test_a_deadline_moves_by_the_time_slept_unless_it_is_that_of_a_delay() -> None:
    client = Client()
    client.handshake()
    assert client.machine.due == 102.0
    assert client.after(5.0) == [] and client.machine.due == 106.0, "an interval is left"
    back = Client().active()
    back.error(429)
    assert back.after(60.0) == [DIALLING, Dial(A)]


def test_silence_that_was_long_before_the_stall_is_still_judged() -> None:
    client = Client().active()
    client.after(1.0)
    client.after(1.0)
    client.after(5.0)
    assert client.machine._received_at == client.now - 2.0
    assert client.machine.due == client.now + 1.0


def test_doubts_are_ended_by_one_negotiation() -> None:
    client = Client("backend").active()
    client.after(5.0)
    client.config()
    client.machine.ready_sent(client.now)
    assert client.after(0.1) == [] and client.machine.state is State.ACTIVE


def test_a_tick_is_wanted_when_silence_ends_the_session() -> None:
    client = Client().active()
    client.now += 0.5
    client.hear("HEARTBEAT", time=WALL, config_version="7")
    client.after(0.5)
    client.after(1.0)
    client.after(1.0)
    assert client.machine.due == 103.5


def test_the_preferred_broker_is_tried_three_times() -> None:
    given, known = Target("tcp://b"), Target("tcp://b", "kb", "b")
    client, dialled = Client("frontend", given), []
    client.machine.set_known_brokers([{"brokers": [{"frontend": "tcp://b", "public_key": "kb", "identity": "b"}]}], "b")
    for _ in range(3):
        client.machine.disconnected(client.now)
        [_, dial] = client.after(client.machine.due - client.now)
        dialled.append(dial.target)
    assert dialled == [known, known, given]
