"""Tests answers of any size: tasks write them, the driver reads pieces of them, and no file is left behind."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import frozen

from helen.pipeline.lake import answer_folders
from helen.pipeline.lake.answer_folders import new_folder, sweep_folders
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held
from helen.pipeline.reports import answer_files, sql_command
from helen.pipeline.reports.answer_files import PIECE_ROWS, AnswerRows, WriteTask
from helen.pipeline.reports.availability_inputs import _fleet_changes
from helen.pipeline.reports.sql_statements import Questions
from helen.pipeline.standing import changes_for

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
NUMBERS = pa.schema([("n", pa.int64())])


@frozen
class Counted:
    """Yield `rows` rows in batches that are too large, with empty ones between."""

    rows: int

    def __call__(self, batches: Any) -> Iterator[pa.RecordBatch]:
        for begin in range(0, self.rows, 25_000):
            yield pa.RecordBatch.from_pydict({"n": []}, schema=NUMBERS)
            yield pa.RecordBatch.from_pydict({"n": list(range(begin, min(begin + 25_000, self.rows)))}, schema=NUMBERS)


def written(folder: Path, rows: int) -> list[tuple[str, int]]:
    return [
        (row["path"], row["rows"]) for batch in WriteTask(str(folder), Counted(rows))([]) for row in batch.to_pylist()
    ]


def test_the_reader_holds_a_piece(tmp_path: Path) -> None:
    """An answer's rows are read in pieces, in order, repeatedly and cut at the limit; its folder goes with its
    reader."""
    folder = tmp_path / "answer"
    folder.mkdir()
    files = written(folder, 60_000) + written(folder, 0) + written(folder, 7)
    assert [rows for _, rows in files] == [60_000, 7]
    rows = AnswerRows(NUMBERS, folder, files, None)
    for _ in range(2):
        sizes = [piece.num_rows for piece in rows.pieces()]
        assert (max(sizes), sum(sizes)) == (PIECE_ROWS, 60_007)
    assert [row["n"] for row in rows] == [*range(60_000), *range(7)]
    cut = AnswerRows(NUMBERS, tmp_path / "none", files, 10_001)
    assert (len(cut), cut.whole, sum(piece.num_rows for piece in cut.pieces())) == (10_001, 60_007, 10_001)
    assert (rows[60_000], rows[-1]) == ({"n": 0}, {"n": 6})
    del rows
    gc.collect()
    assert not folder.exists()


def test_folders_that_a_kill_left_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of answers that a killed process left are swept after a day; younger ones stay, since they may be
    read."""
    lake = Lake(tmp_path / "lake")
    young = new_folder(lake)
    monkeypatch.setattr(answer_folders.time, "time", lambda: 1_000.0)
    old, empty = new_folder(lake), new_folder(lake)
    for folder in (young, old):
        (folder / "a.arrow").write_bytes(b"x")
    monkeypatch.undo()
    assert sweep_folders(lake, time.time()) == 2
    assert (young.exists(), old.exists(), empty.exists()) == (True, False, False)
    assert sweep_folders(lake, time.time() + 2 * 86_400) == 1
    assert not young.parent.exists()
    assert sweep_folders(lake, time.time()) == 0


def test_rules_of_an_agent_count_once(tmp_path: Path, history: Any, take_in: Any) -> None:
    """A plan keeps the last labels of each agent however often rules were recorded, and all changes that are not
    rules."""
    records = [history.change("helen_start", T)]
    for n in range(300):
        records.append(history.change("rule", T + n, None, agent=f"web{n % 2}", labels={"n": n}, checks={"a": {}}))
    records += [history.change("downtime", T + 400, id="x"), history.change("rule", T + 500, None, rules={})]
    history.segment(*records)
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    rows = _fleet_changes(changes_for(lake, round(T * 1e6), date(2026, 9, 24)))
    assert [row["kind"] for row in rows] == ["helen_start", "rule", "rule", "downtime"]
    assert [json.loads(row["document"]) for row in rows[1:3]] == [
        {"agent": "web0", "labels": {"n": 298}}, {"agent": "web1", "labels": {"n": 299}},
    ]  # fmt: skip
    assert held(lake, "changes", lake.files("changes"))


def test_an_answer_without_a_limit_stays_in_files(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of Spark's answer stay in files, sorted and typed, with unique column names, and no folder remains."""
    monkeypatch.setattr(answer_files.tempfile, "tempdir", str(tmp_path))
    lake = Lake(tmp_path / "lake")
    asked = "select id as n, id as n, cast(id as decimal(9, 2)) as d, array(id) as l from range(25000) order by id desc"
    for limit, rows in ((0, 25_000), (20_000, 20_000)):
        answer = Questions(lake, lambda: spark, limit).ask(asked)
        assert [piece.num_rows <= PIECE_ROWS for piece in answer.pieces()] == [True] * len([*answer.pieces()])
        assert [row["n"] for row in answer.report.rows] == [*range(24_999, 24_999 - rows, -1)]
        assert answer.report.columns == ["n", "n_2", "d", "l"]
        assert answer.report.notes == ([] if not limit else ["Only the first 20000 rows: --limit gives more."])
        out = tmp_path / "out.parquet"
        monkeypatch.setattr(sql_command, "GROUP_BYTES", 1)
        sql_command.write_parquet(answer, out)
        assert pq.read_table(out).schema.equals(answer.schema)
        assert [
            group for group in map(pq.ParquetFile(out).metadata.row_group, range(2)) if group.num_rows > PIECE_ROWS
        ] == []
    del answer
    gc.collect()
    assert [path.name for path in tmp_path.glob("helen-answer-*")] == []
