"""Defines what the writers of the formats share: bodies, and the points of results and transitions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from attrs import field, frozen

from helen.forwards.records import METRICS, STATES, Changed, Labels, Measured, Record

RESULT_STATUS = "helen_result_status"  # of each result: 0 ok, 1 warning, 2 critical, 3 unknown
STATE = "helen_state"  # of each transition: the status that it is judged to be from then on


@frozen
class Body:
    """Holds what is sent at once. `count` is what the receiver counts: samples, lines, or records of a log."""

    content: bytes = field(repr=False)
    count: int


Write = Callable[[Sequence[Record], Labels], Body | None]  # None: nothing of these records is sent


@frozen
class Signal:
    """Describes one kind of body of a forward: the end of its URL, its headers, and how it is written."""

    path: str
    headers: Mapping[str, str]
    write: Write = field(repr=False)
    empty: Body | None = field(default=None, repr=False)  # that a receiver takes though nothing is in it


class Point(msgspec.Struct, frozen=True, gc=False):
    """Holds one value. `when`: unix milliseconds; `labels` are the metric's own."""

    agent: str
    check: str
    name: str
    value: float
    when: int
    labels: Mapping[str, str]
    unit: str = ""
    is_counter: bool = False


def points(records: Iterable[Record], sends: frozenset[str], prefix: str = "") -> Iterator[Point]:
    """Yield the points of records; `prefix` stands in front of the names of metrics, and of no name of Helen's own."""
    for record in records:
        if isinstance(record, Changed):
            if STATES in sends:
                yield Point(record.agent, record.check, STATE, record.status, record.when, {})
        else:
            yield from _of_result(record, sends, prefix)


def _of_result(record: Measured, sends: frozenset[str], prefix: str) -> Iterator[Point]:
    agent, check, when = record.agent, record.check, record.when
    if STATES in sends:
        yield Point(agent, check, RESULT_STATUS, record.status, when, {})
    for each in record.figures if METRICS in sends else ():
        yield Point(
            agent, check, prefix + each.name, each.value, when, each.labels, each.unit, each.kind == "counter"
        )  # fmt: skip
