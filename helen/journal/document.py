"""A result's content as the journal hands it on: the same attributes as equus_protocol's ResultDocument, read faster.

Nearly all blobs are well-formed JSON of our own agents. Those are decoded in one step of C (about 3 us instead of 30);
whatever is out of the ordinary in any way goes to `equus_protocol.results.parse`, whose answer is the one that counts:
a property test holds both to the same result. These are msgspec structs and not attrs classes because making a frozen
attrs object costs more than decoding does, and because the garbage collector need not visit them.
"""

from __future__ import annotations

import msgspec

from equus_protocol.results import MAX_DEPTH, MAX_METRICS, MAX_REASON, STATUS_WORDS, UNKNOWN, ResultDocument, parse
from helen.journal.values import GAP_CHECK_ID

_STATUS = {word: number for number, word in enumerate(STATUS_WORDS)}
_KINDS = frozenset({"gauge", "counter"})


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
    text: str | None = None  # comes from `parse` only: a `text` on the wire means nothing, and sends the blob there


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


_decode = msgspec.json.Decoder(Document).decode


def read_document(check_id: str, blob: bytes) -> Document:
    """What a blob says; never raises. A gap record is `unknown` with reason `gap`, whatever else it says."""
    try:
        document = _decode(blob)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        document = from_result(parse(blob))
    else:
        if not _is_plain(document, blob):
            document = from_result(parse(blob))
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


def _is_plain(document: Document, blob: bytes) -> bool:
    """Whether every part has the value and the size that it should have, so that `parse` would say the same."""
    metrics, reason, truncated = document.metrics, document.reason, document.truncated
    for metric in metrics:
        if not metric.name or metric.kind not in _KINDS or metric.text is not None:
            return False
    if document.word not in _STATUS or len(metrics) > MAX_METRICS:
        return False
    if reason is not None and not 0 < len(reason) <= MAX_REASON:
        return False
    if truncated and not (len(truncated) <= MAX_DEPTH and all(0 <= length < 2**63 for length in truncated.values())):
        return False
    # A metric and its labels are two braces, 3 and 4 deep. Only brackets beyond those could add up to MAX_DEPTH.
    return blob.count(b"{") + blob.count(b"[") - 2 * len(metrics) < MAX_DEPTH
