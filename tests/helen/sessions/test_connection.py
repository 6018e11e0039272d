"""Tests one connection's deadlines and caps, each on both sides, under our own clock and a transport in memory."""

from __future__ import annotations

import pytest
from helen_parts import WALL, Notebook, Peer, Transport
from twisted.internet.task import Clock

from equus_protocol import messages as m
from helen.identity.authority import Identity, NotEnrolled
from helen.identity.tls import HANDSHAKE_SECONDS
from helen.sessions.connection import LITTLE, Hold
from helen.sessions.deadlines import (
    BLOB_FLOOR,
    BLOB_SECONDS,
    CLOSE_SECONDS,
    DEAD_SECONDS,
    HELLO_SECONDS,
    LINE_SECONDS,
    QUIET_SECONDS,
    REASSURE_SECONDS,
    Phase,
)
from helen.sessions.unsent_bytes import UNSENT_MOST, UNSENT_MUCH

MIB = 1_048_576


@pytest.fixture
def peer(notebook: Notebook, clock: Clock) -> Peer:
    """Return an agent in the clear, whose handshake is over when it connects."""
    return Peer(notebook, clock)


@pytest.fixture
def admitted(peer: Peer) -> Peer:
    peer.hello()
    peer.conversation.speaks_v2 = True  # as if a schedule had come already
    peer.house.turn()
    peer.house.events.clear()
    return peer


def slugs(peer: Peer) -> list[str]:
    return [message.message for message in peer.hear() if isinstance(message, m.Error)]


# ---------------------------------------------------------------------------------------------- handshake and hello


@pytest.mark.adversary(45)
@pytest.mark.parametrize(("seconds", "ended"), [(HANDSHAKE_SECONDS - 0.5, None), (HANDSHAKE_SECONDS, "aborted")])
def test_the_handshake(notebook: Notebook, clock: Clock, seconds: float, ended: str | None) -> None:
    """A handshake has 10 s, then it is cut without a word: there is nobody to talk to yet."""
    peer = Peer(notebook, clock, encrypted=True)
    peer.pass_time(seconds)
    assert (peer.transport.ended, peer.transport.value()) == (ended, b"")


@pytest.mark.adversary(45)
@pytest.mark.parametrize(("seconds", "slug"), [(HELLO_SECONDS - 0.5, []), (HELLO_SECONDS, ["hello-timeout"])])
def test_hello(peer: Peer, seconds: float, slug: list[str]) -> None:
    """A `hello` has 10 s for the whole line, however busy its bytes."""
    for _ in range(round(seconds / 0.5)):
        peer.raw(b"h")
        peer.pass_time(0.5)
    assert slugs(peer) == slug


@pytest.mark.parametrize(
    ("is_in_turns", "size", "at_once"), [(True, LITTLE, True), (True, LITTLE + 1, False), (False, 10, False)]
)
def test_a_little_is_handled_though_the_turn_is_over(
    notebook: Notebook, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_in_turns: bool, size: int, at_once: bool
) -> None:
    """A short message is handled at once if the transport serves some connections in a turn. A ping waited for another
    one, and for all before it.
    """
    monkeypatch.setattr(Transport, "is_in_turns", is_in_turns, raising=False)
    peer = Peer(notebook, clock).hello()
    peer.conversation.speaks_v2 = True
    peer.house.turn()
    monkeypatch.setattr(notebook, "has_time", lambda: False)
    peer.raw(b"ping 1\n".ljust(size, b"p"))
    assert ((notebook.late == []), m.Pong(1) in peer.hear()) == (at_once, at_once)


def test_hello_is_told_to_the_house(peer: Peer) -> None:
    """The owner is told the name of a `hello` without certificates."""
    peer.hello()
    assert peer.house.events == ["arrived", m.Hello(2, "0.1.0;name=web-1")]
    assert (peer.connection.name, peer.connection.admitted) == ("web-1", True)


