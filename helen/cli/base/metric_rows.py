"""Make rows of metrics for tables: `helen status`, `check`, `repl` and `top` print them alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groundwork.figures import figure, limits

HEADINGS = ["METRIC", "VALUE", "UNIT", "WARN", "CRIT", "LABELS"]


def metric_rows(metrics: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row of text for each metric, with values and limits in the unit that people read."""
    return [_row(metric) for metric in metrics]


def _row(metric: Mapping[str, Any]) -> list[str]:
    unit = metric.get("unit") or ""
    labels = ", ".join(f"{key}={value}" for key, value in (metric.get("labels") or {}).items())
    ends = (limits(metric.get(name), unit) for name in ("warn", "crit"))
    return [metric["name"], *_value(metric["value"], unit), *ends, labels]


def _value(value: float | None, unit: str) -> tuple[str, str]:
    """Return a value and its unit for two columns; one that has several units, `4 min 34 s`, is in the first one."""
    text = figure(value, unit)
    if value is None or unit in ("c", "1/s"):
        return text.removesuffix("/s"), unit
    number, _, shown = text.partition(" ")
    return (text, "") if " " in shown else (number, shown)
