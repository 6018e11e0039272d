"""Tests that an agent is forgotten: nothing of it is left, everything else stays, and the lake still proves itself."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plainly
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from groundwork.target_ids import kept_spool
from helen.pipeline.commands import main
from helen.pipeline.forget import Forgotten, forget
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports import command_options
from helen.pipeline.reports.availability import store
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import compact, sweep
from helen.pipeline.verify import verify_days, verify_segments

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
DAY = 86_400.0
GONE = "größe.example"
TABLES = ("results", "m5", "h1", "d1", "changes", "standing", "availability_daily")


def some(helen: Any, begin: float, count: int = 12) -> None:
    """Write a segment of each kind, of three agents with two checks each."""
    agents = ("web1", GONE, "web2")
    helen.segment(
        *(helen.result(f"{agents[n % 3]}/c{n % 2}", begin + n * 60, "critical" if n % 5 == 0 else "ok", metrics=[
            {"name": "sent", "value": n * 5.0, "kind": "counter"}]) for n in range(count)),
        *(helen.change("link", begin + n, None, agent=agents[n], event="up") for n in range(3)),
        helen.change("link", begin, None, event="forgotten", why=GONE),
        helen.change("transition", begin, f"{GONE}/c0", at=begin, now={"status": "critical", "attempt": 0}, was={}),
        helen.change("downtime", begin, None, checks=[f"{GONE}/*"], reason="moved"),
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path, history: Any, take_in: Any) -> Lake:
    """Provide a lake of two days, one of them compacted, the other with hours that d1 has not seen."""
    lake = Lake(tmp_path / "lake")
    for number in range(4):
        some(history, T + number * 3600)
    take_in(lake, history.state)
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    store(lake, [
        {"series": row["series"], "date": row_date, "zone": "UTC", "profile": "strict", "seconds": 86_400.0, "ok": 1.0,
         "bad": 0.0, "planned": 0.0, "unknown": 0.0, "no_data": 86_399.0, "percent": 100.0, "outages": 0, "why": "{}",
         "from_changes": False, "version": 0}
        for row in lake.rows("series") for row_date in {file.day for file in lake.files("results")}
    ])  # fmt: skip
    lake.unlock()
    some(history, T + DAY)
    take_in(lake, history.state)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    some(history, T + DAY + 3600)
    take_in(lake, history.state)
    return lake


def of_others(lake: Lake) -> dict[str, list[str]]:
    """Return all rows of other agents, or of none, with names in place of numbers."""
    names = {row["series"]: f"{row['agent']}/{row['check_id']}" for row in lake.rows("series")}
    found = {}
    for table in TABLES:
        rows = [row for row in lake.rows(table) if GONE not in names.get(row["series"], "") and not is_its(row)]
        found[table] = sorted(repr({**row, "series": names.get(row["series"])}) for row in rows)
        assert found[table]
    return found


def is_its(row: dict[str, Any]) -> bool:
    """Return True for a change about the agent itself, about none of its checks."""
    return "document" in row and json.loads(row["document"]).get("agent") == GONE


def do(lake: Lake, **more: Any) -> Forgotten:
    lake.lock()
    try:
        return forget(None, lake, GONE, **more)  # type: ignore[arg-type]
    finally:
        lake.unlock()


def check(lake: Lake, before: dict[str, list[str]]) -> None:
    """Check that the agent is gone, that all other rows are there, and that the lake proves itself."""
    assert of_others(lake) == before
    known = {row["series"] for row in lake.rows("series")}
    assert not any(GONE in str(row) for table in ("series", "spools") for row in lake.rows(table))
    for table in TABLES:
        assert {row["series"] for row in lake.rows(table)} <= known | {None}
        assert not any(is_its(row) for row in lake.rows(table))
    assert verify_segments(lake) == []
    assert [fault for day in verify_days(lake) for fault in day.faults] == []


def test_nothing_of_it_is_left(lake: Lake) -> None:
    """A forgotten agent is in no table, and in no file once replaced ones are swept; everything else stays."""
    before, counted = of_others(lake), len(lake.rows("results"))
    gone = {row["series"] for row in lake.rows("series") if row["agent"] == GONE}
    found = do(lake)
    assert (found.rows["results"], found.mentions) == (24, 12)
    assert found.rows["changes"] == 12
    assert found.rows["m5"] > 0 and found.rows["availability_daily"] > 0 and found.rows["series"] == 2
    assert len(lake.rows("results")) == counted - 24 == 48
    check(lake, before)
    lake.lock()
    sweep(lake, 0)
    lake.unlock()
    left = [path for path in lake.folder.rglob("*.parquet") if path.parent.name != "_delta_log"]
    assert len(left) >= len(TABLES)
    for path in left:
        rows = pq.read_table(path).to_pylist()
        assert not any(row.get("series") in gone or row.get("agent") == GONE for row in rows)
    with pytest.raises(PipelineError, match="The lake knows no agent 'größe"):
        do(lake)


def test_levels_go_on_without_it(lake: Lake, history: Any, take_in: Any) -> None:
    """Levels follow without a forgotten agent, which is new with new numbers when it comes back."""
    before = of_others(lake)
    numbers = {row["series"] for row in lake.rows("series")}
    do(lake)
    lake.lock()
    assert cascade(None, lake)["d1"] > 0  # type: ignore[arg-type]
    lake.unlock()
    assert sum(row["n"] for row in lake.rows("d1") if row["metric"] == "") == 48
    take_in(lake, history.state)  # the history of its Helen has the name: it comes with a result alone
    assert not any(row["agent"] == GONE for row in lake.rows("series"))
    some(history, T + DAY + 7200)
    take_in(lake, history.state)
    again = {row["series"] for row in lake.rows("series") if row["agent"] == GONE}
    assert len(again) == len([row for row in lake.rows("series") if row["agent"] == "web1"]) and not again & numbers
    assert len(before["results"]) == 48
    assert sum(row["series"] in again for row in lake.rows("results")) == 4
    assert verify_segments(lake) == []


@pytest.mark.parametrize("table", ["segments", "results", "h1", "changes", "series"])
def test_a_run_that_was_ended_is_begun_again(lake: Lake, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """A forget that a full disk ended is begun again and takes each result back once."""
    before = of_others(lake)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(OSError, match="No space"):
        plainly.refuse_once(patched, lake, table)
        do(lake)
    do(lake)
    check(lake, before)
    taken = [row["rows"] for row in lake.rows("segments") if row["state"] == "forgotten"]
    assert taken == [-4] * 6


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands do all of it in this process: it is little, so no job is handed out."""
    settings = SimpleNamespace(get=lambda name, usual: {"spark.master": "local[2]"}.get(name, usual))
    here = SimpleNamespace(conf=settings, stop=lambda: None)
    monkeypatch.setattr(command_options, "start_spark", lambda *_: here)


