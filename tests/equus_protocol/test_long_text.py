"""Test that text is read in pieces as in one call, wherever a piece ends, and that parts of JSON are counted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol import long_text, plugin_text, results
from equus_protocol.long_text import (
    count_in_pieces,
    end_of_run,
    first_match,
    has_more_parts,
    lines_in_pieces,
    with_escapes,
)
from equus_protocol.plugin_text import contradicts, parse_plugin
from equus_protocol.results import parse

strings = st.text(st.sampled_from('a,[{}]":\\☃\ud800\n'), max_size=6)
great = st.sampled_from([10**400, -(10**299), 10**308, 2**63])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | strings | great,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=12,
)


def in_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let pieces have so many characters."""
    for module in (long_text, plugin_text):
        monkeypatch.setattr(module, "PIECE", size)


def parts_of(value: Any) -> int:
    """Count the commas, brackets and braces with which a value is written."""
    if not isinstance(value, dict | list):
        return 0
    inner = list(value.values() if isinstance(value, dict) else value)
    return 1 + max(0, len(inner) - 1) + sum(map(parts_of, inner))


@settings(deadline=None, max_examples=300)
@given(value=values, size=st.integers(1, 9), is_ascii=st.booleans())
def test_parts_are_those_outside_of_strings(value: Any, size: int, is_ascii: bool) -> None:
    """Parts of JSON are counted outside of strings alone, wherever a piece ends."""
    blob = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "replace")
    with pytest.MonkeyPatch.context() as patched:
        in_pieces(patched, size)
        parts = parts_of(value)
        assert not has_more_parts(blob, parts)
        assert parts == 0 or has_more_parts(blob, parts - 1)


