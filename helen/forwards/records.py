"""Defines what is forwarded: results with their metrics, and changes of states. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Labels = Mapping[str, Mapping[str, str]]  # agent -> the labels that it was given
METRICS, STATES = "metrics", "states"  # what a forward may be told to send


class Figure(msgspec.Struct, frozen=True, gc=False):
    """Holds one metric of a result. `kind` is gauge or counter."""

    name: str
    value: float
    unit: str
    kind: str
    labels: Mapping[str, str]


class Measured(msgspec.Struct, frozen=True, gc=False):
    """Holds one result. `when`: unix milliseconds at which the run ended; `received`: unix seconds of Helen's clock."""

    at: int
    agent: str
    check: str
    received: float
    when: int
    status: int
    figures: tuple[Figure, ...]


class Changed(msgspec.Struct, frozen=True, gc=False):
    """Holds one transition of a state. `when`: unix milliseconds of Helen's clock; `kind` is soft or hard."""

    at: int
    agent: str
    check: str
    received: float
    when: int
    status: int
    was: int
    kind: str
    reason: str
    why: str
    summary: str


Record = Measured | Changed
