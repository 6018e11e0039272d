"""Tests what becomes of an agent that sends more than it may: it is sent away and told of; nothing is lost, others go
on.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import session_stage
from helen_parts import Peer
from session_stage import Home
from twisted.internet.task import Clock

from equus_protocol import messages as m
from equus_protocol.results import CRITICAL, OK, WARNING
from groundwork.target_ids import wire_id
from helen.sessions.agent_troubles import COPY, QUIET_SECONDS, QUOTA
from helen.sessions.connection import CHEAP_MESSAGES, FAST_PART, GREAT_PART, Hold
from helen.sessions.deadlines import DEAD_SECONDS
from helen.sessions.deadlines import QUIET_SECONDS as SILENT_SECONDS
from helen.sessions.fair_turns import BUSY_SECONDS, REST_MOST, SLICE_SECONDS
from helen.sessions.flood_meter import FLOOD_BYTES, FLOOD_SLICES
from helen.sessions.quota_control import LOOK_SECONDS, RETRY_LEAST, RETRY_MOST, Level
from helen.sessions.result_intake import FAIR_UNEVALUATED, MOST_UNEVALUATED, SHARE

QUIET_LIMIT = SILENT_SECONDS + DEAD_SECONDS + 2.0


def slugs(peer: Peer) -> list[str]:
    return [message.message for message in peer.hear() if isinstance(message, m.Error)]


def told(home: Home) -> list[tuple[Any, ...]]:
    """Return what channels are told from now on."""
    found: list[tuple[Any, ...]] = []
    home.house.troubles.told.subscribe(lambda *words: found.append(words))
    return found


def report(peer: Peer, *numbers: int, size: int = 2) -> None:
    for number in numbers:
        if not peer.connection.closing:
            peer.say(m.Report("s", number, "cpu", b"{" + b" " * (size - 2) + b"}"))
            peer.clock.advance(0.0)  # after a mebibyte it counts as busy, and has its turn among those


@pytest.mark.parametrize(("number", "errors"), [(5, []), (6, [f"overloaded;retry-after={RETRY_LEAST}"])])
def test_both_sides_of_results(clock: Clock, number: int, errors: list[str]) -> None:
    """The burst is taken; the next one is not journalled, and stays in the spool of its agent (F52)."""
    home = Home(clock, "results=5/60")
    peer = home.agent()
    peer.hear()
    report(peer, *range(1, number + 1))
    assert slugs(peer) == errors
    assert [entry.sequence for entry in home.journal.entries] == [1, 2, 3, 4, 5]
    assert home.house.quotas.exceeded["results"] == number - 5


@pytest.mark.parametrize(("last", "errors"), [(1_048_576, 0), (1_048_577, 1)])
def test_both_sides_of_bytes(clock: Clock, last: int, errors: int) -> None:
    """An agent may send 2 MiB to the byte; blobs on the disk are these bytes (F52)."""
    home = Home(clock, "bytes=2MiB/1MiB")
    peer = home.agent()
    peer.hear()
    report(peer, 1, size=1_048_576 if last <= 1_048_576 else 1_048_575)
    report(peer, 2, size=1_048_576)
    report(peer, *([3] if errors else []), size=2)
    assert len(slugs(peer)) == errors
    assert len(home.journal.entries) == 2


def test_a_spool_is_delayed_never_lost(clock: Clock) -> None:
    """An agent that comes back when it was told to brings all of its spool, in its order (F52)."""
    home = Home(clock, "results=10/60")
    taken, sent_away, first = [], 0, 1
    while first <= 100:
        peer = home.agent()
        peer.hear()
        report(peer, *range(first, 101))
        taken += [entry.sequence for entry in home.journal.entries]
        home.journal.fsync()
        (error,) = slugs(peer) or [""]
        peer.hang_up()
        first = taken[-1] + 1
        if error:
            sent_away += 1
            home.turn(int(error.partition("=")[2]))
    assert taken == list(range(1, 101))
    assert sent_away == 9


def test_the_other_agent_notices_nothing(clock: Clock) -> None:
    """An agent's quota leaves the other agent alone."""
    home = Home(clock, "results=5/60")
    hostile, honest = home.agent("evil"), home.agent("web-1")
    honest.hear()
    report(hostile, *range(1, 10))
    report(honest, 1, 2)
    home.journal.fsync()
    home.turn()
    assert honest.hear() == [m.Ack("s", 2)]


