"""Test which runs are due when: phases, stalls, overlaps, and a schedule that comes again."""

import json
import random

import pytest

from equus.schedule.document import MAX_ENTRIES, ScheduleRefused, parse
from equus.schedule.schedule import EARLY_WITHIN, Action, Counters, Due, Entry, Overlap, Schedule, first_run

WALL = 1_000_000_007.25  # seconds since 1970 at monotonic 0


def started(*entries: Entry) -> Schedule:
    schedule = Schedule()
    schedule.replace(entries, 0.0, WALL)
    return schedule


def drive(schedule: Schedule, until: float, step: float = 0.25) -> list[tuple[float, str]]:
    """Drive a schedule whose runs end at once, and return each run with the time at which it was found due."""
    runs, now = [], 0.0
    while now <= until:
        for due in schedule.due(now):
            runs.append((now, due.entry.id))
            schedule.finished(due.entry.id)
        now += step
    return runs


def test_runs_lie_at_offset_past_the_multiples_of_every():
    """Runs are due at `offset` past the multiples of `every` by the wall clock, on whatever second the agent
    started.
    """
    schedule = started(Entry("load", "load", every=10, offset=3))
    assert [(WALL + at - 3) % 10 for at, _ in drive(schedule, 100)] == [0.0] * 10


@pytest.mark.parametrize("seed", range(50))
def test_the_first_run_is_in_the_future_and_within_one_period(seed):
    """The first run is in the future and within one period, for any moment, period and offset."""
    rng = random.Random(seed)
    every, now, wall = rng.uniform(0.1, 90_000), rng.uniform(0, 1e6), rng.uniform(0, 2e9)
    at = first_run(Entry("x", "x", every, offset=rng.uniform(0, every)), now, wall)
    assert now < at <= now + every * (1 + 1e-9)


@pytest.mark.adversary(56)
def test_the_same_schedule_again_changes_nothing():
    """The same schedule again keeps phase and counters, even if the wall clock has been set meanwhile."""
    load = Entry("load", "load", every=10, offset=3)
    schedule = started(load)
    schedule.due(20.0)
    counters, at = schedule.counters(), schedule.next_at()
    schedule.replace([load], 21.0, WALL + 5_000.5)
    assert (schedule.counters(), schedule.next_at()) == (counters, at)
    assert counters["load"].runs == 1


def test_other_args_keep_the_phase_and_another_period_does_not():
    """Other arguments keep the phase of an entry, and another period gives it a new one."""
    schedule = started(Entry("load", "load", every=10))
    at = schedule.next_at()
    schedule.replace([Entry("load", "load", every=10, args=b"{}")], 1.0, WALL + 1)
    assert (schedule.next_at(), schedule.entries[0].args) == (at, b"{}")
    schedule.replace([Entry("load", "load", every=7)], 1.0, WALL + 1)
    assert schedule.next_at() == first_run(Entry("load", "load", every=7), 1.0, WALL + 1)


def test_what_is_gone_is_never_due_again():
    """An entry that is gone is never due again."""
    schedule = started(Entry("load", "load", every=10), Entry("disk", "disk", every=10))
    schedule.replace([Entry("disk", "disk", every=10)], 0.0, WALL)
    assert {name for _, name in drive(schedule, 50)} == {"disk"}
    schedule.replace([], 50.0, WALL + 50)
    assert schedule.next_at() is None


def test_after_a_stall_each_entry_runs_once_and_the_rest_is_counted():
    """After a stall each entry runs once, its missed runs are counted, and the next run keeps the phase."""
    entry = Entry("load", "load", every=10)
    schedule = started(entry)
    first = schedule.next_at()
    assert schedule.due(first + 47) == [Due(entry, first, Action.RUN, missed=4, late=True)]
    assert schedule.due(first + 47) == []
    assert schedule.next_at() == first + 50
    assert schedule.counters()["load"] == Counters(runs=1, late=1, missed=4)


def test_skip_leaves_out_a_run_and_counts_it():
    """A run that overlaps is left out and counted by default."""
    schedule = started(Entry("slow", "slow", every=10))
    first = schedule.next_at()
    actions = [due.action for k in range(3) for due in schedule.due(first + 10 * k)]
    assert actions == [Action.RUN, Action.SKIP, Action.SKIP]
    assert schedule.finished("slow") is None
    assert [due.action for due in schedule.due(first + 30)] == [Action.RUN]
    assert schedule.counters()["slow"] == Counters(runs=2, skipped=2)


def test_queue_lets_one_run_wait_and_skips_the_others():
    """With `queue`, one run waits and starts when the one before ends, and the others are left out."""
    entry = Entry("slow", "slow", every=10, overlap=Overlap.QUEUE)
    schedule = started(entry)
    first = schedule.next_at()
    actions = [due.action for k in range(4) for due in schedule.due(first + 10 * k)]
    assert actions == [Action.RUN, Action.WAIT, Action.SKIP, Action.SKIP]
    assert schedule.finished("slow") == entry
    assert schedule.finished("slow") is None
    assert schedule.counters()["slow"] == Counters(runs=2, skipped=2)


def test_kill_makes_room_for_the_new_run():
    """With `kill`, each overlapping run is KILL_AND_RUN and counted; the caller kills the old one."""
    schedule = started(Entry("slow", "slow", every=10, overlap=Overlap.KILL))
    first = schedule.next_at()
    actions = [due.action for k in range(3) for due in schedule.due(first + 10 * k)]
    assert actions == [Action.RUN, Action.KILL_AND_RUN, Action.KILL_AND_RUN]
    assert schedule.counters()["slow"] == Counters(runs=3, killed=2)


