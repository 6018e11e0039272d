"""Timers by name: one of each, none after the end, and what happens if one fires late."""

from twisted.internet.task import Clock

from equus.link.named_timers import NamedTimers
from groundwork.awake_clock import LATE_SECONDS


def timers_and(events):
    """Return a clock, and timers on it that note an oversleep in `events`."""
    clock = Clock()
    return clock, NamedTimers(clock, lambda: events.append("overslept"))


def test_one_of_each_name():
    """A second timer of the same name is not set; after the first has fired, another is."""
    events = []
    clock, timers = timers_and(events)
    timers.later("a", 1.0, lambda: events.append("first"))
    timers.later("a", 0.5, lambda: events.append("second"))
    clock.advance(1.0)
    timers.later("a", 1.0, lambda: events.append("third"))
    clock.advance(1.0)
    assert events == ["first", "third"]


def test_cancelled_ones_do_not_fire():
    """Timers are cancelled by name, and all together; a name without a timer is no fault."""
    events = []
    clock, timers = timers_and(events)
    for name in "abc":
        timers.later(name, 1.0, lambda: events.append("fired"))
    timers.cancel("a")
    timers.cancel("none")
    timers.cancel_all()
    assert (clock.getDelayedCalls(), events) == ([], [])


def test_a_late_one():
    """A late timer is announced before it fires; a patient one begins anew instead."""
    events = []
    clock, timers = timers_and(events)
    timers.later("a", 1.0, lambda: events.append("fired"))
    timers.later("b", 1.0, lambda: events.append("patient"), is_patient=True)
    clock.advance(1.0 + LATE_SECONDS)
    assert events == ["overslept", "fired", "overslept"]
    clock.advance(1.0)
    assert events[3:] == ["patient"]
