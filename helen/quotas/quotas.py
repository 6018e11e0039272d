"""Names the quotas of one agent, with their defaults, and reads those that an operator sets. Pure.

A rate has a burst and an amount a minute; a level has a most. docs/server.rst lists them, helen/quotas/budget.py
counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

MIB = 1024 * 1024
GREATEST = 2**53  # of any figure: /metrics and JSON have it exactly
UNITS = {"": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}
_FIGURE = re.compile(r"([0-9]{1,16})(KiB|MiB|GiB|)")


@frozen
class Quota:
    """Describes one quota of an agent. `most`: at once, for a rate its burst; `a_minute`: what comes back in a minute,
    0 for a level.

    `least` is the smallest `most` that an agent can work with, `greatest` the greatest.
    """

    name: str
    most: int
    a_minute: int = 0
    what: str = ""
    least: int = 1
    greatest: int = GREATEST

    @property
    def is_rate(self) -> bool:
        return self.a_minute > 0

    @property
    def sentence(self) -> str:
        """Return the limit in words: `20,000 results at once, then 6,000 a minute`."""
        most, then = _shown(self.name, self.most), _shown(self.name, self.a_minute)
        return f"{most} {self.what} at once, then {then} a minute" if self.is_rate else f"{most} {self.what}"


RESULTS = (20_000, 6_000)
BYTES = (64 * MIB, 16 * MIB)
DISK = (4_096 * MIB, 4 * MIB)
MESSAGES = (10_000, 600)
SESSIONS = (1_000, 60)
ENROLMENTS = (10, 1)
STATES = 1_000
SERIES = 4_096
QUESTIONS = 64
STRANGERS = 20

# A full agent has some hundred checks: 6,000 results a minute are ten times what they give. The burst is what a spool
# of half an hour without Helen holds. `disk` is for days: what `bytes` grants for ever would be 23 GB in each.
DEFAULTS = (
    Quota("results", *RESULTS, "results"),
    Quota("bytes", *BYTES, "of results", least=2 * MIB),
    Quota("disk", *DISK, "kept on Helen's disk", least=2 * MIB),
    Quota("messages", *MESSAGES, "other messages", least=100),
    Quota("sessions", *SESSIONS, "connections"),
    Quota("enrolments", *ENROLMENTS, "renewals of its certificate"),
    Quota("states", STATES, 0, "checks with a state"),
    Quota("series", SERIES, 0, "checks with a series in the history"),
    Quota("questions", QUESTIONS, 0, "questions that wait for its answer", greatest=64),
    Quota("strangers", STRANGERS, 0, "connections of one address before hello", greatest=200),
)
NAMES = tuple(quota.name for quota in DEFAULTS)
IN_BYTES = ("bytes", "disk")


@frozen
class Quotas:
    """Holds all quotas of each agent, by their names."""

    by_name: tuple[Quota, ...] = DEFAULTS

    def __getitem__(self, name: str) -> Quota:
        return self.by_name[NAMES.index(name)]


USUAL = Quotas()


def read_quotas(given: Iterable[str]) -> Quotas:
    """Read `NAME=MOST` or `NAME=BURST/A_MINUTE` for each quota that is not the default.

    Raises ValueError, with a sentence, if a name is unknown or a figure can't be used.
    """
    found = {quota.name: quota for quota in DEFAULTS}
    for text in given:
        name, _, figures = text.partition("=")
        usual = found.get(name)
        if usual is None:
            raise ValueError(f"{name!r} is no quota. There are: {', '.join(NAMES)}")
        found[name] = _read_one(usual, figures)
    return Quotas(tuple(found.values()))


def _read_one(usual: Quota, figures: str) -> Quota:
    parts = [_figure(part) for part in figures.split("/")]
    shape = f"{usual.name}=BURST/A_MINUTE" if usual.is_rate else f"{usual.name}=MOST"
    if None in parts or len(parts) != 1 + usual.is_rate:
        example = f"{usual.name}={_written(usual)}"
        raise ValueError(f"{usual.name}={figures!r}: write {shape}, for example {example}")
    most, a_minute = parts[0] or 0, (parts[1] or 0) if usual.is_rate else 0
    if not usual.least <= most <= usual.greatest or (usual.is_rate and not 1 <= a_minute <= GREATEST):
        raise ValueError(f"{usual.name}={figures}: {usual.least} is the least, and {usual.greatest} the most")
    return Quota(usual.name, most, a_minute, usual.what, usual.least, usual.greatest)


def _figure(text: str) -> int | None:
    match = _FIGURE.fullmatch(text)
    return None if match is None else int(match[1]) * UNITS[match[2]]


def _written(quota: Quota) -> str:
    figures = [quota.most, quota.a_minute] if quota.is_rate else [quota.most]
    return "/".join(f"{each // MIB}MiB" if quota.name in IN_BYTES else str(each) for each in figures)


def _shown(name: str, figure: int) -> str:
    """Return a figure for people: bytes as MiB where they are whole ones."""
    if name not in IN_BYTES:
        return f"{figure:,}"
    return f"{figure // MIB:,} MiB" if figure % MIB == 0 else f"{figure:,} bytes"
