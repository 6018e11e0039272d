"""Writes the text format of Prometheus, or OpenMetrics for a client that asks for it. Pure: families in, text out.

Names, types and help come from helen/web/figures/metric_families.py; here they are only written down, so that
promtool finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from helen.telemetry import Histogram

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LINES_A_PIECE = 200  # some 2 us each: a scrape of a great fleet is written between other work

Sample = tuple[str, Mapping[str, str], float]  # suffix of the name, labels, value


@frozen
class Family:
    """Describes one metric: `name` without the `_total` of a counter. A sample None is a pause, for other work."""

    name: str
    kind: str  # counter, gauge, histogram, info
    help: str
    samples: Iterable[Sample | None]
    unit: str = ""  # with which the name ends; OpenMetrics alone tells it


def one(name: str, kind: str, help: str, value: float | None) -> Family:
    """Return a metric without labels; None: it has no sample today."""
    return Family(name, kind, help, () if value is None else (("", {}, value),))


def by_word(name: str, kind: str, help: str, label: str, values: Mapping[str, float]) -> Family:
    """Return a metric with one label, and a sample for each of its values."""
    return Family(name, kind, help, [("", {label: word}, value) for word, value in values.items()])


def histogram(name: str, help: str, figures: Histogram) -> Family:
    """Return a histogram with its buckets, sum and count."""
    counts = figures.cumulative()
    bounds = [*(f"{bound:g}" for bound in figures.bounds), "+Inf"]
    samples: list[Sample] = [("_bucket", {"le": bound}, count) for bound, count in zip(bounds, counts, strict=True)]
    return Family(name, "histogram", help, [*samples, ("_sum", {}, figures.sum), ("_count", {}, counts[-1])])


def write(families: Iterable[Family], is_open: bool = False) -> Iterator[str]:
    """Yield the whole page in pieces, some of them empty; `is_open` for OpenMetrics."""
    lines: list[str] = []
    for family in families:
        lines += _head(family, is_open)
        for sample in family.samples:
            if sample is None:
                yield ""
                continue
            suffix, labels, value = sample
            name = family.name + ("_total" if family.kind == "counter" else "_info" if family.kind == "info" else "")
            lines.append(f"{name}{suffix}{_labels(labels)} {_number(value)}")
            if len(lines) >= LINES_A_PIECE:
                yield "\n".join(lines) + "\n"
                lines = []
    yield "\n".join([*lines, "# EOF"] if is_open else lines) + "\n"


def _head(family: Family, is_open: bool) -> list[str]:
    """Return the head of a family. The older format has no infos, and names a counter as its samples are named."""
    name, kind = family.name, family.kind
    if not is_open:
        name += "_total" if kind == "counter" else "_info" if kind == "info" else ""
        kind = "gauge" if kind == "info" else kind
    unit = [f"# UNIT {name} {family.unit}"] if is_open and family.unit else []
    return [f"# HELP {name} {_escaped(family.help)}", f"# TYPE {name} {kind}", *unit]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
