"""Tests what Helen does with what agents say: acks after the disk, claims, holding back, enrolment, goodbyes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from helen_parts import WALL, Peer
from inbox import Inbox
from session_stage import Home
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from equus_protocol import messages as m
from equus_protocol import one_off
from groundwork.target_ids import wire_id
from helen.assignments.assignments_text import read
from helen.assignments.schedule import ScheduleEntry
from helen.identity.authority import Identity
from helen.identity.enrolment_documents import Enrolled
from helen.journal.values import Entry, Origin
from helen.queries import one_off_code
from helen.sessions.agent_memory import AgentMemory
from helen.sessions.connection import Hold
from helen.states.clock_offset import AgentClock
from helen.storage.credential_rows import NotEnrolled
from helen.storage.database import StoreClosed, StoreFailed


@pytest.fixture
def home(clock: Clock) -> Home:
    return Home(clock)


def loaded(digest: str = "digest-1", **document: Any) -> m.Loaded:
    return m.Loaded(digest, json.dumps(document).encode())


def slugs(peer: Peer) -> list[str]:
    return [message.message for message in peer.hear() if isinstance(message, m.Error)]


# ---------------------------------------------------------------------------------------------- code in no set


def test_what_code_says_that_is_in_no_set(home: Home) -> None:
    """A result of one-off code goes to the one that asked, at once, and neither into the journal nor to the latest
    results.
    """
    peer = home.agent()
    peer.hear()
    home.ask("web-1", check=one_off.NAME)
    [check] = peer.hear()
    assert (check.name, check.args) == (one_off.NAME, b"{}")
    peer.say(m.Result(check.message_id, one_off.NAME, b'{"status": "warning", "check": "disk"}'))
    assert (home.targets, home.ended, home.journal.entries) == ([("web-1", "answered")], 1, [])
    assert home.house.roster.agents["web-1"].latest == {}


def test_a_late_word_of_such_code_is_kept_nowhere_either(home: Home) -> None:
    """A late result of one-off code is not kept, and counted as late."""
    peer = home.agent()
    peer.hear()
    home.ask("web-1", check=one_off.NAME, timeout=1.0)
    [check] = peer.hear()
    home.turn(2.0)
    home.house.sweep()
    home.turn()
    assert home.targets == [("web-1", "expired")]
    assert peer.hear() == [m.Cancel(check.message_id)]
    peer.say(m.Result(check.message_id, one_off.NAME, b"{}"))
    assert (home.journal.entries, home.house.counts["late"]) == ([], 1)


def test_agents_that_know_no_orders(home: Home) -> None:
    """An agent of version 1 is not asked, and an older one of version 2 doesn't know the name: both have refused."""
    home.agent("old", 1).hear()
    peer = home.agent("web-1")
    peer.hear()
    whys: list[Any] = []
    agents = home.house.roster.matching(["*"])
    home.house.ask(
        one_off.NAME, agents, b"{}", 10.0, lambda target: whys.append((target.outcome, target.why)), home.end
    )
    home.turn()
    [check] = peer.hear()
    peer.say(m.Result(check.message_id, one_off.NAME, b'{"status": "unknown", "reason": "unknown-check"}'))
    assert whys == [("refused", "it speaks version 1 of the protocol, which knows no code that is in no set"),
                    ("refused", one_off_code.TOO_OLD)]  # fmt: skip


# ---------------------------------------------------------------------------------------------- coming


def test_hello_2_is_answered_with_the_schedule(home: Home) -> None:
    """A `hello` of version 2 is answered with the schedule and nothing else, before the agent has said what it has."""
    (schedule,) = home.agent().hear()
    assert [(e["id"], e["every"]) for e in json.loads(schedule.blob)] == [("cpu", 10.0)]
    assert home.journal.changes == [("link", "up", "web-1")]
    assert home.store.calls == [("agent_seen", "web-1", WALL, "192.168.1.1")]


