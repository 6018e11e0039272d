"""Reads, merges and bounds the acknowledgements that Helens of a network share. Pure.

    "AGENT/CHECK": {"at": ms, "by": IDENTITY, "ack": {"owner", "comment", "until", "sticky", "status"}, null at its end}

The version with the later `at` counts; if `at` is the same, that of the greater `by`. So every Helen comes to the same,
in whatever order it hears of them. An end is a version as well, and is named for KEPT_MS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equus_protocol.codec import MAX_STRING
from equus_protocol.results import STATUS_WORDS
from helen.states.model import State, items_of

KEPT_MS = 86_400_000 * 7  # that one which has ended is still named: a Helen may be down for so long
AHEAD_MS = 86_400_000  # one of after tomorrow comes from a wrong clock, and would count for ever
MOST = 3_000  # acknowledgements of a fleet; beyond them the oldest are left out
MOST_BYTES = 640 << 10  # of all of them: a document has room for them though each character were an escape of six
MOST_TEXT = 2_000  # characters of an owner or a comment
FIELDS = frozenset({"owner", "comment", "until", "sticky", "status"})
BROKEN = STATUS_WORDS[1:]  # what can be acknowledged
LATEST = 4e9  # unix seconds: no acknowledgement ends later
ENTRY_BYTES = 160  # of an entry in JSON beside its texts

Entry = dict[str, Any]
Entries = dict[str, Entry]


def read_entries(value: Any, now: float) -> Entries:
    """Return the entries of a document that can be used, without those of a newer Helen. `now`: unix seconds, wall."""
    listed = value.get("acks") if isinstance(value, dict) else None
    if not isinstance(listed, dict):
        return {}
    latest = 1_000 * now + AHEAD_MS
    return bounded({name: _known_part(entry) for name, entry in listed.items() if _is_entry(name, entry, latest)})


def _is_entry(name: str, entry: Any, latest: float) -> bool:
    if not isinstance(entry, dict) or not 0 < len(name) <= 2 * MAX_STRING or not all(name.partition("/")):
        return False
    at, by, ack = entry.get("at"), entry.get("by", ""), entry.get("ack", ...)
    is_dated = type(at) is int and 0 < at <= latest and isinstance(by, str) and len(by) <= MAX_STRING
    return is_dated and (ack is None or _is_ack(ack))


def _is_ack(ack: Any) -> bool:
    if not isinstance(ack, dict) or not ack.keys() >= FIELDS:
        return False
    texts, until = (ack["owner"], ack["comment"]), ack["until"]
    if not all(isinstance(text, str) and len(text) <= MOST_TEXT for text in texts):
        return False
    is_time = until is None or (type(until) in (int, float) and 0 < until < LATEST)
    return is_time and isinstance(ack["sticky"], bool) and ack["status"] in BROKEN


def _known_part(entry: Entry) -> Entry:
    ack = entry["ack"]
    known = None if ack is None else {name: value for name, value in ack.items() if name in FIELDS}
    return {"at": entry["at"], "by": entry.get("by", ""), "ack": known}


def rank_of(entry: Entry | None) -> tuple[int, str]:
    """Return the rank by which the newer version is found; that of None is below all."""
    return (0, "") if entry is None else (entry["at"], entry.get("by", ""))


def newest(said: Entries, known: Entries) -> Entries:
    """Return the newest version of each."""
    merged = dict(said)
    for name, entry in known.items():
        if rank_of(entry) > rank_of(merged.get(name)):
            merged[name] = entry
    return merged


def bounded(entries: Entries) -> Entries:
    """Return the newest of them: as many as one document may hold, in number and in bytes."""
    room, kept = MOST_BYTES, dict[str, Entry]()
    if len(entries) <= MOST and sum(_size_of(name, entry) for name, entry in entries.items()) <= room:
        return entries
    for name, entry in sorted(entries.items(), key=lambda item: (rank_of(item[1]), item[0]), reverse=True)[:MOST]:
        room -= _size_of(name, entry)
        if room < 0:
            break
        kept[name] = entry
    return kept


def _size_of(name: str, entry: Entry) -> int:
    ack = entry["ack"]
    texts = name + entry.get("by", "") + ("" if ack is None else ack["owner"] + ack["comment"])
    return ENTRY_BYTES + (len(texts) if texts.isascii() else len(texts.encode("utf-8", "replace")))


def prune(entries: Entries, now: float) -> Entries:
    """Return the entries that another Helen may still have to learn of. `now`: unix seconds, wall clock."""
    return {name: entry for name, entry in entries.items() if not is_old(entry, now) or not is_over(entry, now)}


def forgotten_before(now: float) -> int:
    """Return a time in ms: ends from before are named no more at `now`, unix seconds by the wall clock."""
    return int(1_000 * now) - KEPT_MS


def is_old(entry: Entry, now: float) -> bool:
    """Return True if an entry is older than ends are named for. `now`: unix seconds, wall clock."""
    return bool(entry["at"] <= forgotten_before(now))


def is_over(entry: Entry, now: float) -> bool:
    """Return True if an acknowledgement counts no more. `now`: unix seconds, wall clock."""
    ack = entry["ack"]
    return ack is None or (ack["until"] is not None and ack["until"] <= now)


def ack_of(state: State | None) -> dict[str, Any] | None:
    """Return the acknowledgement of a state, as an entry has it."""
    if state is None or state.ack is None:
        return None
    return dict(items_of(state.ack)) | {"status": STATUS_WORDS[state.ack.status]}


def changed_at(state: State | None) -> int:
    """Return when a state's acknowledgement was set or ended last, or the check recovered, in ms; 0 for never."""
    return 0 if state is None or state.ack_at is None else round(1_000 * state.ack_at)


def is_same_ack(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Compare two acknowledgements without their ends, which every Helen moves by the steps of its own clock."""
    if one is None or other is None:
        return one is other
    return all(one[name] == other[name] for name in one if name != "until")
