"""The gate between two rings: what a new version says, compared with what the old one said on the same agents. Pure.

`Evidence` is fed with the runs of the members of one ring, in any order, and counts as it goes; `weigh` says what comes
of it: too bad for good, all there, or neither yet. docs/rollouts.rst has the rules in words.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from attrs import define, field, fields, frozen

from equus_protocol.results import OK, STATUS_WORDS, UNKNOWN
from helen.gate_limits import MOST_RUNS, Limits

OLD_RUNS = 10  # of the old version
STEADY = 0.8  # the share of its old runs that must agree, else an agent's check can't be called changed
RUN_SLACK = 50.0  # milliseconds: below that a run's time is noise
MEMORY_SLACK = 4_096.0  # KiB: an interpreter's heap grows by pages
EXAMPLES = 3  # members that a reason names
SUMMARY_MOST = 80  # characters of what a named member's check said
Key = tuple[str, str]  # agent, check_id


@frozen
class Run:
    """One result, as far as a gate is concerned."""

    status: int
    took_ms: float | None = None
    peak_kib: float | None = None
    summary: str = ""

    @property
    def is_bad(self) -> bool:
        return self.status != OK

    @property
    def failed(self) -> bool:
        return self.status == UNKNOWN


@define
class Cost:
    """What runs of one check take of one thing: on one member a median, of all members the sum of their medians."""

    before: float | None
    now: float | None = None
    _values: list[float] = field(factory=list)

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Cost:
        said = [value for value in values if value is not None]
        return cls(median(said) if said else None)

    def add(self, value: float | None) -> None:
        if value is not None:
            insort(self._values, value)
            middle = len(self._values) // 2
            low = self._values[middle - 1 + len(self._values) % 2]
            self.now = (low + self._values[middle]) / 2


@define
class Pair:
    """One check on one member. `was_bad` is None where the old version says nothing that could be compared."""

    check: str
    was_bad: bool | None
    old: tuple[Run, ...]
    run_ms: Cost
    peak_kib: Cost
    new: list[Run] = field(factory=list)
    bad: int = 0  # of `new`
    changed: bool = False

    def is_changed(self, limits: Limits) -> bool:
        """Whether most of the results are of the other kind; the first half of those that are needed may say so."""
        if self.was_bad is None:
            return False
        good = len(self.new) - self.bad
        other, same = (good, self.bad) if self.was_bad else (self.bad, good)
        return other > same and other * 2 > limits.results


@define
class Sums:
    """Of the members whose costs are known for both versions."""

    members: int = 0
    before: float = 0.0
    now: float = 0.0

    def add(self, cost: Cost, sign: int) -> None:
        if cost.before is not None and cost.now is not None:
            self.members += sign
            self.before += sign * cost.before
            self.now += sign * cost.now

    @property
    def averages(self) -> tuple[float | None, float | None]:
        return (self.before / self.members, self.now / self.members) if self.members else (None, None)


@define
class Tally:
    """One check on all members, counted as results come."""

    pairs: int = 0
    comparable: int = 0
    ready: int = 0
    wanted: int = 0  # runs that have been waited for and are there
    runs: int = 0
    failed: int = 0
    changed: int = 0
    old_runs: int = 0
    old_failed: int = 0
    run_ms: Sums = field(factory=Sums)
    peak_kib: Sums = field(factory=Sums)

    def count(self, pair: Pair, needed: int, sign: int) -> None:
        """Put all of a pair in, or (-1) take it out."""
        self.pairs += sign
        self.comparable += sign * (pair.was_bad is not None)
        self.ready += sign * (len(pair.new) >= needed)
        self.wanted += sign * min(len(pair.new), needed)
        self.runs += sign * len(pair.new)
        self.failed += sign * sum(run.failed for run in pair.new)
        self.changed += sign * pair.changed
        self.old_runs += sign * len(pair.old)
        self.old_failed += sign * sum(run.failed for run in pair.old)
        self.add_costs(pair, sign)

    def add_costs(self, pair: Pair, sign: int) -> None:
        self.run_ms.add(pair.run_ms, sign)
        self.peak_kib.add(pair.peak_kib, sign)


@frozen
class Figures:
    """What a gate knows of one check. Averages are of the members' medians; None where they can't be compared."""

    check: str
    members: int
    results: int
    wanted: int
    errors: float
    errors_before: float
    changed: int
    comparable: int
    run_ms: float | None = None
    run_ms_before: float | None = None
    peak_kib: float | None = None
    peak_kib_before: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(Figures)}


@frozen
class Weighed:
    """`failed` is a sentence: no further result could make it good. `missing`: members that have not said enough."""

    failed: str | None
    is_complete: bool
    missing: frozenset[str] = frozenset()


class Evidence:
    """Of one ring. `expect` a check of a member before its results are `heard`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pairs: dict[Key, Pair] = {}
        self.tallies: dict[str, Tally] = {}

    def expect(self, key: Key, check: str, old: Sequence[Run] = (), was_bad: bool | None = None) -> None:
        """`was_bad` counts where `old` is empty."""
        if key in self.pairs:
            return
        kept = tuple(old[-OLD_RUNS:])
        pair = self.pairs[key] = Pair(
            check, _was_bad(kept) if kept else was_bad, kept, Cost.of([run.took_ms for run in kept]),
            Cost.of([run.peak_kib for run in kept]),
        )  # fmt: skip
        self.tallies.setdefault(check, Tally()).count(pair, self.limits.results, 1)

    def drop(self, key: Key) -> None:
        """It is not run there any more."""
        pair = self.pairs.pop(key, None)
        if pair is not None:
            self.tallies[pair.check].count(pair, self.limits.results, -1)

    def heard(self, key: Key, run: Run) -> None:
        """A result of the new version; of what isn't expected, and beyond MOST_RUNS, nothing is kept."""
        pair = self.pairs.get(key)
        if pair is None or len(pair.new) >= MOST_RUNS:
            return
        tally = self.tallies[pair.check]
        tally.add_costs(pair, -1)
        pair.new.append(run)
        pair.bad += run.is_bad
        pair.run_ms.add(run.took_ms)
        pair.peak_kib.add(run.peak_kib)
        tally.add_costs(pair, 1)
        tally.runs += 1
        tally.failed += run.failed
        tally.wanted += len(pair.new) <= self.limits.results
        tally.ready += len(pair.new) == self.limits.results
        changed = pair.is_changed(self.limits)
        tally.changed += changed - pair.changed
        pair.changed = changed

    def weigh(self) -> Weighed:
        """What can be said by now. As long as results are missing it costs next to nothing."""
        for check, tally in sorted(self.tallies.items()):
            failed = self._too_many_errors(check, tally) or self._too_many_changed(check, tally)
            if failed is not None:
                return Weighed(failed, False)
        if any(tally.ready < tally.pairs for tally in self.tallies.values()):
            return Weighed(None, False)
        return Weighed(self.too_heavy(), True)

    def silent(self) -> Iterator[str]:
        """Members without enough results of some check; a great ring has many, and people want to hear of a few."""
        if any(tally.ready < tally.pairs for tally in self.tallies.values()):
            yield from (agent for (agent, _), pair in self.pairs.items() if len(pair.new) < self.limits.results)

    def too_heavy(self) -> str | None:
        """Why it takes too much time or memory, by what is there; None if it doesn't."""
        for check in sorted(self.tallies):
            figures = self.figures(check)
            for what, unit, now, before, factor, slack in (
                ("takes", "ms", figures.run_ms, figures.run_ms_before, self.limits.run_time, RUN_SLACK),
                ("needs", "KiB", figures.peak_kib, figures.peak_kib_before, self.limits.memory, MEMORY_SLACK),
            ):
                if now is None or before is None or factor is None:
                    continue
                if now > before * factor and now > before + slack:
                    return (
                        f"{check}: a run {what} {now:.0f} {unit}, {before:.0f} {unit} before"
                        f" ({factor:g} times and {slack:g} {unit} more is the limit)"
                    )
        return None

    def figures(self, check: str) -> Figures:
        """Of one check, for people and for the last look."""
        tally = self.tallies[check]
        (run_before, run_now), (peak_before, peak_now) = tally.run_ms.averages, tally.peak_kib.averages
        return Figures(
            check, tally.pairs, tally.wanted, tally.pairs * self.limits.results, _rate(tally.failed, tally.runs),
            _rate(tally.old_failed, tally.old_runs), tally.changed, tally.comparable, run_now, run_before, peak_now,
            peak_before,
        )  # fmt: skip

    def _too_many_errors(self, check: str, tally: Tally) -> str | None:
        """Of all results that will be there at least, so that the first one to fail does not stand for all."""
        expected = max(tally.runs, tally.pairs * self.limits.results)
        before = _rate(tally.old_failed, tally.old_runs)
        if _rate(tally.failed, expected) - before <= self.limits.errors:
            return None
        share = f"{100 * _rate(tally.failed, tally.runs):.1f} %, {100 * before:.1f} % before"
        worst = self._examples(check, lambda pair: any(run.failed for run in pair.new))
        return (
            f"{check}: {tally.failed} of {tally.runs} runs failed ({share}; the limit is"
            f" {100 * self.limits.errors:.1f} points more){worst}"
        )

    def _too_many_changed(self, check: str, tally: Tally) -> str | None:
        share = _rate(tally.changed, tally.comparable)
        if share <= self.limits.changed:
            return None
        worst = self._examples(check, lambda pair: pair.changed)
        return (
            f"{check}: {tally.changed} of {tally.comparable} agents went from ok to bad or back"
            f" ({100 * share:.1f} %, the limit is {100 * self.limits.changed:.1f} %){worst}"
        )

    def _examples(self, check: str, which: Callable[[Pair], bool]) -> str:
        said = []
        for (agent, _), pair in sorted(self.pairs.items()):
            if pair.check == check and which(pair):
                run = max(pair.new, key=lambda run: (run.failed, run.is_bad)) if not pair.was_bad else pair.new[-1]
                summary = f", {run.summary[:SUMMARY_MOST]}" if run.summary else ""
                said.append(f"{agent}: {STATUS_WORDS[run.status]}{summary}")
        more = f" and {len(said) - EXAMPLES} more" if len(said) > EXAMPLES else ""
        return "; " + "; ".join(said[:EXAMPLES]) + more if said else ""


def _was_bad(old: Sequence[Run]) -> bool | None:
    """How things were; None if that was now so, now so, or if the old version did not work at all."""
    bad = sum(run.is_bad for run in old)
    if max(bad, len(old) - bad) < STEADY * len(old):
        return None
    if bad * 2 <= len(old):
        return False
    return None if sum(run.failed for run in old) * 2 > len(old) else True


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