def test_nothing_is_published_yet(home: Home) -> None:
    """The schedule and the manifest follow once something is."""
    held, home.library.set = home.library.set, None
    peer = home.agent()
    assert peer.hear() == []
    home.library.set = held
    home.house.delivery.on_published()
    home.turn()
    assert [type(message) for message in peer.hear()] == [m.Schedule, m.Reload]


@pytest.mark.adversary(59)
@pytest.mark.parametrize(
    ("version", "told"), [("0.1", False), ("0.0.9", True), ("equus/0.0.9;name=x", True), ("other-agent", False)]
)
def test_too_old(home: Home, clock: Clock, version: str, told: bool) -> None:
    """An agent below --minimum-equus is told to reload; somebody else's is welcome."""
    peer = Peer(home.house, clock)
    peer.say(m.Hello(1, version))
    home.turn()
    assert (m.Reload() in peer.hear()) == told


def test_reload_once_for_each_set(home: Home) -> None:
    """An agent with another set is told `reload` once, however often that is said."""
    peer = home.agent()
    peer.hear()
    peer.say(loaded("old"))
    home.house.delivery.on_published()
    home.turn()
    peer.say(loaded("old"))
    home.turn()
    assert peer.hear() == [m.Reload()]
    peer.say(loaded("digest-1"))
    home.turn()
    assert peer.hear() == []


def test_two_of_one_name(home: Home) -> None:
    """The older one lives and answers: the newer one is refused, and the audit hears of it."""
    older, newer = home.agent(), home.agent()
    assert [type(message) for message in older.hear()] == [m.Schedule, m.Ping]
    older.say(m.Pong(1))
    assert (slugs(newer), home.authority.conflicts) == (["identity-in-use"], 1)
    clash = home.house.roster.know(newer.connection.name).clash
    assert clash is not None and (clash["address"], clash["at"] > 0) == (newer.connection.address, True)
    newer.hang_up()
    assert home.house.roster.agents["web-1"].link is older.connection


def test_the_newer_one_gets_in_when_the_older_is_silent(home: Home) -> None:
    """The newer agent has its schedule like any other then."""
    older, newer = home.agent(), home.agent()
    for _ in range(10):
        home.turn(0.5)
        home.house.sweep()
    home.turn()
    assert (older.transport.ended, [type(message) for message in newer.hear()]) == ("aborted", [m.Schedule])
    older.hang_up()
    assert home.house.roster.agents["web-1"].link is newer.connection
    assert [event for _, event, _ in home.journal.changes] == ["up", "down", "up"]


def test_strangers_and_agents_are_counted(home: Home) -> None:
    """Nothing is left when all have gone."""
    peers = [home.agent(f"a{n}", 1 + n % 2) for n in range(4)]
    for peer in peers:
        peer.hang_up()
    home.turn()
    connections = home.house.connections
    assert (len(connections), connections._strangers, home.house.delivery._outgoing) == (0, {}, {})
    assert home.house.roster.connected() == []


def test_facts_are_kept_once(home: Home) -> None:
    """Facts are stored again if the disk did not take them or if they change, and not with every reload."""
    peer = home.agent()
    for labels in ({"a": "1"}, {"a": "1"}, {"a": "2"}):
        peer.say(loaded(labels=labels))
    home.store.answer = StoreFailed("disk full")
    peer.say(loaded(labels={"a": "3"}))
    home.store.answer = None
    peer.say(loaded(labels={"a": "3"}))
    kept = [call[2]["labels"]["a"] for call in home.store.calls if call[0] == "agent_facts"]
    assert kept == ["1", "2", "3", "3"]


