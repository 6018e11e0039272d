"""Matches a whole text with a regular expression in linear time, as RE2 does for Alertmanager. Pure.

Expressions come from clients of the API. Python's `re` tries one way after the other, and a pattern of thirty
characters keeps it busy for years. Here all ways are followed at once (Thompson's construction). The syntax is the
part of RE2's that a matcher of labels has a use for: characters, classes, groups, alternatives and repeats; no
references, no looking ahead, no anchors but those at the ends. `.` matches a newline, too.

google-re2 is not used: a window must cover the same checks on the server and in a replay in Spark, and helen.states
runs on executors that have the standard library and attrs, but no compiled package. Its verdicts are kept to all the
same: tests/stages/re2_verdicts.txt has them for thousands of random patterns, recorded from google-re2. One
difference is known: with (?i) the Turkish letters dotted I and dotless i are cases of i, as in Python's `re`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

MAX_STEPS = 2_000  # of one expression, once its repeats are written out; a match is some 10 ns a step and character
MAX_TIMES = 200  # of a counted repeat
MAX_DEPTH = 50  # of groups
_ESCAPED = r"\\[dDwWsS]|\\[\x00-/:-@\[-`{-\x7f]|\\[ntrfv]"  # as RE2: a class, ASCII but letters and digits, a control
_ATOM = re.compile(rf"{_ESCAPED}|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){{}}*+?|^$]", re.DOTALL)
_CLASS = re.compile(rf"\[(\^?)(\]?(?:{_ESCAPED}|[^\]\\\[]|\[(?![:.=]))*)\]", re.DOTALL)
_END = re.compile(r"(?<!\\)(\\\\)*\$\Z")  # a `$` that no backslash escapes
_COUNT = re.compile(r"\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\}")
_MEMBER = re.compile(r"\\.|.", re.DOTALL)  # of a class
_ASCII = {  # Python's classes have the letters and digits of all alphabets, RE2's those of ASCII; \v is no space there
    r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]",
    r"\s": r"[\t\n\f\r ]", r"\S": r"[^\t\n\f\r ]",
}  # fmt: skip


class BadExpression(ValueError):
    """Says that an expression can't be used; the text says which one and why."""


@frozen
class Char:
    """Describes a step over one character that `test` matches.

    It matches exactly one, so it takes no time to speak of.
    """

    test: re.Pattern[str]


@frozen
class Split:
    """Describes a step without a character: go on at both places, given relative to this one."""

    first: int
    second: int


Program = list[Char | Split]  # the end of it is a match; whatever isn't a Split goes on at the next step


@frozen
class Expression:
    """Describes an expression that was read: `fullmatch` follows its program."""

    source: str
    program: tuple[Char | Split, ...]

    def fullmatch(self, text: str) -> bool:
        """Return True if the expression matches all of the text."""
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
        """Return all steps that can be reached from these without a character."""
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
    """Read an expression. Raises BadExpression for syntax that is not used here, and for one that is too long."""
    return Expression(source, tuple(_Reader(source).read()))


class _Reader:
    """Reads text into steps, by descent. A fragment is a list of steps with places relative to their own."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._text = source.removeprefix("(?i)")
        self._flags = re.DOTALL | (re.IGNORECASE if self._text != source else 0)
        self._text = self._text.removeprefix("^")
        if _END.search(self._text) is not None:
            self._text = self._text[:-1]
        self._at = 0

    def read(self) -> Program:
        """Return the program of the whole expression. Raises BadExpression."""
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
        if match is None:
            raise self._bad(f"{self._next()!r} can't stand at {self._at + 1}")
        atom = match[0]
        if atom[0] == "[":
            atom = self._class(atom)
        elif atom[0] != "\\" and atom != ".":
            atom = re.escape(atom)
        self._at = match.end()
        try:
            return [Char(re.compile(_ASCII.get(atom, atom), self._flags))]
        except re.error as error:
            raise self._bad(str(error)) from error

    def _class(self, atom: str) -> str:
        """Return a class in brackets as an expression of Python that matches one character."""
        match = _CLASS.fullmatch(atom)
        if match is None:
            raise self._bad(f"{self._next()!r} can't stand at {self._at + 1}")
        members = _MEMBER.findall(match[2])
        named = [_ASCII[each] for each in members if each in _ASCII]
        # Python may take some characters for operations on sets some day; in RE2 they are characters.
        others = "".join(f"\\{each}" if each in "[]^&|~" else each for each in members if each not in _ASCII)
        if "--" in others:
            raise self._bad("-- in a class")
        if any(_is_end_of_range(members, at) for at, each in enumerate(members) if each in _ASCII):
            raise self._bad("bad character range")
        if not named:
            return f"[{match[1]}{others}]"
        one = "|".join([f"[{others}]"] * bool(others) + named)
        return f"(?!{one})." if match[1] else f"(?:{one})"

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


def _is_end_of_range(members: list[str], at: int) -> bool:
    """Return True if a `-` is before or after this member and is neither the first nor the last of its class."""
    return (at > 1 and members[at - 1] == "-") or (at + 2 < len(members) and members[at + 1] == "-")


def _jump(to: int) -> Split:
    return Split(to, to)
