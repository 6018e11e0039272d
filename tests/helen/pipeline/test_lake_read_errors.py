"""Tests that each place that reads tells an error of the file from a lack of means, which sets nothing aside.

Errors are injected where the libraries would raise them. Tests that an unreadable file is done without, named, and
mended by the command that is named.
"""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from plainly import PlainBatch, sink_of
from pyspark.errors import AnalysisException, PySparkException

from helen.pipeline import driver, verify
from helen.pipeline.commands import main
from helen.pipeline.doctor import examine
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.ingest import batch, dedup
from helen.pipeline.ingest.quarantine import readmit, set_aside, waiting
from helen.pipeline.lake import damaged_files
from helen.pipeline.lake.damaged_files import Damage, forget_mended, unreadable
from helen.pipeline.lake.errors import (
    BadSegment,
    LakeDamaged,
    LakeFileUnread,
    OutOfResources,
    PipelineError,
    StoreUnreachable,
)
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.read_errors import first_line, with_advice
from helen.pipeline.reports.command_options import advised
from helen.pipeline.rollup import near_rows, overlaps
from helen.pipeline.verify import verify_days, verify_segments

T = 1_790_000_100.0  # 2026-09-21 13:35:00 UTC
DAY = 86_400.0
LACKS = {
    "EMFILE": OSError(errno.EMFILE, "Too many open files"), "ENFILE": OSError(errno.ENFILE, "Too many open files"),
    "ENOMEM": OSError(errno.ENOMEM, "Cannot allocate memory"), "Python's memory": MemoryError(),
    "Arrow's memory": pa.ArrowMemoryError("malloc of size 64 failed"),
}  # fmt: skip
OF_FILES = {
    "EIO": OSError(errno.EIO, "Input/output error"), "ESTALE": OSError(errno.ESTALE, "Stale file handle"),
    "EACCES": PermissionError(errno.EACCES, "Permission denied"),
}  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Provide an empty lake."""
    return Lake(tmp_path / "lake")


@contextmanager
def refusing(error: Exception, is_meant: Callable[[str], bool]) -> Iterator[None]:
    """Make files whose paths are chosen unreadable by each way of Arrow that the pipeline uses."""
    given = {"read_table": pq.read_table, "ParquetFile": pq.ParquetFile}

    def checked(function: Any, at: int) -> Any:
        def call(*words: Any, **more: Any) -> Any:
            paths = words[at] if isinstance(words[at], list | tuple) else [words[at]]
            if any(is_meant(str(path)) for path in paths):
                raise error
            return function(*words, **more)

        return call

    with pytest.MonkeyPatch.context() as patched:
        for name, function in given.items():
            patched.setattr(pq, name, checked(function, 0))
        for module in (near_rows, verify):
            patched.setattr(module, "read", checked(module.read, 1))  # type: ignore[attr-defined]
        for module in (overlaps, dedup):
            patched.setattr(module, "batches", checked(module.batches, 1))
        yield


def filled(history: Any, count: int = 3) -> None:
    """Write segments of results, and a change with each."""
    for number in range(count):
        at = T + number * 600
        results = [history.result("web0/net", at + each * 60) for each in range(4)]
        history.segment(*results, history.change("link", at))


# ------------------------------------------------------------------------------------------------ segments

PLACES = {
    "a task": "seg-00000002", "results that two Helens have": "seg-00000002", "changes": "chg-00000002",
    "results again": "quarantine/segments/seg-00000002", "changes again": "quarantine/segments/chg-00000002",
}  # fmt: skip


def take(sink: Any, place: str, history: Any) -> None:
    """Run the read at this place."""
    if place.endswith("again"):
        aside = driver.open_history(history.state)
        kind = "seg" if place.startswith("results") else "chg"
        sink.take_again(type(aside)(aside.folder / "quarantine"), 0, kind, 2)
    else:
        while not (found := PlainBatch(sink, 9)).is_empty:
            sink.take(found)


@pytest.fixture
def at_place(lake: Lake, histories: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that prepares a writer about to read at a place."""

    def prepare(place: str) -> Any:
        one, two = histories
        filled(one)
        states = [one.state] if place != "results that two Helens have" else [one.state, two.state]
        sink = sink_of(lake, *states)
        if place.endswith("again"):
            kind = "seg" if place.startswith("results") else "chg"
            path = one.segments / f"{kind}-00000002.parquet"
            kept = set_aside(lake, sink, BadSegment(0, kind, 2, path, "cut"))
            assert kept.exists()
        return sink

    return prepare


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", LACKS)
def test_a_lack_of_means_is_no_fault_of_a_segment(
    lake: Lake, histories: Any, at_place: Any, place: str, name: str
) -> None:
    """A lack of means is told with the action and is no fault of the segment, which comes in with the next try."""
    sink = at_place(place)
    before = len(waiting(lake))
    with refusing(LACKS[name], lambda path: PLACES[place] in path), pytest.raises(OSError) as told:
        take(sink, place, histories[0])
    assert isinstance(told.value, OutOfResources)
    assert f"{PLACES[place]}.parquet could not be read" in str(told.value)
    assert "and may be sound. " + ("Raise LimitNOFILE" if "FILE" in name else "Give this machine") in str(told.value)
    take(sink, place, histories[0])
    assert len(waiting(lake)) == max(before - 1, 0)
    if before == 0:
        assert (len(lake.rows("results")), len(lake.rows("changes"))) == (12, 3)
    lake.unlock()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OF_FILES)
