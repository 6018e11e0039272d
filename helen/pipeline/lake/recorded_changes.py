"""Reads the fields that documents of recorded changes have in common, for modules that need only those. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helen.pipeline.lake.local_days import MICROS

FLEET_KINDS = ("downtime", "rule", "helen_start", "helen_stop")  # kinds of changes that are about many checks
TRANSITION = "transition"


def time_of(document: Mapping[str, Any]) -> int | None:
    """Return when a transition happened, microseconds since 1970; None where its document doesn't say."""
    at = document.get("at")
    return round(at * MICROS) if isinstance(at, int | float) else None


def is_confirmed(state: Mapping[str, Any]) -> bool:
    """Return True for the state (`now`) of a transition if no further attempts were to confirm it."""
    return state.get("attempt") == 0