@pytest.mark.parametrize("size", [10, 100_000])
def test_loaded(home: Home, no_threads: None, size: int) -> None:
    """An agent's words about itself are known, however long they are; its spool's beginning goes to the journal."""
    peer = home.agent()
    peer.say(
        loaded(labels={"role": "web"}, spool={"id": "s", "first": 5}, host={"os": "x"}, filler="x" * size), m.Ping(1)
    )
    home.turn()
    agent = home.house.roster.agents["web-1"]
    assert (agent.labels, agent.claimed) == ({}, {"role": "web"})
    assert (agent.host, home.journal.floors) == ({"os": "x"}, [("web-1", "s", 5)])
    assert m.Pong(1) in peer.hear()


def test_nothing_is_heard_while_a_long_report_is_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports wait for a long `loaded`: they would be counted before their spool's beginning is known."""
    reading: Deferred[Any] = Deferred()
    monkeypatch.setattr("helen.sessions.session_service.deferToThread", lambda *args: reading)
    peer = home.agent()
    peer.say(loaded(filler="x" * 100_000), m.Report("s", 5, "cpu", b"{}"))
    assert home.journal.entries == []
    reading.errback(ValueError("a fault of ours"))
    assert len(home.journal.entries) == 1


# ---------------------------------------------------------------------------------------------- results


def test_a_report_is_kept_with_the_offset_of_its_agents_clock(home: Home) -> None:
    """A report has the offset of its connection's agent, and none if there is none."""
    clocks = {"web-1": AgentClock(-3600.0), "web-2": AgentClock(1.9)}
    home.house.results.judged = SimpleNamespace(timeline=SimpleNamespace(clocks=clocks))
    peers = [home.agent(name) for name in ("web-1", "web-2", "web-3")]
    for each in peers:
        each.say(m.Report("s", 1, "cpu", b"{}"))
    offsets = {entry.agent: entry.clock_offset_ms for entry in home.journal.entries}
    assert offsets == {"web-1": -3_600_000, "web-2": None, "web-3": None}
    home.ask("web-1")
    (check,) = [message for message in peers[0].hear() if isinstance(message, m.Check)]
    peers[0].say(m.Result(check.message_id, "cpu", b"{}"))
    home.house.results.submit("web-1", "smart", b"{}")  # said by somebody else, whose clock nobody knows
    asked, passive = home.journal.entries[-2:]
    assert (asked.spool, asked.clock_offset_ms, passive.clock_offset_ms) == ("helen", -3_600_000, None)


def test_acks_only_after_the_disk(home: Home) -> None:
    """An ack is sent when the disk has the report, and only the highest of each spool."""
    peer = home.agent()
    peer.hear()
    peer.say(*(m.Report("s", n, "cpu", b'{"status": "ok", "summary": "fine"}') for n in (1, 2, 3)))
    home.turn()
    assert peer.hear() == []
    home.journal.fsync()
    home.turn()
    assert peer.hear() == [m.Ack("s", 3)]
    latest = home.house.roster.agents["web-1"].latest["cpu"]
    assert (latest.status, latest.summary, latest.received) == (0, "fine", WALL)


def test_an_ack_for_one_that_has_gone(home: Home) -> None:
    """An agent that has gone gets no ack, since it will report again."""
    peer = home.agent()
    peer.say(m.Report("s", 1, "cpu", b"{}"))
    peer.hang_up()
    home.journal.fsync()
    assert home.house.counts["acks"] == 0


@pytest.mark.adversary(56)
def test_a_clock_that_is_off(home: Home) -> None:
    """The offset of a clock is the least that its results say."""
    peer = home.agent()
    for late in (0.0, 3.0, 1.0):
        document = {"status": "ok", "started": WALL + 100.0 - late, "took_ms": 500.0}
        peer.say(m.Report("s", int(late) + 1, "cpu", json.dumps(document).encode()))
    home.journal.fsync()
    assert home.house.roster.agents["web-1"].clock_offset == 100.5