@pytest.mark.parametrize("name", ["Web", "a/b", "..", "x" * 64])
def test_a_name_that_no_agent_may_have(notebook: Notebook, clock: Clock, name: str) -> None:
    """A bad name is refused without TLS, too, as nobody vouches for it there and it becomes a path and a pattern
    elsewhere.
    """
    assert slugs(Peer(notebook, clock, name).hello()) == ["not-enrolled"]


def test_a_stranger_without_a_name(notebook: Notebook, clock: Clock) -> None:
    """Somebody else's agent, in the clear: it is called by its address."""
    peer = Peer(notebook, clock)
    peer.say(m.Hello(1, "other/1"))
    assert peer.connection.name == "plain-192.168.1.1"


@pytest.mark.adversary(19)
def test_a_certificate_is_looked_at_again_at_hello(notebook: Notebook, clock: Clock) -> None:
    """A certificate may have been revoked since the handshake, so it is looked at again."""
    peer = Peer(notebook, clock, encrypted=True)
    peer.connection._enter(Phase.HELLO, 0.0)
    notebook.identity = NotEnrolled("revoked")
    peer.hello()
    assert (slugs(peer), peer.transport.ended) == (["not-enrolled"], "lost")


# ---------------------------------------------------------------------------------------------- lines and blobs


@pytest.mark.adversary(17)
@pytest.mark.parametrize(("seconds", "slug"), [(LINE_SECONDS - 0.5, []), (LINE_SECONDS, ["idle-timeout"])])
def test_a_line(admitted: Peer, seconds: float, slug: list[str]) -> None:
    """A line has 30 s from its first byte, however steadily it drips."""
    admitted.raw(b"p")
    for _ in range(round(seconds / 0.5)):
        admitted.raw(b"x")
        admitted.pass_time(0.5)
    assert slugs(admitted) == slug


@pytest.mark.adversary(17)
@pytest.mark.parametrize(
    ("rate", "slug"), [(BLOB_FLOOR * 1.01, []), (BLOB_FLOOR * 0.98, ["idle-timeout"]), (0, ["idle-timeout"])]
)
def test_a_blob(admitted: Peer, rate: float, slug: list[str]) -> None:
    """A blob has 60 s, and longer if it comes at 16 KiB/s or more."""
    admitted.raw(f"report s 1 cpu {MIB}\n".encode())
    for _ in range(round(BLOB_SECONDS * 2) + 1):
        admitted.pass_time(0.5)
        admitted.raw(b"x" * int(rate / 2))
    assert slugs(admitted) == slug


def test_a_blob_that_takes_less_than_its_time(admitted: Peer) -> None:
    """Within 60 s nobody asks how fast it comes."""
    admitted.raw(b"report s 1 cpu 5\nab")
    admitted.pass_time(BLOB_SECONDS - 0.5)
    admitted.raw(b"cde\n")
    assert admitted.house.events == [m.Report("s", 1, "cpu", b"abcde")]


def test_the_time_in_which_we_are_deaf_is_not_the_peers(admitted: Peer) -> None:
    """Neither a line's deadline nor a heartbeat's runs while a connection is held."""
    admitted.raw(b"pi")
    admitted.pass_time(LINE_SECONDS - 1.0)
    admitted.connection.hold(Hold.JOURNAL)
    admitted.pass_time(500.0)
    admitted.connection.go_on(Hold.JOURNAL)
    admitted.pass_time(0.5)
    admitted.raw(b"ng 5\n")
    assert [type(message) for message in admitted.hear() if not isinstance(message, m.Ping)] == [m.Pong]
    assert admitted.transport.ended is None


# ---------------------------------------------------------------------------------------------- heartbeat


@pytest.mark.adversary(48)
def test_the_heartbeat(admitted: Peer) -> None:
    """The connection sends a ping after 20 s without a byte, and ends 10 s after that."""
    admitted.pass_time(QUIET_SECONDS - 0.5)
    assert admitted.hear() == []
    admitted.pass_time(0.5)
    assert admitted.hear() == [m.Ping(1)]
    admitted.pass_time(DEAD_SECONDS - 0.5)
    assert admitted.transport.ended is None
    admitted.pass_time(0.5)
    assert admitted.transport.ended == "aborted"


