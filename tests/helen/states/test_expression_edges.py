"""Tests expressions and matchers at their edges: the steps that each syntax comes to, limits, and places
in refusals.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from helen.states.linear_regex import (
    MAX_DEPTH,
    MAX_STEPS,
    MAX_TIMES,
    BadExpression,
    Char,
    Split,
    _is_end_of_range,
    read_expression,
)
from helen.states.matchers import MAX_MATCHERS, MAX_VALUE, Matcher, as_labels, read_matcher, read_matchers

SPLIT = re.compile(r"Split\(first=(-?\d+), second=(-?\d+)\)")


def shape(source: str) -> str:
    """Return the steps in short: a character's expression, or the two places of a split."""
    found = []
    for step in read_expression(source).program:
        found.append(step.test.pattern if isinstance(step, Char) else f"<{step.first},{step.second}>")
    return " ".join(found)


@pytest.mark.parametrize(("source", "steps"), [
    ("", ""), ("ab", "a b"), ("a|b", "<1,3> a <2,2> b"), ("a|b|c", "<1,3> a <5,5> <1,3> b <2,2> c"),
    ("|a", "<1,2> <2,2> a"), ("(ab|c)d", "<1,4> a b <2,2> c d"), ("(?:a)b", "a b"), ("a*", "<1,3> a <-2,-2>"),
    ("(ab)*", "<1,4> a b <-3,-3>"), ("a+", "a <1,3> a <-2,-2>"), ("a?", "<1,2> a"), ("(ab)?", "<1,3> a b"),
    ("a{2}", "a a"), ("a{0}", ""), ("a{1,3}", "a <1,2> a <1,2> a"), ("a{2,}", "a a <1,3> a <-2,-2>"),
    ("a{0,1}", "<1,2> a"),
    ("a*?", "<1,3> a <-2,-2>"), ("a{2}?b", "a a b"), (r"\d", "[0-9]"), (r"\.", r"\."), (".", "."), ("-", r"\-"),
    ("[ab]", "[ab]"), ("[^a]", "[^a]"), (r"[\d_]", "(?:[_]|[0-9])"), (r"[^\d]", "(?![0-9])."), (r"[\d]", "(?:[0-9])"),
    ("[a&]", r"[a\&]"), ("^ab$", "a b"), ("(?i)^a$", "a"), (r"a\$", r"a \$"),
])  # fmt: skip
def test_steps(source: str, steps: str) -> None:
    """Each piece of syntax makes these steps."""
    assert shape(source) == steps


def test_flags() -> None:
    """A dot is a newline as well; with (?i) cases are all the same."""
    assert read_expression(".").fullmatch("\n")
    assert [read_expression(source).fullmatch("A") for source in ("a", "(?i)a", "(?i)[a-c]", "[a-c]")] == [
        False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("source", "why"), [
    (")", "')' can't stand at 1"), ("a)", "')' can't stand at 2"), ("ab(c", "a group is not closed"),
    ("(a", "a group is not closed"), ("*", "'*' can't stand at 1"), ("a|*", "'*' can't stand at 3"),
    ("ab[", "'[' can't stand at 3"), ("a[[:x:]]", "'[' can't stand at 2"), ("(?P<x>a)", "(? begins nothing here but"),
    ("x(?=a)", "(? begins nothing here but"), ("a^", "'^' can't stand at 2"), ("a$b", "'$' can't stand at 2"),
    (r"\1", "'\\\\' can't stand at 1"), ("a**", "a repeat of a repeat"), ("a{2}{3}", "a repeat of a repeat"),
    ("a+?*", "a repeat of a repeat"), ("a{x}", "{ begins a count such as {2,4}"), ("a{,2}", "{ begins a count"),
    ("a{12345}", "{ begins a count"), ("a{3,2}", "{3,2} counts backwards"), ("a{201}", "a repeat of more than 200"),
    ("a{0,201}", "a repeat of more than 200"), ("a{201,}", "a repeat of more than 200"), ("[a--]", "-- in a class"),
    (r"[a-\d]", "bad character range"), (r"[\d-z]", "bad character range"),
    ("[b-a]", "bad character range b-a"), ("(" * 51 + ")" * 51, "groups in groups, more than 50"),
])  # fmt: skip
def test_what_is_refused(source: str, why: str) -> None:
    """A wrong expression is refused with the place, from 1 on, or the reason, and is quoted."""
    with pytest.raises(BadExpression) as caught:
        read_expression(source)
    assert str(caught.value).startswith(f"{source[:200]!r} can't be used: {why}")


