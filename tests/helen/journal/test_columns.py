"""Tests that rows of many metrics and labels are converted some at a time, and are the same rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.journal import columns
from helen.journal.columns import RESULTS, result_batch
from helen.journal.document import read_document
from helen.journal.values import Entry, Origin, StoredResult

texts = st.text(st.sampled_from("ab☃"), min_size=1, max_size=3)
labels = st.dictionaries(texts, texts | st.just("\ud800"), max_size=4)
metrics = st.fixed_dictionaries(
    {"name": texts}, optional={"value": st.integers(-5, 5), "labels": labels, "warn": texts, "max": st.integers(0, 3)}
)
documents = st.fixed_dictionaries(
    {"status": st.sampled_from(["ok", "critical"])},
    optional={
        "metrics": st.lists(metrics, max_size=6), "truncated": st.dictionaries(texts, st.integers(0, 9), max_size=3),
        "summary": texts,
    },
)  # fmt: skip


class OneSeries:
    """Give each series the same number."""

    def number(self, *_: Any) -> int:
        return 1


def rows(documents: list[dict[str, Any]]) -> list[StoredResult]:
    blobs = [json.dumps(document).encode() for document in documents]
    entries = [Entry("web-1", "cpu", None, "s", n, Origin.SCHEDULED, 1e9, blob) for n, blob in enumerate(blobs, 1)]
    return [StoredResult(entry.sequence, entry, read_document("cpu", entry.blob)) for entry in entries]


@settings(deadline=None, max_examples=100)
@given(made=st.lists(documents, min_size=1, max_size=6), size=st.integers(1, 5))
def test_pieces_are_the_same_rows(made: list[dict[str, Any]], size: int) -> None:
    """A batch converted in pieces equals the one converted at once, wherever a piece of metrics, labels or lengths
    ends."""
    expected = result_batch(rows(made), OneSeries())  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(columns, "CONVERTED_AT_ONCE", size)
        batch = result_batch(rows(made), OneSeries())  # type: ignore[arg-type]
    batch.validate(full=True)
    assert batch.schema == RESULTS and batch.equals(expected)


def test_no_conversion_takes_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """No conversion takes more values than a piece, even for thousands of labels of one metric."""
    taken = list[int]()
    real = columns._strings
    monkeypatch.setattr(columns, "_strings", lambda values: (taken.append(len(values)), real(values))[1])
    monkeypatch.setattr(columns, "CONVERTED_AT_ONCE", 100)
    many = {"status": "ok", "metrics": [{"name": "m", "labels": {str(n): "v" for n in range(990)}}]}
    batch = result_batch(rows([many] * 3), OneSeries())  # type: ignore[arg-type]
    assert max(taken) == 100 and sum(taken) == 2 * 3 * 990
    [metric] = batch.column("metrics")[2].as_py()
    assert (len(metric["labels"]), metric["labels"][-1], batch.num_rows) == (990, ("989", "v"), 3)
    assert pa.types.is_map(batch.schema.field("truncated").type)