def test_one_that_comes_back_too_early(clock: Clock) -> None:
    """An agent that comes back too early is told how long to stay away still, is not journalled, and is
    admitted later.
    """
    home = Home(clock, "results=1/60")
    peer = home.agent()
    report(peer, 1, 2)
    peer.hang_up()
    links = len(home.journal.changes)
    for second in (0, 10, 29):
        home.turn(second - (clock.seconds()))
        early = Peer(home.house, clock).hello()
        assert slugs(early) == [f"overloaded;retry-after={RETRY_LEAST - second}"]
        early.hang_up()
    assert len(home.journal.changes) == links
    home.turn(1)
    assert slugs(home.agent()) == []


def test_how_long_it_is_sent_away(clock: Clock) -> None:
    """The agent is sent away until its quota has come back, for half a minute at least and an hour at most."""
    home = Home(clock, "bytes=2MiB/1MiB")
    peer = home.agent()
    report(peer, 1, 2, 3, size=1_048_576)
    assert slugs(peer)[-1:] == ["overloaded;retry-after=60"]
    home = Home(Clock(), "bytes=2MiB/1")
    peer = home.agent()
    report(peer, 1, 2, 3, size=1_048_576)
    assert slugs(peer)[-1:] == [f"overloaded;retry-after={RETRY_MOST}"]


@pytest.mark.parametrize(("number", "errors"), [(100, []), (101, [f"overloaded;retry-after={RETRY_LEAST}"])])
@pytest.mark.parametrize("kind", [m.Ping, m.Pong])
def test_both_sides_of_messages(clock: Clock, kind: Any, number: int, errors: list[str]) -> None:
    """Pings, and answers that answer nothing, count against the quota of messages (F73)."""
    home = Home(clock, "messages=100/60")
    peer = home.agent()
    peer.hear()
    peer.raw(b"".join(b"%s %d\n" % (kind.__name__.lower().encode(), n) for n in range(number)))
    for _ in range(20):
        home.turn()
    assert slugs(peer) == errors


def test_pings_are_answered_a_few_in_a_turn(clock: Clock) -> None:
    """A thousand pings that come at once leave every other agent its turn (F73)."""
    home = Home(clock)
    peer = home.agent()
    peer.hear()
    peer.connection._in_turn = False
    heard = []
    later = []
    home.house.fair_turns.later = later.append  # type: ignore[method-assign]
    peer.say(*(m.Ping(n) for n in range(1_000)))
    while later:
        heard.append(len(peer.hear()))
        later.pop().listen()
    assert set(heard) == {CHEAP_MESSAGES}
    assert sum(heard) + len(peer.hear()) == 1_000


def take_time(home: Home, clock: Clock, seconds: float) -> None:
    """Have each result take so long."""
    append = home.journal.append

    def slow(entry: Any) -> bool:
        clock.rightNow += seconds
        return append(entry)

    home.journal.append = slow  # type: ignore[method-assign]


def test_results_take_one_slice(clock: Clock) -> None:
    """An agent with many bytes of results goes on in the next turns, and counts as busy for a second after."""
    home = Home(clock)
    peer = home.agent()
    turns = home.house.fair_turns
    take_time(home, clock, SLICE_SECONDS / 3.5)
    peer.say(*(m.Report("s", number, "cpu", b"{%b}" % (b" " * FLOOD_BYTES)) for number in range(1, 11)))
    taken = [len(home.journal.entries)]
    while turns._busy:
        assert peer.transport.producerState == "paused"
        turns._busy_turn()  # one of the reactor's; the test's clock would take all that are asked for meanwhile, too
        taken.append(len(home.journal.entries))
    assert taken == [4, 8, 10]
    assert [entry.sequence for entry in home.journal.entries] == list(range(1, 11))
    assert peer.transport.producerState == "producing"
    assert peer.connection.is_busy
    peer.say(m.Report("s", 11, "cpu", b"{}"))  # one is enough to have to wait for a slice of its own
    assert len(home.journal.entries) == 10
    clock.advance(REST_MOST)
    assert len(home.journal.entries) == 11
    clock.advance(BUSY_SECONDS)
    peer.say(m.Report("s", 12, "cpu", b"{}"))
    assert len(home.journal.entries) == 12
    assert not peer.connection.is_busy


