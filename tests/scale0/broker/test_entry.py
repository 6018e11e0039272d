"""Tests where events enter a broker: which faults count and what is logged, states and ports, and late messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scale0_stage import Stage, broker_config

from scale0.broker import broker as broker_module
from scale0.broker.broker import LOCAL
from scale0.broker.context import Entered, Log, Publish, Send, Store
from scale0.wire import options as opt
from scale0.wire.options import Fault
from scale0.wire.zap import Origin

AFAR = Origin("192.0.2.7", "")
CLIENT, WORKER = ("frontend", b"c"), ("backend", b"w")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def warnings(stage: Stage) -> list[str]:
    """Return the warnings in the log since the last time."""
    found = [each.text for each in stage.effects if isinstance(each, Log) and each.level == "warn"]
    stage.effects.clear()
    return found


# ------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize("code", [400, 401, 403, 404, 408, 409, 412, 413, 421, 422, 426, 429, 500, 503])
def test_which_refusals_count(stage: Stage, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A refusal that is the peer's own doing counts: five within a minute ban it; the others are answered for ever."""

    def refuse(*_: Any) -> None:
        raise Fault(code, "because", "of that")

    monkeypatch.setattr(stage.broker._commands, "handle", refuse)
    for number in range(1, 7):
        stage.scale0(CLIENT, "HEARTBEAT")
        counts = code in {400, 401, 403, 412, 413, 426}
        assert len(stage.sent[CLIENT]) == (min(number, 5) if counts else number)
    assert warnings(stage) == (["127.0.1.99 keeps failing (because) and is ignored for a while"] if counts else [])
    shown = stage.broker.context.failures.show(stage.now)
    assert {name: (each["reason"], each["dropped"]) for name, each in shown.items()} == (
        {"127.0.1.99": ("because", 1)} if counts else {}
    )


def test_a_fault_of_a_peer_without_a_name_bans_nobody(stage: Stage) -> None:
    """A message from within this process has none."""
    for _ in range(6):
        stage.hear(CLIENT, b"nonsense", origin=Origin("", ""))
    assert stage.broker.context.counts["nonsense"] == 6
    assert stage.broker.context.failures.show(stage.now) == {}
    assert len(warnings(stage)) == 1


def test_one_line_a_minute_about_one_peer(stage: Stage) -> None:
    """A peer has one line a minute, however many malformed messages it sends; another one has a line of its own."""
    other = Origin("192.0.2.8", "")

    def nonsense(origin: Origin) -> int:
        stage.broker.context.failures.clear()
        stage.hear(CLIENT, b"nonsense", origin=origin)
        return len(warnings(stage))

    assert [nonsense(AFAR), nonsense(AFAR), nonsense(other)] == [1, 0, 1]
    stage.now += 59.9
    assert nonsense(AFAR) == 0
    stage.now += 0.2
    assert [nonsense(AFAR), nonsense(AFAR)] == [1, 0]
    assert stage.broker.context.counts["nonsense"] == 6


def test_the_line_names_peer_and_fault(stage: Stage) -> None:
    """The line names a peer by its address or key, and as "a peer" if it has neither."""
    stage.hear(CLIENT, b"nonsense", origin=AFAR)
    stage.hear(CLIENT, b"nonsense", origin=Origin("", ""))
    named, nameless = warnings(stage)
    assert named.startswith("dropped a message from 192.0.2.7: ")
    assert nameless.startswith("dropped a message from a peer: ")


