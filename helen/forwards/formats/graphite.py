"""Writes Graphite's plaintext lines: a path of names, or a name with tags. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from helen.forwards.formats.values import Body, Point, points
from helen.forwards.records import Labels, Record

STYLES = ("path", "tags")
_NOT_IN_PATHS = re.compile("[^A-Za-z0-9_-]+")
_NOT_IN_TAGS = re.compile(r"[\s;~\x00-\x1f\x7f]+")
_NOT_IN_TAG_NAMES = re.compile(r"[\s;!^=\x00-\x1f\x7f]+")


def write(records: Sequence[Record], labels: Labels, sends: frozenset[str], prefix: str, style: str) -> Body | None:
    """Return the lines of these records; None if nothing of them is sent. Graphite knows whole seconds, no infinity."""
    lines = [
        f"{_path(point, prefix) if style == 'path' else _tagged(point, prefix, labels)} {float(point.value)!r}"
        f" {point.when // 1_000}\n"
        for point in points(records, sends)
        if math.isfinite(point.value)
    ]
    return Body("".join(lines).encode("utf-8", "replace"), len(lines)) if lines else None


def _path(point: Point, prefix: str) -> str:
    values = [value for _, value in sorted(point.labels.items())]
    return prefix + ".".join(_part(each) for each in (point.agent, point.check, point.name, *values))


def _part(text: str) -> str:
    return _NOT_IN_PATHS.sub("_", text) or "_"


def _tagged(point: Point, prefix: str, labels: Labels) -> str:
    tags = {**labels.get(point.agent, {}), **point.labels, "agent": point.agent, "check": point.check}
    listed = "".join(
        f";{_NOT_IN_TAG_NAMES.sub('_', name)}={_NOT_IN_TAGS.sub('_', value)}"
        for name, value in sorted(tags.items()) if name and value
    )  # fmt: skip
    return prefix + _part(point.name) + listed
