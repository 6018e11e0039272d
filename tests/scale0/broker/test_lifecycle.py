"""Tests states and configurations: what is stored, what sessions and requests are told, and that all is told once."""

from __future__ import annotations

from scale0_stage import BEAT, PASSWORD_RECORD, Stage, broker_config

from scale0.broker.context import Entered, Log, Publish, Send, Store, Verify
from scale0.wire.options import ManagementReq
from scale0.wire.zap import Origin


def quiet(stage: Stage) -> list:
    """Return the effects since the last look, without log lines and timers."""
    found, stage.effects = [e for e in stage.effects if not isinstance(e, Log)], []
    return found


def test_a_state_is_entered_stored_and_logged_once() -> None:
    stage = Stage(start=False)
    assert stage.broker.state == "joining"
    stage.run(stage.broker.start(stage.now, stage.wall))
    assert (stage.broker.state, stage.effects) == (
        "active", [Log("info", "joining -> active"), Entered("active"), Store(0)],
    )  # fmt: skip
    stage.effects.clear()
    stage.broker._lifecycle.set_state("active")
    assert stage.run(stage.broker._effects()) is None and stage.effects == []


def test_the_state_that_was_kept_goes_before_that_of_the_configuration() -> None:
    stage = Stage(start=False)
    stage.run(stage.broker.start(stage.now, stage.wall, "disabled"))
    assert stage.broker.state == "disabled" and quiet(stage) == [Entered("disabled"), Store(0)]
    joining = Stage(broker_config(state="joining"), start=False)
    joining.run(joining.broker.start(joining.now, joining.wall))
    assert joining.broker.state == "joining" and quiet(joining) == []
    joining.run(joining.broker.configured(broker_config(), 8, joining.now, joining.wall))
    assert joining.broker.state == "active" and quiet(joining) == [Store(0), Publish(), Entered("active"), Store(0)]


def test_enabling_is_for_a_disabled_broker_alone() -> None:
    stage = Stage()
    quiet(stage)
    stage.broker._lifecycle.enable()
    stage.run(stage.broker._effects())
    assert quiet(stage) == []
    stage.broker._lifecycle.disable()
    stage.run(stage.broker._effects())
    assert quiet(stage) == [Entered("disabled"), Store(0)]
    stage.broker._lifecycle.enable()
    stage.run(stage.broker._effects())
    assert quiet(stage) == [Entered("joining"), Store(0), Entered("active"), Store(0)]


def test_a_link_negotiates_again_once_its_broker_is_enabled() -> None:
    stage, link = Stage(), ("tcp://10.0.0.2:1", b"")
    stage.run(stage.broker.link(link[0], True, stage.now, stage.wall))
    assert [c for c, _, _ in stage.told(link)] == ["CHECKCONFIG"]
    stage.broker._lifecycle.disable()
    stage.run(stage.broker.link(link[0], True, stage.now, stage.wall))
    stage.wait(3.0)
    assert stage.told(link) == []
    stage.broker._lifecycle.enable()
    stage.run(stage.broker._effects())
    assert [c for c, _, _ in stage.told(link)] == ["CHECKCONFIG"]


def test_who_stops_says_when_to_come_back_and_who_is_disabled_says_later() -> None:
    for end, reason, delay in (("stop", "draining", 1000), ("disable", "disabled", 30_000)):
        stage = Stage()
        worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
        plain = stage.plain_worker(b"p", "milk")
        stage.ask(client, "cocoa", id="1")
        if end == "stop":
            stage.run(stage.broker.stop(stage.now, stage.wall))
        else:
            stage.broker._lifecycle.disable()
            stage.run(stage.broker._effects())
        told = {"code": 503, "message": f"this broker is {reason}", "reason": reason, "retry_after_ms": delay}
        assert stage.told(worker) == [("DISCONNECTERROR", told, [])]
        final = {"id": "1", "code": 503, "reason": reason, "message": f"this broker is {reason}"}
        assert stage.told(client) == [("FINAL", final, []), ("DISCONNECTERROR", told, [])]
        assert stage.take(plain) == [[b"MDPW02", b"\6"]]
        assert not stage.broker.sessions.all and stage.broker.state == ("active" if end == "stop" else "disabled")
        assert stage.broker.context.counts["refused_503"] == 2 and stage.broker.context.counts["errors"] == 1


def test_a_disabled_broker_stops_in_silence() -> None:
    stage = Stage()
    stage.broker._lifecycle.disable()
    stage.run(stage.broker._effects())
    client = ("frontend", b"c")
    stage.scale0(client, "CHECKCONFIG", identity="c", services=[], config_type="JSON")
    stage.run(stage.broker.stop(stage.now, stage.wall))
    assert stage.take(client) == [] and stage.broker.context.counts["dropped_disabled"] == 1


def test_a_configuration_changes_bans_services_and_the_sessions_that_lost_theirs() -> None:
    stage = Stage()
    worker, both, plain = stage.worker(b"w", "tea"), stage.worker(b"b", "milk", "tea"), stage.plain_worker(b"p", "tea")
    client, keeper = stage.client(b"c"), stage.worker(b"k", "milk")
    waiting = ("backend", b"not-ready")
    stage.scale0(waiting, "CHECKCONFIG", identity="n", services=["tea"], config_type="JSON")
    stage.take(waiting)
    new = broker_config(services=("milk",), error_clients=("bad",))
    stage.run(stage.broker.configured(new, 8, stage.now, stage.wall))
    fault = {"code": 421, "reason": "wrong_broker", "message": "one of its services is not served here now"}
    assert stage.told(worker) == stage.told(both) == [("DISCONNECTERROR", fault, [])]
    assert stage.take(plain) == [[b"MDPW02", b"\6"]]
    assert stage.told(client) == stage.told(keeper) == stage.told(waiting) == []
    assert {address[1] for address in stage.broker.sessions.all} == {b"c", b"k", b"not-ready"}
    assert stage.broker.context.failures.banned("bad", stage.now) and stage.broker.version == 8
    assert Log("info", "configuration 8 is in force") in stage.effects
    stage.wait(BEAT)
    assert stage.broker.context.serves("milk") and not stage.broker.context.serves("tea")


def test_each_event_returns_its_effects() -> None:
    """An event returns its own effects and none of those before."""
    stage = Stage()
    origin, broker = Origin("", ""), stage.broker
    asked = ManagementReq("op", "secret", "status")
    [verify] = broker.manage(b"1", asked, origin, stage.now, stage.wall)
    assert isinstance(verify, Verify) and (verify.stored, verify.password) == (PASSWORD_RECORD, "secret")
    told = broker.verified(verify.ticket, True, stage.now, stage.wall)
    [answer] = [effect for effect in told if isinstance(effect, Send)]
    assert answer.address == ("local", b"1")
    told = broker.manage(b"2", asked, origin, stage.now, stage.wall, proven=True)
    [again] = [effect for effect in told if isinstance(effect, Send)]
    assert again.address == ("local", b"2")
    assert broker.alarm("text", stage.now, stage.wall) == [Log("error", "text")]
    assert broker.stop(stage.now, stage.wall) == [] == broker.tick(stage.now, stage.wall)
    assert broker.undelivered(Send(("frontend", b"x"), []), True, stage.now, stage.wall) == []
    assert broker.context.counts["unsent"] == 1 and list(broker.context.alarms) == ["text"]