@pytest.mark.parametrize("source", [
    "a{200}", "a{0,200}", "a{3,3}", "a{2,3}", "(" * 50 + "a" + ")" * 50, r"[\d-]", r"[-\d]", r"[a\d-]", "[a-]", "[]a]",
    "[^]a]", r"[a\-\-b]", "a{1234}".replace("1234", "0012"), "(|a)", "()", "a||b", r"[\d\-]",
])  # fmt: skip
def test_what_is_just_taken(source: str) -> None:
    """The last value at each edge is taken."""
    assert read_expression(source) is read_expression(source)


@pytest.mark.parametrize(("source", "is_taken"), [
    ("(a{20}){100}", True), ("(a{20}){100}b", False), ("(a{200}){10}", True), ("(a{200}){11}", False),
    ("(a{199}b{1}){10}", True), ("b|(a{20}){99}(a{17})", True), ("b|(a{20}){99}(a{18})", False),
])  # fmt: skip
def test_how_long_an_expression_may_be(source: str, is_taken: bool) -> None:
    """An expression has at most two thousand steps, once its repeats are written out and at each step before."""
    assert (MAX_STEPS, MAX_TIMES, MAX_DEPTH) == (2_000, 200, 50)
    if is_taken:
        assert len(read_expression(source).program) <= 2_000
        return
    with pytest.raises(BadExpression, match="it comes to more than 2000 steps"):
        read_expression(source)


def test_a_long_expression_is_quoted_in_part() -> None:
    """Two hundred characters of a long expression are quoted."""
    with pytest.raises(BadExpression) as caught:
        read_expression("a" * 300 + "(")
    assert str(caught.value) == f"{'a' * 200!r} can't be used: a group is not closed"


@pytest.mark.parametrize(("members", "at", "is_end"), [
    (["a", "-", r"\d"], 2, True), ([r"\d", "-", "z"], 0, True), ([r"\d", "-"], 0, False), (["-", r"\d"], 1, False),
    (["a", r"\d", "b"], 1, False), (["x", "a", "-", r"\d", "b"], 3, True), (["x", r"\d", "-", "b"], 1, True),
    (["x", r"\d", "b"], 1, False),
])  # fmt: skip
def test_ends_of_a_range(members: list[str], at: int, is_end: bool) -> None:
    """A dash is one of a range if it is neither the first nor the last of its class."""
    assert _is_end_of_range(members, at) is is_end