def test_few_results_make_nobody_busy(clock: Clock) -> None:
    """An agent with few results goes on in the next turn, before others that flood, although Helen lost
    the processor.
    """
    home = Home(clock)
    peer = home.agent()
    turns = home.house.fair_turns
    take_time(home, clock, 20 * SLICE_SECONDS)
    peer.say(*reports(1, 3))
    taken = [len(home.journal.entries)]
    while turns._to_listen:
        assert peer.transport.producerState == "paused"
        turns._turn()
        taken.append(len(home.journal.entries))
    assert taken == [1, 2, 3]
    assert peer.transport.producerState == "producing"
    assert (peer.connection.is_busy, turns.rotation.is_pressed()) == (False, False)


def test_few_results_again_and_again_are_a_flood(clock: Clock) -> None:
    """An agent that has more to say in each turn is one that floods, however few results come at once."""
    home = Home(clock)
    peer = home.agent()
    turns = home.house.fair_turns
    take_time(home, clock, 2 * SLICE_SECONDS)
    peer.say(*reports(1, FLOOD_SLICES + 1))
    while turns._to_listen:
        turns._turn()
    assert len(home.journal.entries) == FLOOD_SLICES
    assert (peer.connection.is_busy, turns.rotation.is_pressed()) == (True, True)


def test_one_slow_message_makes_nobody_busy(clock: Clock) -> None:
    """Helen lost the processor for a moment: what comes after it is heard at once, before all that flood."""
    home = Home(clock)
    peer = home.agent()
    peer.hear()
    take_time(home, clock, 20 * SLICE_SECONDS)
    peer.say(m.Report("s", 1, "cpu", b"{}"))
    assert not peer.connection.is_busy
    peer.say(m.Ping(7))
    assert [type(each) for each in peer.hear()] == [m.Pong]


def test_one_that_waits_for_its_slice_is_not_silent(clock: Clock) -> None:
    """No deadline runs for such a connection, whose words lie in the kernel, and it is pinged so that it stays."""
    home = Home(clock)
    peer = home.agent()
    peer.hear()
    home.house.fair_turns.later = lambda speaker: None  # type: ignore[method-assign,assignment]  # a slice far away
    peer.say(*(m.Ping(number) for number in range(CHEAP_MESSAGES + 1)))
    peer.hear()
    assert peer.connection.held
    peer.pass_time(QUIET_LIMIT)
    assert peer.transport.ended is None and not peer.connection.closing
    assert m.Ping in {type(each) for each in peer.hear()}
    peer.connection.listen()
    assert not peer.connection.held
    peer.pass_time(1.0)
    assert peer.transport.ended is None and not peer.connection.closing


def reports(first: int, count: int) -> list[m.Message]:
    return [m.Report("s", number, "cpu", b"{}") for number in range(first, first + count)]


def test_agents_wait_while_states_are_behind(clock: Clock) -> None:
    """Agents wait while states are behind, or results that are acknowledged and not evaluated would grow without a
    bound.
    """
    home = Home(clock)
    peer = home.agent()
    behind = home.house.results.unevaluated = [None] * (MOST_UNEVALUATED + 1)
    peer.say(*reports(1, 1))
    assert peer.connection.holds == {Hold.JOURNAL}
    home.house.results.sweep()
    clock.advance(1.0)
    assert peer.connection.holds == {Hold.JOURNAL}
    del behind[FAIR_UNEVALUATED + 1 :]
    home.house.results.release_held()  # what ends a hold is further down than what begins it
    clock.advance(1.0)
    assert peer.connection.holds == {Hold.JOURNAL}
    behind.pop()
    home.house.results.sweep()
    clock.advance(1.0)
    assert peer.connection.holds == set()
    peer.say(*reports(2, 1))
    assert [entry.sequence for entry in home.journal.entries] == [1, 2]
    assert peer.connection.holds == set()


