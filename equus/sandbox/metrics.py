"""Read the metrics of one run, evaluate their thresholds, and make the summary of them. Pure."""

from __future__ import annotations

import math
import re
from typing import Any

from attrs import frozen

from equus.sandbox.document import as_json
from equus.sandbox.text import clean, shorten
from equus_protocol.ranges import Range
from equus_protocol.result_words import MAX_METRICS

__all__ = ["MAX_METRICS", "Metric", "read_metric", "summary_of", "worst_of"]

# Limits of one metric. A label's value comes from the host (a mount point, a name), so it is cut; a key that is too
# long is the author's error.
MOST_LABELS = 16
LABEL_VALUE = 512
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_UNIT = re.compile(r"[^\s\x00-\x1f\x7f]{0,32}")
_OPTIONS = ("unit", "kind", "labels", "warn", "crit", "min", "max")
_SEVERITY = {"ok": 0, "unknown": 1, "warning": 2, "critical": 3}
# Metrics that a summary names one by one; it counts the rest.
MOST_NAMED = 3


@frozen
class Metric:
    """Describes one figure and the evaluation of its thresholds: `status`, and the sentence `why` for it."""

    name: str
    value: int | float
    unit: str
    kind: str
    labels: dict[str, str]
    warn: str | None
    crit: str | None
    min: int | float | None
    max: int | float | None
    status: str
    why: str

    def json(self) -> bytes:
        """Return the metric as JSON for the result document. A value that JSON can't hold (NaN) becomes text."""
        value = self.value if math.isfinite(self.value) else str(self.value)
        document: dict[str, Any] = {"name": self.name, "value": value, "unit": self.unit, "kind": self.kind}
        if self.labels:
            document["labels"] = self.labels
        for name in ("warn", "crit", "min", "max"):
            if getattr(self, name) is not None:
                document[name] = getattr(self, name)
        return as_json(document)


def read_metric(name: Any, value: Any, options: Any) -> Metric:
    """Read the arguments of host.metric(name, value, options) and evaluate the thresholds.

    Raises ValueError if an argument is wrong; the text is a sentence for the check's author.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"host.metric: {name!r} is no name of a metric (letters, digits and _ . -, at most 128)")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f'host.metric: the value of "{name}" must be a number, not {_kind(value)}')
    chosen = {} if options is None else options
    if not isinstance(chosen, dict):
        raise ValueError(f'host.metric: the options of "{name}" must be a table with names')
    for option in chosen:
        if option not in _OPTIONS:
            raise ValueError(f'host.metric: "{name}" has no option "{option}"; there are {", ".join(_OPTIONS)}')
    unit, kind = chosen.get("unit", ""), chosen.get("kind", "gauge")
    if not isinstance(unit, str) or not _UNIT.fullmatch(unit):
        raise ValueError(f'host.metric: the unit of "{name}" must be a short word, such as "B" or "%"')
    if kind not in ("gauge", "counter"):
        raise ValueError(f'host.metric: the kind of "{name}" must be "gauge" or "counter"')
    labels = _labels(name, chosen.get("labels", {}))
    warn, crit = (_threshold(name, option, chosen.get(option)) for option in ("warn", "crit"))
    low, high = (_bound(name, option, chosen.get(option)) for option in ("min", "max"))
    status, why = _evaluate(name, value, unit, labels, warn, crit)
    return Metric(name, value, unit, kind, labels, warn, crit, low, high, status, why)


def _kind(value: Any) -> str:
    words = {dict: "a table", list: "a table", str: "a string", bool: "a boolean", type(None): "nil"}
    return words.get(type(value), "something else")


def _labels(name: str, given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or len(given) > MOST_LABELS:
        raise ValueError(f'host.metric: the labels of "{name}" must be a table of at most {MOST_LABELS} texts by name')
    labels = {}
    for key in sorted(given):
        value = given[key]
        if not _LABEL.fullmatch(key):
            raise ValueError(f'host.metric: "{name}" has the label {key!r}, which is no name')
        if isinstance(value, dict | list):
            raise ValueError(f'host.metric: the label "{key}" of "{name}" must be a text')
        if isinstance(value, bool):
            value = "true" if value else "false"
        labels[key] = shorten(clean(str(value)), LABEL_VALUE)
    return labels


def _threshold(name: str, option: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = number(value)
    try:
        Range.parse(value)
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f'host.metric: {option} of "{name}" must be a range such as 90 or "10:20"') from None
    return str(value)


def _bound(name: str, option: str, value: Any) -> int | float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f'host.metric: {option} of "{name}" must be a number')
    return value if value is None or math.isfinite(value) else None


def _evaluate(
    name: str, value: float, unit: str, labels: dict[str, str], warn: str | None, crit: str | None
) -> tuple[str, str]:
    shown = f"{name} {number(value)}{' ' + unit if unit else ''}"
    where = f" ({', '.join(f'{key} {text}' for key, text in labels.items())})" if labels else ""
    if math.isnan(value) and (warn or crit):
        return "unknown", f"{name} is not a number{where}"
    for status, text in (("critical", crit), ("warning", warn)):
        if text is not None and (alert := Range.parse(text)).alerts(value):
            return status, f"{shown} {_relation(alert, value, status, text)}{where}"
    return "ok", f"{shown}{where}"


def _relation(alert: Range, value: float, status: str, text: str) -> str:
    if alert.inside:
        return f"is inside {status} {text.lstrip('@')}"
    if value > alert.end:
        return f"is above {status} {number(alert.end)}"
    return f"is below {status} {number(alert.start)}"


def number(value: int | float) -> str:
    """Format a number for people: whole, or with one decimal, or with four significant digits."""
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.1f}" if 10 <= abs(value) < 1e6 else f"{value:.4g}"


def worst_of(metrics: list[Metric]) -> str:
    """Return the worst status of the metrics; ok if there are none."""
    return max((metric.status for metric in metrics), key=_SEVERITY.__getitem__, default="ok")


def summary_of(metrics: list[Metric]) -> str:
    """Return a summary: the metrics of the worst status and why, or the first few figures if all are ok."""
    worst = worst_of(metrics)
    told = [metric.why for metric in metrics if metric.status == worst]
    more = f", and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return "; ".join(told[:MOST_NAMED]) + more
