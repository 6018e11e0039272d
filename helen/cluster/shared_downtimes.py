"""Shares downtimes and silences between all Helens: of each the newest version counts. Merged.

    {"windows": {ID: {"at": ms, "window": {...} or null once it was cancelled}}}

Each Helen writes them into its own journal, so that its own history says what held back an alert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from helen.states.downtimes import Window, WindowRefused, next_edge, read_window

KEPT_MS = 86_400_000 * 7  # that a window which is over or cancelled is still named: a Helen may be down for so long
MOST = 10_000  # as many as one Helen takes

Entry = dict[str, Any]
Entries = dict[str, Entry]


class WindowsPart:
    """Merges windows. `here()` returns those in force, `write(kind, document)` adds a change to the journal."""

    names = ("windows",)
    in_memory = False

    def __init__(
        self, here: Callable[[], Mapping[str, Window]], write: Callable[[str, dict[str, Any]], object],
        wall: Callable[[], float], changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._here, self._write, self._wall, self._changed = here, write, wall, changed
        self._known: Entries = {}  # the newest version of each, ours or others'
        self._is_first = True

    def noticed(self, kind: str, document: Mapping[str, Any]) -> None:
        """Take a change that is durable in our journal: an operator's, or one that came from the network."""
        id_ = document["id"]
        window = None
        if document.get("action") != "cancel":
            fields = {name: value for name, value in document.items() if name not in ("action", "agent")}
            try:
                window = read_window({"kind": kind, **fields}, self._wall()).to_json()
            except WindowRefused:
                return
        held = self._known.get(id_)
        if held is None or held["window"] != window:
            self._say(id_, window)
            self._changed()

    def _say(self, id_: str, window: Any) -> None:
        before = self._known.get(id_, {"at": 0})["at"]
        self._known[id_] = {"at": max(before + 1, int(1_000 * self._wall())), "window": window}

    def wanted(self, name: str, value: Any) -> Any:
        """Return all windows, if one of ours is newer than the network's."""
        said: Entries = value["windows"] if value else {}
        if self._is_first:
            self._catch_up(said)
        self._known = prune(newest(said, self._known), self._wall())
        is_news = any(entry["at"] > said.get(id_, {"at": 0})["at"] for id_, entry in self._known.items())
        return {"windows": dict(self._known)} if is_news else None

    def _catch_up(self, said: Entries) -> None:
        """Find once, after the start, what has changed here since it was published last."""
        self._is_first = False
        here, now = self._here(), self._wall()
        for id_, window in here.items():
            if id_ not in said and id_ not in self._known:
                self._say(id_, window.to_json())
        for id_, entry in said.items():
            window = entry["window"]
            if id_ not in self._known and id_ not in here and window is not None and not is_over(window, now):
                self._known[id_] = entry
                self._say(id_, None)

    async def adopt(self, name: str, value: Any) -> None:
        """Write changes of windows that are newer than ours into the journal."""
        here, now = self._here(), self._wall()
        for id_, entry in value["windows"].items():
            known = self._known.get(id_)
            if known is not None and known["at"] >= entry["at"]:
                continue
            self._known[id_] = entry
            held, window = here.get(id_), entry["window"]
            if window is None and held is not None:
                self._write(held.kind, {"action": "cancel", "id": id_, "author": "network"})
            elif window is not None and not is_over(window, now) and (held is None or held.to_json() != window):
                self._write(window["kind"], {"action": "add", **window})


def newest(said: Entries, known: Entries) -> Entries:
    """Return the newest version of each, and at most MOST."""
    merged = dict(said)
    for id_, entry in known.items():
        if id_ not in merged or entry["at"] > merged[id_]["at"]:
            merged[id_] = entry
    if len(merged) <= MOST:
        return merged
    return dict(sorted(merged.items(), key=lambda item: item[1]["at"])[-MOST:])


def is_over(window: Mapping[str, Any], now: float) -> bool:
    """Return True if a window will never be on again. `now`: unix seconds, wall clock."""
    try:
        return next_edge(read_window(window, now), now) is None
    except WindowRefused:
        return True


def prune(entries: Entries, now: float) -> Entries:
    """Return the entries that another Helen may still have to learn of. `now`: unix seconds, wall clock."""
    old = 1_000 * now - KEPT_MS
    return {
        id_: entry for id_, entry in entries.items()
        if entry["at"] > old or (entry["window"] is not None and not is_over(entry["window"], now))
    }  # fmt: skip
