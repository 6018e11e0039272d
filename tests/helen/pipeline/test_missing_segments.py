"""Tests segments that are missing, cut or corrupt, and histories that two lakes claim: always reported, never
skipped silently."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from plainly import PlainBatch, sink_of

from helen.pipeline import driver
from helen.pipeline.commands import main
from helen.pipeline.doctor import examine
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.ingest.claims import check_claim, claim, identity_of
from helen.pipeline.ingest.earlier_segments import list_earlier
from helen.pipeline.ingest.histories import open_history
from helen.pipeline.ingest.quarantine import readmit, set_aside, waiting
from helen.pipeline.ingest.taken import digests, total
from helen.pipeline.lake.errors import BadSegment, MissingSegments, PipelineError
from helen.pipeline.lake.lake import Lake

T = 1_790_000_100.0


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def some(history: Any, count: int, begin: int = 0, check: str = "web1/disk") -> None:
    """Write segments of ten results and of one change each."""
    for n in range(begin, begin + count):
        history.segment(
            *(history.result(check, T + n * 60 + at) for at in range(10)), history.change("link", T + n * 60)
        )


def at_rest(lake: Lake) -> list[int]:
    return sorted(row["at"] for row in lake.rows("results"))


def listed(lake: Lake) -> list[tuple[Any, ...]]:
    rows = [(row["kind"], row["segment"], row["rows"], row["state"]) for row in lake.rows("segments")]
    return sorted(rows)


def wrong(lake: Lake, *states: Path) -> dict[str, str]:
    """Return the doctor's findings on the lake and the histories."""
    found = [each for each in examine(lake, states) if not each.fine]
    return {each.what: each.said for each in found if each.what not in ("Java", "lake", "driver")}


def test_a_missing_number_stops_until_it_is_there(lake: Lake, history: Any, take_in: Any, tmp_path: Path) -> None:
    """A missing segment stops the pipeline and Helen's `committed` there, and the doctor says so, until it is back."""
    some(history, 3)
    take_in(lake, history.state)
    some(history, 3, 3)
    hidden = history.segments / "seg-00000004.parquet"
    hidden.rename(tmp_path / "hidden")
    sentence = "segments lacks seg-00000004.parquet, and has later ones; Helen deletes none that the lake doesn't have"
    for _ in range(2):
        with pytest.raises(MissingSegments, match=sentence):
            take_in(lake, history.state)
    assert sentence in wrong(lake, history.state)["history"]
    assert (len(at_rest(lake)), (history.folder / "committed").read_text()) == (30, "3\n")
    (tmp_path / "hidden").rename(hidden)
    take_in(lake, history.state)
    assert at_rest(lake) == sorted(set(at_rest(lake)))
    assert len(at_rest(lake)) == 60
    assert wrong(lake, history.state) == {}


def test_segments_of_changes_are_missed_as_well(lake: Lake, history: Any, take_in: Any) -> None:
    some(history, 1)
    take_in(lake, history.state)
    some(history, 3, 1)
    for number in (2, 3):
        (history.segments / f"chg-{number:08}.parquet").unlink()
    with pytest.raises(MissingSegments, match=r"lacks chg-00000002\.parquet to chg-00000003\.parquet, and has later"):
        take_in(lake, history.state)


def test_what_helen_has_deleted_is_not_missing(lake: Lake, history: Any, take_in: Any) -> None:
    """Segments that Helen has deleted are not missing, neither for a first pipeline nor for a new lake."""
    some(history, 4)
    for number in (1, 2):
        (history.segments / f"seg-{number:08}.parquet").unlink()
    take_in(lake, history.state)
    assert len(at_rest(lake)) == 20
    (history.segments / "seg-00000003.parquet").unlink()
    shutil.rmtree(lake.folder)
    take_in(lake, history.state)
    assert len(at_rest(lake)) == 10


