"""Tests the client's side of a session under a fake clock: where it calls, what it says, when it gives up."""

from __future__ import annotations

import random

import msgspec
import pytest

from scale0.endpoint.effects import Configured, Dial, SendCommand, State, StateChanged, Target
from scale0.endpoint.negotiation import Negotiation
from scale0.wire import options as opt

HOME, OTHER, THIRD = Target("tcp://home", "", "a"), Target("tcp://other", "", "b"), Target("tcp://third", "", "c")
WALL = 1_700_000_000.0


class Client:
    """Drives one Negotiation and collects what it wants."""

    def __init__(self, role: str = "frontend", targets: tuple[Target, ...] = (HOME,)) -> None:
        self.machine, self.now = Negotiation(role, "me", targets, random.Random(1), interval=1.0), 100.0
        self.effects: list = []
        self.run(self.machine.start(self.now))

    def run(self, effects: list) -> None:
        self.effects += effects

    def take(self) -> list:
        effects, self.effects = self.effects, []
        return effects

    def handshake(self) -> None:
        self.run(self.machine.handshake(self.now, WALL))

    def hear(self, command: str, *body: bytes, **options: object) -> None:
        o = opt.decode(command, msgspec.json.encode(options), commands=opt.TO_CLIENT)
        self.run(self.machine.received(command, o, body, self.now, WALL))

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.machine.due) is not None and due <= end:
            self.now = max(self.now, due) + 1e-6
            self.run(self.machine.tick(self.now, WALL))
        self.now = end

    def config(self, **document: object) -> None:
        self.hear("CONFIG", msgspec.json.encode(document), config_version="7", hbeatinterval=1.0, broker="a")

    def active(self) -> Client:
        self.handshake()
        self.config()
        if self.machine.role == "backend":
            self.run(self.machine.ready_sent(self.now))
        assert self.machine.state is State.ACTIVE
        self.take()
        return self

    def dials(self) -> list[str]:
        return [e.target.endpoint for e in self.take() if isinstance(e, Dial)]

    def told(self) -> list[str]:
        return [e.command for e in self.take() if isinstance(e, SendCommand)]


def test_the_way_in_of_a_frontend():
    client = Client()
    assert client.take() == [StateChanged(State.DIALLING), Dial(HOME)]
    client.handshake()
    [became, tell] = client.take()
    assert became == StateChanged(State.CHECKING)
    assert (tell.command, tell.options["identity"], tell.options["role"]) == ("CHECKCONFIG", "me", "frontend")
    client.config(identity="me")
    assert client.take() == [
        StateChanged(State.CONFIGURED),
        Configured(b'{"identity":"me"}', "JSON", "7"),
        StateChanged(State.ACTIVE),
    ]


def test_a_backend_is_active_once_it_has_said_ready():
    client = Client("backend")
    client.handshake()
    client.config()
    assert client.machine.state is State.CONFIGURED
    client.run(client.machine.ready_sent(client.now))
    assert client.machine.state is State.ACTIVE


def test_checkconfig_is_said_three_times_and_then_the_broker_is_given_up():
    client = Client()
    client.handshake()
    client.wait(5.9)
    assert client.told() == ["CHECKCONFIG"] * 3
    client.wait(1.0)
    assert client.dials() == ["tcp://home"]


def test_it_beats_each_interval_and_tells_its_version():
    client = Client().active()
    for _ in range(4):
        client.wait(1.01)
        client.hear("HEARTBEAT", time=WALL, config_version="7")
    beats = [e for e in client.take() if isinstance(e, SendCommand)]
    assert beats == [SendCommand("HEARTBEAT", {"time": WALL, "config_version": "7"})] * 4


def test_three_intervals_of_silence_end_it():
    client = Client().active()
    client.wait(2.9)
    assert client.machine.state is State.ACTIVE
    client.wait(0.2)
    assert client.machine.state in (State.LOST, State.DIALLING)


def test_a_second_handshake_is_a_restarted_broker():
    client = Client().active()
    client.handshake()
    assert client.machine.state is State.LOST
    client.wait(0.3)
    assert client.dials() == ["tcp://home"]


