"""Tests the arithmetic of bench/lake_years.py and bench/cluster.py: files, rows, bytes and limits of a simulated
lake."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import Phase, given, settings
from hypothesis import strategies as some

from helen.pipeline import driver, file_runs, upkeep

sys.path.append(str(Path(__file__).parents[3] / "bench"))  # behind tests/stages, which has a fleet.py of its own

from cluster import Step, makespan
from lake_growth import Snapshot, read_of, simulate
from lake_late_days import parts_of
from lake_limits import Limit, Room, first_limit, limits_of
from lake_settings import Costs, Fleet, Policy
from lake_store import Store

TABLES = ("results", "m5", "h1", "d1", "changes", "segments")
COSTS = Costs(
    taken=1e-5, taken_alone=2e-6, rows_per_bucket=3.0, follow=1e-6, merge=2e-6, merge_piece=1e-7, sort=4e-6,
    sort_piece=5e-7, change=1e-5, fresh=dict.fromkeys(TABLES, 50.0), final=dict.fromkeys(TABLES, 30.0), list_file=1e-5,
    file_memory=1000.0, entry=400.0, checkpoint=50.0, publish=0.02, publish_file=0.004, publish_listed=1e-6,
    note_file=1e-6, check_day=2e-5, report_row=1e-7, answer=900.0, packed=100.0, shown=2e-5, name=400.0, idle=8e8,
)  # fmt: skip
SMALL = Fleet(agents=60, checks=10)  # 10 results a second: all of a day fits into one file of each table
POLICY = Policy.of_code()


@pytest.mark.parametrize(
    ("rows", "parts", "group", "read"),
    [
        (1000, 1, 100, 1000),  # one part reads everything once
        (1000, 10, 100, 10 * 200),  # each wants 100 rows, which lie in two groups of 100
        (50, 10, 100, 10 * 50),  # a file with one group is read whole by all
        (1000, 4, 2000, 4 * 1000),
    ],
)
def test_what_parts_read(rows: float, parts: int, group: int, read: float) -> None:
    assert read_of(rows, parts, group) == read


@given(some.integers(1, 10**8), some.integers(1, 1000), some.integers(1, 1 << 20))
def test_parts_read_each_row_once_at_least_and_each_file_once_each_at_most(rows: int, parts: int, group: int) -> None:
    assert rows <= read_of(rows, parts, group) * (1 + 1e-9) and read_of(rows, parts, group) <= rows * parts * (1 + 1e-9)


def test_the_policy_is_the_code_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation takes the pipeline's own constants, so that it cannot differ from them."""
    assert (POLICY.trigger, POLICY.keep, POLICY.enough) == (driver.TRIGGER, upkeep.KEEP, file_runs.ENOUGH_FILES)
    assert (POLICY.log_seconds, POLICY.removed_seconds, POLICY.checkpoint) == (3600.0, 86_400.0, 100)
    monkeypatch.setattr(driver, "TRIGGER", 30.0)
    monkeypatch.setattr(upkeep, "LIVELY_FILES", 7)
    assert (Policy.of_code().trigger, Policy.of_code().lively) == (30.0, 7)


def test_a_small_fleet_has_a_file_a_day() -> None:
    """A small fleet of 10 results a second has a file a day in each table, and bytes by its rows."""
    days = simulate(SMALL, POLICY, COSTS, 95)
    first, last = days[0], days[-1]
    assert first.batches == 8640
    assert first.files == dict.fromkeys(TABLES, 1)
    assert last.files == {"results": 31, "m5": 91, "h1": 95, "d1": 95, "changes": 95, "segments": 95}
    assert first.bytes["results"] == pytest.approx(864_000 * 30)
    assert first.bytes["m5"] == pytest.approx(600 * 3 * 288 * 30)
    assert (first.bytes["h1"], first.bytes["d1"]) == (pytest.approx(600 * 3 * 24 * 30), pytest.approx(600 * 3 * 30))
    assert first.bytes["changes"] == pytest.approx(600 * 5 * 30)
    assert last.bytes["standing"] == pytest.approx(13 * 3 * 600 * 30)


