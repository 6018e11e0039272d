"""Reads the rings of a rollout, such as `1%,role=canary,100%`, and chooses the members of each. Pure.

The choice is a function of the version, the names and a key that Helen alone has: the same whenever it is made, another
for another version, and none that an agent could choose its name for. When a ring is over is decided by
helen/rollout/rollout.py.
"""

from __future__ import annotations

import hmac
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import pairwise

from attrs import field, frozen

USUAL = "1%,10%,100%"
OFF = "off"
MOST_RINGS = 16  # each lasts half a minute at least; what a manifest may name is four times as many
COMMON = 0.05  # a label or fact that this share of the fleet has makes a kind of its own
MOST_KINDS = 200  # that a ring represents, the most common first: a ring is rarely bigger
_FRACTION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_LABEL = re.compile(r"([^\s=,%]{1,255})=([^\s,]{1,255})")


@frozen
class RingSpec:
    """Holds one ring as it was written: a share of the fleet, or a label with a pattern."""

    text: str
    share: float | None = None
    label: tuple[str, str] | None = None

    @property
    def is_all(self) -> bool:
        return self.share == 1.0


@frozen
class Candidate:
    """Describes an agent that may be in a ring; `facts` are its host's: system, architecture and others."""

    name: str
    is_here: bool = True
    labels: dict[str, str] = field(factory=dict)
    facts: dict[str, str] = field(factory=dict)
    is_aside: bool = False  # helen/rollout/set_aside.py: it tries no version before the others

    @property
    def kinds(self) -> Iterator[tuple[str, str]]:
        """Give labels and facts: agents that have one in common are of one kind."""
        yield from self.labels.items()
        yield from self.facts.items()


ALL = RingSpec("100%", 1.0)


def read_fraction(text: str) -> float:
    """Read `1%`, `10%`, `0.5%` as a share of 1. Raises ValueError with a sentence if it is none."""
    match = _FRACTION.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise ValueError(f"{text!r} is no share of the agents: write 1%, 10% or 100%")
    return float(match[1]) / 100


def read_rings(text: str) -> tuple[RingSpec, ...]:
    """Read rings such as `1%,10%,100%`; a last one of 100% is added, and `off` has none.

    Raises ValueError with a sentence if a ring can't be used, or is not greater than the one before it.
    """
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
    digits = Decimal(text.rstrip("%").strip()).normalize()  # written out, with no exponent: it is read again
    return RingSpec(f"{digits:f}%", share)


def write_rings(specs: Iterable[RingSpec]) -> str:
    """Write rings as `read_rings` reads them."""
    return ",".join(spec.text for spec in specs) or OFF


def choose(
    fleet: Iterable[Candidate], spec: RingSpec, taken: frozenset[str], version: int, key: bytes
) -> frozenset[str]:  # fmt: skip
    """Return the members of a ring: those of the rings before (`taken`), and as many others as its share asks for."""
    candidates = list(fleet)
    able = trusted(candidates)
    if spec.label is not None:
        return taken | {each.name for each in able if matches(each, spec.label)}
    assert spec.share is not None
    wanted = math.ceil(round(len(candidates) * spec.share, 9))  # 0.07 * 100 is a little more than 7
    here = sorted(able, key=lambda each: _rank(each.name, version, key))
    members = set(taken)
    for each in [*_one_of_each_kind(candidates, here, taken), *here]:
        if len(members) >= wanted:
            break
        members.add(each.name)
    return frozenset(members)


def matches(candidate: Candidate, label: tuple[str, str]) -> bool:
    """Return True if an agent has this label, with a value that fits the pattern."""
    key, pattern = label
    return key in candidate.labels and fnmatchcase(candidate.labels[key], pattern)


def trusted(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that are connected, without those set aside unless there are no others."""
    here = [each for each in candidates if each.is_here]
    return [each for each in here if not each.is_aside] or here


def choose_second(
    fleet: Iterable[Candidate], first: str, taken: frozenset[str], version: int, key: bytes
) -> str | None:  # fmt: skip
    """Return the agent that is to try what `first` has refused, as like it as can be; None if there is no other."""
    candidates = list(fleet)
    kinds = {kind for each in candidates if each.name == first for kind in each.kinds}
    others = [each for each in candidates if each.is_here and not each.is_aside and each.name not in taken | {first}]
    best = max(others, key=lambda each: (len(kinds & set(each.kinds)), _rank(each.name, version, key)), default=None)
    return None if best is None else best.name


def _rank(name: str, version: int, key: bytes) -> bytes:
    return hmac.digest(key, f"{version}\0{name}".encode(), "sha256")


def _one_of_each_kind(candidates: list[Candidate], here: list[Candidate], taken: frozenset[str]) -> Iterator[Candidate]:
    """Give one agent of each common kind, the first in order, unless a member or an agent given before is of it."""
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