def test_forcenegotiate_begins_again_on_the_same_connection():
    client = Client("backend").active()
    client.hear("FORCENEGOTIATE", reason="?")
    assert client.told() == ["CHECKCONFIG"]
    client.hear("CONFIGACK", config_version="7", hbeatinterval=1.0)
    assert client.take() == [StateChanged(State.CONFIGURED), Configured(None, "JSON", "7")]


@pytest.mark.parametrize("code", [401, 403, 426])
def test_some_refusals_are_for_good(code):
    client = Client()
    client.handshake()
    client.hear("DISCONNECTERROR", code=code, reason="r", message="m")
    assert client.machine.state is State.STOPPED and client.machine.due is None
    assert client.take()[-1] == StateChanged(State.STOPPED, f"{code} r: m", code)


def test_other_refusals_are_waited_out():
    client = Client().active()
    client.hear("DISCONNECTERROR", code=429, reason="too_many", message="m", retry_after_ms=5000)
    assert client.machine.state is State.BACKOFF
    client.take()
    client.wait(4.9)
    assert client.dials() == []
    client.wait(0.2)
    assert client.dials() == ["tcp://home"]


def know(client: Client) -> None:
    members = [{"identity": t.identity, "frontend": t.endpoint} for t in (HOME, OTHER, THIRD)]
    client.machine.set_known_brokers([{"name": "east", "brokers": members}], "a")


def test_a_broker_that_is_joining_sends_it_elsewhere():
    """A broker that is joining answers 503, and the client asks the other brokers of the group in order."""
    client = Client().active()
    client.machine.target = HOME
    know(client)
    client.hear("DISCONNECTERROR", code=503, reason="draining", message="m")
    client.wait(0.3)
    assert client.dials() == ["tcp://other"]
    client.handshake()
    [asked] = [e for e in client.take() if isinstance(e, SendCommand)]
    assert (asked.command, asked.options["failed"]) == ("NEEDBROKER", ["a"])
    client.hear("USEBROKER", identity="c", frontend="tcp://third", backend="")
    assert client.dials() == ["tcp://third"]


def test_a_dead_broker_is_tried_three_times_before_others_are_asked():
    client = Client().active()
    know(client)
    dialled: list[str] = []
    for _ in range(4):
        client.run(client.machine.disconnected(client.now))
        client.wait(2.0)
        dialled += client.dials()
    assert dialled[:3] == ["tcp://home", "tcp://home", "tcp://other"]


def test_with_nobody_to_ask_it_comes_back_to_where_it_was():
    client = Client(targets=(HOME, OTHER))
    dialled: list[str] = client.dials()
    for _ in range(12):
        client.run(client.machine.disconnected(client.now))
        client.wait(31.0)
        dialled += client.dials()
    assert set(dialled) == {"tcp://home", "tcp://other"} and len(dialled) >= 12


def test_waiting_grows_and_is_spread():
    """A wait doubles from 0.25 s to 30 s, with full jitter, so that many clients do not come back together."""
    delays = []
    for seed in range(200):
        machine = Negotiation("frontend", "me", [HOME], random.Random(seed))
        machine.start(0.0)
        for _ in range(10):
            machine.disconnected(0.0)
            machine.state = State.DIALLING
        machine.disconnected(0.0)
        delays.append(machine.due)
    assert max(delays) <= 30.0 and 10 < sum(delays) / len(delays) < 20


def test_leaving_is_said():
    client = Client().active()
    client.run(client.machine.leave())
    assert client.told() == ["DISCONNECT"] and client.machine.due is None


def test_who_stood_still_for_a_while_is_back_at_once():
    """The code 408 blames nobody, so the client does not wait for the 30 s that an error without a delay costs."""
    client = Client("backend").active()
    client.hear("DISCONNECTERROR", code=408, reason="heartbeat_lost", message="nothing heard")
    assert client.machine.state is State.LOST
    client.wait(0.5)
    assert client.dials() == ["tcp://home"]