def test_peers_that_are_remembered_for_it_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker forgets the peer whose line is the oldest when there are too many."""
    monkeypatch.setattr(broker_module, "LOGGED", 2)
    for number in (1, 2, 3):
        stage.hear(CLIENT, b"nonsense", origin=Origin(f"192.0.2.{number}", ""))
    assert list(stage.broker._logged) == ["192.0.2.2", "192.0.2.3"]


def test_a_banned_peer_is_dropped_and_counted(stage: Stage) -> None:
    """A banned peer's message is dropped before it is read: no nonsense counts any more, and its session
    hears nothing.
    """
    for _ in range(5):
        stage.hear(CLIENT, b"nonsense", origin=AFAR)
    for _ in range(3):
        stage.hear(CLIENT, b"nonsense", origin=AFAR)
    assert stage.broker.context.counts["nonsense"] == 5
    assert stage.broker.context.failures.show(stage.now)["192.0.2.7"]["dropped"] == 3


@pytest.mark.parametrize(
    ("key", "address", "guessed", "expected"),
    [
        ("", "127.0.0.1", False, True),
        ("", "", False, True),
        ("", "192.0.2.7", False, False),
        ("k" * 40, "127.0.0.1", False, False),
        ("", "127.0.0.1", True, False),
    ],
)
def test_which_peer_passes_the_ban_of_its_address(
    stage: Stage, key: str, address: str, guessed: bool, expected: bool
) -> None:
    """A peer of this machine without a key passes the ban, unless the ban is for guessed passwords."""
    if guessed:
        for _ in range(5):
            stage.broker.context.guesses.add(address, "wrong", stage.broker.context.now)
    assert stage.broker.is_manager(key, address) is expected


def test_a_key_that_is_not_authorized_any_more(stage: Stage) -> None:
    """A key is asked for at each message, since it may be taken away while its peer is connected."""
    authorized = {"k" * 40}
    stage.broker._is_authorized = authorized.__contains__
    origin = Origin("192.0.2.7", "k" * 40)
    stage.hear(CLIENT, *opt_message("CHECKCONFIG", identity="c", services=[], config_type="JSON"), origin=origin)
    assert [command for command, _, _ in stage.told(CLIENT)] != []
    authorized.clear()
    stage.hear(CLIENT, *opt_message("HEARTBEAT"), origin=origin)
    [(command, options, _)] = stage.told(CLIENT)
    assert (command, options["code"], options["reason"]) == ("DISCONNECTERROR", 401, "bad_credentials")


def opt_message(command: str, **options: Any) -> list[bytes]:
    from_stage: list[list[bytes]] = []
    catcher = Stage(start=False)
    catcher.hear = lambda address, *frames, origin=None: from_stage.append(list(frames))  # type: ignore[method-assign]
    catcher.scale0(CLIENT, command, **options)
    return from_stage[0]


# ------------------------------------------------------------------------------------------------ states and ports


@pytest.mark.parametrize(
    ("left_in", "configured", "expected"), [("", "active", "active"), ("disabled", "active", "disabled")]
)
def test_the_first_state(left_in: str, configured: str, expected: str) -> None:
    """A broker begins in the state that it was left in, else in that of the configuration."""
    stage = Stage(broker_config(state=configured), start=False)
    assert stage.broker.state == "joining"
    effects = stage.broker.start(stage.now, stage.wall, left_in)
    assert stage.broker.state == expected
    assert [each for each in effects if isinstance(each, Entered | Store)] == [Entered(expected), Store(0)]


def test_a_configuration_lets_a_joining_broker_begin() -> None:
    """A configuration is in force, stored and published; a joining broker begins, and a disabled one stays so."""
    joining, disabled = Stage(start=False), Stage()
    disabled.run(disabled.broker.start(disabled.now, disabled.wall, "disabled"))
    changed = broker_config(identity="other")
    for stage, state in ((joining, "active"), (disabled, "disabled")):
        effects = stage.broker.configured(changed, 8, stage.now, stage.wall)
        assert (stage.broker.state, stage.broker.version, stage.broker.config) == (state, 8, changed)
        assert [each for each in effects if isinstance(each, Publish)] == [Publish()]


def test_a_reload_that_failed_leaves_everything() -> None:
    """A reload that failed is logged as an error with its sentence; configuration and version stay."""
    stage = Stage()
    before = stage.broker.config
    effects = stage.broker.reloaded(1, "line 3 is wrong", stage.now, stage.wall)
    assert Log("error", "the configuration stays as it was: line 3 is wrong") in effects
    assert (stage.broker.config, stage.broker.version) == (before, 7)


PLAIN: list[tuple[tuple[str, bytes], list[bytes], str, str]] = [
    (CLIENT, [b"MDPC02", b"\1", b"tea", b"?"], "request", ""),
    (("backend", b"c"), [b"MDPC02", b"\1", b"tea", b"?"], "", "a client's command on another port than the frontend's"),
    (("peer", b"c"), [b"MDPC02", b"\1", b"tea", b"?"], "", "a client's command on another port than the frontend's"),
    (WORKER, [b"MDPW02", b"\1", b"tea"], "worker", ""),
    (("frontend", b"w"), [b"MDPW02", b"\1", b"tea"], "", "a worker's command on another port than the backend's"),
    (("peer", b"w"), [b"MDPW02", b"\1", b"tea"], "", "a worker's command on another port than the backend's"),
]


@pytest.mark.parametrize(("address", "frames", "taken", "said"), PLAIN)
def test_which_port_takes_what(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    address: tuple[str, bytes],
    frames: list[bytes],
    taken: str,
    said: str,
) -> None:
    """Majordomo's clients speak at the frontend, its workers at the backend; any other port takes that for nonsense."""
    assert heard_by_majordomo(stage, monkeypatch, address, frames) == ([taken] if taken else [])
    assert [line.partition(": ")[2] for line in warnings(stage)] == ([said] if said else [])


