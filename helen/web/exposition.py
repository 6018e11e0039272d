"""The text format of Prometheus, and OpenMetrics for whoever asks for it. Pure: families in, pieces of text out.

Names, types and help come from helen/web/metrics.py; here they are only written down, so that promtool finds nothing.
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
    """One metric: `name` without the `_total` of a counter."""

    name: str
    kind: str  # counter, gauge, histogram, info
    help: str
    samples: Iterable[Sample]


def one(name: str, kind: str, help: str, value: float | None) -> Family:
    """A metric without labels; None: there is nothing to say today."""
    return Family(name, kind, help, () if value is None else (("", {}, value),))


def by_word(name: str, kind: str, help: str, label: str, values: Mapping[str, float]) -> Family:
    """A metric with one label."""
    return Family(name, kind, help, [("", {label: word}, value) for word, value in values.items()])


def histogram(name: str, help: str, figures: Histogram) -> Family:
    counts = figures.cumulative()
    bounds = [*(f"{bound:g}" for bound in figures.bounds), "+Inf"]
    samples: list[Sample] = [("_bucket", {"le": bound}, count) for bound, count in zip(bounds, counts, strict=True)]
    return Family(name, "histogram", help, [*samples, ("_sum", {}, figures.sum), ("_count", {}, counts[-1])])


def write(families: Iterable[Family], is_open: bool = False) -> Iterator[str]:
    """The whole page in pieces; `is_open` for OpenMetrics."""
    lines: list[str] = []
    for family in families:
        lines += _head(family, is_open)
        for suffix, labels, value in family.samples:
            name = family.name + ("_total" if family.kind == "counter" else "_info" if family.kind == "info" else "")
            lines.append(f"{name}{suffix}{_labels(labels)} {_number(value)}")
            if len(lines) >= LINES_A_PIECE:
                yield "\n".join(lines) + "\n"
                lines = []
    yield "\n".join([*lines, "# EOF"] if is_open else lines) + "\n"


def _head(family: Family, is_open: bool) -> list[str]:
    """The older format has no infos, and names a counter as its samples are named."""
    name, kind = family.name, family.kind
    if not is_open:
        name += "_total" if kind == "counter" else "_info" if kind == "info" else ""
        kind = "gauge" if kind == "info" else kind
    return [f"# HELP {name} {_escaped(family.help)}", f"# TYPE {name} {kind}"]


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