def test_a_run_that_could_not_start_is_a_missed_one():
    """A run that could not start counts as missed, and not as running."""
    schedule = started(Entry("load", "load", every=10))
    first = schedule.next_at()
    schedule.due(first)
    schedule.not_run("load")
    assert [due.action for due in schedule.due(first + 10)] == [Action.RUN]
    assert schedule.counters()["load"] == Counters(runs=1, missed=1)


@pytest.mark.parametrize("seed", range(20))
def test_every_planned_run_is_accounted_for(seed):
    """Runs, skips and misses add up to the periods that have passed, whatever happens when."""
    rng = random.Random(seed)
    schedule = started(
        *[Entry(f"e{i}", "x", rng.choice([1, 7, 60]), 0, overlap=rng.choice(list(Overlap))) for i in range(5)]
    )
    first = {place.entry.id: place.next for place in schedule._states.values()}
    now = 0.0
    for _ in range(300):
        now += rng.choice([0.1, 1.0, 5.0, 200.0])
        schedule.due(now)
        for entry in schedule.entries:
            if rng.random() < 0.5:
                schedule.finished(entry.id)
    for place in schedule._states.values():
        planned = round((place.next - first[place.entry.id]) / place.entry.every)
        c = place.counters
        assert c.runs + c.skipped + c.missed + place.waiting == planned


def document(*items) -> bytes:
    return json.dumps(list(items)).encode()


def test_a_document_is_read():
    """A document is read with every field, and with only the fields that it must have."""
    whole = {"id": "disk-/", "check": "disk", "every": 60, "offset": 75.5, "timeout": 5, "args": {"b": 1, "a": "ü"}}
    read = parse(
        document({**whole, "overlap": "kill", "from-the-future": 1}, {"id": "l", "check": "load", "every": 0.5})
    )
    args = '{"a":"ü","b":1}'.encode()
    assert read.entries == (Entry("disk-/", "disk", 60.0, 15.5, 5.0, args, Overlap.KILL), Entry("l", "load", 0.5))
    assert read.refused == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"every": None}, "every is missing"),
        ({"every": 0}, "not between"),
        ({"every": True}, "must be a number"),
        ({"every": "60"}, "must be a number"),
        ({"every": 1e12}, "not between"),
        ({"every": 10**400}, "must be a number"),
        ({"timeout": -(10**400)}, "must be a number"),
        ({"timeout": -1}, "not between"),
        ({"offset": -1}, "not between"),
        ({"id": ""}, "id must be"),
        ({"id": "a b"}, "space"),
        ({"id": "x" * 256}, "id must be"),
        ({"check": 7}, "check must be"),
        ({"args": [1]}, "args must be"),
        ({"overlap": "both"}, "overlap"),
    ],
)
def test_a_bad_entry_is_refused_alone(change, said):
    """A bad entry is refused alone, with a sentence that names it and its fault, and the others run."""
    good = {"id": "good", "check": "load", "every": 60}
    read = parse(document({"id": "bad", "check": "load", "every": 60} | change, good))
    assert [entry.id for entry in read.entries] == ["good"]
    assert read.refused[0].startswith("entry 1: ")
    assert said in read.refused[0]


def test_an_id_that_is_there_twice_is_refused_once():
    """An id that is there twice is refused for its second entry, and the first one stays."""
    one = {"id": "a", "check": "load", "every": 60}
    read = parse(document(one, {**one, "every": 5}))
    assert (read.entries, read.refused) == ((Entry("a", "load", 60.0),), ("entry 2: id 'a' is there twice",))


@pytest.mark.parametrize("blob", [b"", b"{}", b"[" * 100_000, b"nope", document(*[{}] * (MAX_ENTRIES + 1))])
def test_a_document_that_is_none_is_refused_whole(blob):
    """A document that is none is refused as a whole, so that the schedule before it stays."""
    with pytest.raises(ScheduleRefused):
        parse(blob)


def test_an_introduced_entry_runs_early_once_and_then_in_its_phase():
    """An entry that is run early runs once within EARLY_WITHIN, and then in its own phase."""
    schedule = Schedule()
    entry = Entry("hourly", "hourly", every=3600, offset=1800)
    schedule.replace([entry], 0.0, WALL)
    regular = schedule.next_at()
    schedule.run_early("hourly", 0.0)
    assert schedule.next_at() == EARLY_WITHIN / 2
    assert [due.planned for due in schedule.due(EARLY_WITHIN / 2)] == [EARLY_WITHIN / 2]
    assert schedule.finished("hourly") is None
    assert schedule.next_at() == regular
    assert schedule.counters()["hourly"] == Counters(runs=1)


def test_an_entry_whose_own_time_is_sooner_needs_no_introduction():
    """An entry that is due soon is not run early, so that nothing runs twice within moments because it is new."""
    schedule = Schedule()
    schedule.replace([Entry("quick", "quick", every=1, offset=0.9)], 0.0, 1_000_000.5)
    soon = schedule.next_at()
    schedule.run_early("quick", 0.0)
    schedule.run_early("no such entry", 0.0)
    assert schedule.next_at() == soon


def test_an_early_run_that_a_stall_has_swallowed_is_one_with_the_regular_run():
    """A stall beyond an early run and the regular one leaves one run, and the missed ones are counted once."""
    schedule = Schedule()
    schedule.replace([Entry("load", "load", every=20, offset=15)], 0.0, 1_000_000.0)
    regular = schedule.next_at()
    schedule.run_early("load", 0.0)
    assert schedule.next_at() < regular
    found = schedule.due(regular + 45.0)
    assert [(due.planned, due.missed) for due in found] == [(regular, 2)]
    assert schedule.next_at() == regular + 60.0
