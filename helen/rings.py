"""Rings of a rollout: reads `1%,role=canary,100%`, and chooses who is in one. Pure.

The choice is a function of the version and the names: the same whenever it is worked out, another for another version.
Who is told what, and when a ring is over, is not decided here.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import pairwise

from attrs import field, frozen

USUAL = "1%,10%,100%"
OFF = "off"
MOST_RINGS = 16  # each lasts half a minute at least; what a manifest may name is four times as many
COMMON = 0.05  # the share of the fleet that has something in common and so is a kind of its own
MOST_KINDS = 200  # of those that are looked at, the most common first: a ring is rarely bigger
_FRACTION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_LABEL = re.compile(r"([^\s=,%]{1,255})=([^\s,]{1,255})")


@frozen
class RingSpec:
    """One ring as somebody wrote it: a share of the fleet, or a label with a pattern."""

    text: str
    share: float | None = None
    label: tuple[str, str] | None = None

    @property
    def is_all(self) -> bool:
        return self.share == 1.0


@frozen
class Candidate:
    """An agent that a ring may be made of; `facts` are its host's: system, architecture and the like."""

    name: str
    is_here: bool = True
    labels: dict[str, str] = field(factory=dict)
    facts: dict[str, str] = field(factory=dict)

    @property
    def kinds(self) -> Iterator[tuple[str, str]]:
        yield from self.labels.items()
        yield from self.facts.items()


ALL = RingSpec("100%", 1.0)


def read_fraction(text: str) -> float:
    """`1%`, `10%`, `0.5%`; raises ValueError with a sentence."""
    match = _FRACTION.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise ValueError(f"{text!r} is no share of the agents: write 1%, 10% or 100%")
    return float(match[1]) / 100


def read_rings(text: str) -> tuple[RingSpec, ...]:
    """Of `1%,10%,100%`, the last of which goes without saying; none of `off`. Raises ValueError with a sentence."""
    if text.strip() == OFF:
        return ()
    specs = [_read_ring(part.strip()) for part in text.split(",") if part.strip()]
    if not specs:
        raise ValueError(f"{text!r} names no ring: write {USUAL}, or {OFF}")
    if not specs[-1].is_all:
        specs.append(ALL)
    if len(specs) > MOST_RINGS:
        raise ValueError(f"{len(specs)} rings: {MOST_RINGS} are the most")
    shares = [spec.share for spec in specs if spec.share is not None]
    if any(later <= sooner for sooner, later in pairwise(shares)):
        raise ValueError(f"{text!r}: each share has to be greater than the one before it, as in {USUAL}")
    return tuple(specs)


def _read_ring(text: str) -> RingSpec:
    label = _LABEL.fullmatch(text)
    if label is not None:
        return RingSpec(text, label=(label[1], label[2]))
    share = read_fraction(text)
    return RingSpec(f"{share * 100:g}%", share)


def write_rings(specs: Iterable[RingSpec]) -> str:
    """As `read_rings` reads it."""
    return ",".join(spec.text for spec in specs) or OFF


def choose(fleet: Iterable[Candidate], spec: RingSpec, taken: frozenset[str], seed: int) -> frozenset[str]:
    """Everybody in this ring: those who are in one already (`taken`), and as many others as there should be."""
    candidates = list(fleet)
    if spec.label is not None:
        return taken | {each.name for each in candidates if each.is_here and matches(each, spec.label)}
    assert spec.share is not None
    wanted = math.ceil(round(len(candidates) * spec.share, 9))  # 0.07 * 100 is a little more than 7
    here = sorted((each for each in candidates if each.is_here), key=lambda each: _rank(each.name, seed))
    members = set(taken)
    for each in [*_one_of_each_kind(candidates, here, taken), *here]:
        if len(members) >= wanted:
            break
        members.add(each.name)
    return frozenset(members)


def matches(candidate: Candidate, label: tuple[str, str]) -> bool:
    """Whether it has this label, with a value that fits."""
    key, pattern = label
    return key in candidate.labels and fnmatchcase(candidate.labels[key], pattern)


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()


def _one_of_each_kind(candidates: list[Candidate], here: list[Candidate], taken: frozenset[str]) -> Iterator[Candidate]:
    """For what many have in common, the first in order who has it, unless somebody before has it, too."""
    counts = Counter(kind for each in candidates for kind in each.kinds)
    least = max(2.0, len(candidates) * COMMON)
    common = [kind for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= least]
    first: dict[tuple[str, str], Candidate] = {}
    covered: set[tuple[str, str]] = set()
    for each in here:
        for kind in each.kinds:
            first.setdefault(kind, each)
        if each.name in taken:
            covered.update(each.kinds)
    for kind in common[:MOST_KINDS]:
        if kind in first and kind not in covered:
            covered.update(first[kind].kinds)
            yield first[kind]
