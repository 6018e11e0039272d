"""Finds the channels of an alert: labels and the tree of rules in, verdicts of rules and channels out. Pure.

A rule is looked at if the one above it matched. Among rules beside each other the first that matches takes the alert,
and the others aren't looked at unless it says `continue`. A rule's own channels count when none of those below it
matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import translate

from attrs import field, frozen

GLOB = frozenset("*?[")
_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(!?=)\s*(.*?)\s*", re.DOTALL)


@frozen
class Matcher:
    """Describes a matcher such as `role=web*` or `role!=test`. A label that isn't there is the same as an empty one."""

    label: str
    negative: bool
    pattern: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, eq=False)

    @_compiled.default
    def _compile(self) -> re.Pattern[str]:
        return re.compile(translate(self.pattern) if set(self.pattern) & GLOB else re.escape(self.pattern) + r"\Z")

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if it holds for these labels."""
        return (self._compiled.match(labels.get(self.label, "")) is None) == self.negative

    def __str__(self) -> str:
        return f"{self.label}{'!=' if self.negative else '='}{self.pattern}"


def read_matcher(text: str) -> Matcher:
    """Read a matcher. Raises ValueError with a sentence for the author of the file."""
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is no matcher: write "label=value", "label!=value"; a value may have *, ? and [ab]')
    return Matcher(found[1], found[2] == "!=", found[3])


@frozen
class Timing:
    """Holds seconds from the first change to the message, between two messages of a group, and until a repeat."""

    wait: float = 10.0
    interval: float = 60.0
    repeat: float = 4 * 3_600.0


@frozen
class Rule:
    """Describes one rule, with its own settings and those from above.

    `name`: its own, or its place, such as route.2.1.
    """

    name: str
    matchers: tuple[Matcher, ...] = ()
    channels: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ("agent",)
    timing: Timing = Timing()
    go_on: bool = False
    below: tuple[Rule, ...] = ()


@frozen
class Visit:
    """Describes one rule that was looked at, and its verdict."""

    rule: str
    depth: int
    matched: bool
    why: str
    channels: tuple[str, ...] = ()


@frozen
class Destination:
    """Describes a channel, and the group in it that the alert belongs to."""

    channel: str
    route: str
    by: tuple[tuple[str, str], ...]
    timing: Timing


@frozen
class Routed:
    """Describes the way of one alert through the rules."""

    visited: tuple[Visit, ...]
    destinations: tuple[Destination, ...]  # a channel is there once, by the first rule that named it


def route(root: Rule, labels: Mapping[str, str]) -> Routed:
    """Return the verdict of each rule, in the order in which they were looked at, and the destinations."""
    visited: list[Visit] = []
    chosen: dict[str, Destination] = {}
    for rule in _walk(root, labels, 0, visited):
        by = tuple((label, labels.get(label, "")) for label in rule.group_by)
        for channel in rule.channels:
            chosen.setdefault(channel, Destination(channel, rule.name, by, rule.timing))
    return Routed(tuple(visited), tuple(chosen.values()))


def _walk(rule: Rule, labels: Mapping[str, str], depth: int, visited: list[Visit]) -> Iterator[Rule]:
    """Yield the rules that give the channels. The visit of a rule stands before those of the rules below it."""
    failed = next((matcher for matcher in rule.matchers if not matcher.matches(labels)), None)
    if failed is not None:
        why = f"{failed} does not hold: {failed.label} is {labels.get(failed.label, '')!r}"
        visited.append(Visit(rule.name, depth, False, why))
        return
    place, taken = len(visited), False
    for at, each in enumerate(rule.below):
        before = len(visited)
        yield from _walk(each, labels, depth + 1, visited)
        if not visited[before].matched:
            continue
        taken = True
        if not each.go_on:
            visited += [
                Visit(later.name, depth + 1, False, f"not looked at: {each.name} took it")
                for later in rule.below[at + 1 :]
            ]
            break
    visited.insert(place, Visit(rule.name, depth, True, *_verdict(rule, taken)))
    if not taken:
        yield rule


def _verdict(rule: Rule, taken: bool) -> tuple[str, tuple[str, ...]]:
    held = " and ".join(map(str, rule.matchers)) or "it has no matchers"
    if taken:
        return f"{held}; a rule below took it", ()
    if not rule.channels:
        return f"{held}; it names no channel", ()
    return f"{held}", rule.channels
