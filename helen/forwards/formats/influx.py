"""Writes the line protocol of InfluxDB: a line for each result, and for each set of labels of its metrics. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from equus_protocol.results import STATUS_WORDS
from helen.forwards.formats.otlp import packed
from helen.forwards.formats.values import STATE, Body
from helen.forwards.records import METRICS, STATES, Changed, Labels, Measured, Record

HEADERS = {"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "gzip"}
STATUS = "helen_status"  # the field of a result's status: a metric may well be named `status`
EXPORTED = "exported_"  # in front of a name of a check that is one of Helen's own
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # a line break ends a point, whatever stands in front of it
_IN_MEASUREMENTS, _IN_TAGS = re.compile(r"([, ])"), re.compile(r"([,= ])")
_NANOSECONDS = 1_000_000  # of a millisecond: the precision that a request has unless its URL says another


def write(records: Sequence[Record], labels: Labels, sends: frozenset[str], prefix: str) -> Body | None:
    """Return the lines of these records; None if nothing of them is sent."""
    lines = [line for record in records for line in _lines(record, labels.get(record.agent, {}), sends, prefix)]
    return Body(packed("".join(lines).encode("utf-8", "replace")), len(lines)) if lines else None


def _lines(record: Record, given: Mapping[str, str], sends: frozenset[str], prefix: str) -> Iterator[str]:
    ours = {"agent": record.agent, "check": record.check}
    if isinstance(record, Changed):
        if STATES in sends:
            yield _line(STATE, {**given, **ours}, _of_change(record), record.when)
        return
    for own, fields in _by_labels(record, sends).items():
        if fields:
            yield _line(_measurement(prefix + record.check), {**given, **dict(own), **ours}, fields, record.when)


def _measurement(name: str) -> str:
    """Return a measurement's name that is not the one of transitions, and no comment for its first character."""
    if name == STATE:
        return EXPORTED + name
    return f"\\{name}" if name.startswith("#") else name


def _by_labels(record: Measured, sends: frozenset[str]) -> dict[tuple[tuple[str, str], ...], dict[str, str]]:
    """Return the fields of each set of labels. A value that is no number has no form in this protocol."""
    found: dict[tuple[tuple[str, str], ...], dict[str, str]] = {(): {}}
    for each in record.figures if METRICS in sends else ():
        if math.isfinite(each.value):
            found.setdefault(tuple(sorted(each.labels.items())), {})[_field(each.name)] = repr(float(each.value))
    if STATES in sends:
        found[()][STATUS] = f"{record.status}i"
    return found


def _field(name: str) -> str:
    return EXPORTED + name if name == STATUS else name


def _of_change(change: Changed) -> dict[str, str]:
    texts = {"was": STATUS_WORDS[change.was], "kind": change.kind, "why": change.why, "summary": change.summary}
    return {"status": f"{change.status}i"} | {name: _quoted(text) for name, text in texts.items()}


def _line(measurement: str, tags: Mapping[str, str], fields: Mapping[str, str], when: int) -> str:
    """Return a line; tags stand in the order of their names, which costs the receiver least."""
    named = {_name(_IN_TAGS, name): _name(_IN_TAGS, value) for name, value in sorted(tags.items()) if name and value}
    listed = "".join(f",{name}={value}" for name, value in named.items())
    values = ",".join(f"{_name(_IN_TAGS, name)}={value}" for name, value in fields.items())
    return f"{_name(_IN_MEASUREMENTS, measurement)}{listed} {values} {when * _NANOSECONDS}\n"


def _name(special: re.Pattern[str], text: str) -> str:
    """Return a name or the value of a tag; a backslash at its end would hide what follows, so it becomes a slash."""
    clean = special.sub(r"\\\1", _CONTROL.sub(" ", text).replace("\n", " "))
    return clean[:-1] + "/" if clean.endswith("\\") else clean


def _quoted(text: str) -> str:
    escaped = _CONTROL.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
