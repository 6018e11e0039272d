"""Compares the results of a new version with those of the old one on the same agents: the gate between two rings. Pure.

`Evidence` is fed with the runs of the members of one ring, in any order, and counts as it goes; `weigh` tells whether
the version has failed for good, has all its results, or neither yet. docs/rollouts.rst has the rules in words.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from attrs import define, field, fields, frozen

from equus_protocol.cheap_values import cheap_value
from equus_protocol.results import OK, STATUS_WORDS, UNKNOWN
from helen.rollout.gate_limits import MOST_RUNS, Limits

OLD_RUNS = 10  # of the old version
STEADY = 0.8  # the share of its old runs that must agree, else an agent's check can't be called changed
RUN_SLACK = 50.0  # milliseconds: below that a run's time is noise
MEMORY_SLACK = 4_096.0  # KiB: an interpreter's heap grows by pages
EXAMPLES = 3  # members that a reason names
SUMMARY_MOST = 80  # characters of what a named member's check said
Key = tuple[str, str]  # agent, check_id


@cheap_value
class Run:
    """Holds the part of a result that a gate compares."""

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
    """Holds the median of what the runs of one check take on one member, of time or of memory: before, and now."""

    before: float | None
    now: float | None = None
    _values: list[float] = field(factory=list)

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Cost:
        """Make the cost of the old version's runs; None among them: not measured."""
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
    """Holds the runs of one check on one member. `was_bad` is None if the old version's results can't be compared."""

    check: str
    was_bad: bool | None
    old: tuple[Run, ...]
    run_ms: Cost
    peak_kib: Cost
    new: list[Run] = field(factory=list)
    bad: int = 0  # of `new`
    changed: bool = False

    def is_changed(self, limits: Limits) -> bool:
        """Return True if most results are of the other kind, and more than half of those that are needed."""
        if self.was_bad is None:
            return False
        good = len(self.new) - self.bad
        other, same = (good, self.bad) if self.was_bad else (self.bad, good)
        return other > same and other * 2 > limits.results


@define
class Sums:
    """Sums up the costs of the members for which they are known in both versions."""

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
    """Holds the figures of one check on all members, counted as results come."""

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
        """Count a pair in (`sign` 1), or out (-1)."""
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
        """Add the costs of a pair (`sign` 1), or subtract them (-1)."""
        self.run_ms.add(pair.run_ms, sign)
        self.peak_kib.add(pair.peak_kib, sign)


@frozen
class Figures:
    """Holds the figures of one check at a gate. Averages are of the members' medians; None where they can't be
    compared.
    """

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
    """Holds a verdict on a ring. `missing`: members that have not said enough.

    `failed` is a sentence: no further result could make it good.
    """

    failed: str | None
    is_complete: bool
    missing: frozenset[str] = frozenset()


class Evidence:
    """Counts the results of one ring. `expect` a check of a member before its results are `heard`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pairs: dict[Key, Pair] = {}
        self.tallies: dict[str, Tally] = {}

    def expect(self, key: Key, check: str, old: Sequence[Run] = (), was_bad: bool | None = None) -> None:
        """Count one check of a member from now on, with the runs of the old version; without any `was_bad` counts."""
        if key in self.pairs:
            return
        kept = tuple(old[-OLD_RUNS:])
        pair = self.pairs[key] = Pair(
            check, _was_bad(kept) if kept else was_bad, kept, Cost.of([run.took_ms for run in kept]),
            Cost.of([run.peak_kib for run in kept]),
        )  # fmt: skip
        self.tallies.setdefault(check, Tally()).count(pair, self.limits.results, 1)

    def drop(self, key: Key) -> None:
        """Leave out a check of a member: it is not run there any more."""
        pair = self.pairs.pop(key, None)
        if pair is not None:
            self.tallies[pair.check].count(pair, self.limits.results, -1)

    def heard(self, key: Key, run: Run) -> None:
        """Count a result of the new version; not if the check isn't expected, nor beyond MOST_RUNS."""
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
        """Return the verdict by now. As long as results are missing it costs next to nothing."""
        for check, tally in sorted(self.tallies.items()):
            failed = self._too_many_errors(check, tally) or self._too_many_changed(check, tally)
            if failed is not None:
                return Weighed(failed, False)
        if any(tally.ready < tally.pairs for tally in self.tallies.values()):
            return Weighed(None, False)
        return Weighed(self.too_heavy(), True)

    def silent(self) -> Iterator[str]:
        """Give the members without enough results of some check; a great ring has many, and a reader needs a few."""
        if any(tally.ready < tally.pairs for tally in self.tallies.values()):
            yield from (agent for (agent, _), pair in self.pairs.items() if len(pair.new) < self.limits.results)

    def against(self) -> frozenset[str]:
        """Return the members with a run that failed, or with results of the other kind than before."""
        return frozenset(
            agent for (agent, _), pair in self.pairs.items() if pair.changed or any(run.failed for run in pair.new)
        )

    def too_heavy(self) -> str | None:
        """Return a sentence if the new version takes too much time or memory by the results so far, else None."""
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
        """Return the figures of one check."""
        tally = self.tallies[check]
        (run_before, run_now), (peak_before, peak_now) = tally.run_ms.averages, tally.peak_kib.averages
        return Figures(
            check, tally.pairs, tally.wanted, tally.pairs * self.limits.results, _rate(tally.failed, tally.runs),
            _rate(tally.old_failed, tally.old_runs), tally.changed, tally.comparable, run_now, run_before, peak_now,
            peak_before,
        )  # fmt: skip

    def _too_many_errors(self, check: str, tally: Tally) -> str | None:
        """Return a sentence if too many runs failed, as a share of all that are needed: a first failure is not all."""
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
    """Return True if the old version's results were bad; None if they varied, or if it did not work at all."""
    bad = sum(run.is_bad for run in old)
    if max(bad, len(old) - bad) < STEADY * len(old):
        return None
    if bad * 2 <= len(old):
        return False
    return None if sum(run.failed for run in old) * 2 > len(old) else True


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
