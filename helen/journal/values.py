"""Defines the values that go into the journal and come out of it, and its errors. No behaviour.

An `Entry` or a `Change` goes in; durable records come back in a `Batch`. The two that exist once per result are msgspec
structs: a frozen attrs object costs 2 us more, and the garbage collector skips these.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec
from attrs import field, frozen

from equus_protocol.cheap_values import cheap_value

if TYPE_CHECKING:
    from helen.journal.document import Document

OWN_SPOOL = "helen"
CHANGE_KINDS = (
    "transition",
    "flap",
    "decision",  # outputs of helen.states.machine.step
    "notice",  # the end of a decision: the people told, when, and why not
    "ack",
    "expect",  # the program that brings a check's results from outside has said when the next one will come
    "downtime",
    "silence",
    "link",
    "rule",
    "clock",  # Helen's clock was set, or Helen stood still: helen.states.clock_steps
    "rollout",  # a version is tried on a ring, has passed, or is taken back: helen.states.rollout_trials
    "helen_start",
    "helen_stop",  # its inputs besides results
)


class Origin(IntEnum):
    """Names the reason for which a result exists. The number is the byte in the segment."""

    SCHEDULED = 0
    ASKED = 1
    PASSIVE = 2
    TARGET = 3  # of a target, by the agent that has its lease: helen.journal.document.stored_result


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Holds one result as it arrived. `received` is Helen's clock, unix seconds; `check` its name, if known.

    `clock_offset_ms` is how far the agent's clock was ahead of Helen's then; None: not measured, or by no more than
    results take to arrive.
    """

    agent: str
    check_id: str
    check: str | None
    spool: str
    sequence: int
    origin: Origin
    received: float
    blob: bytes
    clock_offset_ms: int | None = None


@frozen
class Change:
    """Holds an event that isn't a result but belongs to the same timeline. `document` is a JSON object, encoded."""

    kind: str
    received: float
    agent: str | None
    check_id: str | None
    document: bytes


@frozen
class Floor:
    """Says that each sequence of this spool below `first` counts as acknowledged: its agent will never send it."""

    agent: str
    spool: str
    first: int


@cheap_value
class Ack:
    """Says that everything up to and including `sequence` is durable. `spool` is the name that the agent uses."""

    agent: str
    spool: str
    sequence: int


class StoredResult(msgspec.Struct, frozen=True, gc=False):
    """Holds a durable, new result. Its `at` orders it among all results and changes of this Helen.

    `document` has the attributes of equus_protocol's ResultDocument.
    """

    at: int
    entry: Entry
    document: Document


@frozen
class StoredChange:
    """Holds a durable change. Live state that must equal a later replay applies inputs when they come back so."""

    at: int
    change: Change


@frozen
class Batch:
    """Holds one hand-over of durable records.

    Acks of a group come first, alone, right after its fdatasync; the parsed `records` of the same group (results and
    changes in the order of `at`) follow in batches of their own, so that no ack waits for JSON. `results` and `changes`
    are the same records by their kind: each reader of a batch goes through what it needs, and asks nothing of the rest.
    """

    acks: tuple[Ack, ...] = ()
    records: tuple[StoredResult | StoredChange, ...] = ()
    results: tuple[StoredResult, ...] = field(init=False, repr=False, eq=False)
    changes: tuple[StoredChange, ...] = field(init=False, repr=False, eq=False)

    @results.default
    def _results(self) -> tuple[StoredResult, ...]:
        return tuple([each for each in self.records if type(each) is StoredResult])

    @changes.default
    def _changes(self) -> tuple[StoredChange, ...]:
        if len(self.results) == len(self.records):
            return ()
        return tuple([each for each in self.records if type(each) is StoredChange])


@frozen
class Sealed:
    """Says how far segments go: every record up to `at`, in files of results and of changes up to these numbers."""

    at: int
    segment: int
    change: int


@frozen
class Recovery:
    """Reports the work of `Journal.open`: sentences for the log, and the newest records that were in no segment yet.

    A crash loses records between their fsync and the live state. The keeper of the state knows the `at` that it applied
    last, and applies the `records` above it.
    """

    sentences: tuple[str, ...] = ()  # for the log; those of `harmless` tell of what any crash leaves
    records: tuple[StoredResult | StoredChange, ...] = ()
    results: int = 0
    changes: int = 0
    quarantined: int = 0
    cut_bytes: int = 0
    harmless: frozenset[str] = frozenset()


WRITING, SEALING, REFUSING = "writing", "sealing", "refusing"  # parts of the journal; the first is the worst


@frozen
class Trouble:
    """Holds a sentence for the operator. After a fatal one nothing is acked any more: exit with a non-zero status.

    `over` ends the trouble of the same `part`. One of REFUSING does not last.
    """

    sentence: str
    fatal: bool = False
    over: bool = False
    part: str = field(default=WRITING, eq=False)


class JournalError(Exception):
    """Is the base of this package's errors; the text is a sentence for the operator."""


class JournalLocked(JournalError):
    """Says that another process has this journal open."""


class JournalDamaged(JournalError):
    """Says that the folder holds a file that can't be Helen's, or that only an operator may remove."""