def test_with_one_port_the_frontend_takes_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frontend takes clients and workers if there is one port; the port of peers takes neither."""
    stage = Stage(broker_config(frontend_port=5555, backend_port=5555))
    client, worker = [b"MDPC02", b"\1", b"tea", b"?"], [b"MDPW02", b"\1", b"tea"]
    assert heard_by_majordomo(stage, monkeypatch, ("frontend", b"w"), worker) == ["worker"]
    assert heard_by_majordomo(stage, monkeypatch, ("frontend", b"c"), client) == ["request"]
    assert heard_by_majordomo(stage, monkeypatch, ("peer", b"w"), worker) == []


def heard_by_majordomo(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, address: tuple[str, bytes], frames: list[bytes]
) -> list[str]:
    calls: list[str] = []
    for name in ("request", "worker"):
        monkeypatch.setattr(stage.broker._majordomo, name, lambda *_, name=name: calls.append(name))
    stage.hear(address, *frames, origin=AFAR)
    return calls


@pytest.mark.parametrize(
    ("state", "counted"), [("joining", "dropped_joining"), ("disabled", "dropped_disabled"), ("active", "")]
)
def test_what_is_dropped_in_which_state(monkeypatch: pytest.MonkeyPatch, state: str, counted: str) -> None:
    """A request of Majordomo is counted, having no answer that says so; only a disabled broker is silent for Scale0."""
    stage = Stage(start=False)
    if state != "joining":
        stage.run(stage.broker.start(stage.now, stage.wall, state))
    heard = heard_by_majordomo(stage, monkeypatch, CLIENT, [b"MDPC02", b"\1", b"tea", b"?"])
    assert heard == ([] if counted else ["request"])
    counts = stage.broker.context.counts
    assert {name: counts[name] for name in counts if name.startswith("dropped")} == ({counted: 1} if counted else {})
    stage.scale0(("frontend", b"s"), "CHECKCONFIG", identity="s", services=[], config_type="JSON")
    assert counts["dropped_disabled"] == (2 if state == "disabled" else 0)
    assert bool(stage.take(("frontend", b"s"))) is (state != "disabled")


def test_a_disabled_broker_has_no_links(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disabled broker takes no notice of its connections to peers."""
    calls: list[tuple[str, str]] = []
    for name in ("link_up", "link_down"):
        monkeypatch.setattr(stage.broker._peer_links, name, lambda endpoint, name=name: calls.append((name, endpoint)))
    stage.run(stage.broker.link("tcp://a", True, stage.now, stage.wall))
    stage.run(stage.broker.link("tcp://a", False, stage.now, stage.wall))
    assert calls == [("link_up", "tcp://a"), ("link_down", "tcp://a")]
    stage.run(stage.broker.start(stage.now, stage.wall, "disabled"))
    stage.run(stage.broker.link("tcp://a", True, stage.now, stage.wall))
    assert len(calls) == 2


