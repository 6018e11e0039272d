"""A result's content as the journal hands it on: the same attributes as equus_protocol's ResultDocument, read faster.

Nearly all blobs are well-formed JSON of our own agents. Those are decoded in two steps of C (about 4 us instead of 30);
whatever is out of the ordinary in any way goes to `equus_protocol.results.parse`, whose answer is the one that counts:
a property test holds both to the same result. These are msgspec structs and not attrs classes because making a frozen
attrs object costs more than decoding does, and because the garbage collector need not visit them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from equus_protocol.results import MAX_DEPTH, MAX_METRICS, MAX_REASON, STATUS_WORDS, UNKNOWN, ResultDocument, parse
from helen.journal.values import GAP_CHECK_ID

_STATUS = {word: number for number, word in enumerate(STATUS_WORDS)}


class Metric(msgspec.Struct, frozen=True, gc=False):
    """One figure, as equus_protocol.results.Metric describes it."""

    name: str
    value: float | None = None
    unit: str = ""
    kind: str = "gauge"
    labels: dict[str, str] = {}
    warn: str | None = None
    crit: str | None = None
    min: float | None = None
    max: float | None = None
    text: str | None = None  # comes from `parse` only


class Document(msgspec.Struct, frozen=True, gc=False):
    """A result, as equus_protocol.results.ResultDocument describes it; `status` is a number there and here."""

    word: str = msgspec.field(default="unknown", name="status")
    summary: str = ""
    metrics: tuple[Metric, ...] = ()
    output: str | None = None
    reason: str | None = None
    started: float | None = None
    took_ms: float | None = None
    cpu_ms: float | None = None
    peak_kib: float | None = None
    check: str | None = None
    code: str | None = None
    truncated: dict[str, int] = {}

    @property
    def status(self) -> int:
        """0 ok, 1 warning, 2 critical, 3 unknown."""
        return _STATUS.get(self.word, UNKNOWN)


_Lengths = Annotated[dict[str, Annotated[int, Meta(ge=0, le=2**63 - 1)]], Meta(max_length=MAX_DEPTH)]


class _WireMetric(msgspec.Struct, gc=False):
    """As it must stand on the wire to be read the fast way. UNSET tells what isn't there from what says nothing."""

    name: Annotated[str, Meta(min_length=1)]
    value: float | UnsetType | None = UNSET
    unit: str | UnsetType = UNSET
    kind: Literal["gauge", "counter"] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    warn: str | UnsetType | None = UNSET
    crit: str | UnsetType | None = UNSET
    min: float | UnsetType | None = UNSET
    max: float | UnsetType | None = UNSET


class _Wire(msgspec.Struct, gc=False):
    status: Literal["ok", "warning", "critical", "unknown"]
    summary: str | UnsetType = UNSET
    metrics: Annotated[list[_WireMetric], Meta(max_length=MAX_METRICS)] | UnsetType = UNSET
    output: str | UnsetType | None = UNSET
    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)] | UnsetType | None = UNSET
    started: float | UnsetType | None = UNSET
    took_ms: float | UnsetType | None = UNSET
    cpu_ms: float | UnsetType | None = UNSET
    peak_kib: float | UnsetType | None = UNSET
    check: str | UnsetType | None = UNSET
    code: str | UnsetType | None = UNSET
    truncated: _Lengths | UnsetType = UNSET


_decode_wire = msgspec.json.Decoder(_Wire).decode
_decode_document = msgspec.json.Decoder(Document).decode
_encode = msgspec.json.Encoder().encode


def read_document(check_id: str, blob: bytes) -> Document:
    """What a blob says; never raises. A gap record is `unknown` with reason `gap`, whatever else it says."""
    document = _read_plain(blob) or from_result(parse(blob))
    if check_id == GAP_CHECK_ID:
        return msgspec.structs.replace(document, word="unknown", reason="gap")
    return document


def from_result(result: ResultDocument) -> Document:
    """The same content in this module's form."""
    metrics = tuple(
        Metric(one.name, one.value, one.unit, one.kind, one.labels, one.warn, one.crit, one.min, one.max, one.text)
        for one in result.metrics
    )
    return Document(
        STATUS_WORDS[result.status], result.summary, metrics, result.output, result.reason, result.started,
        result.took_ms, result.cpu_ms, result.peak_kib, result.check, result.code, result.truncated,
    )  # fmt: skip


def _read_plain(blob: bytes) -> Document | None:
    """The document where every part has the type and the size that it should have; else None.

    No part may be one that we don't know, and none may stand there twice (`parse` takes such a document for text). The
    decoder passes over both, so keys are counted: those of the blob, and those of what was decoded.
    """
    if b" :" in blob or b"\\u0022" in blob or b"\t:" in blob or b"\n:" in blob or b"\r:" in blob:
        return None  # a key's colon might not follow its quote, or a quote in a string might be written in another way
    try:
        wire = _decode_wire(blob)
        if _encode(wire).count(b'":') != blob.count(b'":'):
            return None
        return _decode_document(blob)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