def test_cpu_of_a_day_of_a_small_fleet() -> None:
    """The CPU of a small fleet's day is that of its rows, since one part reads each row once."""
    (day,) = simulate(SMALL, POLICY, COSTS, 1)
    assert day.cpu["taking in"] == pytest.approx(864_000 * 1e-5 + 600 * 5 * 1e-5)
    new, kept, whole = 100 * 3 * 30, 600 * 3 * 1.8, 600 * 3  # rows of m5: of five minutes as they come, as put together
    hours = 24 * sum(new + put * kept for put in range(12))
    days = sum((hour + 1) * whole for hour in range(24))
    assert day.cpu["hours and days"] == pytest.approx((hours + days) * 1e-6)
    put = 288 * new * 2e-6 + 864_000 * 4e-6
    assert day.cpu["today's files"] == pytest.approx(put, rel=0.01)  # h1's own files, each few hours, come on top
    assert day.cpu["whole days"] == pytest.approx(288 * kept * 2e-6 + 864_000 * 4e-6 + 24 * whole * 2e-6, rel=0.01)


def test_the_memory_of_a_month_by_days_does_not_grow_with_its_days() -> None:
    """The driver's memory for a month by days has a bound for each core, while its file and the time to print grow."""
    policy = evolve(POLICY, days_at_once=500)
    days = simulate(SMALL, policy, COSTS, 40, cores=2)
    assert [at.month_report[1] - at.memory for at in (days[0], days[1], days[39])] == [
        600 * 100.0 * 4, 1000 * 100.0 * 4, 1000 * 100.0 * 4
    ]  # fmt: skip
    assert [at.month_file for at in (days[0], days[39])] == [600 * 100.0, 30 * 600 * 100.0]
    assert [at.month_shown for at in (days[0], days[39])] == pytest.approx([600 * 2e-5, 30 * 600 * 2e-5])


def test_a_log_holds_an_hour_of_entries_and_the_files_of_two_days_that_went() -> None:
    (day,) = simulate(SMALL, POLICY, COSTS, 1)
    entries = 8640 + 24 + 1  # batches, hours put together, the day put together
    removed = (8640 + 24) / 2  # half of what went today and the day before
    checkpoints = 1 + int(entries / 24) // 100
    assert day.log_bytes["results"] == pytest.approx(entries / 24 * 400 + checkpoints * (1 + removed) * 50)


def test_what_is_kept_bounds_everything_but_what_is_kept_for_ever() -> None:
    days = simulate(SMALL, evolve(POLICY, keep={"results": 3, "m5": 5, "h1": 8, "d1": None}), COSTS, 20)
    for name, kept in (("results", 3), ("m5", 5), ("h1", 8)):
        assert [at.files[name] for at in days] == [min(day, kept + 1) for day in range(1, 21)]
        assert days[-1].log_bytes[name] == days[-2].log_bytes[name]
    assert days[-1].files["d1"] == 20


@settings(deadline=None, max_examples=8, phases=(Phase.explicit, Phase.generate))  # to shrink one takes minutes
@given(some.integers(1, 4000), some.integers(1, 60), some.sampled_from((30.0, 60.0, 300.0)), some.integers(2, 4))
def test_what_grows_with_the_fleet(agents: int, checks: int, seconds: float, times: int) -> None:
    """Bytes grow as results do and CPU at least as much, since more parts read more rows than they need."""
    fleet = Fleet(agents, checks, seconds)
    (one,), (many,) = (simulate(each, POLICY, COSTS, 1) for each in (fleet, evolve(fleet, agents=agents * times)))
    for name, size in one.bytes.items():
        assert many.bytes[name] == pytest.approx(size * times)
    for what in ("taking in", "hours and days"):
        assert many.cpu[what] >= one.cpu[what] * times * 0.999 > 0
    assert min(min(each.values()) for at in (one, many) for each in (at.files, at.bytes, at.log_bytes, at.cpu)) >= 0
    assert many.alone > 0 and many.hold >= one.hold > 0


@pytest.mark.parametrize(
    ("outage", "parts"),
    [
        (8.0, [(1, 1 / 3, 4.0)]),  # back before 8: from nothing to 8 hours of yesterday
        (24.0, [(1, 1.0, 12.0)]),
        (36.0, [(1, 1.0, 21.0), (2, 0.5, 6.0)]),
        (72.0, [(1, 1.0, 24.0), (2, 1.0, 24.0), (3, 1.0, 12.0)]),
    ],
)
def test_what_days_an_outage_has_a_part_in(outage: float, parts: list[tuple[int, float, float]]) -> None:
    found = [(each.days, each.share, each.hours) for each in parts_of(outage)]
    assert found == [
        (days, pytest.approx(share, rel=0.01), pytest.approx(hours, rel=0.02)) for days, share, hours in parts
    ]


