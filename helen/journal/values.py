"""What goes into the journal and what comes out of it: frozen values and errors, no behaviour.

An `Entry` or a `Change` goes in. What is durable comes back in a `Batch`. Nothing here opens a file. The two that exist
once per result are msgspec structs: a frozen attrs object costs 2 us more, and the garbage collector skips these.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec
from attrs import frozen

if TYPE_CHECKING:
    from helen.journal.document import Document

OWN_SPOOL = "helen"
GAP_CHECK_ID = "equus:gap"
CHANGE_KINDS = (
    "transition",
    "flap",
    "decision",  # outputs of helen.states.step
    "notice",  # what became of a decision: who was told, when, and why not
    "ack",
    "expect",  # what brings the results of a check from outside has said when the next one will come
    "downtime",
    "silence",
    "link",
    "rule",
    "rollout",  # a version is tried on a ring, has passed, or is taken back: helen.trials
    "helen_start",
    "helen_stop",  # its inputs besides results
)


class Origin(IntEnum):
    """Why a result exists. The number is the byte in the segment."""

    SCHEDULED = 0
    ASKED = 1
    PASSIVE = 2


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One result as it arrived. `received` is Helen's clock in Unix seconds; `check` is the check's name, if known."""

    agent: str
    check_id: str
    check: str | None
    spool: str
    sequence: int
    origin: Origin
    received: float
    blob: bytes


@frozen
class Change:
    """Something that isn't a result but belongs to the same timeline. `document` is a JSON object, encoded."""

    kind: str
    received: float
    agent: str | None
    check_id: str | None
    document: bytes


@frozen
class Floor:
    """Every sequence of this spool below `first` counts as acknowledged: no other Helen will send it to us."""

    agent: str
    spool: str
    first: int


@frozen
class Ack:
    """Everything up to and including `sequence` is durable. `spool` is the name that the agent uses."""

    agent: str
    spool: str
    sequence: int


class StoredResult(msgspec.Struct, frozen=True, gc=False):
    """A durable, new result. Its `at` orders it among all results and changes of this Helen.

    `document` has the attributes of equus_protocol's ResultDocument.
    """

    at: int
    entry: Entry
    document: Document


@frozen
class StoredChange:
    """A durable change. Live state that must equal a later replay applies inputs when they come back like this."""

    at: int
    change: Change


@frozen
class Batch:
    """One hand-over of the writer thread.

    Acks of a group come first, alone, right after its fdatasync; the parsed `records` of the same group (results and
    changes in the order of `at`) follow in a batch of their own, so that no ack waits for JSON.
    """

    acks: tuple[Ack, ...] = ()
    records: tuple[StoredResult | StoredChange, ...] = ()


@frozen
class Recovery:
    """What `Journal.open` found and did: sentences for the log, and the newest records that were not in a segment yet.

    Records between the fsync and the live state are lost to the latter by a crash; whoever keeps the state knows the
    `at` it applied last and applies the `records` above it.
    """

    sentences: tuple[str, ...] = ()  # for the log; those of `harmless` tell of what any crash leaves
    records: tuple[StoredResult | StoredChange, ...] = ()
    results: int = 0
    changes: int = 0
    quarantined: int = 0
    cut_bytes: int = 0
    harmless: frozenset[str] = frozenset()


@frozen
class Trouble:
    """A sentence for the operator. After a fatal one nothing is acknowledged any more: leave with a non-zero status."""

    sentence: str
    fatal: bool = False
    over: bool = False


class JournalError(Exception):
    """Base of this package's errors; the text is a sentence for the operator."""


class JournalLocked(JournalError):
    """Another process has this journal open."""


class JournalDamaged(JournalError):
    """The folder holds something that can't be ours, or that only an operator may remove."""