def test_a_loss_that_is_accepted_is_noted(lake: Lake, history: Any, take_in: Any) -> None:
    """`accept-loss` goes on behind missing segments and notes them; without a loss it does nothing."""
    some(history, 1)
    take_in(lake, history.state)
    some(history, 4, 1)
    for name in ("seg-00000002", "seg-00000003", "chg-00000002"):
        (history.segments / f"{name}.parquet").unlink()
    words = ["accept-loss", "--state", str(history.state), "--lake", str(lake.folder)]
    told = CliRunner().invoke(main, words)
    assert (told.exit_code, told.output.splitlines()) == (0, [
        f"{history.folder}: goes on behind seg-00000002.parquet to seg-00000003.parquet",
        f"{history.folder}: goes on behind chg-00000002.parquet",
    ])  # fmt: skip
    take_in(lake, history.state)
    assert (len(at_rest(lake)), len(lake.rows("changes"))) == (30, 4)
    assert listed(lake) == [
        ("chg", 2, 0, "lost"), ("seg", 1, 10, "sound"), ("seg", 2, 0, "lost"), ("seg", 3, 0, "lost"),
        ("seg", 4, 10, "sound"), ("seg", 5, 10, "sound"),
    ]  # fmt: skip
    assert CliRunner().invoke(main, words).output == "Nothing to do.\n"


def test_a_table_that_lost_its_log_asks_for_what_it_lacks(lake: Lake, history: Any, take_in: Any) -> None:
    """A table that lost its log asks for segments that other tables have and Helen has deleted, until the loss is
    accepted."""
    some(history, 2)
    take_in(lake, history.state)
    (history.segments / "seg-00000001.parquet").unlink()
    shutil.rmtree(lake.path("results"))
    some(history, 1, 2)
    with pytest.raises(MissingSegments, match=r"The table results lacks seg-00000001\.parquet, which m5 has"):
        take_in(lake, history.state)
    lake.unlock()
    told = CliRunner().invoke(main, ["accept-loss", "--state", str(history.state), "--lake", str(lake.folder)])
    assert told.output.endswith("goes on behind seg-00000001.parquet\n")
    take_in(lake, history.state)
    assert len(at_rest(lake)) == 20


# ------------------------------------------------------------------------------------------------ bad segments


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """Change every byte of the first column's pages."""
    return content[:4] + bytes(byte ^ 0x5A for byte in content[4:400]) + content[400:]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": cut, "empty": lambda content: b"", "flipped": flipped, "text": lambda content: b"no parquet" * 99,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["seg", "chg"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_bad_segment_is_named_set_aside_and_readmitted(lake: Lake, history: Any, kind: str, name: str) -> None:
    """A bad segment is named and set aside, others come in, and it is readmitted once when a sound copy is there."""
    some(history, 4)
    path = history.segments / f"{kind}-00000003.parquet"
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[name](whole))
    sink = sink_of(lake, history.state)
    with pytest.raises(BadSegment, match=f"{path.name} can't be read") as told:
        sink.take(PlainBatch(sink, 9))
    bad = told.value
    assert (bad.kind, bad.number, "\n" in str(bad)) == (kind, 3, False)
    sink.caps = {(0, kind): 2}
    sink.take(PlainBatch(sink, 2))
    sink.caps = {}
    kept = set_aside(lake, sink, bad)
    assert kept.read_bytes() == path.read_bytes()
    set_aside(lake, sink, bad)  # a kill came before the next look
    sink.take(PlainBatch(sink, 9))
    sink.commit()
    counts = len(at_rest(lake)), len(lake.rows("changes"))
    assert counts == ((30, 4) if kind == "seg" else (40, 3))
    assert [(row["kind"], row["segment"], row["why"]) for row in waiting(lake)] == [(kind, 3, bad.reason)]
    assert f"1 segment is in quarantine, {kind} 3 first" in wrong(lake, history.state)["quarantine"]
    assert all("taken in" not in line for line in readmit(lake, sink))
    path.write_bytes(whole)
    assert readmit(lake, sink) == [f"{path}: taken in"]
    assert readmit(lake, sink) == []
    assert at_rest(lake) == sorted(set(at_rest(lake)))
    assert (len(at_rest(lake)), len(lake.rows("changes"))) == (40, 4)
    assert sum(row["n"] for row in lake.rows("m5")) == 40
    assert wrong(lake, history.state) == {}
    lake.unlock()