def test_any_byte_is_a_sign_of_life(admitted: Peer) -> None:
    """A pong isn't demanded."""
    admitted.pass_time(QUIET_SECONDS)
    admitted.hear()
    admitted.pass_time(DEAD_SECONDS - 0.5)
    admitted.raw(b"p")
    admitted.pass_time(QUIET_SECONDS - 0.5)
    assert (admitted.hear(), admitted.transport.ended) == ([], None)
    admitted.pass_time(0.5)
    assert admitted.hear() == [m.Ping(2)]


def test_version_1_is_left_alone(notebook: Notebook, clock: Clock) -> None:
    """A peer of version 1 gets no ping, as it has no word for it."""
    peer = Peer(notebook, clock, version=1).hello()
    peer.house.turn()
    peer.pass_time(3_600.0, step=10.0)
    assert (peer.hear(), peer.transport.ended) == ([], None)


def test_pings_are_answered(admitted: Peer) -> None:
    """Pings are answered in the same turn, each with its number, as one write."""
    admitted.say(m.Ping(7), m.Ping(8))
    assert admitted.hear() == [m.Pong(7), m.Pong(8)]


# ---------------------------------------------------------------------------------------------- held


def test_held_for_several_reasons(admitted: Peer) -> None:
    """Each reason is let go by itself; only then is anything heard, and in order."""
    admitted.connection.hold(Hold.JOURNAL)
    admitted.connection.hold(Hold.ENROLMENT)
    assert admitted.transport.is_paused
    admitted.say(m.Ping(1))
    admitted.connection.go_on(Hold.JOURNAL)
    admitted.connection.go_on(Hold.JOURNAL)
    assert (admitted.hear(), admitted.transport.is_paused) == ([], True)
    admitted.connection.go_on(Hold.ENROLMENT)
    assert (admitted.hear(), admitted.transport.is_paused) == ([m.Pong(1)], False)


def test_nothing_is_heard_before_the_roster_has_decided(notebook: Notebook, clock: Clock) -> None:
    """Messages in one chunk with `hello` wait for the roster's decision."""
    notebook.on_hello = lambda connection: None
    peer = Peer(notebook, clock, version=1)
    peer.raw(b"hello 1 x;name=web-1\nresult 1 x 0\n\n")
    peer.pass_time(60.0)
    assert (notebook.events[-1], slugs(peer)) == (m.Hello(1, "x;name=web-1"), [])
    peer.connection.admit()
    notebook.turn()
    assert slugs(peer) == ["unknown-message-id"]


def test_hello_after_a_slow_enrolment(peer: Peer) -> None:
    """The certificate took a minute to make: the agent's own 10 s are still its own."""
    peer.say(m.Enrol(1, "web-1", b"{}"))
    peer.connection.hold(Hold.ENROLMENT)
    peer.pass_time(60.0)
    peer.connection.go_on(Hold.ENROLMENT)
    peer.pass_time(HELLO_SECONDS - 1.0)
    assert slugs(peer) == []
    peer.pass_time(1.0)
    assert slugs(peer) == ["hello-timeout"]


def test_a_held_agent_hears_that_we_live(admitted: Peer) -> None:
    """A held agent is sent pings, as its own are not read and it would drop the link after 30 s otherwise."""
    admitted.connection.hold(Hold.JOURNAL)
    admitted.pass_time(REASSURE_SECONDS - 0.5)
    assert admitted.hear() == []
    admitted.pass_time(0.5)
    assert admitted.hear() == [m.Ping(1)]
    admitted.pass_time(REASSURE_SECONDS)
    assert admitted.hear() == [m.Ping(2)]


