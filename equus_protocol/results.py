"""Parse result blobs: the protocol's JSON, or a plugin's text (plugin_text.py); anything else is kept as output.

`parse` never raises, whatever the bytes, and never keeps more than they hold. Each call that it makes into C ends after
some milliseconds at most, so that other threads take turns. The blob itself is the history; a better reader may read it
again later. docs/protocol.rst section 4 is the specification.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from equus_protocol.long_text import count_in_pieces, has_more_parts, with_escapes
from equus_protocol.plugin_text import MAX_DIGITS, MAX_WORDS, parse_plugin, read_plugin
from equus_protocol.result_fields import (
    CRITICAL,
    MAX_DEPTH,
    MAX_METRICS,
    MAX_PARTS,
    MAX_REASON,
    METRIC_FIELDS,
    METRIC_KINDS,
    OK,
    RESULT_FIELDS,
    STATUS_WORDS,
    UNKNOWN,
    WARNING,
    Field,
    Form,
    Metric,
    ResultDocument,
)

__all__ = [
    "CRITICAL", "MAX_DEPTH", "MAX_DIGITS", "MAX_METRICS", "MAX_PARTS", "MAX_REASON", "MAX_WORDS", "OK", "REASONS",
    "STATUS_WORDS", "UNKNOWN", "WARNING", "Metric", "ResultDocument", "parse", "parse_plugin", "to_json",
]  # fmt: skip

REASONS = frozenset(
    "timeout memory cpu output killed denied load-error crashed bad-arguments unknown-check cancelled opaque-result"
    " gap".split()
)


def parse(blob: bytes) -> ResultDocument:
    """Read any blob. One that is neither the protocol's JSON nor plugin text becomes `unknown`, `opaque-result`."""
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        return _opaque(with_escapes(blob))
    if text.lstrip()[:1] in ("{", "["):
        if len(blob) > MAX_PARTS:  # a part takes a byte at least
            return _opaque(text) if has_more_parts(blob, MAX_PARTS) else _from_json_text(text, _CAREFUL)
        try:
            return _from_json_text(text, _PLAIN)
        except _OddNumber:
            return _from_json_text(text, _CAREFUL)
    return read_plugin(text) or _opaque(text)


def to_json(document: ResultDocument) -> dict[str, Any]:
    """Return the document as it stands on the wire, without the keys that have no value.

    Its keys are `status`, `summary`, `metrics` (each `{"name", "value", "unit", "kind", "labels", "warn", "crit",
    "min", "max"}`), `output`, `reason`, `started`, `took_ms`, `cpu_ms`, `peak_kib`, `check`, `code`, `truncated`.
    """
    result: dict[str, Any] = {"status": STATUS_WORDS[document.status], "summary": document.summary}
    if document.metrics:
        result["metrics"] = [_metric_to_json(metric) for metric in document.metrics]
    for name in _OPTIONAL:
        value = getattr(document, name)
        if value is not None:
            result[name] = value
    if document.truncated:
        result["truncated"] = document.truncated
    return result


def _metric_to_json(metric: Metric) -> dict[str, Any]:
    value = metric.text if metric.value is None else metric.value
    result: dict[str, Any] = {"name": metric.name, "value": value, "unit": metric.unit, "kind": metric.kind}
    if metric.labels:
        result["labels"] = metric.labels
    for name in _LIMITS:
        limit = getattr(metric, name)
        if limit is not None:
            result[name] = limit
    return result


def _opaque(text: str) -> ResultDocument:
    return ResultDocument(UNKNOWN, output=text, reason="opaque-result")


# ------------------------------------------------------------------------------------------------ JSON


class _OddNumber(Exception):
    """Report a number that no float holds. Few documents have one, and keeping its text makes reading all slower."""


class _Digits(str):
    """Hold the text of a number that no float holds: it can be a metric's value or range, and is no text elsewhere."""


class _TwiceNamed(ValueError):
    """Report a key that stands twice in one object: two readers would see two documents."""


def _odd(constant: str) -> float:
    raise _OddNumber(constant)


