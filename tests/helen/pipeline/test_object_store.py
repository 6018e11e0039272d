"""Tests a lake in each kind of object store: servers on loopback, which can refuse requests, be slow, or be gone.

S3 is moto's, Azure's is Azurite, Google's is fake-gcs-server with what it lacks (tests/stages/stored_elsewhere.py).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from deltalake.exceptions import DeltaError
from plainly import PlainBatch, sink_of
from stored_elsewhere import NPM

from helen.pipeline.doctor import examine
from helen.pipeline.ingest import batch as ingestion
from helen.pipeline.lake import lake as lakes
from helen.pipeline.lake import places, stores
from helen.pipeline.lake.damaged_files import unreadable
from helen.pipeline.lake.errors import LakeBusy, LakeDamaged
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.stores import url_of
from helen.pipeline.reports.check_history import HistoryRequest, read_history
from helen.pipeline.rollup import job, splitting
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import compact, sweep
from helen.pipeline.verify import verify_days, verify_segments
from helen.promql.archive import Archive, Facts
from helen.promql.errors import Unavailable
from helen.promql.parameters import Parameters
from helen.promql.questions import Question
from helen.web.lake_reads import LakeChanges, read_lake
from helen.web.problems import Problem

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
STAGES = Path(__file__).parents[2] / "stages"
KILLS = ("written:1", "m5-published:1", "segments-published:1", "results-published:1", "")


AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # as published


class Store:
    """Run the server's process; `told` sets its faults from now on."""

    def __init__(self, kind: str) -> None:
        command = [sys.executable, str(STAGES / "object_store.py"), kind]
        self.kind = kind
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = f"127.0.0.1:{int(self._line())}"

    def _line(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 60.0)[0], "the server says nothing"
        return self.process.stdout.readline()

    def told(self, **faults: Any) -> dict[str, int]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(faults) + "\n")
        self.process.stdin.flush()
        counts: dict[str, int] = json.loads(self._line())
        return counts

    def end(self) -> None:
        """End the server behind the process by the end of its standard input."""
        self.process.communicate(timeout=30.0)


def settings_of(store: Store) -> dict[str, str]:
    """Return the environment that an operator sets for this server."""
    return {
        "s3": {
            "AWS_ENDPOINT_URL": f"http://{store.address}", "AWS_ACCESS_KEY_ID": "one", "AWS_REGION": "us-east-1",
            "AWS_SECRET_ACCESS_KEY": "two", "AWS_EC2_METADATA_DISABLED": "true",
        },
        "gs": {"STORAGE_EMULATOR_HOST": store.address},
        "abfs": {
            "AZURE_STORAGE_ENDPOINT": f"http://{store.address}/devstoreaccount1",
            "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1", "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
        },
    }[store.kind]  # fmt: skip


def make_bucket(store: Store) -> None:
    server: dict[str, Any] = {"endpoint_override": store.address, "scheme": "http"}
    made: dict[str, Callable[[], pafs.FileSystem]] = {
        "s3": lambda: pafs.S3FileSystem(**server, allow_bucket_creation=True),
        "gs": lambda: pafs.GcsFileSystem(**server, anonymous=True, project_id="p"),
        "abfs": lambda: pafs.AzureFileSystem(
            "devstoreaccount1",
            account_key=AZURITE_KEY,
            blob_storage_authority=store.address,
            dfs_storage_authority=store.address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        ),
    }
    made[store.kind]().create_dir("lakes")