@pytest.mark.parametrize("late", ["states", "journal"])
def test_a_flood_holds_those_who_take_part_in_it(clock: Clock, late: str) -> None:
    """Each connection has a share of a tick while states are a little behind: an agent that sends as agents send is
    read on.
    """
    home = Home(clock)
    flooder, honest = home.agent("a"), home.agent("b")
    behind = home.house.results.unevaluated = [None] * (FAIR_UNEVALUATED + 1 if late == "states" else 0)
    home.journal.behind = late == "journal"
    flooder.say(*reports(1, 2 * SHARE))
    flooder.say(*reports(2 * SHARE + 1, 3 * SHARE))
    for number in range(1, 4):
        honest.say(*reports((SHARE - 1) * (number - 1) + 1, SHARE - 1))
        assert (flooder.connection.holds, honest.connection.holds) == ({Hold.JOURNAL}, set())
        taken = [entry.agent for entry in home.journal.entries]
        assert (taken.count("a"), taken.count("b")) == (number * SHARE, number * (SHARE - 1))
        home.house.results.sweep()  # the next tick: a share for each
        clock.advance(0.0)
    behind.clear()
    home.journal.behind = False
    home.house.results.release_held()
    clock.advance(0.0)
    assert flooder.connection.holds == set()
    assert [entry.agent for entry in home.journal.entries].count("a") == 5 * SHARE