@pytest.mark.parametrize("version", [1, 2])
def test_overloaded(home: Home, version: int) -> None:
    """The journal takes nothing more: the agent is told when to come back, and nothing was acked."""
    peer = home.agent(version=version)
    home.ask("web-1")
    (asked,) = [message for message in peer.hear() if isinstance(message, m.Check)]
    home.journal.takes = False
    peer.say(m.Result(asked.message_id, "cpu", b"{}") if version == 1 else m.Report("s", 1, "cpu", b"{}"))
    assert slugs(peer) == ["overloaded;retry-after=5"]


def test_held_back_while_the_journal_is_full(home: Home) -> None:
    """The connection is not read while the journal is full; once there is room it goes on where it was."""
    peer = home.agent()
    peer.hear()
    home.journal.full = True
    peer.say(m.Report("s", 1, "cpu", b"{}"), m.Ping(5))
    home.house.sweep()
    home.turn()
    assert (peer.transport.is_paused, peer.hear(), peer.connection.holds) == (True, [], {Hold.JOURNAL})
    home.journal.full = False
    home.house.sweep()
    home.turn()
    assert (peer.transport.is_paused, peer.hear()) == (False, [m.Pong(5)])


def test_those_held_back_are_let_go_one_by_one(home: Home) -> None:
    """Connections wait on if one that is let go fills the journal again."""
    peers = [home.agent(f"a{n}") for n in range(3)]
    home.journal.full = True
    for peer in peers:
        peer.say(m.Report("s", 1, "cpu", b"{}"), m.Report("s", 2, "cpu", b"{}"))
    home.journal.full = False

    def fill(entry: Entry) -> bool:
        home.journal.full = True
        home.journal.entries.append(entry)
        return True

    home.journal.append = fill
    home.house.sweep()
    home.turn()
    assert len(home.journal.entries) == 4
    assert [bool(peer.connection.holds) for peer in peers] == [True] * 3


# ---------------------------------------------------------------------------------------------- questions


def test_an_answer_comes_by_way_of_the_disk(home: Home) -> None:
    """The caller hears of it once it is durable."""
    peer = home.agent()
    home.ask("web-*", "db-1")
    (check,) = [message for message in peer.hear() if isinstance(message, m.Check)]
    peer.say(m.Result(check.message_id, "cpu", b'{"status": "ok"}'))
    assert home.targets == []
    home.journal.fsync()
    assert (home.targets, home.ended, home.house.results._answers) == ([("web-1", "answered")], 1, {})


def test_an_agent_that_goes_while_asked(home: Home) -> None:
    """An agent that goes fails the question, unless its answer is on its way."""
    peer, other = home.agent("a"), home.agent("b")
    home.ask("*")
    (check,) = [message for message in other.hear() if isinstance(message, m.Check)]
    other.say(m.Result(check.message_id, "cpu", b'{"status": "ok"}'))
    peer.hang_up()
    other.hang_up()
    home.journal.fsync()
    assert (sorted(home.targets), home.ended) == ([("a", "failed"), ("b", "answered")], 1)


def test_the_time_is_over(home: Home) -> None:
    """Version 2 is told to give up; its late result is no fault and is journalled all the same."""
    peer = home.agent()
    home.ask("web-1", timeout=5.0)
    (check,) = [message for message in peer.hear() if isinstance(message, m.Check)]
    home.turn(5.0)
    home.house.sweep()
    home.turn()
    assert home.targets == [("web-1", "expired")]
    assert m.Cancel(check.message_id) in peer.hear()
    peer.say(m.Result(check.message_id, "cpu", b"{}"))
    assert (len(home.journal.entries), home.house.counts["late"], slugs(peer)) == (1, 1, [])


def test_65_questions_at_once(home: Home) -> None:
    """The last one is refused for this agent."""
    home.agent()
    for _ in range(65):
        home.ask("web-1")
    assert home.targets == [("web-1", "refused")]