def test_a_refusal_while_held(admitted: Peer) -> None:
    """A refusal leaves although the connection is held, and the peer has its 3 s to hang up."""
    admitted.connection.hold(Hold.JOURNAL)
    admitted.connection.refuse("not-enrolled", "revoked")
    assert slugs(admitted) == ["not-enrolled"]
    admitted.pass_time(CLOSE_SECONDS)
    assert admitted.transport.ended == "aborted"


# ---------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(("seconds", "ended"), [(CLOSE_SECONDS - 0.5, "lost"), (CLOSE_SECONDS, "aborted")])
def test_a_peer_that_does_not_hang_up(admitted: Peer, seconds: float, ended: str) -> None:
    """A peer that does not hang up is cut 3 s after our last line."""
    admitted.connection.refuse("overloaded")
    admitted.pass_time(seconds)
    assert (slugs(admitted), admitted.transport.ended) == (["overloaded"], ended)


def test_only_one_last_word(admitted: Peer) -> None:
    """After a last word nothing is said or heard."""
    admitted.connection.refuse("overloaded")
    admitted.connection.refuse("internal")
    admitted.connection.send(m.Ping(1))
    admitted.raw(b"nonsense\n")
    admitted.house.turn()
    assert (slugs(admitted), admitted.house.events) == (["overloaded"], [])


def test_what_was_said_before_the_last_word_leaves_first(admitted: Peer) -> None:
    """Earlier words leave in one write with the last one."""
    admitted.connection.send(m.Ack("s", 5))
    admitted.connection.refuse("shutting-down;retry-after=1")
    assert admitted.hear() == [m.Ack("s", 5), m.Error("shutting-down;retry-after=1")]


@pytest.mark.adversary(23)
def test_a_certificate_that_expires_while_it_is_connected(notebook: Notebook, clock: Clock) -> None:
    """TLS looks at it once; we go on looking, even while it is held."""
    notebook.identity = Identity("web-1", "k", WALL + 100.0)
    peer = Peer(notebook, clock, encrypted=True)
    peer.connection._enter(Phase.HELLO, 0.0)
    peer.hello()
    peer.connection.hold(Hold.JOURNAL)
    peer.pass_time(99.5)
    peer.hear()
    assert peer.transport.ended is None
    peer.pass_time(0.5)
    assert slugs(peer) == ["not-enrolled"]


def test_a_fault_of_ours_ends_this_connection_alone(admitted: Peer) -> None:
    """A fault of ours ends this connection with `internal`; the owner has the traceback."""

    def break_down(connection: object, message: object) -> None:
        raise KeyError("ours")

    admitted.house.on_heard = break_down
    admitted.say(m.Report("s", 1, "cpu", b"{}"))
    assert (slugs(admitted), admitted.transport.ended) == (["internal"], "lost")
    assert admitted.house.events[-1] is KeyError


def test_it_goes(admitted: Peer) -> None:
    """The house hears of it once; what was to be said is let go."""
    admitted.connection.send(m.Ping(1))
    admitted.hang_up()
    admitted.house.turn()
    assert (admitted.house.events, admitted.hear()) == (["lost", "gone"], [])


# ---------------------------------------------------------------------------------------------- turns and joined writes


def test_one_write_a_turn(admitted: Peer) -> None:
    """Messages that are sent outside of a turn of their own leave together."""
    for n in range(1, 4):
        admitted.connection.send(m.Ack("s", n))
    assert admitted.hear() == []
    admitted.house.turn()
    assert admitted.hear() == [m.Ack("s", 1), m.Ack("s", 2), m.Ack("s", 3)]


@pytest.mark.adversary(16)
@pytest.mark.parametrize(("number", "more"), [(256, False), (257, True)])
def test_256_messages_a_turn(admitted: Peer, number: int, more: bool) -> None:
    """The messages beyond wait for the next turn, and nothing is read meanwhile."""
    admitted.say(*(m.Report("s", n, "cpu", b"") for n in range(1, number + 1)))
    assert len(admitted.house.events) == 256
    assert admitted.transport.is_paused == (number >= 256)
    admitted.house.turn()
    assert (len(admitted.house.events), admitted.transport.is_paused) == (number, False)


