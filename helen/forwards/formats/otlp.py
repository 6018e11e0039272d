"""Writes requests of OTLP: metrics of results, and changes of states as records of a log. Pure.

The messages are those of opentelemetry-proto, by the numbers of their fields. Each agent is a resource.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from equus_protocol.results import CRITICAL, OK, STATUS_WORDS, UNKNOWN, WARNING
from helen.forwards import protobuf as pb
from helen.forwards.formats.values import Body, Point, points
from helen.forwards.records import Changed, Labels, Record

HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
SEVERITIES = {OK: 9, WARNING: 13, UNKNOWN: 14, CRITICAL: 17}  # INFO, WARN, WARN2 and ERROR of OTLP
UNITS = {"B": "By", "c": "1", "%": "%"}  # Nagios' units in UCUM, where they differ from it
_CUMULATIVE = 2
_MILLISECOND = 1_000_000  # nanoseconds
_GZIP = 16 + zlib.MAX_WBITS
MOST_ERROR = 500  # characters of a receiver's sentence about what it has left out

Each = TypeVar("Each")


def write_metrics(records: Sequence[Record], labels: Labels, sends: frozenset[str], prefix: str) -> Body | None:
    """Return an ExportMetricsServiceRequest of these records; None if nothing of them is sent."""
    found = list(points(records, sends, prefix))
    if not found:
        return None
    return Body(packed(_by_agent(found, labels, _metrics_of)), len(found))


def write_logs(records: Sequence[Record], labels: Labels) -> Body | None:
    """Return an ExportLogsServiceRequest of the transitions among these records; None if there are none."""
    found = [record for record in records if isinstance(record, Changed)]
    if not found:
        return None
    return Body(packed(_by_agent(found, labels, lambda changes: [_log_record(change) for change in changes])),
                len(found))  # fmt: skip


def packed(content: bytes) -> bytes:
    """Return the content compressed as gzip."""
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    return packer.compress(content) + packer.flush()


EMPTY = Body(packed(b""), 0)  # changes of states are few: whether a receiver takes logs is asked by a request of none


def _by_agent(found: Iterable[Each], labels: Labels, parts: Callable[[list[Each]], list[bytes]]) -> bytes:
    """Return a resource for each agent, and in it what `parts` makes of the agent's own."""
    of_agent = attrgetter("agent")
    return b"".join([
        pb.message(1, _resource(agent, labels.get(agent, {})), pb.message(2, _SCOPE, *parts(list(own))))
        for agent, own in groupby(sorted(found, key=of_agent), of_agent)
    ])  # fmt: skip


_SCOPE = pb.message(1, pb.text(1, "helen"))


def _resource(agent: str, labels: Mapping[str, str]) -> bytes:
    named = dict(labels) | {"service.name": "helen", "service.instance.id": agent, "host.name": agent}
    return pb.message(1, *_attributes(1, named))


def _attributes(field: int, named: Mapping[str, str]) -> list[bytes]:
    return [
        pb.message(field, pb.text(1, name), pb.message(2, pb.text(1, value))) for name, value in named.items() if name
    ]


def _metrics_of(found: list[Point]) -> list[bytes]:
    by_metric: dict[tuple[str, str, bool], list[bytes]] = {}
    for point in found:
        named = {**point.labels, "agent": point.agent, "check": point.check}
        data = pb.message(1, *_attributes(7, named), pb.fixed(3, point.when * _MILLISECOND), pb.double(4, point.value))
        by_metric.setdefault((point.name, point.unit, point.is_counter), []).append(data)
    return [_metric(*key, data) for key, data in by_metric.items()]


def _metric(name: str, unit: str, is_counter: bool, data: list[bytes]) -> bytes:
    head = pb.text(1, name), pb.text(3, UNITS.get(unit, unit))
    if is_counter:
        return pb.message(2, *head, pb.message(7, *data, pb.number(2, _CUMULATIVE), pb.number(3, 1)))
    return pb.message(2, *head, pb.message(5, *data))


def _log_record(change: Changed) -> bytes:
    word = STATUS_WORDS[change.status]
    named = {
        "agent": change.agent, "check": change.check, "status": word, "was": STATUS_WORDS[change.was],
        "kind": change.kind, "reason": change.reason, "why": change.why,
    }  # fmt: skip
    when = change.when * _MILLISECOND
    return pb.message(
        2, pb.fixed(1, when), pb.fixed(11, when), pb.number(2, SEVERITIES[change.status]), pb.text(3, word.upper()),
        pb.message(5, pb.text(1, change.summary)), *_attributes(6, {k: v for k, v in named.items() if v}),
        pb.text(12, "helen.transition"),
    )  # fmt: skip


def left_out(answer: bytes) -> tuple[int, str]:
    """Return how much of a request the receiver says it has left out, and its reason; 0 for any other answer."""
    count, reason = 0, ""
    try:
        for number, partial in pb.fields(answer):
            for inner, value in pb.fields(partial) if number == 1 and isinstance(partial, bytes) else ():
                if inner == 1 and isinstance(value, int):
                    count = value
                elif inner == 2 and isinstance(value, bytes):
                    reason = value[:MOST_ERROR].decode("utf-8", "replace")
    except ValueError:
        return 0, ""
    return count, reason