def test_a_run_goes_on_behind_a_bad_segment(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on behind a bad segment after ten more tries, and publishes the segments before it first."""
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.0)
    some(history, 5)
    path = history.segments / "seg-00000004.parquet"
    path.write_bytes(path.read_bytes()[:50])
    said: list[str] = []
    Driver(spark, lake, [history.state], Settings(once=True, upkeep=False), said.append).run()
    assert len(at_rest(lake)) == 40
    assert len([line for line in said if line.startswith("failed, and begun again: ")]) == 11
    assert next(line for line in said if "it is kept as" in line).startswith(f"{path} can't be read")
    assert (history.folder / "committed").read_text() == "5\n"


# ------------------------------------------------------------------------------------------------ two lakes


def test_a_history_goes_into_one_lake(tmp_path: Path, history: Any) -> None:
    """A history goes into one lake: a second one is refused, a moved one is known, and a deleted one gives its claim
    up."""
    some(history, 1)
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    found = open_history(history.state)
    claim(found, one)
    claim(found, one)
    with pytest.raises(PipelineError, match=f"goes into the lake {one} already") as told:
        claim(found, other)
    assert str(told.value).endswith(f"delete {found.folder}/pipeline-lake.")
    check_claim(found, one)
    with pytest.raises(PipelineError, match=f"now goes into the lake {one}"):
        check_claim(found, other)
    moved = one.rename(tmp_path / "moved")
    claim(found, moved)
    shutil.rmtree(moved)
    moved.mkdir()
    claim(found, moved)
    assert identity_of(moved) == (moved / "lake-id").read_text().strip()
    (found.folder / "pipeline-lake").write_text("[]")
    claim(found, other)
    check_claim(found, other)


def closed(path: Path) -> Path:
    """Make a file that exists and cannot be opened, even by root: its name is a link to itself."""
    path.unlink(missing_ok=True)
    path.symlink_to(path)
    return path


@pytest.mark.parametrize("name", ["history/pipeline-lake", "one/lake-id", "other/lake-id"])
def test_a_claim_that_can_not_be_read_is_not_taken_for_none(tmp_path: Path, history: Any, name: str) -> None:
    """A claim or a lake's id that cannot be read is not taken for a missing one, and nothing is written over it."""
    some(history, 1)
    one, other = tmp_path / "one", tmp_path / "other"
    for lake in (one, other):
        lake.mkdir()
        identity_of(lake)
    found = open_history(history.state)
    claim(found, one)
    told = (found.folder / "pipeline-lake").read_text()
    file = closed(found.folder / "pipeline-lake" if name.startswith("history") else tmp_path / name)
    with pytest.raises(PipelineError, match=r"It can't be told whether .* goes into another lake already") as error:
        claim(found, other)
    assert "symbolic links" in str(error.value)
    assert file.is_symlink()
    assert file.name == "pipeline-lake" or (found.folder / "pipeline-lake").read_text() == told
    if not name.startswith("one"):
        with pytest.raises(OSError, match="symbolic links"):
            check_claim(found, other)
        assert "symbolic links" in wrong(Lake(other), history.state)["history"]


@pytest.mark.parametrize("name", ["committed", "segments/seg-00000002.parquet", "series.parquet", "segments"])
def test_a_file_of_a_history_that_can_not_be_opened_is_not_taken_for_none(history: Any, name: str) -> None:
    """A file of a history that cannot be opened is not taken for a missing one: Helen would be told a lower number."""
    some(history, 3)
    found = open_history(history.state)
    found.commit("seg", 3)
    if name == "segments":
        shutil.rmtree(found.segments)
    closed(found.folder / name)
    looks: dict[str, Callable[[], object]] = {
        "committed": lambda: found.commit("seg", 1),
        "segments/seg-00000002.parquet": lambda: found.next_after("seg", 1, 9),
        "series.parquet": found.series,
        "segments": lambda: open_history(history.state),
    }
    kinds = PipelineError if name == "segments" else OSError
    with pytest.raises(kinds, match="symbolic links"):
        looks[name]()
    assert (found.folder / name).is_symlink()


def test_a_second_lake_takes_nothing_in(lake: Lake, history: Any, take_in: Any, tmp_path: Path) -> None:
    """A second lake takes nothing of a claimed history in, also if it claimed the history during another's run."""
    some(history, 1)
    second = Lake(tmp_path / "second")
    lake.folder.mkdir()
    claim(open_history(history.state), lake.folder)
    with pytest.raises(PipelineError, match="already"):
        Driver(None, second, [history.state], Settings(once=True)).run()  # type: ignore[arg-type]
    assert not second.path("results").exists()
    sink = sink_of(lake, history.state)
    (open_history(history.state).folder / "pipeline-lake").unlink()
    claim(open_history(history.state), second.folder)
    sink.take(PlainBatch(sink, 9))
    with pytest.raises(PipelineError, match="now goes into the lake"):
        sink.commit()
    assert not (history.folder / "committed").exists()
    lake.unlock()


# ------------------------------------------------------------------------------------------------ the list


def test_the_list_of_segments_is_made_from_the_results_of_an_older_lake(
    lake: Lake, histories: Any, take_in: Any
) -> None:
    """The list of segments of an older lake is made from its results with the same counts and checksums, once."""
    one, other = histories
    some(one, 3)
    some(other, 2, check="web2/disk")
    take_in(lake, one.state, other.state)
    names = ("helen", "segment", "rows", "digest", "first", "last", "begin", "end")
    expected = sorted(tuple(row[name] for name in names) for row in lake.rows("segments"))
    assert [row[2] for row in expected] == [10] * 5
    shutil.rmtree(lake.path("segments"))
    some(one, 1, 3)
    take_in(lake, one.state, other.state)
    found = sorted(tuple(row[name] for name in names) for row in lake.rows("segments"))
    assert [row for row in found if row[:2] != (0, 4)] == expected
    assert len(found) == 6
    lake.lock()
    assert list_earlier(lake, {0: open_history(one.state).identity()}) == 0
    lake.unlock()


def test_a_checksum_tells_rows_apart() -> None:
    """A checksum changes with any covered column and with a row twice, but not with the order; sums wrap around."""
    kind = pa.timestamp("us", tz="UTC")
    rng = np.random.default_rng(1)
    columns = {
        "at": rng.integers(0, 2**40, 50), "received": pa.array(rng.integers(0, 2**50, 50)).cast(kind),
        "origin": pa.array(rng.integers(0, 3, 50), pa.int8()),
        "sequence": pa.array([None if n % 7 == 0 else n for n in range(50)], pa.int64()),
        "raw": pa.array([b"x" * (n % 9) for n in range(50)]),
    }  # fmt: skip
    rows = pa.table(columns)
    whole = total(digests(rows))
    assert whole == total(digests(rows.take(pa.array(rng.permutation(50)))))
    assert len(set(digests(rows).tolist())) == 50
    parts = [total(digests(rows.slice(0, 20))), total(digests(rows.slice(20)))]
    assert (sum(parts) - whole) % 2**64 == 0
    changed = [
        rows.set_column(0, "at", pa.array(columns["at"] + 1)),
        rows.set_column(3, "sequence", pa.array([0] * 50, pa.int64())),
        rows.set_column(4, "raw", pa.array([b"y"] * 50)),
        pa.concat_tables([rows, rows.slice(0, 1)]),
    ]
    assert whole not in [total(digests(each)) for each in changed]
    assert total(digests(rows.slice(0, 0))) == 0


def test_a_history_on_a_disk_without_links(lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*names: Any) -> None:
        raise OSError(95, "Operation not supported")

    some(history, 1)
    path = history.segments / "seg-00000001.parquet"
    path.write_bytes(b"x")
    sink = sink_of(lake, history.state)
    monkeypatch.setattr(os, "link", refused)
    assert set_aside(lake, sink, BadSegment(0, "seg", 1, path, "cut")).read_bytes() == b"x"
    lake.unlock()