@pytest.mark.adversary(59)
def test_version_1_is_asked_by_our_clock(home: Home) -> None:
    """An agent of version 1 is asked at its phase, and the answer belongs to the schedule's id."""
    home.house.delivery.assign(read('[[assign]]\ncheck = "cpu"\nid = "cpu-1"\nevery = "10s"'))
    peer = home.agent(version=1)
    home.turn(10.0)
    (check,) = peer.hear()
    peer.say(m.Result(check.message_id, "cpu", b'{"status": "warning"}'))
    home.journal.fsync()
    assert list(home.house.roster.agents["web-1"].latest) == ["cpu-1"]
    peer.hang_up()
    home.turn(100.0)


# ---------------------------------------------------------------------------------------------- code


def test_manifest_and_files(home: Home) -> None:
    """An agent gets what it asks for, as long as a published set names it."""
    peer = home.agent()
    peer.hear()
    (sha256,) = home.library.contents
    peer.say(m.AskManifest(1), m.Fetch(2, sha256))
    assert peer.hear() == [m.Manifest(1, b"envelope"), m.File(2, sha256, b"return {}")]
    peer.say(m.Fetch(3, "0" * 64))
    assert slugs(peer) == ["unknown-file"]


def test_64_great_files_in_one_turn(home: Home) -> None:
    """Files leave as the agent reads; never are more than two megabytes waiting."""
    home.library.contents["f" * 64] = b"x" * 1_000_000
    peer = home.agent()
    peer.hear()
    peer.transport.stuck = True
    peer.say(*(m.Fetch(n, "f" * 64) for n in range(1, 65)))
    got = 0
    for _ in range(70):
        assert len(peer.transport.value()) < 2_200_000
        got += len(peer.hear())
        peer.transport.drain()
        home.turn()
    assert (got, peer.transport.ended) == (64, None)


def test_assignments_reach_all(home: Home) -> None:
    """An agent whose schedule is another one gets it."""
    peers = [home.agent(name) for name in ("web-1", "db-1")]
    for peer in peers:
        peer.hear()
    home.house.delivery.assign(read('[[assign]]\ncheck = "cpu"\nevery = "99s"\nagents = "db-*"'))
    home.turn()
    assert [[type(message) for message in peer.hear()] for peer in peers] == [[], [m.Schedule]]


# ---------------------------------------------------------------------------------------------- enrolment


@pytest.mark.parametrize(
    "blob", [b"", b"[]", b'{"csr": 1}', b'{"csr": "x", "token": 5}', b"[" * 60_000, b'{"token": "t"}', b"\xff\xfe"]
)
def test_an_enrolment_that_is_none(home: Home, clock: Clock, blob: bytes) -> None:
    """A stranger's bytes are answered `not-enrolled`, and the authority is not even asked."""
    peer = Peer(home.house, clock)
    peer.say(m.Enrol(1, "web-1", blob))
    assert (slugs(peer), home.authority.asked) == (["not-enrolled"], [])


def test_while_nobody_is_enrolled(home: Home, clock: Clock) -> None:
    """A stranger shall come again; whoever has a certificate may renew it."""
    home.authority.closed = "not now"
    peer = Peer(home.house, clock)
    peer.say(m.Enrol(1, "web-1", b'{"csr": "CSR", "token": "T"}'))
    assert (slugs(peer), home.authority.asked) == (["overloaded;retry-after=5"], [])


def test_enrolled(home: Home, clock: Clock) -> None:
    """The answer goes out, and then hello on the same connection is heard."""
    peer = Peer(home.house, clock)
    home.authority.answer = Deferred()
    home.pinned = ("KEYS", "")
    peer.say(m.Enrol(1, "web-1", b'{"csr": "CSR", "token": "T"}'))
    assert (peer.transport.is_paused, peer.hear()) == (True, [])
    home.authority.answer.callback(Enrolled("CERT", "CA", 5))
    home.turn()
    (answer,) = peer.hear()
    assert json.loads(answer.blob) == {"certificate": "CERT", "ca": "CA", "renew_after": 5, "signing_keys": "KEYS"}
    assert home.authority.asked == [("web-1", "T", "CSR", "192.168.1.1", WALL)]
    assert not peer.transport.is_paused