def test_a_segment_that_its_disk_does_not_give_is_bad(at_place: Any, histories: Any, place: str, name: str) -> None:
    """A segment that its disk does not give is bad, so that it can be set aside if that stays."""
    sink = at_place(place)
    with refusing(OF_FILES[name], lambda path: PLACES[place] in path), pytest.raises(BadSegment) as told:
        take(sink, place, histories[0])
    assert (told.value.number, told.value.reason) == (2, str(OF_FILES[name]))


def test_a_lack_that_stays_ends_the_run_and_sets_nothing_aside(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lack of means that stays ends the run after eleven tries with the action, and sets nothing aside."""
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.0)
    filled(history)
    run = Driver(spark, lake, [history.state], Settings(once=True, upkeep=False))
    with refusing(LACKS["EMFILE"], lambda path: "chg-00000002" in path), pytest.raises(PipelineError) as told:
        run.run()
    assert "It has failed 11 times at one place: " in str(told.value)
    assert str(told.value).endswith("Raise LimitNOFILE of helen-pipeline's unit (ulimit -n).")
    assert waiting(lake) == []
    Driver(spark, lake, [history.state], Settings(once=True, upkeep=False)).run()
    assert len(lake.rows("changes")) == 3


@pytest.mark.parametrize("error", [LACKS["EMFILE"], OutOfResources("Too many open files")])
def test_a_lack_that_holds_the_logs_too_is_tried_again(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """A lack of means that also hides the logs counts as one place, and is tried again as often as any other."""
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.0)
    filled(history)
    run = Driver(spark, lake, [history.state], Settings(once=True, upkeep=False))
    start, calls = batch.Sink.start, []

    def refused(sink: Any) -> Any:
        calls.append(1)
        if 1 < len(calls) < 10:
            raise error
        return start(sink)

    monkeypatch.setattr(batch.Sink, "start", refused)
    run.run()
    assert len(lake.rows("results")) == 12


def test_a_store_that_answers_now_and_then_is_not_asked_for_ever(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that answers now and then ends a run without progress after eleven tries."""
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.0)
    filled(history)
    start, rng, said = batch.Sink.start, random.Random(1), list[str]()
    calls: list[int] = []

    def flaps(sink: Any) -> Any:
        calls.append(1)
        if len(calls) > 1 and rng.random() < 0.5:
            raise StoreUnreachable("the store gives no answer")
        return start(sink)

    def refuses(sink: Any, frame: Any) -> Any:
        raise StoreUnreachable("the store gives no answer")

    monkeypatch.setattr(batch.Sink, "start", flaps)
    monkeypatch.setattr(batch.Sink, "take", refuses)
    run = Driver(spark, lake, [history.state], Settings(once=True, upkeep=False), said.append)
    with pytest.raises(PipelineError, match="It has failed 11 times at one place: the store gives no answer"):
        run.run()
    assert said == ["failed, and begun again: the store gives no answer"] * 10