def test_forty_of_those_that_wait_get_a_share_each_tick(clock: Clock) -> None:
    """The first ones that wait get a share while journal and states are behind and not full; no one waits for ever."""
    home = Home(clock)
    peers = [home.agent(f"a{number}") for number in range(FAIR_UNEVALUATED // SHARE + 2)]
    behind = home.house.results.unevaluated = [None] * (FAIR_UNEVALUATED + 1)
    for peer in peers:
        peer.say(*reports(1, SHARE), *reports(SHARE + 1, 1))
    home.house.results.sweep()
    clock.advance(0.0)
    assert [peer.connection.held for peer in peers] == [False] * (len(peers) - 2) + [True] * 2
    behind.extend([None] * MOST_UNEVALUATED)
    home.house.results.sweep()
    clock.advance(0.0)
    assert [peer.connection.held for peer in peers[-2:]] == [True] * 2
    del behind[FAIR_UNEVALUATED + 1 :]
    home.house.results.sweep()
    clock.advance(0.0)
    assert not any(peer.connection.held for peer in peers)


def test_the_one_that_has_waited_longest_goes_on_first(clock: Clock) -> None:
    """Agents that go on may fill it again: the others keep their place, or the last ones would wait for ever."""
    home = Home(clock)
    peers = [home.agent(f"a{number}") for number in range(3)]
    behind = home.house.results.unevaluated = [None] * (FAIR_UNEVALUATED + 1)
    for peer in peers:
        peer.say(*reports(1, SHARE), *reports(SHARE + 1, SHARE))
    assert [peer.connection.held for peer in peers] == [True] * 3
    order = []

    def append(entry: Any) -> bool:
        order.append(entry.agent)
        behind.append(None)
        return True

    home.journal.append = append  # type: ignore[method-assign]
    for _ in range(3):
        home.house.results._shares.clear()  # as with each tick
        del behind[FAIR_UNEVALUATED:]
        home.house.results.release_held()
        home.house.results.release_held()  # twice: each is looked at once
        clock.advance(0.0)
    assert list(dict.fromkeys(order)) == ["a0", "a1", "a2"]
    assert [order.count(each) for each in ("a0", "a1", "a2")] == [SHARE] * 3


def test_the_rest_of_a_great_message_waits_while_the_journal_is_behind(clock: Clock) -> None:
    """The rest waits, or each of a hundred agents might add a mebibyte to a queue that takes sixty-four."""
    home = Home(clock)
    peer, small = home.agent("a"), home.agent("b")
    home.journal.behind = True
    blob = b"{" + b" " * 200_000 + b"}"
    line = b"report s 1 cpu %d\n" % len(blob)
    peer.connection.dataReceived(line)
    peer.connection.dataReceived(blob[: GREAT_PART - 1])
    assert peer.connection.holds == set()
    peer.connection.dataReceived(blob[GREAT_PART - 1 : GREAT_PART])
    assert peer.connection.holds == {Hold.JOURNAL}
    small.say(*reports(1, 1))
    small.connection.dataReceived(b"".join(b"report s %d cpu 2\n{}\n" % number for number in range(2, 32)))
    assert (small.connection.holds, len(home.journal.entries)) == (set(), 31)
    home.journal.entries.clear()
    home.journal.behind = False
    home.house.results.release_held()
    clock.advance(0.0)
    assert peer.connection.holds == set()
    peer.connection.dataReceived(blob[GREAT_PART:] + b"\n")
    clock.advance(0.0)
    assert [(entry.agent, len(entry.blob)) for entry in home.journal.entries] == [("a", len(blob))]


def test_the_parts_of_a_great_result_take_turns_if_they_come_fast(clock: Clock) -> None:
    """Fast parts of a great result are read in turns: no message among them ends that a slice could stop at."""
    home = Home(clock)
    fast, slow = home.agent("fast"), home.agent("slow")
    blob = b"{" + b" " * 200_000 + b"}"
    for peer, part in ((fast, FAST_PART), (slow, FAST_PART - 1)):
        peer.connection.dataReceived(b"report s 1 cpu %d\n" % len(blob))
        states = []
        for at in range(0, 6 * part, part):
            peer.connection.dataReceived(blob[at : at + part])
            states.append((peer.connection.is_busy, peer.connection.transport.producerState))
            clock.advance(0.0)
            assert peer.connection.transport.producerState == "producing"
        assert states == [(False, "producing")] * 3 + [(True, "paused") if peer is fast else (False, "producing")] * 3
        peer.connection.dataReceived(blob[6 * part :] + b"\n")
        clock.advance(0.0)
    assert [(entry.agent, len(entry.blob)) for entry in home.journal.entries] == [
        ("fast", len(blob)), ("slow", len(blob))
    ]  # fmt: skip


def test_a_target_that_is_gone_is_not_made_again(clock: Clock) -> None:
    """A target that was taken out is not made again by a result that was on its way to the disk."""
    home = Home(clock)
    peer = home.agent()
    results = home.house.results
    results.is_of_target = lambda agent, check_id: True
    peer.say(m.Report("s", 1, wire_id("switch-1", "ping"), b"{}"))
    results.is_target = lambda name: False
    home.journal.fsync()
    assert set(home.house.roster.agents) == {peer.name}


@pytest.mark.parametrize(("number", "errors"), [(3, 0), (4, 1)])
def test_both_sides_of_sessions(clock: Clock, number: int, errors: int) -> None:
    """An agent that comes and goes as fast as it can is refused beyond its quota; its very first session
    made it known.
    """
    home = Home(clock, "sessions=3/1")
    refused = 0
    for _ in range(number + 1):
        peer = home.agent()
        refused += len(slugs(peer))
        peer.hang_up()
    assert refused == errors


@pytest.mark.parametrize(("number", "errors"), [(2, []), (3, ["overloaded;retry-after=60"])])
def test_both_sides_of_enrolments(clock: Clock, number: int, errors: list[str]) -> None:
    """An agent that asks for a new certificate again and again is refused beyond its quota."""
    home = Home(clock, "enrolments=2/1")
    peer = Peer(home.house, clock, encrypted=True)
    peer.connection.identity = home.authority.identify(None, 0.0)
    peer.connection.name = "web-1"
    for n in range(number):
        peer.say(m.Enrol(n, "web-1", json.dumps({"csr": "CSR"}).encode()))
    assert slugs(peer) == errors
    assert len(home.authority.asked) == 2


@pytest.mark.parametrize(("number", "outcomes"), [(2, []), (3, [("web-1", "refused")])])
def test_both_sides_of_questions(clock: Clock, number: int, outcomes: list[Any]) -> None:
    """The bound is on all that ask; an answer makes room."""
    home = Home(clock, "questions=2")
    peer = home.agent()
    peer.hear()
    for _ in range(number):
        home.ask("web-1")
    assert home.targets == outcomes
    assert home.house.quotas.exceeded["questions"] == number - 2
    asked = [message for message in peer.hear() if isinstance(message, m.Check)]
    assert len(asked) == 2
    peer.say(m.Result(asked[0].message_id, "cpu", b"{}"))
    home.ask("web-1")
    assert len([message for message in peer.hear() if isinstance(message, m.Check)]) == 1


def test_answers_count_as_results_do(clock: Clock) -> None:
    """The question is settled; its agent is sent away."""
    home = Home(clock, "results=1/60")
    peer = home.agent()
    peer.hear()
    report(peer, 1)
    home.ask("web-1")
    (asked,) = peer.hear()
    peer.say(m.Result(asked.message_id, "cpu", b'{"status": "ok"}'))
    assert (home.targets, slugs(peer)) == ([("web-1", "answered")], [f"overloaded;retry-after={RETRY_LEAST}"])


@pytest.mark.parametrize("step", [30 * 86_400.0, -30 * 86_400.0])
def test_a_clock_that_is_set_gives_and_takes_nothing(
    clock: Clock, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of Helen's clock by a month leaves what is used up, which comes back with the time that has
    passed (14).
    """
    home = Home(clock, "results=2/60", "bytes=2MiB/1MiB", "disk=2MiB/1MiB")
    peer = home.agent()
    report(peer, 1, 2, 3)
    assert slugs(peer)[-1:] == [f"overloaded;retry-after={RETRY_LEAST}"]
    peer.hang_up()
    monkeypatch.setattr(session_stage, "WALL", session_stage.WALL + step)
    early = Peer(home.house, clock).hello()
    assert slugs(early) == [f"overloaded;retry-after={RETRY_LEAST}"]
    early.hang_up()
    home.turn(RETRY_LEAST)
    peer = home.agent()
    report(peer, 3, 4, 5)
    assert slugs(peer)[-1:] == [f"overloaded;retry-after={RETRY_LEAST}"]
    assert [entry.sequence for entry in home.journal.entries] == [1, 2, 3, 4]


def test_connections_one_after_the_other_share_what_there_is(clock: Clock) -> None:
    """An agent that hangs up and comes back has what was left, of results and of bytes (14)."""
    home = Home(clock, "results=5/1", "bytes=2MiB/1")
    for number in range(1, 6):
        peer = home.agent()
        report(peer, number)
        assert [each for each in slugs(peer) if each] == []
        peer.hang_up()
    peer = home.agent()
    report(peer, 6)
    assert slugs(peer)[-1:] == [f"overloaded;retry-after={60}"]
    assert [entry.sequence for entry in home.journal.entries] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("letter", ["x", "noise"])
def test_bytes_count_as_they_come(clock: Clock, letter: str) -> None:
    """A mebibyte of one letter, which the disk packs into nothing, costs what a mebibyte of noise does (14)."""
    home = Home(clock, "bytes=2MiB/1", "disk=2MiB/1")
    chance = random.Random(7)
    peer = home.agent()
    for number in range(1, 4):
        text = letter if len(letter) == 1 else "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=4_096))
        blob = json.dumps({"status": "ok", "summary": (text * 1_048_576)[: 1_048_576 - 31]}).encode()
        assert len(blob) == 1_048_576
        if not peer.connection.closing:
            peer.say(m.Report("s", number, "cpu", blob))
            clock.advance(0.0)
    assert slugs(peer)[-1:] == [f"overloaded;retry-after={RETRY_MOST}"]
    assert [entry.sequence for entry in home.journal.entries] == [1, 2]


def test_questions_of_a_connection_that_has_gone(clock: Clock) -> None:
    """The questions of such a connection fail, and the agent's next connection has room for as many."""
    home = Home(clock, "questions=2")
    peer = home.agent()
    home.ask("web-1")
    home.ask("web-1")
    peer.hang_up()
    assert home.targets == [("web-1", "failed")] * 2
    peer = home.agent()
    peer.hear()
    for _ in range(3):
        home.ask("web-1")
    assert home.targets[2:] == [("web-1", "refused")]
    assert len([message for message in peer.hear() if isinstance(message, m.Check)]) == 2


# ---------------------------------------------------------------------------------------------- telling


def test_it_is_a_trouble_of_that_agent(clock: Clock) -> None:
    """The trouble of the agent is told once, with what to do, and is over when it was not seen for a while (F52)."""
    home = Home(clock, "results=1/60")
    said = told(home)
    for _ in range(3):
        peer = home.agent()
        report(peer, 1, 2, 3)
        peer.hang_up()
        home.turn(RETRY_LEAST)
        home.house.sweep()
    sentence = (
        "web-1 is beyond its quota `results` (1 results at once, then 60 a minute): it is sent away for some time,"
        " again and again, and keeps its results in its spool. Look at what it runs (`helen status web-1`), or raise"
        " the quota with --quota results=BURST/A_MINUTE"
    )
    agent = home.house.roster.agents["web-1"]
    assert said == [("web-1", QUOTA, "problem", WARNING, sentence)]
    assert (agent.noticed, len(home.house.troubles)) == ({"quota results": sentence}, 1)
    home.turn(QUIET_SECONDS - RETRY_LEAST - 0.5)
    home.house.sweep()
    assert len(said) == 1
    home.turn(1.0)
    home.house.sweep()
    assert said[1:] == [("web-1", QUOTA, "recovery", OK, "not seen again for 10 minutes")]
    assert (agent.noticed, len(home.house.troubles)) == ({}, 0)


def test_several_quotas_of_one_agent_are_one_message(clock: Clock) -> None:
    """One problem is told for several quotas of an agent, and one recovery after the last of them."""
    home = Home(clock, "results=1/60", "messages=100/60")
    said = told(home)
    peer = home.agent()
    report(peer, 1, 2)
    peer.hang_up()
    home.turn(RETRY_LEAST)
    peer = home.agent()
    peer.raw(b"pong 1\n" * 200)
    for _ in range(20):
        home.turn()
    assert set(home.house.roster.agents["web-1"].noticed) == {"quota results", "quota messages"}
    home.turn(QUIET_SECONDS)
    home.house.sweep()
    assert [words[2] for words in said] == ["problem", "recovery"]


def test_what_other_parts_leave_out_is_told(clock: Clock) -> None:
    """Left out states and series are counted by difference, and only for agents that are known (F51)."""
    home, counts = Home(clock), {"web-1": 5, "gone": 9}
    home.agent()
    said = told(home)
    home.house.quotas.levels.append(Level("states", lambda: counts, "the rest is history only"))
    for more in (0, 3, 0):
        counts["web-1"] += more
        home.turn(LOOK_SECONDS)
        home.house.sweep()
    assert home.house.quotas.exceeded["states"] == 8
    assert [words[:3] for words in said] == [("web-1", QUOTA, "problem")]
    assert "1,000 checks with a state): the rest is history only. " in said[0][-1]


def test_a_copy_of_an_agent_is_told_through_channels(clock: Clock) -> None:
    """A copy is told once, however often it comes back, and so is its end (F90)."""
    home = Home(clock)
    said = told(home)
    home.agent()
    for _ in range(5):
        copy = Peer(home.house, clock).hello()
        home.house.roster.agents["web-1"].link.owner.heard_from(home.house.roster.agents["web-1"].link)
        assert slugs(copy) == ["identity-in-use"]
        copy.hang_up()
        home.turn(100.0)
        home.house.sweep()
    assert [words[:4] for words in said] == [("web-1", COPY, "problem", CRITICAL)]
    assert said[0][4].startswith("two machines run with the identity of web-1: the second one, at 192.168.1.1, was")
    home.turn(QUIET_SECONDS)
    home.house.sweep()
    assert [words[:4] for words in said[1:]] == [("web-1", COPY, "recovery", OK)]
