"""Test when a silent Helen is pinged and dropped, and that an agent that slept does not count the silence."""

import pytest

from equus.link.silence import DROP_AFTER, PING_AFTER, SWITCH_DROP_AFTER, SWITCH_PING_AFTER
from equus_protocol import messages as m

EMPTY = m.Schedule(1, b"[]")


@pytest.mark.adversary(48)
def test_a_silent_helen_of_version_2_is_pinged_and_dropped(meet, ear):
    """A silent Helen of version 2 is pinged after 20 s, and dropped 10 s later."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    helen.clock.advance(PING_AFTER - 0.1)
    assert helen.hear() == []
    helen.clock.advance(0.1)
    assert helen.hear() == [m.Ping(1)]
    helen.clock.advance(DROP_AFTER - 0.1)
    assert helen.transport.ended is None
    helen.clock.advance(0.1)
    assert helen.transport.ended == "aborted"


@pytest.mark.adversary(57)
@pytest.mark.parametrize("slept", [12.0, 31.0, 75.0, 40_000.0])
@pytest.mark.parametrize("was_pinged", [False, True])
def test_an_agent_that_slept_pings_before_it_drops(meet, ear, slept, was_pinged):
    """An agent that slept pings before it drops the connection, and leaves Helen its full time for an answer (F86)."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    helen.clock.advance(PING_AFTER if was_pinged else PING_AFTER - 5.0)
    helen.hear()
    helen.clock.advance(slept)
    assert helen.transport.ended is None
    assert [type(each) for each in helen.hear()] == [m.Ping]
    helen.clock.advance(DROP_AFTER - 0.1)
    assert helen.transport.ended is None
    helen.clock.advance(0.1)
    assert helen.transport.ended == "aborted"


@pytest.mark.parametrize("slept", [9.0, 75.0])
def test_an_agent_that_slept_does_not_switch_before_it_has_pinged(meet, ear, slept):
    """An agent that slept pings before it switches to another Helen, while an answer is due (F86)."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    helen.can_switch = True
    helen.equus.await_answer(True)
    helen.clock.advance(SWITCH_PING_AFTER)
    helen.hear()
    helen.clock.advance(slept)
    assert helen.transport.ended is None
    assert m.Ping in [type(each) for each in helen.hear()]
    helen.clock.advance(SWITCH_DROP_AFTER)
    assert helen.transport.ended == "aborted"


def test_with_another_helen_to_go_to_silence_is_not_borne_for_long(meet, ear):
    """With another Helen in reach, one that owes an answer is pinged after 4 s of silence and dropped 4 s later."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    helen.can_switch = True
    helen.clock.advance(PING_AFTER - 1)
    assert helen.hear() == []  # nothing awaits an answer
    assert helen.say(m.Ping(1)) == [m.Pong(1)]
    helen.equus.await_answer(True)
    helen.clock.advance(SWITCH_PING_AFTER)
    assert helen.hear() == [m.Ping(1)]
    helen.say(m.Pong(1))
    helen.clock.advance(SWITCH_PING_AFTER)
    helen.clock.advance(SWITCH_DROP_AFTER - 0.1)
    assert helen.transport.ended is None
    helen.clock.advance(0.2)
    assert helen.transport.ended == "aborted"


@pytest.mark.parametrize(("has_choice", "is_answered"), [(False, False), (True, True)])
def test_otherwise_it_is(meet, ear, has_choice, is_answered):
    """Without another Helen, or after the answer, the usual times for silence count."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    helen.can_switch = has_choice
    helen.equus.await_answer(True)
    if is_answered:
        helen.equus.await_answer(False)
    helen.clock.advance(SWITCH_PING_AFTER)
    helen.clock.advance(SWITCH_DROP_AFTER)
    assert (helen.transport.ended, [each for each in helen.hear() if isinstance(each, m.Ping)]) == (None, [])


def test_any_byte_is_a_sign_of_life(meet, ear):
    """Any byte ends the silence, be it a pong or half a line."""
    helen = meet(ear)
    helen.hear()
    helen.say(EMPTY)
    for _ in range(5):
        helen.clock.advance(PING_AFTER)
        helen.hear()
        helen.clock.advance(DROP_AFTER / 2)
        helen.say(m.Pong(1))
    helen.clock.advance(PING_AFTER)
    helen.say_bytes(b"re")
    helen.clock.advance(DROP_AFTER)
    assert helen.transport.ended is None