@pytest.mark.parametrize("name", OF_FILES)
def test_a_disk_that_gives_no_segment_ends_the_run(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A disk that gives no segment ends the run after two were set aside; they are readmitted once it is mended."""
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.0)
    filled(history, 6)

    def run() -> None:
        Driver(spark, lake, [history.state], Settings(once=True, upkeep=False)).run()

    for _ in range(2):
        bad = lambda path: "/segments/chg-" in path and "chg-00000001" not in path  # noqa: E731
        with refusing(OF_FILES[name], bad), pytest.raises(PipelineError) as told:
            run()
        path = history.segments / "chg-00000004.parquet"
        assert str(told.value) == (
            f"The disk does not give files: {path} can't be read ({OF_FILES[name]}), and neither could the 2 segments"
            " before it. Mend the disk, or the rights of its files, then start this again, and `helen pipeline readmit`"
            " takes those in."
        )
        assert [row["segment"] for row in waiting(lake)] == [2, 3]
    run()
    assert sorted(row["segment"] for row in lake.rows("changes")) == [1, 4, 5, 6]
    sink = sink_of(lake, history.state)
    assert len(readmit(lake, sink)) == 2
    lake.unlock()
    assert (len(lake.rows("changes")), len(lake.rows("results")), waiting(lake)) == (6, 24, [])


# ------------------------------------------------------------------------------------------------ files of the lake


def counted(history: Any, *values: tuple[float, float]) -> None:
    metrics = [[{"name": "sent", "value": value, "kind": "counter"}] for _, value in values]
    history.segment(
        *(history.result("web1/net", T + DAY, metrics=m, started=T + at) for (at, _), m in zip(values, metrics,
                                                                                             strict=True))
    )  # fmt: skip


def of(table: str) -> Callable[[str], bool]:
    return lambda path: f"/lake/{table}/day=" in path and "_staging" not in path


def prepared(lake: Lake, one: Any, two: Any, table: str) -> Any:
    """Return a writer whose next batch reads a table: m5 for steps of counters, results for moved agents."""
    if table == "m5":
        counted(one, (0, 1.0), (120, 9.0))
        sink = sink_of(lake, one.state)
        sink.take(PlainBatch(sink, 9))
        counted(one, (400, 20.0))
        return sink_of(lake, one.state)
    one.segment(*(one.result("web1/net", T + n, spool="k3v9", sequence=n) for n in (1, 2, 3)))
    sink = sink_of(lake, one.state, two.state)
    sink.take(PlainBatch(sink, 9))
    two.segment(*(two.result("web1/net", T + n, spool="k3v9", sequence=n) for n in (3, 4)))
    return sink_of(lake, one.state, two.state)


@pytest.mark.parametrize("table", ["m5", "results"])
@pytest.mark.parametrize("name", LACKS)
def test_a_lack_of_means_is_no_fault_of_a_file(lake: Lake, histories: Any, table: str, name: str) -> None:
    """A lack of means at a file of the lake is raised as it is, gives no file up, and names none as damaged."""
    sink = prepared(lake, *histories, table)
    with refusing(LACKS[name], of(table)), pytest.raises(type(LACKS[name])) as told:
        sink.take(PlainBatch(sink, 9))
    assert told.value is LACKS[name]
    assert (lake.unread, lake.given_up) == ({}, set())
    with refusing(LACKS[name], of(table)), pytest.raises(OutOfResources, match=r"could not be read .* may be sound"):
        unreadable(lake, table, lake.files(table)[0])
    with refusing(LACKS[name], of(table)), pytest.raises(OutOfResources):
        Damage().note(lake, table, lake.files(table))
    with refusing(LACKS[name], of(table)), pytest.raises(OutOfResources):
        [*verify_days(lake), *verify_segments(lake)]
    sink.take(PlainBatch(sink, 9))
    assert len(lake.rows("results")) == (3 if table == "m5" else 4)
    if table == "m5":
        assert gain(lake) == 19.0  # no try that failed has left half of the last values behind
    lake.unlock()


@pytest.mark.parametrize("name", OF_FILES)
def test_a_file_of_sums_that_stays_unread_is_done_without(lake: Lake, histories: Any, name: str) -> None:
    """A file of sums that stays unread fails first, since a gain is lost without it, and is then left out and named
    until mended."""
    sink = prepared(lake, *histories, "m5")
    path = str(lake.path("m5") / lake.files("m5")[0].path)
    sentence = f"{path} can't be read ({OF_FILES[name]}): restore it from a backup, or make its day anew: `helen "
    with refusing(OF_FILES[name], lambda other: other == path):
        with pytest.raises(LakeFileUnread) as told:
            sink.take(PlainBatch(sink, 9))
        assert str(told.value) == sentence + "pipeline rebuild m5 --from 2026-09-21`."
        lake.given_up.add(told.value.path)
        sink.take(PlainBatch(sink, 9))
        assert lake.unread == {path: str(told.value)}
        forget_mended(lake)
        assert lake.unread
    assert len(lake.rows("results")) == 3
    forget_mended(lake)
    assert (lake.unread, lake.given_up) == ({}, set())
    lake.unlock()


def test_last_values_come_back_with_a_file_that_was_restored(lake: Lake, history: Any) -> None:
    """A restored file gives back last values of counters without a new start."""

    def add(at: float, **values: float) -> None:
        history.segment(*(
            history.result(f"{agent}/net", T + at, started=T + at,
                           metrics=[{"name": "sent", "value": value, "kind": "counter"}])
            for agent, value in values.items()
        ))  # fmt: skip

    add(0, web1=1.0, web2=5.0)
    sink = sink_of(lake, history.state)
    sink.take(PlainBatch(sink, 9))
    sink = sink_of(lake, history.state)
    path = str(lake.path("m5") / lake.files("m5")[0].path)
    lake.given_up.add(path)
    add(400, web1=20.0)
    with refusing(OF_FILES["EIO"], lambda other: other == path):
        sink.take(PlainBatch(sink, 9))
    assert gain(lake) == 0.0
    forget_mended(lake)
    add(800, web1=25.0, web2=7.0)
    sink.take(PlainBatch(sink, 9))
    lake.unlock()
    assert gain(lake) == 5.0 + 2.0


def test_a_file_of_results_that_stays_unread_takes_nothing_in_twice(lake: Lake, histories: Any) -> None:
    """An unread file of results stops batches that might repeat moved agents' results, until its loss is accepted."""
    one, two = histories
    sink = prepared(lake, one, two, "results")
    path = lake.path("results") / lake.files("results")[0].path
    with refusing(OF_FILES["EIO"], of("results")):
        with pytest.raises(LakeFileUnread):
            sink.take(PlainBatch(sink, 9))
        lake.given_up.add(str(path))
        with pytest.raises(LakeDamaged, match="Until then it can't be told which results of agents that have moved"):
            sink.take(PlainBatch(sink, 9))
    lake.unlock()
    words = ["accept-loss", "--file", str(path), "--state", str(one.state), "--state", str(two.state)]
    words += ["--lake", str(lake.folder)]
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, f"{path} can be read: nothing was taken out." in refused.output) == (1, True)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    told = CliRunner().invoke(main, words)
    kept = lake.folder / "quarantine" / path.relative_to(lake.folder)
    assert told.output == f"{path}: its 3 rows count no more; it is kept as {kept}\n"
    assert kept.read_bytes() == path.read_bytes()
    again = CliRunner().invoke(main, words)
    assert (again.exit_code, "is no file that counts" in again.output) == (1, True)
    sink = sink_of(lake, one.state, two.state)
    sink.take(PlainBatch(sink, 9))
    assert sorted(row["sequence"] for row in lake.rows("results")) == [3, 4]
    lake.unlock()


