"""Steps downtimes and silences over the checks of a fleet: they begin, change, end and are cancelled. Pure.

downtimes.py tells when a window is on, and fleet_states.py which checks it covers.
"""

from __future__ import annotations

from collections.abc import Iterable

from helen.states.calm_results import CalmResults
from helen.states.downtimes import Window
from helen.states.fleet_states import PAUSE_KEYS, Events
from helen.states.inputs import Held, Released
from helen.states.model import Hold, Key


class FleetWindows(CalmResults):
    """Adds downtimes and silences to the states of a fleet. A None among the events is a pause."""

    def open_window(self, window: Window) -> Events:
        """Add a downtime or silence, or change one; a check that it covers before and after stays held back."""
        before = self.windows.get(window.id)
        if before is not None and before.kind != window.kind:
            yield from self._end_window(before, f"{before.kind} {window.id} has become a {window.kind}")
        self.windows[window.id] = window
        if window.id in self.active and self._on(window) is not None:
            yield from self._apply_window(window, self._all_keys())
        yield from self._update_window(window.id)

    def cancel(self, window_id: str, author: str) -> Events:
        """End a downtime or silence before its time."""
        window = self._remove_window(window_id)
        if window is not None:
            by = f" by {author}" if author else ""
            yield from self._end_window(window, f"{window.kind} {window_id} has been cancelled{by}")

    def _remove_window(self, window_id: str) -> Window | None:
        window = self.windows.pop(window_id, None)
        if window is not None:
            self.ended.append((window, self.clock))
        return window

    def _update_window(self, window_id: str) -> Events:
        """Begin or end a window as its times say, and plan its next edge. The edge planned before may come late."""
        window = self.windows.get(window_id)
        if window is None:
            return
        end = self._on(window)
        if end is not None and window_id not in self.active:
            self.active[window_id] = end
            yield from self._apply_window(window, self._all_keys())
        elif end is None and window_id in self.active:
            yield from self._end_window(window, f"{window.kind} {window_id} has ended")
        if not self._plan_edge(window):
            self._remove_window(window_id)

    def _apply_window(self, window: Window, keys: Iterable[Key]) -> Events:
        """Hold the checks in a window's scope, and release those that are not in it any more."""
        for at, key in enumerate(keys):
            if at % PAUSE_KEYS == 0:
                yield None
            state = self.states[key]
            held = any(hold.kind == window.kind and hold.ref == window.id for hold in state.holds)
            covered = self.covers(window, key)
            if covered and not held:
                yield from self._step(key, Held(self.clock, Hold(window.kind, window.id, window.sentence)))
            elif held and not covered:
                why = f"{window.kind} {window.id} covers it no more"
                yield from self._step(key, Released(self.clock, window.kind, window.id, why))

    def _end_window(self, window: Window, why: str) -> Events:
        if self.active.pop(window.id, None) is None:
            return
        for at, key in enumerate(self._all_keys()):
            if at % PAUSE_KEYS == 0:
                yield None
            if self.states[key].holds:
                yield from self._step(key, Released(self.clock, window.kind, window.id, why))
