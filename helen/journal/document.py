"""A result's content as the journal hands it on: the same attributes as equus_protocol's ResultDocument, read faster.

Nearly all blobs are well-formed JSON of our own agents. Those are decoded in one step of C (about 6 us instead of 30);
whatever is out of the ordinary in any way goes to `equus_protocol.results.parse`, whose answer is the one that counts:
a property test holds both to the same result. These are msgspec structs and not attrs classes because making a frozen
attrs object costs more than decoding does, and because the garbage collector need not visit them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

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


class _WireMetric(msgspec.Struct, gc=False):
    """As it stands on the wire; UNSET tells what isn't there from what is there and says nothing."""

    name: str
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
    metrics: list[_WireMetric] | UnsetType = UNSET
    output: str | UnsetType | None = UNSET
    reason: str | UnsetType | None = UNSET
    started: float | UnsetType | None = UNSET
    took_ms: float | UnsetType | None = UNSET
    cpu_ms: float | UnsetType | None = UNSET
    peak_kib: float | UnsetType | None = UNSET
    check: str | UnsetType | None = UNSET
    code: str | UnsetType | None = UNSET
    truncated: dict[str, int] | UnsetType = UNSET


_METRIC_DEFAULTS = astuple(Metric(""))[: len(_WireMetric.__struct_fields__)]
_DEFAULTS = astuple(Document())
_LABELS = _WireMetric.__struct_fields__.index("labels")
_decode = msgspec.json.Decoder(_Wire).decode


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
    """The document where every part has the type and the size that it should have; else None."""
    if b" :" in blob or b"\t:" in blob or b"\n:" in blob or b"\r:" in blob:
        return None  # the count of keys below would miss one
    try:
        wire = _decode(blob)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    reason, truncated = wire.reason, wire.truncated
    if reason is not UNSET and reason is not None and not 0 < len(reason) <= MAX_REASON:
        return None
    fields = astuple(wire)
    missing = fields.count(UNSET)
    keys = len(fields) - missing
    if missing:
        fields = _filled(fields, _DEFAULTS)
    metrics: tuple[Metric, ...] | None = ()
    if wire.metrics is not UNSET and wire.metrics:
        metrics, metric_keys = _read_metrics(wire.metrics)
        if metrics is None:
            return None
        keys += metric_keys
    if truncated is not UNSET and truncated:
        if len(truncated) > MAX_DEPTH or not all(0 <= length < 2**63 for length in truncated.values()):
            return None
        keys += len(truncated)
    if keys != blob.count(b'":'):
        return None  # a key that we don't know, or one that is there twice (of which `parse` thinks little)
    return Document(fields[0], fields[1], metrics or (), *fields[3:])


def _read_metrics(wires: list[_WireMetric]) -> tuple[tuple[Metric, ...] | None, int]:
    """The metrics, or None if one isn't plain; and how many keys they and their labels have."""
    if len(wires) > MAX_METRICS:
        return None, 0
    metrics, keys = [], 0
    for wire in wires:
        if not wire.name:
            return None, 0
        fields = astuple(wire)
        missing = fields.count(UNSET)
        keys += len(fields) - missing
        if missing:
            fields = _filled(fields, _METRIC_DEFAULTS)
        keys += len(fields[_LABELS])
        metrics.append(Metric(*fields))
    return tuple(metrics), keys


def _filled(fields: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([default if field is UNSET else field for field, default in zip(fields, defaults, strict=True)])