def test_64_outstanding(admitted: Peer) -> None:
    """A 65th outstanding check is an error of ours, and sends no bytes."""
    for _ in range(64):
        admitted.connection.send(m.Check("cpu", admitted.connection.next_id(), b""))
    with pytest.raises(Exception, match="64 checks are outstanding already"):
        admitted.connection.send(m.Check("cpu", admitted.connection.next_id(), b""))
    admitted.house.turn()
    assert len(admitted.hear()) == 64


@pytest.mark.adversary(10, 11)
def test_ids_that_are_not_outstanding(admitted: Peer) -> None:
    """New ids go round, and pass over those that are outstanding."""
    admitted.connection._next_id = 2**31 - 2
    assert admitted.connection.next_id() == 2**31 - 1
    admitted.connection.conversation.outstanding[1] = "cpu"
    assert admitted.connection.next_id() == 2


# ---------------------------------------------------------------------------------------------- one that doesn't read


@pytest.mark.adversary(46)
@pytest.mark.parametrize(("beyond", "ended"), [(0, None), (1, "aborted")])
def test_4_mib_for_one_that_does_not_read(admitted: Peer, beyond: int, ended: str | None) -> None:
    """All that waits counts, from its first byte; one byte more and it is cut."""
    admitted.transport.stuck = True
    head = len(b"check cpu 1 1000000\n") + 1
    for n in range(1, 5):
        admitted.connection.send(m.Check("cpu", n, b"x" * 1_000_000))
        admitted.house.turn()
    rest = UNSENT_MOST - 4 * (1_000_000 + head) - len("check cpu 5 194200\n") - 1
    admitted.connection.send(m.Check("cpu", 5, b"x" * (rest + beyond)))
    admitted.house.turn()
    assert admitted.transport.ended == ended


@pytest.mark.adversary(46)
def test_a_slow_reader_that_never_catches_up_whole(admitted: Peer) -> None:
    """The bytes that wait count, not those written since the transport was empty last."""

    class Slow:
        """Keeps 100 KB that wait at any time, as Twisted's own transports keep them."""

        dataBuffer, offset, _tempDataLen = b"x" * 100_000, 0, 0

    admitted.transport.transport = Slow()
    admitted.connection.pauseProducing()
    for n in range(1, 31):
        admitted.connection.send(m.Schedule(n, b"x" * 1_000_000))
        admitted.house.turn()
    assert admitted.transport.ended is None
    Slow.dataBuffer = b"x" * UNSENT_MOST
    for n in range(31, 40):
        admitted.connection.send(m.Schedule(n, b"x" * 1_000_000))
        admitted.house.turn()
    assert admitted.transport.ended == "aborted"


def test_a_reader_that_catches_up_starts_anew(admitted: Peer) -> None:
    """Once the transport is empty nothing waits; the house hears of it."""
    admitted.transport.stuck = True
    for n in range(1, 20):
        admitted.connection.send(m.Schedule(n, b"x" * 1_000_000))
        admitted.house.turn()
        assert admitted.connection.congested
        admitted.transport.drain()
    assert (admitted.transport.ended, admitted.house.events) == (None, ["drained"] * 19)


def test_congested_by_what_is_still_to_be_written(admitted: Peer) -> None:
    """Bytes that are still to be written count, since an agent may ask for 64 files of a megabyte in one turn."""
    admitted.connection.send(m.Schedule(1, b"x" * (UNSENT_MUCH - 100)))
    assert not admitted.connection.congested
    admitted.connection.send(m.Schedule(2, b"x" * 100))
    assert admitted.connection.congested
    admitted.house.turn()
    assert not admitted.connection.congested


