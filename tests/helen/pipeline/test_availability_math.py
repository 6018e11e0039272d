"""Tests the accounts of a check's days: golden cases worked out by hand, and two oracles over generated histories."""

from __future__ import annotations

import random
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import plain_accounts
import pytest
from availability_oracle import cover
from plain_accounts import CheckInputs, DayAccount, Moment, Run, by_columns, columns_of, union

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.local_days import MICROS, Day, local_days
from helen.pipeline.reports import availability_math
from helen.pipeline.reports.availability_math import NEVER, PROFILES, check_sums, first_known, percents
from helen.pipeline.reports.check_columns import HELEN_DOWN, NO_DATA, PENDING, SAID, STALE
from helen.states.events import Transition
from helen.states.model import Condition

M, H = 60 * MICROS, 3600 * MICROS
OK, WARNING, CRITICAL, UNKNOWN = range(4)
MARCH = local_days(date(2026, 3, 29), date(2026, 3, 29), "Europe/Berlin")[0]  # 23 h
OCTOBER = local_days(date(2026, 10, 25), date(2026, 10, 25), "Europe/Berlin")[0]  # 25 h
PLAIN = local_days(date(2026, 6, 1), date(2026, 6, 1), "Europe/Berlin")[0]


def accounts(spent: DayAccount) -> dict[str, Any]:
    """Return an account in minutes, without the parts that hold nothing."""
    names = ("ok", "bad", "planned", "unknown", "no_data")
    found: dict[str, Any] = {name: getattr(spent, name) / M for name in names if getattr(spent, name)}
    return found | {"percent": spent.percent}


def test_days_are_as_long_as_the_clocks_say() -> None:
    """A local day is as long as its clocks say, and days of a zone whose clocks change at midnight touch each other."""
    assert (MARCH.end - MARCH.begin, OCTOBER.end - OCTOBER.begin, PLAIN.end - PLAIN.begin) == (23 * H, 25 * H, 24 * H)
    beirut = local_days(date(2026, 3, 28), date(2026, 3, 30), "Asia/Beirut")
    assert [(day.end - day.begin) / H for day in beirut] == [24, 23, 24]
    assert all(one.end == other.begin for one, other in pairwise(beirut))
    with pytest.raises(PipelineError, match="'Mars/Base' is no time zone: write a name such as Europe/Berlin"):
        local_days(date(2026, 1, 1), date(2026, 1, 2), "Mars/Base")


