"""What assignments.toml says of judging: read beside the schedule, and made into one rule per agent and check. Pure.

[judge]                     # what entries don't say
attempts = 3                # bad results in a row that confirm a problem
recover = 1                 # good ones that confirm a recovery
retry = "10s"               # run it again so soon while it is not confirmed; left out: at its usual time
stale = "5m"                # unknown without a result for so long; left out: two intervals, the timeout, 30 s
flap = [30, 15]             # per cent of changes at which flapping begins and ends; false: no detection
away = "1m"                 # an agent that is gone for so long is away (here only)
[[assign]]
depends = ["ping", "gw/up"] # checks whose trouble explains this one's: on the same agent, or AGENT/CHECK
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import asdict, evolve, frozen

from helen.durations import seconds
from helen.judged import USUAL, Rule

OF_ENTRY = ("attempts", "recover", "retry", "stale", "flap", "depends")
OF_ALL = ("attempts", "recover", "retry", "stale", "flap", "away")
MAX_ATTEMPTS = 100  # more is a check that shall not alert at all
MAX_DEPENDS = 20
STALE_SLACK = 30.0  # seconds beyond two intervals and the timeout: a loaded machine, a reconnect
SHORTEST = 1.0  # seconds of a retry, a deadline


@frozen
class Wanted:
    """What was said; None is what was not."""

    attempts: int | None = None
    recover: int | None = None
    retry: float | None = None
    stale: float | None = None
    flap: tuple[float, float] | bool | None = None
    depends: tuple[str, ...] | None = None
    away: float | None = None


NOTHING = Wanted()


def read_wanted(table: dict[str, Any], keys: Iterable[str], place: str, faults: list[str]) -> Wanted:
    """The settings of these names; what is wrong with them goes to `faults`."""
    said = {key: _READERS[key](table[key], f"{place}: {key}", faults) for key in keys if key in table}
    return Wanted(**said)


def read_judge(table: Any, faults: list[str]) -> Wanted:
    """The table `[judge]`."""
    if not isinstance(table, dict):
        faults.append("judge: write [judge] and its settings below")
        return NOTHING
    faults += [f"judge: {key!r} is no setting: {', '.join(OF_ALL)}" for key in table.keys() - set(OF_ALL)]
    return read_wanted(table, OF_ALL, "judge", faults)


def rule_for(agent: str, wanted: Wanted, default: Wanted, every: float, timeout: float) -> Rule:
    """The rule of one check that runs this often."""
    said = evolve(default, **{name: value for name, value in asdict(wanted).items() if value is not None})
    start, stop = _thresholds(said.flap)
    return Rule(
        attempts=USUAL.attempts if said.attempts is None else said.attempts,
        recover=USUAL.recover if said.recover is None else said.recover,
        retry=said.retry,
        stale=2 * every + timeout + STALE_SLACK if said.stale is None else said.stale,
        flap_start=start,
        flap_stop=stop,
        depends=tuple(ref if "/" in ref else f"{agent}/{ref}" for ref in wanted.depends or ()),
    )


def link_rule(default: Wanted) -> Rule:
    """Of an agent's being there: no attempts, no flapping; only how long it may be gone."""
    return Rule(1, 1, flap_start=None, away=USUAL.away if default.away is None else default.away)


def _thresholds(flap: tuple[float, float] | bool | None) -> tuple[float | None, float]:
    if isinstance(flap, tuple):
        return flap
    return (None, 0.0) if flap is False else (USUAL.flap_start, USUAL.flap_stop)


def _count(value: Any, place: str, faults: list[str]) -> int | None:
    if type(value) is int and 1 <= value <= MAX_ATTEMPTS:
        return value
    faults.append(f"{place} is {value!r}: write a number from 1 to {MAX_ATTEMPTS}")
    return None


def _duration(value: Any, place: str, faults: list[str]) -> float | None:
    try:
        found = seconds(value)
    except ValueError as error:
        faults.append(f"{place}: {error}")
        return None
    if found < SHORTEST:
        faults.append(f"{place} is {found:g} s; {SHORTEST:g} s is the least")
    return found


def _flap(value: Any, place: str, faults: list[str]) -> tuple[float, float] | bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and len(value) == 2 and all(type(each) in (int, float) for each in value):
        start, stop = value
        if 0 < stop < start <= 100:
            return float(start), float(stop)
    faults.append(f"{place} is {value!r}: write [30, 15] (per cent at which it begins and ends), or false")
    return None


def _depends(value: Any, place: str, faults: list[str]) -> tuple[str, ...] | None:
    value = [value] if isinstance(value, str) else value
    if isinstance(value, list) and len(value) <= MAX_DEPENDS and all(isinstance(ref, str) and ref for ref in value):
        return tuple(value)
    faults.append(f"{place} is {value!r}: write CHECK or AGENT/CHECK, or a list of at most {MAX_DEPENDS} of them")
    return None


_READERS: dict[str, Any] = {
    "attempts": _count, "recover": _count, "retry": _duration, "stale": _duration, "flap": _flap,
    "depends": _depends, "away": _duration,
}  # fmt: skip