def test_parts_of_a_program() -> None:
    """A program has steps over a character, and steps without one."""
    expression = read_expression("a?b")
    assert expression.program[0] == Split(1, 2) and SPLIT.match(repr(expression.program[0])) is not None
    assert [expression.fullmatch(text) for text in ("ab", "b", "a", "", "abb", "aab")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    assert (read_expression("").fullmatch(""), read_expression("").fullmatch("a")) == (True, False)


# ------------------------------------------------------------------------------------------------ matchers


@pytest.mark.parametrize(("text", "found"), [
    ("a=b", [Matcher("a", "b")]), ("a!=b", [Matcher("a", "b", False, False)]), ("a=~b", [Matcher("a", "b", True)]),
    ("a!~b", [Matcher("a", "b", True, False)]), ("{a=b}", [Matcher("a", "b")]), (" { a = b , c = d } ", None),
    ('a="x,y",b="{"', [Matcher("a", "x,y"), Matcher("b", "{")]), ('a="\\"\\n\\\\\\x"', [Matcher("a", '"\n\\\\x')]),
    ("", []), ("{}", []), ("a=,", [Matcher("a", "")]), ("a=b,", [Matcher("a", "b")]),
])  # fmt: skip
def test_texts(text: str, found: list[Matcher] | None) -> None:
    """Matchers are read in braces or without, quoted or not."""
    assert list(read_matchers(text)) == (found if found is not None else [Matcher("a", "b"), Matcher("c", "d")])


@pytest.mark.parametrize(("matcher", "written"), [
    (Matcher("a", "b"), 'a="b"'), (Matcher("a", "b", False, False), 'a!="b"'), (Matcher("a", "b", True), 'a=~"b"'),
    (Matcher("a", "b", True, False), 'a!~"b"'), (Matcher("a", 'x"\\\n'), 'a="x\\"\\\\\\n"'),
])  # fmt: skip
def test_a_matcher_as_text(matcher: Matcher, written: str) -> None:
    """A matcher is written as amtool writes it, and read so again."""
    assert (str(matcher), list(read_matchers(written))) == (written, [matcher])


@pytest.mark.parametrize(("matcher", "labels", "holds"), [
    (Matcher("a", "b"), {"a": "b"}, True), (Matcher("a", "b"), {"a": "bb"}, False), (Matcher("a", "b"), {}, False),
    (Matcher("a", "", False, False), {}, False), (Matcher("a", "b", False, False), {}, True),
    (Matcher("a", "b+", True), {"a": "bb"}, True), (Matcher("a", "b+", True), {"a": "bbc"}, False),
    (Matcher("a", "b+", True, False), {"a": "bb"}, False), (Matcher("a", "b*", True), {}, True),
])  # fmt: skip
def test_what_a_matcher_holds_for(matcher: Matcher, labels: dict[str, str], holds: bool) -> None:
    """A label that isn't there is an empty one; an expression has to match all of it."""
    assert matcher.matches(labels) is holds


@pytest.mark.parametrize(("count", "is_taken"), [(MAX_MATCHERS, True), (MAX_MATCHERS + 1, False)])
def test_how_many_matchers(count: int, is_taken: bool) -> None:
    """A silence may have fifty matchers."""
    text = ",".join(f"a{at}=b" for at in range(count))
    assert MAX_MATCHERS == 50
    if is_taken:
        assert len(read_matchers(text)) == 50
        return
    with pytest.raises(ValueError, match="is no matcher"):
        read_matchers(text)


BAD = [
    ([], "a matcher is an object of name, value, isRegex and isEqual"), ({"value": "x"}, "None is no label"),
    ({"name": "a"}, "'a' is no label"), ({"name": "1a", "value": "x"}, "'1a' is no label"),
    ({"name": 7, "value": "x"}, "7 is no label"), ({"name": "a", "value": None}, "'a' is no label"),
    ({"name": "a", "value": "x", "isRegex": 1}, "a: isRegex and isEqual are true or false"),
    ({"name": "a", "value": "x", "isEqual": 0}, "a: isRegex and isEqual are true or false"),
    ({"name": "a", "value": "x" * 1_001}, "a: a value has at most 1000 characters"),
    ({"name": "a", "value": "(", "isRegex": True}, "'(' can't be used"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "why"), BAD)
def test_no_matcher_in_json(document: Any, why: str) -> None:
    """Each fault of a matcher in JSON is told by itself."""
    with pytest.raises(ValueError) as caught:
        read_matcher(document)
    assert str(caught.value).startswith(why)


def test_a_matcher_in_json() -> None:
    """A matcher without further words is an equal text; the longest value is taken."""
    assert read_matcher({"name": "a", "value": "x" * MAX_VALUE}) == Matcher("a", "x" * 1_000, False, True)
    given = Matcher("a", "b", True, False)
    assert given.to_json() == {"name": "a", "value": "b", "isRegex": True, "isEqual": False}
    assert read_matcher(given.to_json()) == given


def test_labels_for_prometheus() -> None:
    """A label has Prometheus's letters; one that begins with a digit has one more; empty ones are left out."""
    assert as_labels({"b.c": "1", "0x": "2", "e": "", "a": "3"}) == {"a": "3", "b_c": "1", "_0x": "2"}
    assert list(as_labels({"b": "1", "a": "2"})) == ["a", "b"]