def test_late_rows_are_written_again_as_often_as_they_double() -> None:
    """Late rows cost about as many rewrites as their number doubles, and leave few files."""
    fleet = evolve(SMALL, agents=600, back=0.8)
    calm, late = (simulate(each, POLICY, COSTS, 10) for each in (evolve(fleet, back=0.0), fleet))
    results = fleet.per_second * 86_400
    for one, other in zip(calm[1:], late[1:], strict=True):
        assert one.cpu["late rows"] == 0
        many = 480 / 3 * 10 * 4 * 60  # results that come late
        rows = many + 480 / 3 * 10 * 3 * (4 * 12 + 4 + 1)  # of all tables
        assert 0 < other.cpu["late rows"] <= rows * 4e-6 * math.ceil(math.log2(480 / 3 + 1) + 1)
        assert {name: each for name, each in other.cpu.items() if name != "late rows"} == {
            name: each for name, each in one.cpu.items() if name != "late rows"
        }
        added = sum(other.files.values()) - sum(one.files.values())
        assert 0 < added <= (other.day - 1) * 4 * (file_runs.ENOUGH_FILES + 8)
    grown = late[-1].bytes["results"] - calm[-1].bytes["results"]
    assert grown == pytest.approx(9 * 480 / 3 * 10 * 4 * 60 * 30, rel=0.02)
    assert results > 0


def test_a_large_day_that_is_made_anew_for_late_rows_costs_many_times_as_much() -> None:
    fleet = Fleet(agents=10_000, checks=10, back=0.02)
    added, anew = (simulate(fleet, evolve(POLICY, add_from=least), COSTS, 2)[1] for least in (20_000, math.inf))
    assert anew.cpu["late rows"] > 5 * added.cpu["late rows"] > 0


def test_a_store_counts_what_an_entry_takes_out() -> None:
    store = Store()
    store.begin()
    store.add(entries=10, files=2, rows=100.0)
    assert (store.files, store.rows, store.entries, store.added) == (20, 1000.0, 10, 20)
    store.replace(files=3, rows=30.0, gone=5)
    assert (store.files, store.rows, store.removed[-1]) == (18, 1000.0 - 250 + 30, 5)
    store.put_together(files=2, rows=700.0)
    assert (store.files, store.new, store.removed[-1]) == (2, [], 23)
    store.close(files=1, size=9.0)
    assert (store.files, store.today, [*store.past], store.removed[-1]) == (1, 0, [(1, 9.0)], 25)
    store.expire(0)
    assert (store.files, store.removed[-1]) == (0, 26)


def snapshot(day: int, memory: float) -> Snapshot:
    return Snapshot(day, 8640, {}, {"results": 1e12}, {"results": 1e6}, {"taking in": 3600.0}, 1.0, 2.0, memory,
                    (60.0, memory), (600.0, 2 * memory), 120.0, 1e9)  # fmt: skip


def test_the_first_limit_is_named_with_its_day() -> None:
    room = Room(cores=2, memory=8e9, disk=4e12, report_seconds=600.0)
    days = [snapshot(day, day * 1e9) for day in range(1, 10)]
    nearest = limits_of(days[0], POLICY, room)[0]
    assert (nearest.name, nearest.need, nearest.share) == ("time of a month by days", 600 / 2 + 120, 0.7)
    assert first_limit(days, POLICY, room) == (5, Limit("memory, a month by days", 1e10, 8e9, "bytes"))
    assert first_limit(days[:4], POLICY, room) is None


@pytest.mark.parametrize(
    ("tasks", "workers", "ends"),
    [([], 2, 0.0), ([3.0, 1.0, 1.0, 1.0], 2, 3.0), ([1.0] * 5, 2, 3.0), ([2.0, 4.0], 1, 6.0), ([5.0, 1.0], 9, 5.0)],
)
def test_when_tasks_have_ended(tasks: list[float], workers: int, ends: float) -> None:
    assert makespan(tasks, workers) == ends


def test_the_wall_on_more_workers() -> None:
    """The wall time on more workers divides the stages, but not the driver's own part."""
    step = Step(cpu=9.0, wall=10.0, stages=[[2.0, 2.0, 2.0, 2.0], [2.0]])
    assert [step.wall_on(workers, 2) for workers in (1, 2, 4)] == [14.0, 10.0, 8.0]