def test_a_run_goes_on_without_a_file_and_the_doctor_names_it(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on without a file after ten tries; status and doctor name it, and the named command mends it."""
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.0)
    counted(history, (0, 1.0), (120, 9.0))
    Driver(spark, lake, [history.state], Settings(once=True, upkeep=False)).run()
    path = lake.path("m5") / lake.files("m5")[0].path
    counted(history, (400, 20.0))
    said: list[str] = []
    seen: list[str] = []
    run = Driver(spark, lake, [history.state], Settings(once=True, upkeep=False), said.append)
    commit = batch.Sink.commit
    monkeypatch.setattr(
        batch.Sink, "commit",
        lambda sink: commit(sink) or run._write_status(sink) * 0 or seen.extend(
            finding.said for finding in examine(lake, [history.state]) if finding.what == "driver"),
    )  # fmt: skip
    with refusing(OF_FILES["EIO"], lambda other: other == str(path)):
        run.run()
    assert len([line for line in said if line.startswith("failed, and begun again: ")]) == 10
    sentence = f"{path} can't be read ([Errno 5] Input/output error): restore it from a backup, or make its day anew: "
    assert len([line for line in said if line.startswith(sentence) and "taken in without it" in line]) == 1
    assert [text for text in seen if text.startswith(f"runs, but {sentence}`helen pipeline rebuild m5 --from")]
    assert len(lake.rows("results")) == 3
    assert gain(lake) == 8.0  # the step from 9 to 20 began in the file
    words = ["rebuild", "m5", "--from", "2026-09-21", "--lake", str(lake.folder), "--state", str(history.state)]
    monkeypatch.setattr("helen.pipeline.reports.command_options.start_spark", lambda *words, **more: Kept(spark))
    mended = CliRunner().invoke(main, words)
    assert mended.exit_code == 0, mended.output
    assert gain(lake) == 19.0
    assert json.loads((lake.folder / "status.json").read_text())["error"] is None


@pytest.mark.parametrize("path", ["s3:/bucket/lake/m5/day=2026-09-21/a.parquet", "/lake/m5/day=2026-09-21/a.parquet"])
def test_a_file_that_is_mended_is_no_error_of_the_run_any_more(lake: Lake, history: Any, path: str) -> None:
    """A mended file is no error of the run any more, and another error stays noted."""
    said: list[str] = []
    run = Driver(None, lake, [history.state], Settings(), said.append)  # type: ignore[arg-type]
    lake.unread[path] = "it can't be read"
    for _ in range(2):
        run._tell_unread()
    assert (run._status.error, said) == ("it can't be read", ["it can't be read"])
    run._note("upkeep", "no room")
    del lake.unread[path]
    run._tell_unread()
    assert run._status.error == "no room"


class Kept:
    """Hold a Spark that the command does not stop."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def __enter__(self) -> Any:
        return self._spark

    def __exit__(self, *words: object) -> None:
        return None

    def stop(self) -> None:
        return None


def gain(lake: Lake) -> float:
    return float(sum(row["increase"] or 0 for row in lake.rows("m5") if row["metric"] == "sent"))


# ------------------------------------------------------------------------------------------------ words of Java


def test_words_of_java_get_a_line_and_an_advice() -> None:
    """A Java error of many lines becomes one line, with the action that fits its cause."""
    pages = RuntimeError(
        "An error occurred while calling o86.collectToPython.\n: org.apache.spark.SparkException: Job aborted\n\tat x\n"
        "Caused by: java.io.FileNotFoundException: /a (Too many open files)\n"
    )
    assert first_line(pages) == "org.apache.spark.SparkException: Job aborted"
    told = with_advice(f"upkeep failed: {first_line(pages)}", pages)
    assert told.endswith("Job aborted. Raise LimitNOFILE of helen-pipeline's unit (ulimit -n).")
    assert with_advice("x.", ValueError("y")) == "x."


def test_the_root_is_told_where_the_first_line_says_nothing() -> None:
    """The root cause is told where the first line says nothing, since the file is in the last line alone."""
    first = "org.apache.spark.SparkException: Exception thrown in awaitResult:"
    causes = "Caused by: b: c\nCaused by: d: /a is cut\n\tat y"
    pages = f"An error occurred while calling z:o86.x.\n: {first} \n\tat x\n{causes}"
    assert first_line(RuntimeError(pages)) == "d: /a is cut"
    assert first_line(RuntimeError(first)) == first


@pytest.mark.parametrize("words", [("report", "availability", "--to", "2026-09-21"), ("rebuild", "m5")])
def test_a_command_that_meets_a_cut_file_names_it(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A command that meets a cut file names it and `helen pipeline verify`, without a traceback."""
    monkeypatch.setattr("helen.pipeline.reports.command_options.start_spark", lambda *words, **more: Kept(spark))
    filled(history)
    sink = sink_of(lake, history.state)
    sink.take(PlainBatch(sink, 9))
    lake.unlock()
    path = lake.path("results") / lake.files("results")[0].path
    path.write_bytes(path.read_bytes()[:-20])
    told = CliRunner().invoke(main, [*words, "--from", "2026-09-21", "--lake", str(lake.folder)])
    assert told.exit_code == 1 and isinstance(told.exception, SystemExit)
    assert f"Could not open Parquet input source '{path}'" in told.output
    assert told.output.endswith(" `helen pipeline verify` names each such file.\n")


def test_a_statement_that_speaks_of_an_error_gets_no_advice() -> None:
    """An error that only quotes a statement gets no advice on files."""
    quoted = "Syntax error at or near 'selec'.\n== SQL ==\nselec * from results where output like '%Permission denied%'"
    assert advised("Spark: a", AnalysisException(quoted)) == "Spark: a"
    assert (
        advised("Spark: a", PySparkException("(Permission denied)"))
        == "Spark: a. Chown it to the user of helen-pipeline."
    )


def test_a_command_without_descriptors_says_what_to_do(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without descriptors ends with the action and no traceback."""
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def refuse(*words: Any) -> Any:
        raise error

    monkeypatch.setattr("helen.pipeline.repair_commands.verify_segments", refuse)
    told = CliRunner().invoke(main, ["verify", "--lake", str(lake.folder)])
    assert told.output.endswith("Too many open files. Raise LimitNOFILE of helen-pipeline's unit (ulimit -n).\n")
    assert told.exit_code == 1
    assert damaged_files.READ_ERRORS[0] is OSError
