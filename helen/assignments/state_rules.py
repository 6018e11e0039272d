"""Reads the settings of rules in assignments.toml, and makes one rule per agent and check of them. Pure.

[judge]                     # defaults for all entries
attempts = 3                # bad results in a row that confirm a problem
recover = 1                 # good ones that confirm a recovery
retry = "10s"               # until the next run while a status is soft; left out: the run at its usual time
stale = "5m"                # unknown without a result for so long; left out: two intervals, the timeout, 30 s
flap = [30, 15]             # per cent of changes at which flapping begins and ends; false: no detection
away = "1m"                 # an agent without a connection for so long is away (here only)
[[assign]]
depends = ["ping", "gw/up"] # checks that explain a problem of this one: on the same agent, or AGENT/CHECK
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from attrs import asdict, evolve, frozen

from equus_protocol.results import OK
from groundwork.durations import parse_duration
from helen.states.model import USUAL, Rule

OF_ENTRY = ("attempts", "recover", "retry", "stale", "flap", "depends")
OF_ALL = ("attempts", "recover", "retry", "stale", "flap", "away")
MAX_ATTEMPTS = 100  # more is a check that shall not alert at all
MAX_DEPENDS = 20
MOST_RULES = 1_000  # that are kept of those made last
STALE_SLACK = 30.0  # seconds beyond two intervals and the timeout: a loaded machine, a reconnect
SHORTEST = 1.0  # seconds of a retry, a deadline
EPHEMERAL_AWAY = 5.0  # seconds until an ephemeral agent is away: sooner than any check of it is stale


@frozen
class RuleSettings:
    """Holds the settings of a rule that are given, in seconds and counts; None for the others."""

    attempts: int | None = None
    recover: int | None = None
    retry: float | None = None
    stale: float | None = None
    flap: tuple[float, float] | bool | None = None
    depends: tuple[str, ...] | None = None
    away: float | None = None


NO_SETTINGS = RuleSettings()


def read_settings(table: dict[str, Any], keys: Iterable[str], place: str, faults: list[str]) -> RuleSettings:
    """Read the settings of these names; add a sentence to `faults` for each that can't be used."""
    said = {key: _READERS[key](table[key], f"{place}: {key}", faults) for key in keys if key in table}
    return RuleSettings(**said)


def read_defaults(table: Any, faults: list[str]) -> RuleSettings:
    """Read the table `[judge]`; faults as in `read_settings`."""
    if not isinstance(table, dict):
        faults.append("judge: write [judge] and its settings below")
        return NO_SETTINGS
    faults += [f"judge: {key!r} is no setting: {', '.join(OF_ALL)}" for key in table.keys() - set(OF_ALL)]
    return read_settings(table, OF_ALL, "judge", faults)


def rule_for(
    agent: str,
    wanted: RuleSettings,
    default: RuleSettings,
    every: float,
    timeout: float,
    attempts: int | None = None,
) -> Rule:
    """Return the rule of a check that runs every `every` seconds: the settings of its entry, then the defaults.

    `attempts` are those that the table of the check declares. They come before the defaults, which are for all checks:
    a check that is bad for one run only (a line in a log) would never be told if it needed three bad runs.
    """
    rule = _rule_without_parents(wanted, default, every, timeout, attempts)
    if not wanted.depends:
        return rule
    return evolve(rule, depends=tuple(ref if "/" in ref else f"{agent}/{ref}" for ref in wanted.depends))


@lru_cache(MOST_RULES)
def _rule_without_parents(
    wanted: RuleSettings, default: RuleSettings, every: float, timeout: float, attempts: int | None
) -> Rule:
    """Return the rule of these settings, which is the same for all agents and targets of an entry: it is made once."""
    if attempts is not None:
        default = evolve(default, attempts=attempts)
    said = evolve(default, **{name: value for name, value in asdict(wanted).items() if value is not None})
    start, stop = _thresholds(said.flap)
    return Rule(
        attempts=USUAL.attempts if said.attempts is None else said.attempts,
        recover=USUAL.recover if said.recover is None else said.recover,
        retry=said.retry,
        stale=2 * every + timeout + STALE_SLACK if said.stale is None else said.stale,
        flap_start=start,
        flap_stop=stop,
    )


def link_rule(default: RuleSettings, is_ephemeral: bool = False) -> Rule:
    """Return the rule of an agent's link: no attempts, no flapping, only the time until it is away.

    That of an ephemeral agent is no problem while it is away, and is so before any of its checks can be stale.
    """
    away = USUAL.away if default.away is None else default.away
    if is_ephemeral:
        return Rule(1, 1, flap_start=None, away=min(away, EPHEMERAL_AWAY), missing=OK)
    return Rule(1, 1, flap_start=None, away=away)


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
        found = parse_duration(value)
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
