"""What a result blob says: JSON of ours, agent-plugin text, Nagios plugin output; anything else is kept as output.

`parse` never raises, whatever the bytes, and never keeps more than they hold. The blob itself is the history; what is
read here may be read again later by a better reader. docs/protocol.rst section 4 is the specification.
"""

from __future__ import annotations

import json
import math
import re
from itertools import islice
from typing import Any

from attrs import field, frozen

STATUS_WORDS = ("ok", "warning", "critical", "unknown")
OK, WARNING, CRITICAL, UNKNOWN = range(4)
REASONS = frozenset(
    "timeout memory cpu output killed denied load-error crashed bad-arguments unknown-check cancelled opaque-result"
    " gap".split()
)
MAX_DEPTH = 64  # of a JSON document; deeper ones are somebody's attack on a parser
MAX_METRICS = 1_000  # of one result; what is over is counted in `truncated`
MAX_WORDS = 4 * MAX_METRICS  # of performance data that are looked at; a megabyte has half a million, at 1 us each
MAX_DIGITS = 300  # characters of a number: the greatest float has 309 before its point
MAX_REASON = 64  # characters of a foreign agent's own word for why

_KINDS = ("gauge", "counter")
_PLUGIN_STATUS = {"ok": OK, "success": OK, "warn": WARNING, "warning": WARNING, "err": CRITICAL, "error": CRITICAL,
                  "critical": CRITICAL, "fail": CRITICAL}  # fmt: skip
