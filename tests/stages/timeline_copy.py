"""Makes a copy of a timeline in one piece, where Helen makes it in steps."""

from __future__ import annotations

from helen.states.fleet_timeline import Timeline
from helen.states.timeline_snapshot import copy_steps


def copy_of(timeline: Timeline) -> Timeline:
    """Return what a thread saves."""
    copy = Timeline()
    for _ in copy_steps(timeline, copy):
        pass
    return copy