def test_an_alarm_is_logged_and_shown(stage: Stage) -> None:
    """An alarm is logged, and shown among those that management lists."""
    assert stage.broker.alarm("the disk is full", stage.now, stage.wall) == [Log("error", "the disk is full")]
    assert list(stage.broker.context.alarms) == ["the disk is full"]


# ------------------------------------------------------------------------------------------------ too late


def test_a_message_that_nobody_waits_for(stage: Stage) -> None:
    """The loss of such a message is counted, and nothing else happens."""
    lost = Send(("frontend", b"nobody"), [b"x"], b"")
    assert stage.broker.undelivered(lost, False, stage.now, stage.wall) == []
    assert stage.broker.undelivered(lost, True, stage.now, stage.wall) == []
    assert stage.broker.undelivered(Send(WORKER, [b"x"], b"t" * 16), False, stage.now, stage.wall) == []
    assert stage.broker.context.counts["unsent"] == 3


def test_a_client_whose_pipe_is_full_stays(stage: Stage) -> None:
    """A full pipe loses no session; a client that has gone loses its own."""
    client = stage.client(b"c")
    stage.broker.undelivered(Send(client, [b"x"], b""), False, stage.now, stage.wall)
    assert client in stage.broker.sessions.all
    assert stage.broker.context.counts["unsent"] == 1
    stage.broker.undelivered(Send(client, [b"x"], b""), True, stage.now, stage.wall)
    assert client not in stage.broker.sessions.all
    assert stage.broker.context.counts["unsent"] == 1


@pytest.mark.parametrize("kind", ["beat", "lapse", "force", "running"])
def test_a_timer_of_a_session_that_is_gone(stage: Stage, kind: str) -> None:
    """Does nothing."""
    argument: Any = b"t" * 16 if kind == "running" else ("frontend", b"gone")
    arguments = (argument, "why") if kind == "force" else (argument,)
    stage.broker.context.at((kind, *arguments), stage.now)
    assert stage.broker.due == stage.now
    assert stage.broker.tick(stage.now, stage.wall) == []
    assert stage.broker.due is None or stage.broker.due > stage.now


def test_a_forced_configuration_is_told_in_the_peers_dialect(stage: Stage) -> None:
    """The command FORCENEGOTIATE is sent at the time of its timer, with the reason."""
    client = stage.client(b"c")
    stage.broker.context.at(("force", client, "it was reloaded"), stage.now)
    stage.run(stage.broker.tick(stage.now, stage.wall))
    [(command, options, _)] = stage.told(client)
    assert (command, "it was reloaded" in str(options)) == ("FORCENEGOTIATE", True)


@pytest.mark.parametrize(("proven", "asked"), [(False, 1), (True, 0)])
def test_management_from_within_this_process(stage: Stage, proven: bool, asked: int) -> None:
    """The answer goes to the ticket of the request; the password is checked unless it was right a while ago."""
    request = opt.ManagementReq("op", "secret", "services")
    verified: list[str] = []
    stage.broker.management.verified = watched(stage.broker.management.verified, verified)  # type: ignore[method-assign]
    origin = Origin("127.0.0.1", "")
    stage.run(stage.broker.manage(b"ticket", request, origin, stage.now, stage.wall, proven))
    assert len(verified) == asked
    [(command, options, _)] = stage.told((LOCAL, b"ticket"))
    assert (command, options["code"]) == ("MANAGEMENTREP", 200)


def watched(call: Callable[..., None], calls: list[str]) -> Callable[..., None]:
    def instead(*arguments: Any) -> None:
        calls.append(call.__name__)
        call(*arguments)

    return instead