@pytest.fixture(scope="module", params=["s3", "gs", "abfs"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    started = Store(request.param)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings_of(started).items():
            patched.setenv(name, value)
        stores.forget_stores()
        make_bucket(started)
        yield started
        started.end()
    stores.forget_stores()


@pytest.fixture
def lake(store: Store, request: pytest.FixtureRequest) -> Iterator[Lake]:
    """Provide an empty lake by its URL, and unlock it at the end, so that its thread ends."""
    made = Lake(Path(f"{store.kind}://lakes/{request.node.originalname}"))
    yield made
    store.told()
    made.unlock()


@pytest.fixture
def impatient(store: Store) -> Iterator[None]:
    """Make each request once alone, and forget the stores opened so, since other tests retry."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stores, "ATTEMPTS", 1)
        patched.setattr(stores, "RETRY_SECONDS", 1.0)
        patched.setattr(stores, "STORE_OPTIONS", {"max_retries": "0", "retry_timeout": "1s"})
        stores.forget_stores()
        yield
    stores.forget_stores()


def write(history: Any, segments: int = 3) -> None:
    """Write segments with three results of each of two checks, over midnight."""
    for number in range(segments):
        begin = T + 86_100 + number * 180
        history.segment(*(
            history.result(f"web{at % 2}/net", begin + at * 30, metrics=[
                {"name": "sent", "value": number * 100.0 + at, "kind": "counter"}]) for at in range(6)
        ))  # fmt: skip
    history.segment(history.change("link", T, "web0", event="up"))


def content(lake: Lake) -> dict[str, list[Any]]:
    tables = ("results", "m5", "h1", "d1", "changes", "series")
    return {
        table: sorted(
            json.dumps({k: v for k, v in row.items() if k != "version"}, default=str) for row in lake.rows(table)
        )
        for table in tables
    }


def follow(lake: Lake) -> None:
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    lake.unlock()


def check_proved(lake: Lake, results: int) -> None:
    assert verify_segments(lake) == []
    days = list(verify_days(lake))
    assert [each.faults for each in days] == [[] for _ in days]
    assert sum(each.counts["results"] or 0 for each in days) == results


def test_it_has_what_a_folder_has(
    lake: Lake, history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake in a store has the same content as one in a folder: taken in, summed up, split, proved and read."""
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", 0)
    monkeypatch.setattr(job, "ROWS_PER_PART", 5)
    monkeypatch.setattr(splitting, "SPLIT_FROM", 2)
    write(history)
    folder = Lake(tmp_path / "lake")
    for each in (lake, folder):
        (history.folder / "pipeline-lake").unlink(missing_ok=True)
        take_in(each, history.state)
        follow(each)
    assert content(lake) == content(folder)
    check_proved(lake, 18)
    assert (history.folder / "committed").read_text().strip() == "3"
    begin = round(T) * MICROS
    request = HistoryRequest("web1", "net", begin, begin + 2 * 86_400 * MICROS, "h1", ["sent"])
    points = [each["metrics"][0]["points"] for each in (read_history(at.folder, request) for at in (lake, folder))]
    assert points[0] == points[1] != []
    found = {each.what: (each.fine, each.said) for each in examine(lake, [history.state])}
    assert found["lake"] == (True, f"{url_of(lake.folder)}, in an object store")
    assert found["tables"][0]
    lake.lock()
    sweep(lake)
    lake.unlock()
    assert [*places.files_below(lake.path("results") / "_staging", "", recursive=True)] == []


def test_one_writer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second writer is refused until the first unlocks or has not renewed its lock, and the first then publishes
    nothing."""
    lake.lock()
    other = Lake(lake.folder)
    with pytest.raises(LakeBusy, match=r"is writing to (s3|gs|abfs)://lakes/test_one_writer.*try again in [0-9]+ s"):
        other.lock()
    lake.unlock()
    other.lock()
    monkeypatch.setattr(Lake, "lease_seconds", 0.0)
    lake.lock()
    with pytest.raises(LakeDamaged, match="another process has taken its lock"):
        other.publish("series", [], {})
    other.unlock()
    other.unlock()
    assert lake._lock is not None
    assert lake._lock.is_in_place()


def test_two_writers_double_nothing(lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers with the lock double nothing: the store refuses the slower one's entry."""
    monkeypatch.setattr(lakes.Lease, "is_in_place", lambda self: True)
    monkeypatch.setattr(Lake, "lease_seconds", 0.0)
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", 0)  # a batch is one segment
    quick_lake = Lake(lake.folder)
    write(history, 2)
    quick = sink_of(quick_lake, history.state)
    quick.take(PlainBatch(quick, 1))
    slow = sink_of(lake, history.state)
    batch, given = PlainBatch(slow, 1), lake._move

    def meanwhile(*words: Any) -> Any:
        monkeypatch.setattr(lake, "_move", given)
        quick.take(PlainBatch(quick, 1))
        return given(*words)

    monkeypatch.setattr(lake, "_move", meanwhile)
    with pytest.raises(DeltaError, match="Failed to commit transaction"):
        slow.take(batch)
    with pytest.raises(LakeBusy, match=r"Another process has written to [a-z0-9]+://lakes/"):
        slow.take(batch)
    lake.unlock()
    quick_lake.unlock()
    follow(quick_lake)
    check_proved(quick_lake, 12)


def test_files_that_another_writer_replaced_stay_replaced(
    lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file made of files that another writer has replaced is not published."""
    monkeypatch.setattr(lakes.Lease, "is_in_place", lambda self: True)
    monkeypatch.setattr(Lake, "lease_seconds", 0.0)
    write(history, 2)
    take_in(lake, history.state, most=1)
    files, rows = lake.files("results"), pa.Table.from_pylist(lake.rows("results"), schema=lake.tables["results"].arrow)
    lake.lock()
    staged = lake.stage_rows("results", rows)
    other = Lake(lake.folder)
    other.publish("results", other.stage_rows("results", rows), {}, files, fresh=False)
    with pytest.raises(LakeBusy, match="has published nothing more"):
        lake.publish("results", staged, {}, files, fresh=False)
    lake.unlock()
    assert len(lake.rows("results")) == 12


def test_a_server_that_refuses_and_is_slow(store: Store, lake: Lake, history: Any, take_in: Any) -> None:
    """A server that refuses or delays one in ten requests gives an exact lake."""
    write(history, 2)
    before = store.told(refuse=0.1, slow=[0.1, 0.05])
    take_in(lake, history.state)
    after = store.told()
    follow(lake)
    assert after["refused"] > before["refused"]
    assert after["slow"] > before["slow"]
    check_proved(lake, 12)


def test_a_server_that_is_gone(
    store: Store, impatient: None, lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write to a server that is gone fails with an expected error, readers answer 503, and it succeeds later."""
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", 0)  # a batch is one segment
    write(history)
    sink = sink_of(lake, history.state)
    sink.take(PlainBatch(sink, 1))
    store.told(dead=True)
    batch = PlainBatch(sink, 1)
    with pytest.raises((OSError, DeltaError, LakeDamaged)):
        sink.take(batch)
    found = {each.what: each for each in examine(lake, [history.state])}
    assert not found["lake"].fine
    assert found["lake"].said.startswith(f"{url_of(lake.folder)} can't be reached: ")
    check_refused(lake.folder, history, "can't be reached")
    store.told()
    take_in(lake, history.state)
    follow(lake)
    check_proved(lake, 18)


def fields(agent: str = "web1", check: str = "net") -> dict[str, Any]:
    begin = round(T) * MICROS
    return {"agent": agent, "check_id": check, "begin": begin, "end": begin + 2 * 86_400 * MICROS, "metrics": ["sent"],
            "resolution": "h1", "limit": None, "cursor": None}  # fmt: skip


def changes_of(folder: Path, history: Any) -> list[dict[str, Any]]:
    asked = {"begin": 0, "end": round(T + 86_400) * MICROS, "before": 1_000, "after": None, "kinds": ()}
    return list(LakeChanges(folder, history.folder).changes(**asked))


def archive_of(folder: Path, history: Any) -> Archive:
    return Archive(Facts(history.state, folder, {}, lambda agent: True))


def check_refused(folder: Path, history: Any, said: str) -> None:
    """Check that each of Helen's readers answers 503 with this sentence."""
    for read in (read_lake, lambda folder, _: changes_of(folder, history),
                 lambda folder, _: LakeChanges(folder, history.folder).oldest()):  # fmt: skip
        with pytest.raises(Problem, match=said) as caught:
            read(folder, fields())
        assert caught.value.status == 503
    with pytest.raises(Unavailable, match=said):
        archive_of(folder, history)


def test_helen_reads_it(lake: Lake, history: Any, take_in: Any) -> None:
    """Charts, past changes and PromQL read results that only the lake has, by the functions that Helen calls."""
    with pytest.raises(Problem, match=f"there is no lake in {url_of(lake.folder)} yet") as caught:
        read_lake(lake.folder, fields())
    assert caught.value.status == 409
    assert LakeChanges(lake.folder, history.folder).oldest() is None
    assert changes_of(lake.folder, history) == []
    assert not archive_of(lake.folder, history).has_lake()
    write(history)
    take_in(lake, history.state)
    follow(lake)
    for segment in history.segments.iterdir():
        segment.unlink()
    [metric] = json.loads(read_lake(lake.folder, fields()))["metrics"]
    assert [(point["n"], point["last"]) for point in metric["points"]] == [(5, 103.0), (4, 205.0)]
    assert LakeChanges(lake.folder, history.folder).oldest() == T
    assert [row["kind"] for row in changes_of(lake.folder, history)] == ["link"]
    for resolution, samples in (("raw", 9), ("h1", 9)):
        texts = {"query": ["count_over_time(sent{agent='web1'}[2h])"], "time": [str(T + 90_000)]}
        question = Question(Parameters(texts | {"resolution": [resolution]}, 0), archive_of(lake.folder, history))
        [found] = json.loads(question.answer("query")[1])["data"]["result"]
        assert float(found["value"][1]) == samples


def test_a_place_that_cannot_be(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that lacks its account is an answer with the form to write."""
    monkeypatch.delenv(stores.ACCOUNT_VARIABLE, raising=False)
    (history.folder / "pipeline-id").write_text("0a1b")
    check_refused(
        Path("abfs://box/lake"), history, "abfs://box/lake.* names no account: write abfs://CONTAINER@ACCOUNT"
    )


def test_a_writer_that_is_killed(store: Store, lake: Lake, history: Any) -> None:
    """A writer killed at each point leaves files that are swept, and each result is in the lake once."""
    write(history, 4)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    program = subprocess.Popen(
        [sys.executable, str(STAGES / "plainly.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip
    lines = "".join(json.dumps([str(lake.folder), str(history.state), where]) + "\n" for where in KILLS)
    answers, _ = program.communicate(lines, timeout=200.0)
    assert [*map(int, answers.split())] == [-9] * (len(KILLS) - 1) + [0]
    lake.lease_seconds = 0.0
    follow(lake)
    check_proved(lake, 24)


def test_spark_reads_and_writes_it(store: Store, lake: Lake, history: Any, take_in: Any, spark: Any) -> None:
    """Spark reads and writes a lake in a store through Arrow in its workers, without jars for the store."""
    write(history)
    take_in(lake, history.state)
    words = settings_of(store)
    spark.sparkContext.environment.update(words)
    try:
        frame = lake.frame(spark, "results")
        counted = sorted((str(row["day"]), row["count"]) for row in frame.groupBy("day").count().collect())
        assert counted == [("2026-09-22", 10), ("2026-09-23", 8)]
        lake.lock()
        staged = lake.stage("results", frame)
        lake.publish("results", staged, {}, lake.files("results"), fresh=False)
        assert len(lake.rows("results")) == 18
        assert lake.frame(spark, "results", []).count() == 0
    finally:
        for name in words:
            spark.sparkContext.environment.pop(name)
    check_proved(lake, 18)


def test_a_file_that_cannot_be_read_is_named(lake: Lake, history: Any, take_in: Any) -> None:
    """A damaged file in a store is named by its URL, and a missing one is a finding of the doctor."""
    write(history, 1)
    take_in(lake, history.state)
    file = lake.files("results")[0]
    path = lake.path("results") / file.path
    places.write_bytes(path, b"PAR1 no more")
    assert unreadable(lake, "results", file) is not None
    [sentence] = verify_segments(lake)
    assert sentence.startswith(f"{url_of(lake.folder)}/results/day=2026-09-22/b0000000000-0000-")
    filesystem, name = stores.filesystem(path)
    filesystem.delete_file(name)
    found = {each.what: each for each in examine(lake, [history.state])}
    assert "1 file is in the log and not on the disk" in found["tables"].said


def test_tables_that_have_nothing_yet(lake: Lake) -> None:
    assert (lake.open("results"), lake.files("m5"), lake.rows("series")) == (None, [], [])
    assert isinstance(lake.tables["m5"].arrow, pa.Schema)


def test_servers_from_npm_are_where_the_tests_install_them() -> None:
    """`./dev` installs the servers from npm in the checkout, whichever environment runs the tests."""
    dev = (STAGES.parents[1] / "dev").read_text()
    assert f"npm ci --prefix {NPM.relative_to(STAGES.parents[1])} " in dev
    for command in ("test", "newest"):
        assert "npm_peers" in dev.partition(f"\n    {command})\n")[2].partition(";;")[0]