# All of these are linear in what they read: possessive repeats (`*+`), and no two that could share a character.
_PLUGIN_STATUS_LINE = re.compile(rf"(?m)^[ \t]*+status[ \t]++({'|'.join(_PLUGIN_STATUS)})(?![^\s])[ \t]*+(.*+)$")
_PLUGIN_METRIC = re.compile(
    r"(?m)^[ \t]*+metric[ \t]++(\S++)[ \t]++(int|int32|uint32|int64|uint64|double|float|gauge|counter|number|string)"
    r"[ \t]++(\S++)(?:[ \t]++(\S++))?[ \t\r]*+$"
)
_PLUGIN_METRIC_BEGUN = re.compile(r"(?m)^[ \t]*+metric[ \t]")
_NAGIOS_WORD = re.compile(r"\b(OK|WARNING|CRITICAL|UNKNOWN)\b")
_NAGIOS_METRIC = re.compile(
    r"""(?:'((?:[^']|'')++)'|([^\s='|]++))=(U|[-+]?(?:[0-9]++(?:[.,][0-9]*+)?|[.,][0-9]++)(?:[eE][-+]?[0-9]++)?)"""
    r"""([^\s;0-9]*+)((?:;[^\s;]*+){0,4}+);?(?![^\s])""",
    re.ASCII,
)
_WORD = re.compile(r"\S++", re.ASCII)
_SPACE = re.compile(r"\s*+", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?")


@frozen
class Metric:
    """One figure. `value` is None where there is none that a float can hold; then `text` has what stood there.

    `unit` is one of Nagios' performance data (`s`, `B`, `%`, `c`), of UCUM, or a name. `warn` and `crit` are Nagios
    ranges.
    """

    name: str
    value: float | None
    unit: str = ""
    kind: str = "gauge"
    labels: dict[str, str] = field(factory=dict)
    warn: str | None = None
    crit: str | None = None
    min: float | None = None
    max: float | None = None
    text: str | None = None


@frozen
class ResultDocument:
    """A result as Helen understands it. `started` is in unix seconds, `*_ms` in milliseconds, a KiB is 1,024 bytes."""

    status: int
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
    truncated: dict[str, int] = field(factory=dict)


def parse(blob: bytes) -> ResultDocument:
    """Read any blob. What is neither JSON of ours nor plugin text is kept as output: `unknown`, `opaque-result`."""
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        return _opaque(blob.decode("utf-8", "backslashreplace"))
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _from_json_text(text, _PLAIN)
        except _OddNumber:
            return _from_json_text(text, _CAREFUL)
    return _from_plugin(text) or _opaque(text)


def parse_plugin(text: bytes, exit_status: int | None) -> ResultDocument:
    """Read what a plugin printed. A Nagios plugin's status is its exit status: 0 to 2, all others are `unknown`.

    That of agent-plugin text is its own; its exit status says nothing.
    """
    shown = text.decode("utf-8", "backslashreplace")
    document = _from_agent_plugin(shown)
    if document is not None:
        return document
    summary, output, metrics, dropped = _split_nagios(shown)
    status = exit_status if exit_status in (OK, WARNING, CRITICAL) else UNKNOWN
    return ResultDocument(status, summary, metrics, output=output or None, truncated=dropped)


def to_json(document: ResultDocument) -> dict[str, Any]:
    """The document for `json.dumps`, as it would stand on the wire: what isn't there is left out."""
    result: dict[str, Any] = {"status": STATUS_WORDS[document.status], "summary": document.summary}
    if document.metrics:
        result["metrics"] = [_metric_to_json(metric) for metric in document.metrics]
    for name in ("output", "reason", "started", "took_ms", "cpu_ms", "peak_kib", "check", "code"):
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
    for name in ("warn", "crit", "min", "max"):
        limit = getattr(metric, name)
        if limit is not None:
            result[name] = limit
    return result


def _opaque(text: str) -> ResultDocument:
    return ResultDocument(UNKNOWN, output=text, reason="opaque-result")


# ------------------------------------------------------------------------------------------------ JSON


class _OddNumber(Exception):
    """A number that no float holds. Few documents have one, and keeping its text makes reading slower for all."""


class _TwiceNamed(ValueError):
    """A key that stands twice in one object: two readers would see two documents."""


def _odd(constant: str) -> float:
    raise _OddNumber(constant)


def _whole_or_text(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def _fraction_or_text(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _TwiceNamed
    return document


_PLAIN = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_odd)
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=str, parse_int=_whole_or_text, parse_float=_fraction_or_text
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
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(document):
        return _opaque(text)
    return _from_json(document)


def _is_deep(document: Any) -> bool:
    """Whether a document is nested more than MAX_DEPTH deep; without recursion, since that is the point."""
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
    reason = _text(document.get("reason")) or ""
    return ResultDocument(
        status,
        _text(document.get("summary")) or "",
        metrics,
        output=_text(document.get("output")),
        reason=reason[:MAX_REASON] or None,
        started=_number(document.get("started")),
        took_ms=_number(document.get("took_ms")),
        cpu_ms=_number(document.get("cpu_ms")),
        peak_kib=_number(document.get("peak_kib")),
        check=_text(document.get("check")),
        code=_text(document.get("code")),
        truncated=_read_truncated(document.get("truncated")) | dropped,
    )


def _text(value: Any) -> str | None:
    """A string as UTF-8 can hold it: JSON may escape half a surrogate pair, which nothing behind us could store."""
    if not isinstance(value, str):
        return None
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _number(value: Any) -> float | None:
    """A number as a float; a bool is none. Raises _OddNumber for what a float doesn't hold."""
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
    """The metrics that are some, and the true number of the list if any had to be left out."""
    if not isinstance(listed, list):
        return (), {}
    metrics = tuple(metric for metric in map(_read_metric, listed[:MAX_METRICS]) if metric is not None)
    return metrics, {} if len(metrics) == len(listed) else {"metrics": len(listed)}


def _read_metric(entry: Any) -> Metric | None:
    if not isinstance(entry, dict):
        return None
    name, raw, kind, labels = _text(entry.get("name")), entry.get("value"), entry.get("kind"), entry.get("labels")
    value = _number(raw)
    text = None if value is not None else _text(raw)
    if not name or (value is None and text is None and raw is not None):
        return None
    return Metric(
        name,
        value,
        unit=_text(entry.get("unit")) or "",
        kind=kind if kind in _KINDS else "gauge",
        labels=_read_labels(labels),
        warn=_threshold(entry.get("warn")),
        crit=_threshold(entry.get("crit")),
        min=_number(entry.get("min")),
        max=_number(entry.get("max")),
        text=text,
    )


def _read_labels(labels: Any) -> dict[str, str]:
    if not isinstance(labels, dict):
        return {}
    return {_text(key) or "": _text(value) or "" for key, value in labels.items() if isinstance(value, str)}


def _threshold(value: Any) -> str | None:
    """A range; a number alone is one, too."""
    number = _number(value)
    if number is None:
        return _text(value)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


# ------------------------------------------------------------------------------------------------ text of plugins


def _from_plugin(text: str) -> ResultDocument | None:
    document = _from_agent_plugin(text)
    if document is not None or "|" not in text:
        return document
    summary, output, metrics, dropped = _split_nagios(text)
    if not metrics:
        return None
    word = _NAGIOS_WORD.search(summary)
    status = STATUS_WORDS.index(word[1].lower()) if word else UNKNOWN
    return ResultDocument(status, summary, metrics, output=output or None, truncated=dropped)


def _from_agent_plugin(text: str) -> ResultDocument | None:
    """Cloudkick's and Rackspace's text: `status ok|warn|err TEXT`, `metric NAME TYPE VALUE [UNIT]`."""
    status = _PLUGIN_STATUS_LINE.search(text)
    if status is None:
        return None
    lines = list(islice(_PLUGIN_METRIC.finditer(text), MAX_METRICS + 1))
    dropped = {}
    if len(lines) > MAX_METRICS:
        dropped["metrics"] = len(_PLUGIN_METRIC_BEGUN.findall(text))
    metrics = tuple(_plugin_metric(*line.groups()) for line in lines[:MAX_METRICS])
    return ResultDocument(_PLUGIN_STATUS[status[1]], status[2].strip(), metrics, output=text, truncated=dropped)


def _plugin_metric(name: str, kind: str, value: str, unit: str | None) -> Metric:
    number = _decimal(value) if kind != "string" else None
    kind = "counter" if kind == "counter" else "gauge"
    return Metric(name, number, unit=unit or "", kind=kind, text=None if number is not None else value)


def _split_nagios(text: str) -> tuple[str, str, tuple[Metric, ...], dict[str, int]]:
    """Summary, long output, metrics, and their number if there were too many (Nagios' plugin API, version 3)."""
    first, _, rest = text.partition("\n")
    summary, _, perfdata = first.partition("|")
    output, _, more = rest.partition("|")
    metrics, dropped = _perfdata(f"{perfdata} {more}")
    return summary.strip(), output.strip("\n"), metrics, dropped


def _perfdata(text: str) -> tuple[tuple[Metric, ...], dict[str, int]]:
    """Each `'label'=value[unit];[warn];[crit];[min];[max]`; a word that isn't one is passed over.

    Of too many, the rest is counted by its equals signs.
    """
    metrics: list[Metric] = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
    for _ in range(MAX_WORDS):
        if len(metrics) >= MAX_METRICS or at >= len(text):
            break
        match = _NAGIOS_METRIC.match(text, at)
        if match is not None:
            metrics.append(_nagios_metric(*match.groups()))
        at = (match or _WORD.match(text, at)).end()  # type: ignore[union-attr]  # no space stands here: a word does
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    rest = text.count("=", at)
    return tuple(metrics), {"metrics": len(metrics) + rest} if rest else {}


def _nagios_metric(quoted: str | None, bare: str, value: str, unit: str, limits: str) -> Metric:
    warn, crit, low, high = (limits.split(";")[1:] + [""] * 4)[:4]
    number = _decimal(value.replace(",", "."))
    return Metric(
        quoted.replace("''", "'") if quoted else bare,
        number,
        unit=unit,
        kind="counter" if unit == "c" else "gauge",
        warn=warn or None,
        crit=crit or None,
        min=_decimal(low),
        max=_decimal(high),
        text=None if number is not None or value == "U" else value,
    )


def _decimal(text: str) -> float | None:
    """A decimal number that a float holds, or None."""
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None
