"""Reads a result's blob for the journal: the attributes of equus_protocol's ResultDocument, several times faster.

Nearly all blobs are well-formed JSON of our own agents. Those are decoded in two steps of C (about 4 us instead of 20).
Any other blob goes to `equus_protocol.results.parse`, and the answer of that function is the one that counts: a
property test holds both to the same result. Documents are msgspec structs, not attrs classes, because making a frozen
attrs object costs more than decoding does, and because the garbage collector need not visit them. Their fields follow
from the table in equus_protocol.result_fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from equus_protocol import result_fields
from equus_protocol.result_fields import (
    GAP_CHECK_ID,
    GAP_REASON,
    MAX_DEPTH,
    MAX_METRICS,
    MAX_REASON,
    METRIC_FIELDS,
    METRIC_KINDS,
    RESULT_FIELDS,
    STATUS_WORDS,
    UNKNOWN,
    Field,
    Form,
    ResultDocument,
)
from equus_protocol.results import parse

_STATUS = {word: number for number, word in enumerate(STATUS_WORDS)}
_STRUCT: dict[str, Any] = {"frozen": True, "gc": False, "module": __name__}


def _stored_fields(of: type, fields: tuple[Field, ...], **types: Any) -> Iterator[tuple[Any, ...]]:
    hints = get_type_hints(of) | types
    for each in fields:
        if each.form is Form.STATUS:
            yield "word", str, msgspec.field(default=STATUS_WORDS[UNKNOWN], name=each.name)
        elif each.is_required:
            yield each.name, hints[each.name]
        else:
            yield each.name, hints[each.name], each.default


def _status(document: Any) -> int:
    """Return 0 for ok, 1 warning, 2 critical, 3 unknown."""
    return _STATUS.get(document.word, UNKNOWN)


if TYPE_CHECKING:
    Metric = result_fields.Metric
    Document = ResultDocument
else:
    Metric = msgspec.defstruct("Metric", _stored_fields(result_fields.Metric, METRIC_FIELDS), **_STRUCT)
    Document = msgspec.defstruct(
        "Document", _stored_fields(ResultDocument, RESULT_FIELDS, metrics=tuple[Metric, ...]),
        namespace={"status": property(_status)}, **_STRUCT,
    )  # fmt: skip

# The JSON that is read the fast way. Text that may be anything is, all else has the form that the table names.
_PLAIN_FORMS: dict[Form, Any] = {
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


def _plain_fields(fields: tuple[Field, ...], forms: dict[Form, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the fields as they must stand in JSON. UNSET tells what isn't there from what is null."""
    for each in fields:
        if each.form is None:
            continue
        if each.is_required:
            yield each.name, forms[each.form]
        elif each.default is None:
            yield each.name, Union[forms[each.form], UnsetType, None], UNSET  # noqa: UP007
        else:
            yield each.name, Union[forms[each.form], UnsetType], UNSET  # noqa: UP007


_PlainMetric = msgspec.defstruct("_PlainMetric", _plain_fields(METRIC_FIELDS, _PLAIN_FORMS), gc=False)
_METRICS = Annotated[list[_PlainMetric], Meta(max_length=MAX_METRICS)]  # type: ignore[valid-type]
_Plain = msgspec.defstruct("_Plain", _plain_fields(RESULT_FIELDS, _PLAIN_FORMS | {Form.METRICS: _METRICS}), gc=False)
_decode_plain = msgspec.json.Decoder(_Plain).decode
_decode_document = msgspec.json.Decoder(Document).decode
_encode = msgspec.json.Encoder().encode
_replace: Callable[..., Document] = msgspec.structs.replace
_make: Callable[..., Document] = Document
_result_values = attrgetter(*(each.name for each in RESULT_FIELDS))
_metric_values = attrgetter(*(each.name for each in METRIC_FIELDS))


def read_document(check_id: str, blob: bytes) -> Document:
    """Return the content of a result's blob; any bytes have one.

    A gap record is `unknown` with reason `gap`, whatever else its blob says.
    """
    document = _read_plain(blob) or from_result(parse(blob))
    if check_id == GAP_CHECK_ID:
        return _replace(document, word=STATUS_WORDS[UNKNOWN], reason=GAP_REASON)
    return document


def from_result(result: ResultDocument) -> Document:
    """Return the same content in this module's form."""
    metrics = tuple(Metric(*_metric_values(metric)) for metric in result.metrics)
    status, *others = _result_values(result)
    return _replace(_make(STATUS_WORDS[status], *others), metrics=metrics)


def _read_plain(blob: bytes) -> Document | None:
    """Return the document where every part has the type and the size that it should have; else None.

    No part may be unknown, and none may stand there twice (`parse` takes such a document for text). The decoder passes
    over both, so colons are counted: those of the blob, and those of what was decoded. Without a backslash each colon
    is that of a key, or stands in a string that is decoded as it is; so one is lost with each part that is.
    """
    try:
        plain = _decode_plain(blob)
        if b"\\" in blob:
            if not _has_plain_keys(blob) or _encode(plain).count(b'":') != blob.count(b'":'):
                return None
        elif _encode(plain).count(b":") != blob.count(b":"):
            return None
        return _decode_document(blob)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _has_plain_keys(blob: bytes) -> bool:
    """Return False if a key's colon might not follow its quote, or a quote in a string be written in another way."""
    return not (b" :" in blob or b"\\u0022" in blob or b"\t:" in blob or b"\n:" in blob or b"\r:" in blob)
