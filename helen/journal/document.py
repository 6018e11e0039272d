"""Reads a result's blob for the journal: the attributes of equus_protocol's ResultDocument, several times faster.

Nearly all blobs are well-formed JSON of our own agents. Such blobs are decoded once, in C (about 2 us instead of 20).
Any other blob goes to `equus_protocol.results.parse`, and the answer of that function is the one that counts: a
property test holds both to the same result. Documents are msgspec structs, not attrs classes, because making a frozen
attrs object costs more than decoding does, and because the garbage collector need not visit them. Their fields follow
from the table in equus_protocol.result_fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, Meta, UnsetType

from equus_protocol import result_fields
from equus_protocol.long_text import count_in_pieces, has_more_parts
from equus_protocol.result_fields import (
    GAP_CHECK_ID,
    GAP_REASON,
    MAX_DEPTH,
    MAX_METRICS,
    MAX_PARTS,
    MAX_REASON,
    METRIC_FIELDS,
    METRIC_KINDS,
    RESULT_FIELDS,
    STATUS_NUMBERS,
    STATUS_WORDS,
    UNKNOWN,
    Field,
    Form,
    ResultDocument,
)
from equus_protocol.results import parse
from helen.journal.great_text import LEAST, is_in_place, part

# The JSON that is read the fast way. Text that may be anything is, all else has the form that the table names.
_FORMS: dict[Form, Any] = {
    Form.STATUS: Literal[STATUS_WORDS],
    Form.NAME: Annotated[str, Meta(min_length=1)],
    Form.TEXT: str,
    Form.REASON: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)],
    Form.NUMBER: float,
    Form.RANGE: str,
    Form.KIND: Literal[METRIC_KINDS],
    Form.LABELS: dict[str, str],
    Form.LENGTHS: Annotated[dict[str, Annotated[int, Meta(ge=0, le=2**63 - 1)]], Meta(max_length=MAX_DEPTH)],
}
# `omit_defaults`: a document is encoded only to count its parts, those that were in the JSON.
_STRUCT: dict[str, Any] = {"frozen": True, "gc": False, "omit_defaults": True, "module": __name__}


def _struct_fields(fields: tuple[Field, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the fields as they stand in JSON; UNSET tells what isn't there, where its default could stand there."""
    for each in fields:
        form = _FORMS.get(each.form, str) if each.form is not None else str
        if each.form is Form.STATUS:
            yield "word", form, msgspec.field(name=each.name)
        elif each.is_required:
            yield each.name, form
        elif each.default is None:
            yield each.name, form, None
        else:
            yield each.name, Union[form, UnsetType], UNSET  # noqa: UP007


def _status(document: Any) -> int:
    """Return 0 for ok, 1 warning, 2 critical, 3 unknown."""
    return STATUS_NUMBERS[document.word]


if TYPE_CHECKING:
    Metric = result_fields.Metric

    class Document(ResultDocument):
        """Hold a result that has been read, with its status as a number and as a word."""

        word: str

else:
    Metric = msgspec.defstruct("Metric", _struct_fields(METRIC_FIELDS), **_STRUCT)
    _FORMS[Form.METRICS] = Annotated[tuple[Metric, ...], Meta(max_length=MAX_METRICS)]
    Document = msgspec.defstruct(
        "Document", _struct_fields(RESULT_FIELDS), namespace={"status": property(_status)}, **_STRUCT
    )

_NOTHING: Any = UNSET
_set: Callable[[object, str, Any], None] = msgspec.structs.force_setattr  # type: ignore[assignment]  # of structs
_decode: Callable[[bytes], Document] = msgspec.json.Decoder(Document).decode
_encode = msgspec.json.Encoder().encode
_replace: Callable[..., Document] = msgspec.structs.replace
_make: Callable[..., Document] = Document
_result_values = attrgetter(*(each.name for each in RESULT_FIELDS))
_metric_values = attrgetter(*(each.name for each in METRIC_FIELDS))


def read_document(check_id: str, blob: bytes) -> Document:
    """Return the content of a result's blob; any bytes have one.

    A gap record is `unknown` with reason `gap`, whatever else its blob says.
    """
    document = (_read_great(blob) if len(blob) >= LEAST else None) or _read_plain(blob)
    if document is None:
        document = from_result(parse(blob))
    if check_id == GAP_CHECK_ID:
        return _replace(document, word=STATUS_WORDS[UNKNOWN], reason=GAP_REASON)
    return document


def _read(blob: bytes) -> Document:
    return _read_plain(blob) or from_result(parse(blob))


def _read_great(blob: bytes) -> Document | None:
    """Return the document of a blob with a great text, None if the blob has none and is to be read as a whole."""
    if (parted := part(blob)) is None or not is_in_place((document := _read(parted.rest)).output):
        return None
    return _replace(document, output=parted.text)


def from_result(result: ResultDocument) -> Document:
    """Return the same content in this module's form."""
    metrics = tuple(Metric(*_metric_values(metric)) for metric in result.metrics)
    status, *others = _result_values(result)
    return _replace(_make(STATUS_WORDS[status], *others), metrics=metrics)


def _holds_others(blob: bytes) -> bool:
    """Return True for what the decoder, or the encoder that counts, would hold all other threads with for long."""
    return count_in_pieces(blob, b"\\") > MAX_PARTS or has_more_parts(blob, MAX_PARTS)


def _read_plain(blob: bytes) -> Document | None:
    """Return the document where every part has the type and the size that it should have; else None.

    No part may be unknown, and none may stand there twice (`parse` takes such a document for text). The decoder passes
    over both, so colons are counted: those of the blob, and those of what was decoded. Without a backslash each colon
    is that of a key, or stands in a string that is decoded as it is; so one is lost with each part that is.
    """
    count: Callable[[bytes, bytes], int] = bytes.count
    if len(blob) > MAX_PARTS:  # a part takes a byte at least
        if _holds_others(blob):
            return None
        count = count_in_pieces
    try:
        document = _decode(blob)
        if b"\\" in blob:
            if not _has_plain_keys(blob) or _encode(document).count(b'":') != blob.count(b'":'):
                return None
        elif count(_encode(document), b":") != count(blob, b":"):
            return None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return document if _complete(document) else None


def _complete(document: Document) -> bool:
    """Put its default in place of each part that was not there; False: a metric has what no JSON may give it."""
    if document.summary is _NOTHING:
        _set(document, "summary", "")
    if document.truncated is _NOTHING:
        _set(document, "truncated", {})
    if document.metrics is _NOTHING:
        _set(document, "metrics", ())
    for metric in document.metrics:
        if metric.labels is _NOTHING:
            _set(metric, "labels", {})
        if metric.unit is _NOTHING:
            _set(metric, "unit", "")
        if metric.kind is _NOTHING:
            _set(metric, "kind", "gauge")
        if metric.text is not None:  # Helen's own, for a number that no float holds
            return False
    return True


def _has_plain_keys(blob: bytes) -> bool:
    """Return False if a key's colon might not follow its quote, or a quote in a string be written in another way."""
    return not (b" :" in blob or b"\\u0022" in blob or b"\t:" in blob or b"\n:" in blob or b"\r:" in blob)