@pytest.mark.parametrize(
    ("error", "slug"), [(NotEnrolled("expired token"), "not-enrolled"), (StoreFailed("disk full"), "internal")]
)
def test_not_enrolled(home: Home, clock: Clock, error: Exception, slug: str) -> None:
    """A wrong token is one refusal, whatever is wrong with it; a fault of ours has another word."""
    home.authority.answer = fail(error)
    peer = Peer(home.house, clock)
    peer.say(m.Enrol(1, "web-1", b'{"csr": "CSR", "token": "T"}'))
    assert slugs(peer) == [slug]


def test_gone_while_it_was_enrolled(home: Home, clock: Clock) -> None:
    """The answer has nowhere to go, and hurts nobody."""
    peer = Peer(home.house, clock)
    home.authority.answer = Deferred()
    peer.say(m.Enrol(1, "web-1", b'{"csr": "CSR"}'))
    peer.hang_up()
    home.authority.answer.callback(Enrolled("CERT", "CA", 5))
    home.turn()
    assert peer.hear() == []


def test_held_by_enrolment_and_by_the_journal(home: Home) -> None:
    """Room in the journal doesn't let it go while its certificate is being made."""
    peer = home.agent()
    home.authority.answer = Deferred()
    home.journal.full = True
    peer.say(m.Enrol(1, "web-1", b'{"csr": "CSR"}'))
    peer.connection.hold(Hold.JOURNAL)
    home.house.results._held_back[peer.connection] = None
    home.journal.full = False
    home.house.sweep()
    home.turn()
    assert peer.connection.holds == {Hold.ENROLMENT}
    home.authority.answer.callback(Enrolled("CERT", "CA", 5))
    assert peer.connection.holds == set()


def test_revoked(home: Home) -> None:
    """A revocation ends live connections at once, by the key."""
    bad, good = home.agent("a"), home.agent("b")
    bad.connection.identity = Identity("a", "key-a", WALL + 1e6)
    good.connection.identity = Identity("b", "key-b", WALL + 1e6)
    home.authority.tell_revoked("a", frozenset({"key-a"}))
    assert (slugs(bad), slugs(good)) == (["not-enrolled"], [])


# ---------------------------------------------------------------------------------------------- the end


def test_goodbye(home: Home, clock: Clock, inbox: Inbox) -> None:
    """Everybody hears when to come back; strangers are cut; those that don't hang up within a second, too."""
    polite, deaf = home.agent("a"), home.agent("b")
    stranger = Peer(home.house, clock)
    home.house.say_goodbye(3)
    assert [slugs(peer) for peer in (polite, deaf)] == [["shutting-down;retry-after=3"]] * 2
    assert stranger.transport.ended == "aborted"
    gone = Deferred.fromCoroutine(home.house.all_gone())
    for peer in (polite, stranger):
        peer.hang_up()
    home.turn(0.9)
    assert (gone.called, deaf.transport.ended) == (False, "lost")
    home.turn(0.2)
    assert (gone.called, deaf.transport.ended) == (False, "aborted")
    deaf.hang_up()
    home.turn(0.1)
    assert gone.called
    assert clock.getDelayedCalls() == []


def test_who_comes_while_we_go(home: Home) -> None:
    """An agent that comes while Helen stops is told to come back."""
    home.house.say_goodbye(3)
    assert slugs(home.agent()) == ["shutting-down;retry-after=1"]


