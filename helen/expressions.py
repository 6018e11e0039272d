"""Regular expressions of strangers, matched whole and in linear time, as RE2 does for Alertmanager. Pure.

Python's `re` tries one way after the other, and a pattern of thirty characters keeps it busy for years. Here all ways
are followed at once (Thompson's construction). What a matcher of labels has a use for is here: characters, classes,
groups, alternatives and repeats; no references, no looking ahead, no anchors but those at the ends.
"""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

MAX_STEPS = 2_000  # of one expression, once its repeats are written out; a match is some 10 ns a step and character
MAX_TIMES = 200  # of a counted repeat
MAX_DEPTH = 50  # of groups
_ATOM = re.compile(r"\\[dDwWsS]|\\[^A-Za-z0-9]|\\[ntrfv]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}*+?|^$]", re.DOTALL)
_COUNT = re.compile(r"\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\}")
_CLASSES = re.compile(r"\[\^?\]?(?:\\[dDwWsS]|\\[^A-Za-z0-9]|\\[ntrfv]|[^\]\\\[]|\[(?![:.=]))*\]", re.DOTALL)


_SPECIAL = re.compile(r"\\.|[\[&|~]", re.DOTALL)


class BadExpression(ValueError):
    """It can't be used; the text says why."""


@frozen
class Char:
    """One character of a kind. `test` matches one character and nothing else, so it takes no time to speak of."""

    test: re.Pattern[str]


@frozen
class Split:
    """Go on at both."""

    first: int
    second: int


Program = list[Char | Split]  # the end of it is a match; whatever isn't a Split goes on at the next step


@frozen
class Expression:
    """`fullmatch` says whether all of a text is matched."""

    source: str
    program: tuple[Char | Split, ...]

    def fullmatch(self, text: str) -> bool:
        now = self._follow([0])
        for character in text:
            met = [at + 1 for at in now if at < len(self.program) and self._is(at, character)]
            now = self._follow(met)
            if not now:
                return False
        return len(self.program) in now

    def _is(self, at: int, character: str) -> bool:
        step = self.program[at]
        return isinstance(step, Char) and step.test.match(character) is not None

    def _follow(self, heads: list[int]) -> set[int]:
        """All steps that can be reached without a character."""
        reached: set[int] = set()
        while heads:
            at = heads.pop()
            if at in reached:
                continue
            reached.add(at)
            step = self.program[at] if at < len(self.program) else None
            if isinstance(step, Split):
                heads += (at + step.first, at + step.second)
        return reached


@lru_cache(maxsize=1_024)  # as many as silences in force may have; each is asked for every check
def read_expression(source: str) -> Expression:
    """Raises BadExpression."""
    return Expression(source, tuple(_Reader(source).read()))


class _Reader:
    """From text to steps, by descent. A fragment is a list of steps with places relative to their own."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._text = source.removeprefix("(?i)")
        self._flags = re.DOTALL | (re.IGNORECASE if self._text != source else 0)
        self._text = self._text.removeprefix("^")
        if self._text.endswith("$") and not self._text.endswith("\\$"):
            self._text = self._text[:-1]
        self._at = 0

    def read(self) -> Program:
        made = self._alternatives(0)
        if self._at < len(self._text):
            raise self._bad(f"{self._text[self._at]!r} can't stand at {self._at + 1}")
        return made

    def _alternatives(self, depth: int) -> Program:
        if depth > MAX_DEPTH:
            raise self._bad(f"groups in groups, more than {MAX_DEPTH}")
        branches = [self._sequence(depth)]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        made = branches.pop()
        while branches:
            branch = branches.pop()
            made = self._bounded([Split(1, len(branch) + 2), *branch, _jump(len(made) + 1), *made])
        return made

    def _sequence(self, depth: int) -> Program:
        made: Program = []
        while self._next() not in ("", "|", ")"):
            made = self._bounded(made + self._repeated(self._one(depth)))
        return made

    def _one(self, depth: int) -> Program:
        if self._next() == "(":
            self._at += 3 if self._text.startswith("(?:", self._at) else 1
            if self._next() == "?":
                raise self._bad("(? begins nothing here but (?: and, in front, (?i)")
            made = self._alternatives(depth + 1)
            if self._next() != ")":
                raise self._bad("a group is not closed")
            self._at += 1
            return made
        match = _ATOM.match(self._text, self._at)
        if match is None or (match[0][0] == "[" and not _CLASSES.fullmatch(match[0])):
            raise self._bad(f"{self._next()!r} can't stand at {self._at + 1}")
        self._at = match.end()
        atom = match[0] if match[0] == "." or match[0][0] in "\\[" else re.escape(match[0])
        if atom[0] == "[":
            if "--" in atom:
                raise self._bad("-- in a class")
            inner = _SPECIAL.sub(lambda each: each[0] if len(each[0]) > 1 else f"\\{each[0]}", atom[1:])
            atom = f"[{inner}"  # what Python may take for an operation on sets some day is a character
        try:
            return [Char(re.compile(atom, self._flags))]
        except re.error as error:
            raise self._bad(str(error)) from error

    def _repeated(self, made: Program) -> Program:
        sign = self._next()
        if not sign or sign not in "*+?{":
            return made
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._count()
        self._at += sign != "{"
        if self._next() == "?":  # whether it takes as much as it can is all the same where all has to be matched
            self._at += 1
        if self._next() and self._next() in "*+?{":
            raise self._bad("a repeat of a repeat")
        times = max(low, high or 0)
        if times > MAX_TIMES:
            raise self._bad(f"a repeat of more than {MAX_TIMES}")
        repeated = self._bounded(made * low)
        if high is None:
            return self._bounded([*repeated, Split(1, len(made) + 2), *made, _jump(-len(made) - 1)])
        for _ in range(high - low):
            repeated = self._bounded([*repeated, Split(1, len(made) + 1), *made])
        return repeated

    def _count(self) -> tuple[int, int | None]:
        match = _COUNT.match(self._text, self._at)
        if match is None:
            raise self._bad("{ begins a count such as {2,4}")
        self._at = match.end()
        low = int(match[1])
        high = low if match[2] is None else None if match[3] is None else int(match[3])
        if high is not None and high < low:
            raise self._bad(f"{match[0]} counts backwards")
        return low, high

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _bounded(self, made: Program) -> Program:
        if len(made) > MAX_STEPS:
            raise self._bad(f"it comes to more than {MAX_STEPS} steps")
        return made

    def _bad(self, why: str) -> BadExpression:
        return BadExpression(f"{self._source[:200]!r} can't be used: {why}")


def _jump(to: int) -> Split:
    return Split(to, to)
