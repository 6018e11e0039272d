"""Tests matchers of labels and their expressions: the verdicts of RE2 and of Python's `re`, in linear time."""

from __future__ import annotations

import json
import re

import pytest
import re2_verdicts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helen.states.linear_regex import BadExpression, read_expression
from helen.states.matchers import Matcher, as_labels, read_matcher, read_matchers

ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\.", r"\w", "-", "[a-c]"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(PATTERNS, st.text("abc.-1\n\N{LATIN SMALL LETTER E WITH ACUTE}\N{ARABIC-INDIC DIGIT THREE}", max_size=8))
@example("", "")
@example("(|a)b", "b")
@example("(?i)AB|c", "ab")
@example("^a|b$", "b")
@example(r"a\$", "a$")
@example("[]a]", "]")
@example("[a-]", "-")
@example("[a&&b]", "&")
def test_the_same_as_re(pattern: str, text: str) -> None:
    """The verdict is that of `re`, with its classes of ASCII."""
    given_to_re = {"^a|b$": "a|b", "[a&&b]": "[a&b]"}.get(pattern, pattern)
    wanted = re.compile(given_to_re, re.DOTALL | re.ASCII)
    assert read_expression(pattern).fullmatch(text) == (wanted.fullmatch(text) is not None)


def test_as_re2() -> None:
    """Thousands of random patterns that RE2 refuses are refused, and others have its verdict on each text."""
    lines = [json.loads(line) for line in re2_verdicts.FILE.read_text().splitlines()]
    assert [pattern for pattern, _ in lines] == re2_verdicts.patterns()
    for pattern, verdict in lines:
        if verdict is None or any(piece in pattern for piece in re2_verdicts.RE2_ALONE):
            with pytest.raises(BadExpression):
                read_expression(pattern)
            continue
        expression = read_expression(pattern)
        mask = sum(1 << at for at, text in enumerate(re2_verdicts.texts()) if expression.fullmatch(text))
        assert f"{mask:x}" == verdict, pattern


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a?){30}a{30}", "(.*)(.*)(.*)(.*)(.*)(.*)x", "a*a*a*a*a*b"])
def test_what_would_take_years(pattern: str) -> None:
    """Takes what everything takes."""
    assert read_expression(pattern).fullmatch("a" * 40) == (pattern == "(a?){30}a{30}")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("(", "not closed"), (")", "can't stand at 1"), ("a**", "repeat of a repeat"), ("*a", r"'\*' can't stand"),
     (r"(a)\1", "can't stand"), ("(?=a)", r"\(\? begins nothing"), ("(?P<x>a)", "begins"), ("a{3,1}", "backwards"),
     ("a{201}", "more than 200"), ("((a{200}){200})", "steps"), ("[z-a]", "bad character range"), ("[", "can't stand"),
     ("a^b", r"'\^' can't stand"), ("{", r"can't stand"), ("a{x}", "begins a count"), (r"\b", "can't stand"),
     ("(" * 60 + ")" * 60, "groups in groups"), ("[[:alpha:]]", "can't stand")],
)  # fmt: skip
def test_what_is_refused(pattern: str, why: str) -> None:
    """A wrong expression is refused with the place, or the reason."""
    with pytest.raises(BadExpression, match=why):
        read_expression(pattern)


LABELS = {"agent": "web-1", "check": "disk /", "role": "web"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [('agent="web-1"', True), ("agent=web-2", False), ('{agent=~"web-[0-9]+", role!="db"}', True),
     ('role!~"w.*"', False), ('site=""', True), ('site!=""', False), ('check="disk /"', True), ('a="x\\"y"', False),
     ("{}", True), ("role=~web|db", True)],
)  # fmt: skip
def test_matchers(text: str, holds: bool) -> None:
    """Matchers are read as amtool writes them, and each is written as it was."""
    found = read_matchers(text)
    assert all(each.matches(LABELS) for each in found) is holds
    assert read_matchers(",".join(map(str, found))) == found
    assert tuple(read_matcher(each.to_json()) for each in found) == found


@pytest.mark.parametrize("text", ["agent", "=x", 'a="x', '{a="b"', "a=b c=d,,"])
def test_no_matcher(text: str) -> None:
    """A text that is no matcher is refused with a sentence that shows one."""
    with pytest.raises(ValueError, match="is no matcher"):
        read_matchers(text)


@pytest.mark.parametrize(
    "document", [None, {"name": "a b", "value": "x"}, {"name": "a", "value": 1}, {"name": "a", "value": "x" * 1_001},
                 {"name": "a", "value": "x", "isRegex": "no"}, {"name": "a", "value": "(", "isRegex": True}],
)  # fmt: skip
def test_no_matcher_in_json(document: object) -> None:
    """Each fault is a sentence."""
    with pytest.raises(ValueError, match=r"matcher|label|value|true or false|can't be used"):
        read_matcher(document)


def test_labels_as_prometheus_has_them() -> None:
    """A label's name gets letters, digits and underscores; an empty label isn't there."""
    assert as_labels({"a-b": "1", "9": "2", "x": "", "ok": "3"}) == {"a_b": "1", "_9": "2", "ok": "3"}
    assert Matcher("a_b", "1").matches(as_labels({"a-b": "1"}))