@pytest.mark.parametrize(("document", "parts"), [
    (b"", 0), (b"[]", 1), (b"{}", 1), (b"[1,2]", 2), (b'",[{"', 0), (rb'"\",[{"', 0), (rb'"\\",[', 2),
    (rb'"\\\",["', 0),
    (b'"a', 0), (b'"a,[', 0), (b"[[[", 3), (b",,", 2), (b"\xff,", 1), (rb'"\\\\\\\\",', 1), (rb'"\\\\\\\\\",', 0),
])  # fmt: skip
@pytest.mark.parametrize("size", range(1, 9))
def test_the_parts_of_a_document(document: bytes, parts: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are counted in any text, also in one that is no JSON, and wherever a piece ends."""
    in_pieces(monkeypatch, size)
    assert not has_more_parts(document, parts)
    assert parts == 0 or has_more_parts(document, parts - 1)


@settings(deadline=None, max_examples=300)
@given(document=st.dictionaries(st.sampled_from(["status", "summary", "metrics", "truncated", "started", "x"]), values))
def test_great_documents_are_read_as_small_ones(document: dict[str, Any]) -> None:
    """The reader that lets other threads take turns gives the same as the other one."""
    blob = json.dumps(document).encode()
    expected = repr(parse(blob))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(results, "MAX_PARTS", -1)
        patched.setattr(results, "has_more_parts", lambda blob, most: False)
        assert repr(parse(blob)) == expected


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "7" * 400, "7" * 5_000])
def test_a_number_that_no_float_holds_is_no_text(number: str) -> None:
    """A number that no float holds stands for a metric's value and ranges, and never for a text such as the summary."""
    read = parse(
        b'{"status":"ok","summary":%b,"reason":%b,"check":%b,"metrics":[{"name":%b,"value":1},{"name":"m","value":%b,'
        b'"unit":%b,"labels":{"a":%b},"warn":%b,"min":%b}]}'.replace(b"%b", number.encode())
    )
    assert (read.summary, read.reason, read.check, read.truncated) == ("", None, None, {"metrics": 2})
    [metric] = read.metrics
    assert (metric.text, metric.warn, metric.unit, metric.labels, metric.min) == (number, number, "", {}, None)
    assert type(metric.text) is type(metric.warn) is str


words = st.sampled_from([
    "status ok", "status err x", "metric a int 1", "metric b", "metric c string 5 K", " ", "", "\t\r", "x|a=1 b=2;3;4",
    "OK", "a BOOK", "CRITICAL", "|'a b'=1", "'c", "==", "\u2003", "\xe9=1", "a=1", "b=", "metricx",
])  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(lines=st.lists(words, max_size=9), between=st.sampled_from(["\n", " ", "\r\n"]), more=st.integers(0, 9))
def test_plugin_text_is_read_in_pieces_as_in_one(lines: list[str], between: str, more: int) -> None:
    """A plugin's text is read in pieces as in one, if a piece is as long as the longest line and word."""
    text = between.join(lines)
    blob = text.encode()
    expected = parse(blob), parse_plugin(blob, 1), parse_plugin(blob, 0, was_cut=True), contradicts(blob, 0)
    longest = max(len(each) for each in [*text.split("\n"), *lines, between])
    with pytest.MonkeyPatch.context() as patched:
        in_pieces(patched, longest + 2 + more)
        found = parse(blob), parse_plugin(blob, 1), parse_plugin(blob, 0, was_cut=True), contradicts(blob, 0)
    assert found == expected


def test_lines_that_are_longer_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line longer than a piece is read at its beginning alone, and counts as a metric that cannot be read."""
    in_pieces(monkeypatch, 20)
    text = "status ok\nmetric a int 1\nmetric b string " + "v" * 9 + "\nmetric c int 3"
    read = parse(text.encode())
    assert ([each.name for each in read.metrics], read.truncated) == (["a", "c"], {"metrics": 3})
    assert parse(b" " * 30 + b"\nstatus ok").reason == "opaque-result"
    assert parse(b"status" + b" " * 12 + b"okay").reason == "opaque-result"
    assert parse(b"|'" + b"a" * 20 + b"'=1 b=2").truncated == {"metrics": 2}
    assert [*lines_in_pieces("a\nbb\n" + "c" * 50 + "\nd")] == [(0, 5), (5, 25), (56, 57)]
    assert [*lines_in_pieces("")] == [] and [*lines_in_pieces("c" * 50)] == [(0, 20)]


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.sampled_from("OK _a\n"), max_size=30), size=st.integers(1, 8))
def test_runs_and_words_over_the_ends_of_pieces(text: str, size: int) -> None:
    """A run ends at the same place, and the same word is the first, wherever a piece ends."""
    run, wanted = re.compile(r"[a ]*+"), re.compile(r"\bOK\b")
    expected = [run.match(text, at).end() for at in range(len(text))], wanted.search(text)
    with pytest.MonkeyPatch.context() as patched:
        in_pieces(patched, size)
        found = first_match(wanted, text, 2)
        assert [end_of_run(run, text, at) for at in range(len(text))] == expected[0]
    assert (found and found.span()) == (expected[1] and expected[1].span())


@settings(deadline=None, max_examples=200)
@given(
    parts=st.lists(st.sampled_from([b"a", b"\xff", b"\xc3", b"\xa9", "☃".encode(), b"\xf0\x9f"])),
    size=st.integers(1, 5),
)
def test_bytes_that_are_no_text(parts: list[bytes], size: int) -> None:
    """Bytes that are no text are escaped in pieces as in one call, and half a character at a cut is left out."""
    blob = b"".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(long_text, "BYTES_DECODED", size)
        assert with_escapes(blob) == blob.decode("utf-8", "backslashreplace")
        assert with_escapes(blob + b"\xe2\x98", was_cut=True) == with_escapes(blob + b"x")[:-1]


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.sampled_from("a[\u015b\xe9\U0001035b"), max_size=30), size=st.integers(1, 8))
def test_marks_are_counted_over_the_ends_of_pieces(text: str, size: int) -> None:
    """Marks are counted in pieces as in one call, in characters and in bytes."""
    blob = text.encode()
    with pytest.MonkeyPatch.context() as patched:
        in_pieces(patched, size)
        assert (count_in_pieces(text, "["), count_in_pieces(blob, b"[")) == (text.count("["), blob.count(b"["))


def test_no_mark_is_searched_in_wide_characters() -> None:
    """A mark is not searched in wide characters, where Python would stop at each one that shares a byte with it."""

    class Text(str):
        def find(self, *given: object) -> int:  # type: ignore[override]
            raise AssertionError("searched")

    assert count_in_pieces(Text("\u015b" * 10 + "["), "[") == 1
    with pytest.raises(AssertionError, match="searched"):
        count_in_pieces(Text("a"), "[")
