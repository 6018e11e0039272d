"""Notices that this broker stood still, and that its wall clock was set, so that no peer is judged for either. Pure.

A process that is stopped, suspended or overloaded hears nothing, while its peers go on sending: their messages wait in
its sockets. So an event that comes more than one interval after a timer was due moves every deadline of silence by the
time that was lost, and leaves each at least one more interval, in which what waits is read. Heartbeats that waited are
old, and say nothing about the clock of their sender.
"""

from __future__ import annotations

from scale0.broker.context import LIVENESS, Context
from scale0.broker.requests.routing import Routing
from scale0.broker.sessions import Sessions

LEAST_STEP = 1.0  # seconds between wall and monotonic clock from which on the wall clock counts as set


class Stalls:
    """Takes the time of each event, before anything else looks at it."""

    def __init__(self, context: Context, sessions: Sessions, routing: Routing) -> None:
        self._c, self._sessions, self._routing = context, sessions, routing
        self._has_begun = False

    def at(self, now: float, wall: float) -> None:
        """Make this the time of the present event, `now` in monotonic and `wall` in unix seconds."""
        c = self._c
        before, wall_before, c.now, c.wall = c.now, c.wall, now, wall
        c.late = 0.0
        if not self._has_begun:
            self._has_begun = True
            return
        due = c.timers.next() if now > before else None
        if due is not None:
            c.late = max(0.0, now - max(due, before))
        step = (wall - wall_before) - (now - before)
        if abs(step) >= LEAST_STEP:
            self._was_set(step)
        if c.late > c.config.default_heartbeat_interval:
            self._woke_up(c.late)

    def _woke_up(self, slept: float) -> None:
        """Move deadlines of silence by `slept` seconds."""
        c = self._c
        c.counts["stalls"] += 1
        c.log("warn", f"this broker stood still for {slept:.1f} s; no peer is judged for that time")
        for session in self._sessions.all.values():
            least = c.now - (LIVENESS - 1) * session.interval
            session.last_received = min(c.now, max(session.last_received + slept, least))
        self._routing.ends.slept(slept)
        c.aged(slept)

    def _was_set(self, step: float) -> None:
        """Take note of a step of the wall clock by `step` seconds; a suspended machine looks like a step ahead."""
        c = self._c
        for session in self._sessions.all.values():
            if session.is_timed:
                session.skew -= step
        self._sessions.clocks.stepped(step)
        if step > 0:
            c.aged(step)
