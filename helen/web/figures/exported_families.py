"""Makes families of the metrics of checks that entries export, for /metrics/checks. Pure: values in, families out.

A metric `used` in `%` is the family `check_used_percent`: OpenMetrics wants units to end names. A sample that can't be
a series beside the others is left out, and counted: a second kind of one name, names that differ in odd letters alone,
and all of them if they are more than MOST_EXPORTED together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from groundwork.globs import fits_glob
from helen.promql.nodes import NAME
from helen.promql.series_labels import labels_of
from helen.web.figures.exposition import Family, Sample, by_word

MOST_EXPORTED = 10_000  # series of one page, some 1 MB, as many as /metrics has of single checks
PREFIX = "check_"
UNITS = {"%": "percent", "B": "bytes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "d": "days",
         "B/s": "bytes_per_second", "c": ""}  # fmt: skip
LIMIT, CLASH = "limit", "clash"  # why a series is left out
_ODD = re.compile(r"[^a-zA-Z0-9_]")
_SAID = "Series left out: limit, more than {most} of one page, pick some with ?on=PATTERN; clash, like another one."


@frozen
class Exported:
    """Holds the newest metrics of one check on one agent, of which those that fit one of the patterns are exported."""

    agent: str
    check: str
    labels: Mapping[str, str]  # of the agent
    metrics: Sequence[Any]  # with the attributes of equus_protocol's Metric
    patterns: Sequence[str]


@define
class _Group:
    """Holds the samples of one family, by their labels."""

    name: str
    kind: str
    unit: str
    metrics: set[str] = field(factory=set)
    checks: set[str] = field(factory=set)
    samples: dict[tuple[tuple[str, str], ...], float] = field(factory=dict)


def exported_families(checks: Iterable[Exported]) -> list[Family]:
    """Return the families of these checks in the order of their names, and the one that counts what is left out."""
    groups: dict[str, _Group] = {}
    left_out: Counter[str] = Counter({LIMIT: 0, CLASH: 0})
    series = 0
    for check in checks:
        for metric in check.metrics:
            if metric.value is not None and any(fits_glob(metric.name, pattern) for pattern in check.patterns):
                series += 1
                if series <= MOST_EXPORTED:
                    left_out[CLASH] += not _add(groups, check, metric)
    if series > MOST_EXPORTED:
        left_out[LIMIT], groups = series, {}
    told = by_word("helen_exported_series_left_out", "gauge", _SAID.format(most=MOST_EXPORTED), "why", left_out)
    return [told, *(_family(groups[name]) for name in sorted(groups))]


def _add(groups: dict[str, _Group], check: Exported, metric: Any) -> bool:
    """Add a sample to the family of its name; return False where one of another kind, or of the same labels, is."""
    name, unit = family_name(metric.name, metric.unit)
    group = groups.setdefault(name, _Group(name, metric.kind, unit))
    base = dict(check.labels) | {"agent": check.agent, "check": check.check}
    labels = labels_of(base, metric.name, metric.labels)
    shown = {label_name(key): value for key, value in labels.items() if key != NAME}
    key = tuple(sorted(shown.items()))
    if group.kind != metric.kind or key in group.samples or len(shown) != len(labels) - 1:
        return False
    group.metrics.add(metric.name)
    group.checks.add(check.check)
    group.samples[key] = metric.value
    return True


def family_name(metric: str, unit: str) -> tuple[str, str]:
    """Return the name of a family, and its unit as it ends the name; empty for a metric without one."""
    word = UNITS.get(unit)
    word = _ODD.sub("_", unit).strip("_").lower() if word is None else word
    name = PREFIX + _ODD.sub("_", metric).removesuffix("_total")
    if not word or (word in name.split("_") and not name.endswith(f"_{word}")):
        return name, ""
    return (name if name.endswith(f"_{word}") else f"{name}_{word}"), word


def label_name(text: str) -> str:
    """Return a name that a label may have there."""
    name = _ODD.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def _family(group: _Group) -> Family:
    checks, metrics = sorted(group.checks), ", ".join(sorted(group.metrics))
    shown = ", ".join(checks[:3]) + (f" and {len(checks) - 3} more" if len(checks) > 3 else "")
    samples: Iterator[Sample] = (("", dict(key), value) for key, value in sorted(group.samples.items()))
    return Family(group.name, group.kind, f"Metric {metrics} of {shown}.", list(samples), group.unit)