def test_a_refusal_while_it_does_not_read(admitted: Peer) -> None:
    """A refusal is queued behind the rest; after 3 s the connection is cut."""
    admitted.transport.stuck = True
    admitted.connection.send(m.Schedule(1, b"x" * 1_000_000))
    admitted.house.turn()
    admitted.connection.refuse("not-enrolled")
    assert (admitted.transport.ended, slugs(admitted)) == ("lost", ["not-enrolled"])
    admitted.pass_time(CLOSE_SECONDS - 0.5)
    assert admitted.transport.ended == "lost"
    admitted.pass_time(0.5)
    assert admitted.transport.ended == "aborted"


def test_a_refusal_that_is_too_much(admitted: Peer) -> None:
    """Nothing is done to a transport that was cut while the last word was written."""
    admitted.transport.stuck = True
    for n in range(1, 6):
        admitted.connection.send(m.Schedule(n, b"x" * 1_000_000))
        if n == 4:
            admitted.house.turn()
    admitted.connection.refuse("not-enrolled")
    assert admitted.transport.ended == "aborted"


# ---------------------------------------------------------------------------------------------- single records

REPORT = b"report s %d disk 2\n{}\n"


def test_a_record_that_is_one_report(admitted: Peer) -> None:
    """A record with one report is handled at once, its ack leaves in one write, and its bytes count as a
    sign of life.
    """
    admitted.raw(REPORT % 1)  # its words are known from here on
    admitted.house.on_heard = lambda connection, report: connection.acknowledge(report.spool, report.sequence)
    admitted.pass_time(QUIET_SECONDS - 1.0)
    admitted.connection.recordReceived(REPORT % 2)
    assert (admitted.house.events[-1], admitted.hear()) == (m.Report("s", 2, "disk", b"{}"), [m.Ack("s", 2)])
    admitted.pass_time(QUIET_SECONDS - 1.0)
    assert admitted.hear() == []  # no ping


@pytest.mark.parametrize("first", [b"", b"report s 2 di", REPORT % 2 + b"repo", b"ping 1\n"])
def test_records_as_any_bytes(admitted: Peer, first: bytes) -> None:
    """The messages are those of the stream, whatever is unread before a record, or if one has several."""
    admitted.raw(REPORT % 1)
    admitted.house.events.clear()
    stream = first + (REPORT % 2 + REPORT % 3)[len(first.replace(b"ping 1\n", b"")) :]
    admitted.connection.recordReceived(stream[: len(first)])
    admitted.connection.recordReceived(stream[len(first) :])
    assert admitted.house.events == [m.Report("s", 2, "disk", b"{}"), m.Report("s", 3, "disk", b"{}")]


@pytest.mark.parametrize("why", ["held", "busy", "contested", "closing"])
def test_a_record_at_another_time(admitted: Peer, why: str) -> None:
    """A record waits where bytes would, is heard by the roster while a name is in dispute, or comes too late."""
    admitted.raw(REPORT % 1)
    admitted.house.events.clear()
    connection, heard = admitted.connection, []
    admitted.house.heard_from = heard.append
    if why == "held":
        connection.hold(Hold.JOURNAL)
    elif why == "busy":
        connection._busy_until = admitted.clock.seconds() + 1.0
    elif why == "contested":
        admitted.house.contested = ("web-1",)
    else:
        connection.refuse("shutting-down")
    connection.recordReceived(REPORT % 2)
    at_once = list(admitted.house.events)
    if why == "held":
        connection.go_on(Hold.JOURNAL)
    admitted.house.turn()
    told = [m.Report("s", 2, "disk", b"{}")]
    assert at_once == (told if why == "contested" else [])
    assert admitted.house.events == ([] if why == "closing" else told)
    assert heard == ([] if why == "closing" else [connection])


def test_a_fault_of_ours_in_a_record(admitted: Peer) -> None:
    """A fault of ours ends this connection, with a last word."""
    admitted.raw(REPORT % 1)
    admitted.house.on_heard = lambda connection, message: 1 // 0
    admitted.connection.recordReceived(REPORT % 2)
    assert (admitted.house.events[-1], slugs(admitted)) == (ZeroDivisionError, ["internal"])
