"""Tests changes to the log of a table by other programs, versions and accidents: understood, or refused with a
sentence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from deltalake import DeltaTable, TableFeatures
from deltalake.schema import Field, PrimitiveType
from plainly import PlainBatch, sink_of

from helen.pipeline.doctor import examine
from helen.pipeline.lake.delta_log import describe
from helen.pipeline.lake.errors import LakeDamaged
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import H1
from helen.pipeline.reports.check_history import HistoryRequest, LakeUnreadable, read_history
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import sweep

T = 1_790_000_100.0
DAY = 86_400 * 1_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def some(history: Any, count: int = 2) -> None:
    """Write segments of two checks."""
    for _ in range(count):
        history.segment(*(history.result(f"web{n % 2}/disk", T + n, cpu_ms=1.0) for n in range(6)))


def request() -> HistoryRequest:
    return HistoryRequest("web0", "disk", round(T) * 1_000_000 - DAY, round(T) * 1_000_000 + DAY, "m5")


def doctors_word(lake: Lake) -> str:
    return next(finding.said for finding in examine(lake, []) if finding.what == "tables" and not finding.fine)


def in_h1(lake: Lake) -> dict[int, int]:
    """Return the rows that count for each check."""
    newest: dict[int, dict[str, Any]] = {}
    for row in lake.rows("h1"):
        if row["series"] not in newest or newest[row["series"]]["version"] < row["version"]:
            newest[row["series"]] = row
    return {series: row["n"] for series, row in newest.items()}


def test_rows_that_another_program_deleted_are_gone(lake: Lake, history: Any, take_in: Any) -> None:
    """Rows that another program deleted are gone for all readers, and the rest of their buckets is summed up anew
    once."""
    some(history)
    take_in(lake, history.state)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    for table in ("results", "m5"):
        DeltaTable(str(lake.path(table))).delete("series = 1")
    DeltaTable(str(lake.path("m5"))).delete("series = 0 and n = 6")  # rewritten whole: nothing is left
    assert lake.files("m5") == []
    some(history, 1)
    take_in(lake, history.state)
    assert [row["series"] for row in lake.rows("results")].count(1) == 3
    assert [finding.fine for finding in examine(lake, [history.state]) if finding.what in ("tables", "history")] == [
        True, True,
    ]  # fmt: skip
    assert read_history(lake.folder, request())["metrics"][0]["points"][0]["n"] == 3
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    assert cascade(None, lake) == {"h1": 0, "d1": 0}  # type: ignore[arg-type]
    lake.unlock()
    assert in_h1(lake) == {0: 3, 1: 3}


def test_a_file_that_another_program_wrote_is_followed_once(lake: Lake, history: Any, take_in: Any) -> None:
    """A file that another program wrote is new to a level once, also after old entries of the log are gone."""
    some(history, 3)
    take_in(lake, history.state)
    lake.lock()
    cascade(None, lake, [H1])  # type: ignore[arg-type]
    lake.unlock()
    DeltaTable(str(lake.path("m5"))).optimize.compact()
    DeltaTable(str(lake.path("m5"))).delete("series = 1")
    (file,) = lake.files("m5")
    newest = DeltaTable(str(lake.path("m5"))).version()
    assert (file.fresh, file.version) == (True, newest)
    lake.lock()
    assert cascade(None, lake, [H1])["h1"] == 1  # type: ignore[arg-type]
    assert cascade(None, lake, [H1])["h1"] == 0  # type: ignore[arg-type]
    opened = DeltaTable(str(lake.path("m5")))
    opened.create_checkpoint()
    for entry in (lake.path("m5") / "_delta_log").glob("*.json"):
        if entry.stem != f"{newest:020}":
            entry.unlink()
    assert cascade(None, lake, [H1])["h1"] == 0  # type: ignore[arg-type]
    lake.unlock()


def test_a_column_of_another_program_stays(lake: Lake, history: Any, take_in: Any) -> None:
    some(history, 1)
    take_in(lake, history.state)
    DeltaTable(str(lake.path("results"))).alter.add_columns([Field("remark", PrimitiveType("string"))])
    some(history, 1)
    take_in(lake, history.state)
    assert [row["remark"] for row in lake.rows("results")] == [None] * 12


def test_a_table_of_an_older_version_gets_what_is_new(lake: Lake, history: Any, take_in: Any) -> None:
    """A table of an older version gets its new columns and the format in its log, once."""
    table = lake.tables["m5"]
    fewer = evolve(table, columns=table.columns.remove(table.columns.get_field_index("peak_kib")))
    lake.tables = {**lake.tables, "m5": fewer}
    lake.lock()
    lake.publish("m5", lake.stage_rows("m5", fewer.arrow.empty_table()), {})
    opened = DeltaTable(str(lake.path("m5")))
    opened.alter.set_table_description("")
    lake.unlock()
    assert "peak_kib" not in {field.name for field in DeltaTable(str(lake.path("m5"))).schema().fields}
    lake = Lake(lake.folder)
    some(history, 1)
    take_in(lake, history.state)
    opened = DeltaTable(str(lake.path("m5")))
    assert {field.name for field in opened.schema().fields} == set(table.arrow.names)
    assert opened.metadata().description == describe()
    version = opened.version()
    take_in(lake, history.state)
    assert DeltaTable(str(lake.path("m5"))).version() == version


def newer(table: DeltaTable, folder: Path) -> None:
    table.alter.set_table_description("lake of Helen, format 999")


def features(table: DeltaTable, folder: Path) -> None:
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)


def cut(table: DeltaTable, folder: Path) -> None:
    entry = folder / "_delta_log" / f"{table.version():020}.json"
    entry.write_bytes(entry.read_bytes()[:60])


def without_beginning(table: DeltaTable, folder: Path) -> None:
    (folder / "_delta_log" / f"{0:020}.json").unlink()


DAMAGE: dict[str, tuple[Callable[[DeltaTable, Path], None], str]] = {
    "a newer format": (newer, r"m5 was written by a newer version \(format 999, this one knows [0-9]+\): upgrade"),
    "features": (features, r"features of Delta that this version can't read \(reader version 3 instead of 1\)"),
    "an entry that is cut": (cut, r"m5/_delta_log can't be read \(.*\(0000000000000000000[0-9]\.json\), move that one"),
    "no beginning": (without_beginning, r"m5/_delta_log can't be read \(.*Restore it from a backup"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_cannot_be_understood_is_refused(lake: Lake, history: Any, take_in: Any, name: str) -> None:
    """A log that cannot be understood is refused by writer, readers and doctor with one sentence, and nothing is
    written."""
    some(history, 4)
    take_in(lake, history.state, most=1)
    damage, sentence = DAMAGE[name]
    damage(DeltaTable(str(lake.path("m5"))), lake.path("m5"))
    some(history, 1)
    files = sorted(lake.folder.rglob("*"))
    for _ in range(2):
        with pytest.raises(LakeDamaged, match=sentence) as told:
            take_in(Lake(lake.folder), history.state)
    assert "\n" not in str(told.value)
    with pytest.raises(LakeUnreadable, match=sentence):
        read_history(lake.folder, request())
    assert doctors_word(lake) == str(told.value)
    assert [path for path in sorted(lake.folder.rglob("*")) if path not in files] == []


def test_a_cut_entry_moved_away_is_taken_in_again(lake: Lake, history: Any, take_in: Any) -> None:
    """After a cut entry is moved away, as its sentence says, the segments are taken in again, each result once."""
    some(history)
    take_in(lake, history.state, most=1)
    opened = DeltaTable(str(lake.path("results")))
    cut(opened, lake.path("results"))
    (lake.path("results") / "_delta_log" / f"{opened.version():020}.json").rename(lake.folder / "moved")
    take_in(Lake(lake.folder), history.state)
    assert sorted(row["at"] for row in lake.rows("results")) == list(range(1, 13))


def test_a_log_that_is_lost_is_no_new_table(lake: Lake, history: Any, take_in: Any) -> None:
    """A table whose log is lost stops the pipeline before any step: a new table would lose deleted segments."""
    some(history, 4)
    take_in(lake, history.state, most=1)
    shutil.rmtree(lake.path("results") / "_delta_log")
    files = sorted(lake.path("results").rglob("*.parquet"))
    with pytest.raises(LakeDamaged, match=r"results/_delta_log is gone, and 2 data files lie there"):
        take_in(Lake(lake.folder), history.state)
    assert sorted(lake.path("results").rglob("*.parquet")) == files
    lake.path("results").rename(lake.folder.parent / "away")
    take_in(Lake(lake.folder), history.state)
    assert sorted(row["at"] for row in lake.rows("results")) == list(range(1, 25))


def test_a_lake_that_is_deleted_under_a_writer_ends_it(lake: Lake, history: Any) -> None:
    """A lake that is deleted under a writer ends it: it would go on without names, beside the next writer."""
    some(history, 1)
    sink = sink_of(lake, history.state)
    sink.take(PlainBatch(sink, 9))
    shutil.rmtree(lake.folder)
    some(history, 1)
    with pytest.raises(LakeDamaged, match=r"lake was deleted or replaced while|has been deleted while it was in use"):
        sink.take(PlainBatch(sink, 9))
    assert not (lake.path("series") / "_delta_log").exists()
    lake.unlock()


def test_replaced_files_stay_as_long_as_the_table_says(lake: Lake, history: Any, take_in: Any) -> None:
    """Replaced files stay for the retention of their table, a day, so that readers of an old version can finish."""
    some(history, 3)
    take_in(lake, history.state, most=1)
    lake.lock()
    before = lake.files("m5")
    rows = lake.open("m5").to_pyarrow_table()  # type: ignore[union-attr]
    staged = lake.stage_rows("m5", rows.select(lake.tables["m5"].arrow.names))
    lake.publish("m5", staged, {}, before, fresh=False)
    said = DeltaTable(str(lake.path("m5"))).metadata().configuration
    assert said["delta.deletedFileRetentionDuration"] == "interval 1 days"
    assert sweep(lake) == 0
    assert all((lake.path("m5") / file.path).exists() for file in before)
    assert sweep(lake, 0) == len(before) == 2
    lake.unlock()
