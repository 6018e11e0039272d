"""Test one connection: the greeting, the heartbeat, joined writes, fairness, and each way in which it ends."""

import pytest
from twisted.internet.testing import StringTransport

from equus.link.connection import (
    ACCEPTED_AFTER,
    CLOSE_WITHIN,
    HANDSHAKE_WITHIN,
    MAX_ARGS,
    MESSAGES_PER_TURN,
    Connection,
)
from equus.link.joined_writes import MAX_UNSENT
from equus_protocol import messages as m

EMPTY = m.Schedule(1, b"[]")
MEBIBYTE = 1_048_576


def test_hello_is_said_first_and_nothing_else(meet, ear):
    """The agent says hello first and nothing else, and accepts a silent Helen after a second."""
    helen = meet(ear)
    assert helen.hear() == [m.Hello(2, "0.1")]
    helen.clock.advance(ACCEPTED_AFTER)
    assert ear.events == ["accepted"]
    helen.clock.pump([1.0] * 60)
    assert helen.hear() == []
    assert helen.transport.ended is None


def test_the_first_message_accepts(meet, ear):
    """Any first message of Helen other than an error accepts hello."""
    helen = meet(ear)
    helen.hear()
    check = m.Check("load", 1, b"")
    helen.say(check)
    assert ear.events == ["accepted", check]


def test_an_error_is_no_acceptance(meet, ear):
    """An error in answer to hello accepts nothing, is kept for the log and the route, and closes the connection."""
    helen = meet(ear)
    helen.hear()
    helen.say_bytes(b"error overloaded;retry-after=4\n")
    assert (helen.equus.error, ear.events, helen.transport.ended) == ("overloaded;retry-after=4", [], "lost")


def test_a_ping_is_answered_under_its_id(meet, ear):
    """A ping is answered under its id, and the listener does not hear it."""
    helen = meet(ear)
    helen.hear()
    assert helen.say(EMPTY, m.Ping(0), m.Ping(2**31 - 1)) == [m.Pong(0), m.Pong(2**31 - 1)]
    assert ear.events == ["accepted", EMPTY]


def test_what_is_said_in_one_turn_is_one_write(meet, ear):
    """Messages of one turn are one write, because many small TLS writes cost several times the CPU."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    writes = []
    helen.transport.write = writes.append
    for message_id in range(1, 4):
        helen.equus.send(m.Pong(message_id))
    helen.clock.advance(0)
    assert writes == [b"pong 1\npong 2\npong 3\n"]


def test_a_flood_of_messages_has_turns(meet, ear):
    """A flood of messages is handled in turns of 256, between which the reactor serves others, and none is lost."""
    helen = meet(ear)
    helen.hear()
    turns = []
    pause = helen.transport.pauseProducing
    helen.transport.pauseProducing = lambda: (turns.append(len(ear.events)), pause())
    helen.say_bytes(b"reload\n" * (2 * MESSAGES_PER_TURN + 10))
    assert turns == [1 + MESSAGES_PER_TURN]
    helen.clock.advance(0)
    assert turns == [1 + MESSAGES_PER_TURN, 1 + 2 * MESSAGES_PER_TURN]
    assert len(ear.events) == 1 + 2 * MESSAGES_PER_TURN + 10
    assert helen.transport.producerState == "producing"


@pytest.mark.parametrize(
    "wrong",
    [b"frobnicate\n", b"hello 1 kit\n", b"\n", b"check load +1 0\n\n", b"check load 1 1048577\n", b"n" * 1024],
)
def test_what_is_illegal_ends_it_without_a_word(meet, ear, wrong):
    """An illegal line ends the connection and nothing more is written; the line before it is heard, the one behind it
    is not.
    """
    helen = meet(ear)
    helen.hear()
    helen.say_bytes(b"check load 7 0\n\n" + wrong + b"reload\n")
    helen.equus.send(m.Result(7, "load", b"{}"))
    helen.clock.advance(1)
    assert ear.events == ["accepted", m.Check("load", 7, b"")]
    assert helen.transport.value() == b""
    assert helen.transport.ended == "lost"
    assert helen.equus.violation


def test_args_of_unanswered_checks_are_bounded(meet, ear):
    """Arguments of unanswered checks have at most 64 MiB together, and an answer makes room."""
    helen = meet(ear, version=1)
    helen.hear()
    args = b"x" * MEBIBYTE
    for message_id in range(MAX_ARGS // MEBIBYTE):
        helen.say_bytes(b"check load %d %d\n%b\n" % (message_id, len(args), args))
    helen.equus.send(m.Result(0, "load", b"{}"))
    helen.say_bytes(b"check load 500 %d\n%b\n" % (len(args), args))
    assert helen.transport.ended is None
    helen.say_bytes(b"check load 501 1\nx\n")
    assert (helen.transport.ended, helen.equus.violation.partition(":")[0]) == ("lost", "too-many-outstanding")


def test_a_helen_that_does_not_read_is_dropped_at_last(meet, ear):
    """A Helen that does not read is dropped once more than MAX_UNSENT bytes wait for it; before that they are kept."""
    helen = meet(ear, version=1)
    helen.hear()
    for message_id in range(70):
        helen.say_bytes(b"check load %d 0\n\n" % message_id)
    helen.equus.pauseProducing()
    result = b"r" * (MEBIBYTE - 100)
    for message_id in range(MAX_UNSENT // MEBIBYTE):
        helen.equus.send(m.Result(message_id, "load", result))
    helen.clock.advance(0)
    assert (helen.transport.value(), helen.transport.ended) == (b"", None)
    helen.equus.send(m.Result(65, "load", result))
    assert helen.transport.ended == "aborted"


def test_what_waited_leaves_when_helen_reads_again(meet, ear):
    """Data that waited leaves when Helen reads again, and the listener is told that it may send on."""
    helen = meet(ear, version=1)
    helen.hear()
    helen.say(m.Check("load", 1, b""))
    helen.equus.pauseProducing()
    helen.equus.send(m.Result(1, "load", b"{}"))
    assert helen.hear() == []
    helen.equus.resumeProducing()
    assert helen.hear() == [m.Result(1, "load", b"{}")]
    assert ear.events[-1] == "writable"


def test_closing_flushes_and_is_cut_off_if_nobody_answers(meet, ear):
    """Closing sends the rest and calls loseConnection, and calls abortConnection two seconds later if the connection
    still stands.
    """
    helen = meet(ear, version=1)
    helen.hear()
    helen.say(m.Check("load", 1, b""))
    helen.equus.send(m.Result(1, "load", b"{}"))
    helen.equus.close()
    assert (helen.transport.value(), helen.transport.ended) == (b"result 1 load 2\n{}\n", "lost")
    helen.clock.advance(CLOSE_WITHIN)
    assert helen.transport.ended == "aborted"


def test_no_timer_outlives_a_connection(meet, ear):
    """No timer is left after a connection, because a stopping agent would wait for it."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    helen.equus.close()
    helen.equus.connectionLost()
    assert helen.clock.getDelayedCalls() == []


def test_a_handshake_has_a_deadline(clock, ear):
    """The agent sends nothing before the TLS handshake is done, and aborts after ten seconds without it."""
    connection = Connection(ear, clock, lambda c: c.send(m.Hello(2, "0.1")), is_secure=True)
    transport = StringTransport()
    aborted = []
    transport.abortConnection = lambda: aborted.append(clock.seconds())
    connection.makeConnection(transport)
    clock.advance(HANDSHAKE_WITHIN)
    assert (transport.value(), aborted) == (b"", [HANDSHAKE_WITHIN])