def _whole_or_text(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS or math.isfinite(float(digits)) else _Digits(digits)


def _fraction_or_text(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else _Digits(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _TwiceNamed
    return document


_PLAIN = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_odd)
# Calls a function of ours for each number, and threads take turns at such calls: it reads all great documents.
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_Digits, parse_int=_whole_or_text, parse_float=_fraction_or_text
)


def _from_json_text(text: str, decoder: json.JSONDecoder) -> ResultDocument:
    try:
        document = decoder.decode(text)
    except (json.JSONDecodeError, _TwiceNamed, RecursionError):
        return _opaque(text)
    except ValueError:  # an integer of more digits than Python reads
        raise _OddNumber from None
    if not isinstance(document, dict):
        return _opaque(text)
    if count_in_pieces(text, "[") + count_in_pieces(text, "{") > MAX_DEPTH and _is_deep(document):
        return _opaque(text)
    return _from_json(document)


def _is_deep(document: Any) -> bool:
    """Return True if a document is nested more than MAX_DEPTH deep; without recursion, which such a document breaks."""
    level = [document]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for part in level:
            inner += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        level = [part for part in inner if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _from_json(document: dict[str, Any]) -> ResultDocument:
    """Take from an object what has the right type; a status that isn't one of the four is `unknown`."""
    word = document.get("status")
    status = STATUS_WORDS.index(word) if isinstance(word, str) and word in STATUS_WORDS else UNKNOWN
    metrics, dropped = _read_metrics(document.get("metrics"))
    truncated = _read_truncated(document.get("truncated")) | dropped
    return ResultDocument(status, metrics=metrics, truncated=truncated, **_read_fields(document, _RESULT_READERS))


def _read_fields(document: dict[str, Any], readers: list[tuple[str, Callable[[Any], Any]]]) -> dict[str, Any]:
    """Read the fields that are there; the others keep their defaults, and so do those that are null."""
    found = {}
    for name, read in readers:
        value = document.get(name)
        if value is not None:
            found[name] = read(value)
    return found


def _text(value: Any) -> str | None:
    """Return a string that UTF-8 can hold: JSON may escape half a surrogate pair, which no file could store."""
    if type(value) is not str:
        return None
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _text_or_digits(value: Any) -> str | None:
    return str(value) if type(value) is _Digits else _text(value)


def _text_or_empty(value: Any) -> str:
    return _text(value) or ""


def _reason(value: Any) -> str | None:
    return (_text(value) or "")[:MAX_REASON] or None


def _kind(value: Any) -> str:
    return value if value in METRIC_KINDS else "gauge"


def _number(value: Any) -> float | None:
    """Return a number as a float, None if it is none (a bool is none). Raises _OddNumber if a float can't hold it."""
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise _OddNumber from None
    if type(value) is not float:
        return None
    if not math.isfinite(value):
        raise _OddNumber
    return value


def _read_truncated(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    lengths = {
        _text(name) or "": length for name, length in value.items() if type(length) is int and 0 <= length < 2**63
    }
    return dict(list(lengths.items())[:MAX_DEPTH])


def _read_metrics(listed: Any) -> tuple[tuple[Metric, ...], dict[str, int]]:
    """Return the good metrics of a list, and `{"metrics": LENGTH}` of the list if any had to be left out."""
    if not isinstance(listed, list):
        return (), {}
    metrics = tuple(metric for metric in map(_read_metric, listed[:MAX_METRICS]) if metric is not None)
    return metrics, {} if len(metrics) == len(listed) else {"metrics": len(listed)}


def _read_metric(entry: Any) -> Metric | None:
    if not isinstance(entry, dict):
        return None
    name, raw = _text(entry.get("name")), entry.get("value")
    value = _number(raw)
    text = None if value is not None else _text_or_digits(raw)
    if not name or (value is None and text is None and raw is not None):
        return None
    return Metric(name, value, text=text, **_read_fields(entry, _METRIC_READERS))


def _read_labels(labels: Any) -> dict[str, str]:
    if not isinstance(labels, dict):
        return {}
    return {_text(key) or "": _text(value) or "" for key, value in labels.items() if type(value) is str}


def _threshold(value: Any) -> str | None:
    """Return a threshold as a range; a number alone is one, too."""
    number = _number(value)
    if number is None:
        return _text_or_digits(value)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


_READERS: dict[Form, Callable[[Any], Any]] = {
    Form.TEXT: _text_or_empty, Form.REASON: _reason, Form.NUMBER: _number, Form.RANGE: _threshold, Form.KIND: _kind,
    Form.LABELS: _read_labels,
}  # fmt: skip


def _reader(field: Field) -> Callable[[Any], Any]:
    return _text if field.form is Form.TEXT and field.default is None else _READERS[field.form]  # type: ignore[index]


_OPTIONAL = [each.name for each in RESULT_FIELDS if each.default is None]
_LIMITS = [each.name for each in METRIC_FIELDS if each.default is None and each.name not in ("value", "text")]
# Fields that are read one by one, where they are there. The others depend on each other: metrics and `truncated`, a
# metric's value and text.
_RESULT_READERS = [(each.name, _reader(each)) for each in RESULT_FIELDS if each.form in _READERS]
_METRIC_READERS = [(each.name, _reader(each)) for each in METRIC_FIELDS
                   if each.form in _READERS and each.name != "value"]  # fmt: skip
