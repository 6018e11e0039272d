"""Writes Prometheus' remote-write requests, version 1: protobuf, compressed by snappy. Pure.

Samples of one series stand together in the order of their times, since Prometheus takes no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from helen.forwards import protobuf as pb
from helen.forwards.formats.values import Body, Point, points
from helen.forwards.records import Labels, Record

try:
    from cramjam import snappy
except ImportError:  # an extra: helen/forwards/config.py says so where it is missing
    snappy = None  # type: ignore[assignment]
HAS_SNAPPY = snappy is not None

HEADERS = {
    "Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}  # fmt: skip
EXPORTED = "exported_"  # in front of a label of a metric that has the name of another one, as Prometheus does it
_NOT_IN_NAMES, _NOT_IN_LABELS = re.compile("[^a-zA-Z0-9_:]"), re.compile("[^a-zA-Z0-9_]")
Series = tuple[tuple[str, str], ...]  # labels in the order of their names


def write(records: Sequence[Record], labels: Labels, sends: frozenset[str], prefix: str) -> Body | None:
    """Return the request of these records; None if nothing of them is sent."""
    found = series_of(points(records, sends, prefix), labels)
    if not found:
        return None
    request = b"".join([_time_series(series, samples) for series, samples in found.items()])
    return Body(bytes(snappy.compress_raw(request)), sum(map(len, found.values())))


def series_of(given: Iterable[Point], labels: Labels) -> dict[Series, dict[int, float]]:
    """Return the samples of each series, by their times; of two at one time the later one counts."""
    found: dict[Series, dict[int, float]] = {}
    for point in given:
        found.setdefault(_series(point, labels.get(point.agent, {})), {})[point.when] = point.value
    return found


def _series(point: Point, given: Mapping[str, str]) -> Series:
    named = {label_name(name): value for name, value in given.items()} | {"agent": point.agent, "check": point.check}
    own = {label_name(name): value for name, value in point.labels.items()}
    renamed = {EXPORTED + name if name in named else name: value for name, value in own.items()}
    found = {**renamed, **named, "__name__": metric_name(point.name)}
    return tuple(sorted((name, value) for name, value in found.items() if value))


def _time_series(series: Series, samples: Mapping[int, float]) -> bytes:
    labels = [pb.message(1, pb.text(1, name), pb.text(2, value)) for name, value in series]
    values = [pb.message(2, pb.double(1, samples[when]), pb.number(2, when)) for when in sorted(samples)]
    return pb.message(1, *labels, *values)


@lru_cache(4_096)
def metric_name(name: str) -> str:
    """Return the name of a metric as Prometheus allows it."""
    clean = _NOT_IN_NAMES.sub("_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean


@lru_cache(4_096)
def label_name(name: str) -> str:
    """Return the name of a label as Prometheus allows it; names with two underscores in front are its own."""
    clean = _NOT_IN_LABELS.sub("_", name) or "_"
    return "_" + clean.lstrip("_") if clean[0].isdigit() or clean.startswith("__") else clean