def test_a_store_that_is_closed_is_no_news(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end nobody needs a thousand lines about it; while it fails one a minute is enough."""
    lines: list[str] = []
    log = SimpleNamespace(error=lambda text, **words: lines.append(text), info=lambda text, **words: None)
    monkeypatch.setattr(AgentMemory, "log", log)
    for error, expected in ((StoreClosed("closed"), 0), (StoreFailed("full"), 1), (StoreFailed("full"), 1)):
        home.store.answer = error
        home.agent(f"a{len(home.store.calls)}")
        assert len(lines) == expected


def test_results_of_checks_that_report_from_outside(home: Home) -> None:
    """Results of checks from outside are acknowledged, so that the spool goes on, and counted, but change no state
    (F39).
    """
    home.house.results.is_outside = lambda agent, check_id: check_id == "backup"
    home.house.results.declared = {"web-1"}
    peer = home.agent()
    peer.hear()
    home.ask("web-1")
    peer.say(m.Report("s", 1, "backup", b'{"status": "ok"}'), m.Report("s", 2, "cpu", b'{"status": "ok"}'))
    home.turn()
    home.journal.fsync()
    home.turn()
    assert [message for message in peer.hear() if isinstance(message, m.Ack)] == [m.Ack("s", 2)]
    assert sorted(home.house.roster.agents["web-1"].latest) == ["cpu"]
    assert (home.house.counts["foreign"], home.house.counts["reports"], home.targets) == (1, 2, [])


def test_results_of_targets(home: Home) -> None:
    """The results of the agent with the lease are the target's; another one's are acknowledged, kept, and change no
    state.
    """
    holder = {"probe-1"}
    home.house.results.is_of_target = lambda agent, check_id: agent in holder
    peers = {name: home.agent(name) for name in ("probe-1", "probe-2")}
    wire = wire_id("switch-1", "ping")
    for sequence, (name, peer) in enumerate(peers.items(), 1):
        peer.hear()
        report = m.Report("s", sequence, wire, b'{"status": "ok", "summary": "by %s"}' % name.encode())
        peer.say(report, m.Report("s", sequence + 1, "cpu", b'{"status": "ok"}'))
    home.turn()
    origins = [(entry.agent, entry.check_id, entry.origin) for entry in home.journal.entries]
    assert origins == [
        ("probe-1", wire, Origin.TARGET), ("probe-1", "cpu", Origin.SCHEDULED), ("probe-2", wire, Origin.ASKED),
        ("probe-2", "cpu", Origin.SCHEDULED),
    ]  # fmt: skip
    home.journal.fsync()
    home.turn()
    assert [[each for each in peer.hear() if isinstance(each, m.Ack)] for peer in peers.values()] == [
        [m.Ack("s", 2)], [m.Ack("s", 3)],
    ]  # fmt: skip
    agents = home.house.roster.agents
    assert {name: sorted(agent.latest) for name, agent in agents.items()} == {
        "probe-1": ["cpu"], "probe-2": ["cpu"], "switch-1": ["ping"],
    }  # fmt: skip
    assert (agents["switch-1"].latest["ping"].summary, agents["switch-1"].is_host) == ("by probe-1", True)
    assert home.house.counts["foreign"] == 1


# ---------------------------------------------------------------------------------------------- targets


def test_more_targets_than_an_agent_has_room_for(home: Home) -> None:
    """The agent gets its own checks and as many others as it takes; what is left out is known while it is connected."""
    peer, delivery = home.agent(), home.house.delivery
    peer.hear()
    further = tuple(ScheduleEntry(f"t{n}", "cpu", 60.0, 0.0, 5.0, {}) for n in range(5_000))
    delivery.further = lambda agent: further
    delivery.send_again(home.house.roster.agents["web-1"])
    home.turn()
    [sent] = peer.hear()
    ids = [each["id"] for each in json.loads(sent.blob)]
    own = len(ids) - ids.index("t0")
    assert (len(ids), ids[-1]) == (4_096, f"t{own - 1}")
    assert delivery.left_out() == {"web-1": tuple(each.id for each in further[own:])}
    delivery.further = lambda agent: further[:5]
    delivery.send_again(home.house.roster.agents["web-1"])
    assert delivery.left_out() == {}
