"""Goes on behind segments that can't be read or are lost, and notes in the table `segments` what became of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from helen.pipeline.ingest.batch import Sink
from helen.pipeline.ingest.histories import CHANGES, RESULTS
from helen.pipeline.ingest.missing import behind, named
from helen.pipeline.ingest.taken import LOST, as_rows
from helen.pipeline.lake import schema
from helen.pipeline.lake.lake import Lake


def accept_loss(lake: Lake, sink: Sink) -> list[str]:
    """Go on behind the segments that are missing now, and return a line for each span of them.

    They stay in the table `segments`, as lost. The caller has the lock of the lake.
    """
    said = []
    for helen, history in sink.histories.items():
        results = {table: sink.done(table)[helen] for table in sink.tables}
        spans = [(RESULTS, behind(history, results) or history.hole_after(RESULTS, max(results.values())))]
        spans.append((CHANGES, history.hole_after(CHANGES, sink.done(schema.CHANGES.name, CHANGES)[helen])))
        for kind, span in spans:
            if span:
                advance(lake, sink, helen, kind, span, LOST, "accepted by an operator")
                said.append(f"{history.folder}: goes on behind {named(history, kind, span)}")
    return said


def advance(lake: Lake, sink: Sink, helen: int, kind: str, span: Sequence[int], state: str, why: str) -> None:
    """Have all tables go on behind these segments, and note in `segments` what became of them. Twice does no harm."""
    first, last = span
    transaction = {sink.transaction(helen, kind): last}
    if lake.done(schema.TAKEN.name, sink.transaction(helen, kind)) < last:
        now = time.time_ns() // 1000
        rows = [
            {"helen": helen, "kind": kind, "segment": number, "rows": 0, "dropped": 0, "digest": 0, "first": 0,
             "last": -1, "begin": now, "end": now, "state": state, "why": why}
            for number in range(first, last + 1)
        ]  # fmt: skip
        lake.publish(schema.TAKEN.name, lake.stage_rows(schema.TAKEN.name, as_rows(rows)), transaction)
    for table in sink.tables if kind == RESULTS else (schema.CHANGES.name,):
        if lake.done(table, sink.transaction(helen, kind)) < last:
            lake.publish(table, [], transaction)