def test_rows_that_are_left_keep_the_name(lake: Lake) -> None:
    """A forget that leaves rows keeps the agent's name and says to begin again."""
    before = of_others(lake)
    with pytest.MonkeyPatch.context() as patched:
        given = lake.publish
        patched.setattr(lake, "publish", lambda name, *words, **more: name != "h1" and given(name, *words, **more))
        with pytest.raises(PipelineError, match=r"are left \(.*'h1': [1-9].*begin again with the same command"):
            do(lake)
    assert sum(row["agent"] == GONE for row in lake.rows("series")) == 2
    do(lake)
    check(lake, before)


def test_what_it_ran_for_targets_is_counted(
    lake: Lake, history: Any, new_history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results that a forgotten agent got for targets stay with its name, and are counted, also by a dry run."""
    other = new_history(tmp_path / "other")
    for helen in (history, other):
        begin = T + DAY + (7200 if helen is history else 10_800)
        helen.segment(
            *(helen.result("switch-1/ping", begin + n, spool=kept_spool(GONE, "s1"), sequence=n + 1) for n in range(3)),
            helen.result("switch-2/ping", begin, spool=kept_spool(f"{GONE}.org", "s1")),
            helen.result("switch-2/ping", begin + 1, spool=kept_spool("web1", "s1")),
            helen.result(f"{GONE}/c0", begin, spool="s1"),
        )
    take_in(lake, history.state, other.state)
    assert do(lake, dry_run=True).runs == {"results": 3, "spools": 2}  # both Helens had the three from one spool
    without_spark(monkeypatch)
    run = CliRunner().invoke(main, ["forget", GONE, "--lake", str(lake.folder), "--output", "json"])
    note = "It ran targets: its name stays in the spools of 3 rows of results and 2 rows of spools."
    assert note in json.loads(run.stdout)["notes"]
    assert [sum(row["spool"].startswith(f"{GONE} ") for row in lake.rows(name)) for name in ("results", "spools")] == [
        3,
        2,
    ]
    assert verify_segments(lake) == []


def test_the_command(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run of `forget` changes nothing; the real one says the rows that went, and --purge deletes files at
    once."""
    without_spark(monkeypatch)
    versions = {table: len(lake.rows(table)) for table in TABLES}
    run = CliRunner().invoke(main, ["forget", GONE, "--lake", str(lake.folder), "--dry-run", "--output", "json"])
    said = json.loads(run.stdout)
    assert (said["title"], said["rows"][0]) == (f"Would go of {GONE}", {"table": "results", "rows": 24})
    assert said["notes"] == ["Nothing was taken out.", "It is named in 12 changes about several agents: these stay."]
    assert versions == {table: len(lake.rows(table)) for table in TABLES}
    run = CliRunner().invoke(main, ["forget", GONE, "--lake", str(lake.folder), "--purge"])
    assert run.exit_code == 0
    assert "No row of it is left in these tables." in run.stdout
    assert "replaced files were deleted." in run.stdout
    run = CliRunner().invoke(main, ["forget", GONE, "--lake", str(lake.folder)])
    assert (run.exit_code, "The lake knows no agent" in run.stderr) == (1, True)
