"""Tests words of one turn: they are joined, kept while nobody reads, and bounded."""

from equus.link.joined_writes import MAX_UNSENT, JoinedWrites


def test_one_write_for_all_that_was_added():
    """One write sends all bytes that were added, and leaves a size of 0."""
    written, timers = [], []
    out = JoinedWrites(lambda name, seconds, call: timers.append((name, seconds)), print, written.append)
    assert out.add(b"ping 1\n") and out.add(b"pong 2\n")
    assert (out.size, timers) == (14, [("flush", 0), ("flush", 0)])
    out.flush()
    out.flush()
    assert (written, out.size) == ([b"ping 1\npong 2\n"], 0)


def test_nothing_is_planned_while_helen_does_not_read():
    """A pause cancels the planned write, and after `resume` the next flush sends all bytes."""
    written, timers, cancelled = [], [], []
    out = JoinedWrites(lambda *given: timers.append(given), cancelled.append, written.append)
    out.pause()
    assert out.add(b"a") and not out.is_writable
    out.resume()
    out.flush()
    assert (timers, cancelled, written, out.is_writable) == ([], ["flush"], [b"a"], True)


def test_the_bound():
    """At most MAX_UNSENT bytes may wait, and `clear` drops them."""
    out = JoinedWrites(print, print, print)
    out.is_writable = False
    assert out.add(b"x" * MAX_UNSENT)
    assert not out.add(b"x")
    out.clear()
    assert out.size == 0
