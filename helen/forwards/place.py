"""Keeps how far a forward is, and its counts, as one small value of the store. Pure."""

from __future__ import annotations

import json

from attrs import asdict, evolve, frozen

KEY = "forward/"  # of the store's small values, in front of the forward's name


@frozen
class Place:
    """Says that all records up to `at` are sent or set aside; the counts are of the forward's whole life.

    `segment`, `changes`: the first files of results and of changes that are not done; 0: the oldest that there is.
    """

    at: int = 0
    segment: int = 0
    changes: int = 0
    sent: int = 0
    refused: int = 0
    lost: int = 0  # segments that were gone, or could not be read

    def moved(self, to: Place) -> Place:
        """Return this place with the numbers of another, and its own counts."""
        return evolve(self, at=to.at, segment=to.segment, changes=to.changes)

    def to_text(self) -> str:
        """Return the value for the store."""
        return json.dumps(asdict(self))


def read_place(text: str | None) -> Place | None:
    """Read a value of the store; None if there is none, or none that this version can read."""
    try:
        found = json.loads(text or "")
        numbers = {name: found[name] for name in asdict(Place())}
    except (ValueError, KeyError, TypeError):
        return None
    sound = all(type(value) is int and 0 <= value < 2**63 for value in numbers.values())
    return Place(**numbers) if sound else None