# title: day, inputs, icinga, strict; minutes
GOLDEN: dict[str, tuple[Day, CheckInputs, dict[str, Any], dict[str, Any]]] = {
    "ok all day": (
        PLAIN, CheckInputs([Moment(PLAIN.begin - H, OK)]),
        {"ok": 1440, "percent": 100.0}, {"ok": 1440, "percent": 100.0},
    ),
    "critical for an hour": (
        PLAIN, CheckInputs([Moment(0, OK), Moment(PLAIN.begin + H, CRITICAL), Moment(PLAIN.begin + 2 * H, OK)]),
        {"ok": 1380, "bad": 60, "percent": 95.8333}, {"ok": 1380, "bad": 60, "percent": 95.8333},
    ),
    "a warning is no problem to Icinga": (
        PLAIN, CheckInputs([Moment(0, WARNING)]), {"ok": 1440, "percent": 100.0}, {"bad": 1440, "percent": 0.0},
    ),
    "the hour that is missing": (
        MARCH, CheckInputs([Moment(0, OK), Moment(MARCH.begin + H, CRITICAL), Moment(MARCH.begin + 3 * H, OK)]),
        {"ok": 1260, "bad": 120, "percent": 91.3043}, {"ok": 1260, "bad": 120, "percent": 91.3043},
    ),
    "the hour that comes twice": (
        OCTOBER,
        CheckInputs([Moment(0, OK), Moment(OCTOBER.begin + 2 * H, CRITICAL), Moment(OCTOBER.begin + 4 * H, OK)]),
        {"ok": 1380, "bad": 120, "percent": 92.0}, {"ok": 1380, "bad": 120, "percent": 92.0},
    ),
    "overlapping downtimes count once": (
        PLAIN,
        CheckInputs([Moment(0, OK), Moment(PLAIN.begin + H, CRITICAL), Moment(PLAIN.begin + 4 * H, OK)],
              downtimes=[(PLAIN.begin + 2 * H, PLAIN.begin + 3 * H),
                         (PLAIN.begin + 2 * H + 30 * M, PLAIN.begin + 5 * H)]),
        {"ok": 1260, "bad": 60, "planned": 120, "percent": 95.8333},
        {"ok": 1200, "bad": 60, "planned": 180, "percent": 95.2381},
    ),
    "a downtime over midnight": (
        PLAIN, CheckInputs([Moment(0, CRITICAL)], downtimes=[(PLAIN.begin - H, PLAIN.begin + 6 * H)]),
        {"bad": 1080, "planned": 360, "percent": 25.0}, {"bad": 1080, "planned": 360, "percent": 0.0},
    ),
    "pending until noon": (
        PLAIN, CheckInputs([Moment(PLAIN.begin + 12 * H, OK)]),
        {"ok": 720, "no_data": 720, "percent": 100.0}, {"ok": 720, "no_data": 720, "percent": 50.0},
    ),
    "nothing at all": (
        PLAIN, CheckInputs(), {"no_data": 1440, "percent": None}, {"no_data": 1440, "percent": 0.0},
    ),
    "the state before the first change that we have": (
        PLAIN, CheckInputs([Moment(PLAIN.begin + 6 * H, OK, None, CRITICAL, None)]),
        {"ok": 1080, "bad": 360, "percent": 75.0}, {"ok": 1080, "no_data": 360, "percent": 75.0},
    ),
    "unknown by its own word": (
        PLAIN, CheckInputs([Moment(0, OK), Moment(PLAIN.end - H, UNKNOWN)]),
        {"ok": 1380, "unknown": 60, "percent": 95.8333}, {"ok": 1380, "unknown": 60, "percent": 95.8333},
    ),
    "stale is unknown to Icinga and no data to us": (
        PLAIN, CheckInputs([Moment(0, OK), Moment(PLAIN.end - H, UNKNOWN, STALE)]),
        {"ok": 1380, "unknown": 60, "percent": 95.8333}, {"ok": 1380, "no_data": 60, "percent": 95.8333},
    ),
    "Helen was not there for seven minutes": (
        PLAIN, CheckInputs([Moment(0, OK)], absences=[(PLAIN.begin + H, PLAIN.begin + H + 7 * M)]),
        {"ok": 1440, "percent": 100.0}, {"ok": 1433, "no_data": 7, "percent": 99.5139},
    ),
    "late results tell what it was like meanwhile": (
        PLAIN,
        CheckInputs([Moment(0, OK)], [Run(PLAIN.begin + H + M, PLAIN.begin + H + 2 * M, CRITICAL, 3 * M)],
              absences=[(PLAIN.begin + H, PLAIN.begin + H + 7 * M)]),
        {"ok": 1440, "percent": 100.0}, {"ok": 1433, "bad": 4, "no_data": 3, "percent": 99.5139},
    ),
    "late results don't overrule what was known": (
        PLAIN, CheckInputs([Moment(0, OK)], [Run(PLAIN.begin + H, PLAIN.begin + 2 * H, CRITICAL, 3 * M)]),
        {"ok": 1440, "percent": 100.0}, {"ok": 1440, "percent": 100.0},
    ),
    "results alone, with a gap": (
        PLAIN,
        CheckInputs(runs=[Run(PLAIN.begin - H, PLAIN.begin + 6 * H, OK, 10 * M),
                    Run(PLAIN.begin + 8 * H, PLAIN.begin + 9 * H, CRITICAL, 10 * M),
                    Run(PLAIN.begin + 9 * H + M, PLAIN.end, OK, 10 * M)]),
        {"ok": 1379, "bad": 61, "percent": 95.7639}, {"ok": 1269, "bad": 61, "no_data": 110, "percent": 88.125},
    ),
    "results alone, and Helen was away": (
        PLAIN,
        CheckInputs(runs=[Run(PLAIN.begin - H, PLAIN.end, OK, 10 * M)], absences=[(PLAIN.begin, PLAIN.begin + 7 * M)]),
        {"ok": 1440, "percent": 100.0}, {"ok": 1440, "percent": 100.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("day", "inputs", "icinga", "strict"), GOLDEN.values(), ids=GOLDEN)
def test_golden(day: Day, inputs: CheckInputs, icinga: dict[str, Any], strict: dict[str, Any]) -> None:
    """A golden case has the accounts worked out by hand, in minutes, in both profiles."""
    found = {profile: by_columns([inputs], [day], profile)[0] for profile in PROFILES}
    assert {name: accounts(spent[0]) for name, spent in found.items()} == {"icinga": icinga, "strict": strict}


def test_reasons_and_outages() -> None:
    """Time without data is counted by reason, and an outage belongs to the day on which it began."""
    days = local_days(date(2026, 6, 1), date(2026, 6, 2), "UTC")
    begin = days[0].begin
    inputs = CheckInputs(
        [Moment(begin + H, OK), Moment(begin + 23 * H, CRITICAL), Moment(begin + 25 * H, UNKNOWN, "agent-away"),
         Moment(begin + 26 * H, CRITICAL), Moment(begin + 27 * H, UNKNOWN), Moment(begin + 28 * H, UNKNOWN, "timeout")],
        absences=[(begin + 2 * H, begin + 2 * H + 7 * M)],
    )  # fmt: skip
    first, second = by_columns([inputs], days, "strict")[0]
    assert (first.why, first.outages) == ({PENDING: H, HELEN_DOWN: 7 * M}, 1)
    assert (second.why, second.outages) == ({"agent-away": H, SAID: H, "timeout": 20 * H}, 1)


def test_a_wrong_sum_is_found() -> None:
    """A day whose accounts do not add up, or whose reasons do not, raises AssertionError: a report must not lie."""
    made = availability_math.accounts_of(columns_of([CheckInputs(), CheckInputs()]), [PLAIN], "strict")
    check_sums(made)
    made.totals[availability_math.NO_DATA, 1] = 60
    with pytest.raises(AssertionError, match="2026-06-01: 60 of 86400000000 us are accounted for"):
        check_sums(made)
    made.totals[:, 1] = [60, 0, 0, 0, PLAIN.end - PLAIN.begin - 60]  # without its reason
    with pytest.raises(AssertionError, match="2026-06-01: 86400000000 of 86400000000 us"):
        check_sums(made)


# ------------------------------------------------------------------------------------------------ Icinga DB's rule


def icinga_rule(begin: int, end: int, events: list[tuple[int, int, int]], downtimes: list[tuple[int, int]]) -> Any:
    """Compute get_sla_ok_percent in plain Python by its description: one walk over events, with downtimes counted in
    depth.

    Events are (time, hard state, hard state before); 99 is pending.
    """
    earlier = [event for event in events if event[0] <= begin]
    later = [event for event in events if event[0] > begin]
    state = earlier[-1][1] if earlier else later[0][2] if later else 99
    depth = sum(start <= begin < stop for start, stop in downtimes)
    points: list[tuple[int, str, int]] = [(time, "state", hard) for time, hard, _ in later if time < end]
    points += [(start, "down", 1) for start, stop in downtimes if begin < start < end and start < stop]
    points += [(stop, "down", -1) for start, stop in downtimes if begin < stop < end and start < stop]
    total, problem, last = end - begin, 0, begin
    for time, kind, value in [*sorted(points), (end, "end", 0)]:
        if state == 99:
            total -= time - last
        elif state > 1 and depth == 0:
            problem += time - last
        last = time
        if kind == "state":
            state = value
        elif kind == "down":
            depth += value
    return None if total == 0 else round(100 * (total - problem) / total, 4)


def some_history(rng: random.Random) -> tuple[Day, list[tuple[int, int, int]], list[tuple[int, int]]]:
    """Return a day, events and downtimes between 0 and 100 minutes, in which times often coincide."""
    times = sorted(rng.sample(range(100), rng.randrange(0, 9)))
    states, before = [], rng.choice((99, 0, 2))
    for time in times:
        now = rng.choice((0, 0, 1, 2, 2, 3))
        states.append((time * M, now, before))
        before = now
    downtimes = [
        (begin * M, (begin + rng.randrange(0, 40)) * M) for begin in rng.choices(range(100), k=rng.randrange(4))
    ]
    begin = rng.randrange(0, 90)
    return Day(date(2026, 6, 1), begin * M, (begin + rng.randrange(1, 60)) * M), states, downtimes


def test_icinga_profile_is_icinga_rule_on_many_histories() -> None:
    """The icinga profile equals Icinga's rule on 12,000 generated histories to four decimals."""
    rng = random.Random(20261127)
    for number in range(12_000):
        day, events, downtimes = some_history(rng)
        if number % 10 == 0:
            whole = rng.choice((MARCH, OCTOBER, PLAIN))
            size = (whole.end - whole.begin) // (100 * M)
            events = [(whole.begin + at * size, now, was) for at, now, was in events]
            downtimes = [(whole.begin + begin * size, whole.begin + end * size) for begin, end in downtimes]
            day = whole
        moments = [
            Moment(at, now, None, was % 96, PENDING if was == 99 else None) for at, now, was in events
        ]  # fmt: skip
        ((spent,),) = by_columns([CheckInputs(moments, downtimes=downtimes)], [day], "icinga")
        expected = icinga_rule(day.begin, day.end, events, downtimes)
        assert spent.percent == expected, (number, day, events, downtimes)


def test_strict_profile_is_what_helen_shows() -> None:
    """The strict profile equals Helen's own cover on 4,000 generated histories, with unknown time told from no data."""
    rng = random.Random(7)
    reasons = (None, None, "timeout", "agent-away", "stale")
    for _ in range(4000):
        day, events, downtimes = some_history(rng)
        absences = union([(b * M, (b + 7) * M) for b in rng.choices(range(100), k=rng.randrange(3))])
        moments, transitions, was = [], [], Condition(UNKNOWN, 0.0, PENDING)
        for at, status, _ in events:
            reason = rng.choice(reasons) if status == UNKNOWN else None
            now = Condition(status, at / MICROS, reason)
            moments.append(Moment(at, status, reason))
            transitions.append(Transition(0, at / MICROS, was, now, ""))
            was = now
        ((spent,),) = by_columns([CheckInputs(moments, downtimes=downtimes, absences=absences)], [day], "strict")
        seconds = [[(b / MICROS, e / MICROS) for b, e in spans] for spans in (downtimes, absences)]
        shown = cover(transitions, day.begin / MICROS, day.end / MICROS, *seconds)
        unknown = {name: round(value * MICROS) for name, value in shown.unknown.items() if value}
        assert (spent.ok, spent.bad, spent.planned) == tuple(
            round(value * MICROS) for value in (shown.ok, shown.bad, shown.planned)
        )
        assert spent.why == unknown
        assert spent.no_data == sum(value for name, value in unknown.items() if name in NO_DATA)


# ------------------------------------------------------------------------------------------------ many at once

REASONS = (
    None,
    None,
    "timeout",
    "agent-away",
    "stale",
    "pending",
    "retired",
    "seltsam ü",
    "said-unknown",
    "helen-down",
)


def some_time(rng: random.Random, begin: int, end: int) -> int:
    """Return any time around a report, often one of its ends."""
    return rng.choice((rng.randrange(begin - 20, end + 20), rng.randrange(begin, end), begin, end))


def some_moments(rng: random.Random, begin: int, end: int) -> list[Moment]:
    made = []
    for at in sorted(some_time(rng, begin, end) for _ in range(rng.randrange(9) if rng.random() < 0.6 else 0)):
        status = rng.choice((OK, OK, WARNING, CRITICAL, CRITICAL, UNKNOWN))
        reason = rng.choice(REASONS) if status == UNKNOWN else rng.choice((None, None, "x"))
        made.append(Moment(at, status, reason, rng.randrange(4), rng.choice(REASONS)))
    return made


def some_runs(rng: random.Random, begin: int, end: int) -> list[Run]:
    made, at, good_for = list[Run](), begin - 30, rng.choice((1, 3, 10, 60))
    while rng.random() < 0.9 and at < end + 10:
        first = at + rng.choice((0, 1, 2, 5, 10, 30))
        at = first + rng.choice((0, 0, 2, 7, 20))
        made.append(Run(first, at, rng.choice((OK, OK, WARNING, CRITICAL, UNKNOWN)), good_for))
    return made


def some_spans(rng: random.Random, begin: int, end: int) -> list[tuple[int, int]]:
    starts = [rng.randrange(begin - 10, end) for _ in range(rng.choice((0, 0, 1, 2, 3)))]
    return [(start, start + rng.randrange(30)) for start in starts]


def some_inputs(rng: random.Random, begin: int, end: int) -> CheckInputs:
    """Return a check with any facts that may be known of it, and absences within the report as a plan has them."""
    absences = [(max(begin, of), min(end, to)) for of, to in some_spans(rng, begin, end)]
    return CheckInputs(
        some_moments(rng, begin, end), some_runs(rng, begin, end), some_spans(rng, begin, end),
        [span for span in absences if span[0] < span[1]],
    )  # fmt: skip


def some_days(rng: random.Random) -> list[Day]:
    """Return consecutive days, of a few microseconds or with changes of the clocks, sometimes with windows over
    them."""
    if rng.random() < 0.1:
        zone = rng.choice(("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"))
        return local_days(date(2026, rng.choice((3, 4, 10, 11)), 1), date(2026, 11, 2), zone)[-rng.randrange(1, 40) :]
    begin = rng.choice((500, 5000, 1_790_000_000_000_000))
    end = begin + rng.choice((40, 100, 300))
    edges = sorted({begin, end, *(rng.randrange(begin, end) for _ in range(rng.randrange(4)))})
    days = [Day(date(2026, 6, 1), *each) for each in pairwise(edges)]
    windows = [Day(date(2026, 6, 2), rng.randrange(begin, end), end), Day(date(2026, 6, 2), begin, end)]
    return days + (windows if rng.random() < 0.4 else [])


def stretched(rng: random.Random, days: list[Day]) -> CheckInputs:
    """Return inputs like `some_inputs` with times stretched over the days."""
    begin, end = min(day.begin for day in days), max(day.end for day in days)
    step = max(1, (end - begin) // 100)
    small = some_inputs(rng, 0, (end - begin) // step)
    at = lambda time: begin + time * step  # noqa: E731
    return CheckInputs(
        [Moment(at(m.at), m.status, m.reason, m.was, m.was_reason) for m in small.moments],
        [Run(at(run.first), at(run.last), run.status, run.good_for * step) for run in small.runs],
        [(at(of), at(to)) for of, to in small.downtimes], [(at(of), min(end, at(to))) for of, to in small.absences],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_many_checks_at_once_are_as_one_after_the_other(seed: int) -> None:
    """Accounts of many checks at once equal those of a plain walk in both profiles: times, reasons, outages and
    percentages."""
    rng = random.Random(seed)
    for number in range(100):
        days = some_days(rng)
        inputs = [stretched(rng, days) for _ in range(rng.randrange(1, 10))]
        for profile in PROFILES:
            expected = [plain_accounts.accounts_of(each, days, profile) for each in inputs]
            for each in expected:
                plain_accounts.check_sums(each)
            assert by_columns(inputs, days, profile) == expected, (seed, number, profile)


@pytest.mark.parametrize("seed", range(2))
def test_time_before_the_first_result_of_many_checks(seed: int) -> None:
    """The first time of each check and the part of each day before it equal those of a plain walk."""
    rng = random.Random(seed)
    for _ in range(200):
        days = some_days(rng)
        inputs = [stretched(rng, days) for _ in range(rng.randrange(1, 10))]
        checks = columns_of(inputs)
        firsts = [plain_accounts.first_known(each) for each in inputs]
        assert first_known(checks).tolist() == [NEVER if first is None else first for first in firsts]
        made = availability_math.accounts_of(checks, days, "strict")
        assert made.without_result(first_known(checks)).tolist() == [
            plain_accounts.without_result(account, each, first)
            for each, first in zip(inputs, firsts, strict=True)
            for account in plain_accounts.accounts_of(each, days, "strict")
        ]


def test_a_part_of_the_checks_is_computed_alone() -> None:
    """Checks computed in parts have the same accounts as among all."""
    rng, days = random.Random(5), local_days(date(2026, 10, 24), date(2026, 10, 26), "Europe/Berlin")
    inputs = [stretched(rng, days) for _ in range(30)]
    checks = columns_of(inputs)
    whole = availability_math.accounts_of(checks, days, "strict")
    for begin, end in ((0, 1), (0, 30), (7, 19), (29, 30)):
        part = availability_math.accounts_of(checks.part(begin, end), days, "strict")
        assert part.totals.tolist() == whole.totals[:, begin * 3 : end * 3].tolist()
        assert part.outages.tolist() == whole.outages[begin * 3 : end * 3].tolist()


def test_shares_are_rounded_as_one_by_one() -> None:
    """Shares are rounded as one by one, including halves of the last digit."""
    rng = random.Random(1)
    pairs = [(rng.randrange(10**6), rng.choice((2 * 10**6, 10**6, rng.randrange(1, 10**6)))) for _ in range(20_000)]
    pairs += [(odd, 2 * 10**6) for odd in range(1, 4000, 2)] + [(0, 0), (5, 0), (0, 7)]
    good, counted = (np.array(column) for column in zip(*pairs, strict=True))
    found = [None if np.isnan(each) else each for each in percents(good, counted).tolist()]
    assert found == [plain_accounts.percent_of(*pair) for pair in pairs]
