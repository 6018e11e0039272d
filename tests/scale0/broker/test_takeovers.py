"""Tests two holders of one key and identity: the newest wins now and then, but they do not change places for ever."""

from __future__ import annotations

import pytest
from scale0_stage import BEAT, Address, Stage

from scale0.broker.takeovers import WINDOW
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.zap import Origin

ONE, TWO = Origin("10.0.0.1", "KEY"), Origin("10.0.0.2", "KEY")


@pytest.fixture
def stage():
    return Stage()


def say(stage: Stage, address: Address, origin: Origin, command: str, **options: object) -> list[str]:
    """Return what the broker tells this connection, heartbeats left out; for an error its code."""
    stage.hear(address, *wire.scale0(S0, command, opt.encode(options)), origin=origin)
    return [name if name != "DISCONNECTERROR" else str(o["code"]) for name, o, _ in stage.told(address)]


def claim(stage: Stage, address: Address, origin: Origin, identity: str = "helen-1") -> list[str]:
    return say(stage, address, origin, "CHECKCONFIG", identity=identity, services=["tea"], config_type="JSON")


def contest(stage: Stage, addresses: list[Address], rounds: int, every: float) -> list[list[str]]:
    """Let both connections do as a Scale0 worker does, which negotiates again once it is unknown."""
    told = []
    for turn in range(rounds):
        address, origin = addresses[turn % 2], (ONE, TWO)[turn % 2]
        told.append(claim(stage, address, origin))
        stage.wait(every)
        stage.hear(address, *wire.scale0(S0, "HEARTBEAT", opt.encode({"time": stage.wall, "config_version": "7"})))
    return told


@pytest.mark.parametrize("end", ["backend", "frontend"])
@pytest.mark.parametrize("every", [0.3, BEAT, 2.5])
def test_from_the_third_takeover_within_a_minute_on_the_holder_stays(stage, end, every):
    """The newcomer gets 409 for as long as it tries, and one alarm names both addresses (F48)."""
    addresses = [(end, b"one"), (end, b"two")]
    told = contest(stage, addresses, 3, every)
    assert told == [["CONFIG"], ["CONFIG"], ["CONFIG"]]
    for _ in range(20):
        assert claim(stage, addresses[1], TWO) == ["409"]
        stage.wait(every)
        say(stage, addresses[0], ONE, "HEARTBEAT", time=stage.wall, config_version="7")
    assert [s.address for s in stage.broker.sessions.all.values()] == [addresses[0]]
    [alarm] = stage.broker.context.alarms
    assert "helen-1" in alarm and "10.0.0.1" in alarm and "10.0.0.2" in alarm


def test_the_other_gets_the_identity_once_the_holder_is_gone(stage):
    """The other claimant is accepted once the holder's connection is closed or silent (F48)."""
    for end in ("closed", "silent"):
        stage = Stage()
        addresses = [("backend", b"one"), ("backend", b"two")]
        contest(stage, addresses, 3, 0.2)
        assert claim(stage, addresses[1], TWO) == ["409"]
        if end == "closed":
            stage.gone.add(addresses[0])
        else:
            stage.wait(3.2 * BEAT)
        assert claim(stage, addresses[1], TWO) == ["CONFIG"]


@pytest.mark.parametrize("every", [WINDOW / 2, WINDOW, 10 * WINDOW])
def test_one_peer_that_comes_back_now_and_then_is_no_contest(stage, every):
    """The newest connection wins, as after a change of network whose old connections are half open (F48)."""
    for number in range(12):
        assert claim(stage, ("backend", b"line%d" % number), ONE) == ["CONFIG"]
        stage.now += every
        stage.broker.sessions.all[("backend", b"line%d" % number)].last_received = stage.now
    assert not stage.broker.context.alarms


def test_a_peer_that_crashes_again_and_again_is_no_contest(stage):
    """A peer that crashes again and again is accepted each time, as its old connections are closed (F48)."""
    for number in range(12):
        assert claim(stage, ("backend", b"life%d" % number), ONE) == ["CONFIG"]
        stage.gone.add(("backend", b"life%d" % number))
        stage.wait(0.5)
    assert not stage.broker.context.alarms


def test_identities_do_not_disturb_each_other(stage):
    """Twelve peers that each move once are all accepted, without an alarm (F48)."""
    for turn in range(2):
        for number in range(12):
            identity = f"helen-{number}"
            assert claim(stage, ("backend", b"%d/%d" % (number, turn)), ONE, identity) == ["CONFIG"]
    assert len(stage.broker.sessions.all) == 12 and not stage.broker.context.alarms
