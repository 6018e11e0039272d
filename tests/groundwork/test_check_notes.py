"""Tests runbook, owner and notes of a check: what is taken, and how one wins over the other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.check_notes import MOST_NOTES, MOST_OWNER, MOST_URL, NO_NOTES, READERS, CheckNotes, read_all

GOOD: list[tuple[str, str]] = [
    ("runbook", "https://wiki.example.org/a?check={check}&on={agent}#x"),
    ("runbook", "https://[2001:db8::1]:8443/x"),
    ("runbook", "https://h/" + "x" * (MOST_URL - 10)),
    ("runbook", "HTTPS://anna:x@h:065/?q"),
    ("runbook", "https://h:?#"),
    ("runbook", "https://h:65535"),
    ("owner", "Team Größe"),
    ("owner", "x" * MOST_OWNER),
    ("notes", "one\n\ttwo <script>"),
    ("notes", "n" * MOST_NOTES),
]
BAD: list[tuple[str, Any]] = [
    ("runbook", "http://wiki.example.org/"),
    ("runbook", "javascript:alert(1)//https://x"),
    ("runbook", "https:///path"),
    ("runbook", "https://{agent}.example.org/"),
    ("runbook", "https://h/{agent"),
    ("runbook", "https://h/{role}"),
    ("runbook", "https://h/a b"),
    ("runbook", 'https://h/"onclick'),
    ("runbook", "https://h:x/"),
    ("runbook", "https://[h/"),
    ("runbook", "https://[1]/"),
    ("runbook", "https://[::1]x/"),
    ("runbook", "https://h:65536/"),
    ("runbook", "https://h:443:1/"),
    ("runbook", "https://:443/"),
    ("runbook", "https://anna@/x"),
    ("runbook", "https:h/x"),
    ("runbook", "https://h/ü"),
    ("runbook", "https://h/\n"),
    ("runbook", "https://h/" + "x" * (MOST_URL - 9)),
    ("runbook", ["https://h/"]),
    ("owner", ""),
    ("owner", "  "),
    ("owner", "a\nb"),
    ("owner", "\x1b[31m"),
    ("owner", "x" * (MOST_OWNER + 1)),
    ("owner", 3),
    ("notes", " \n"),
    ("notes", "\x1b[2J"),
    ("notes", "a\rb"),
    ("notes", "\udcff"),
    ("notes", "n" * (MOST_NOTES + 1)),
    ("notes", {}),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_what_is_taken(name: str, value: str) -> None:
    assert READERS[name](value) == value


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_is_refused(name: str, value: Any) -> None:
    """A sentence goes on after the field's name; all faults are told, and the other fields are kept."""
    told: list[tuple[str, str]] = []
    found = read_all({"owner": "me", **{name: value}}, lambda *fault: told.append(fault))
    assert [each for each, _ in told] == [name]
    assert told[0][1].startswith(("must be ", "may hold ", "holds "))
    assert found == (NO_NOTES if name == "owner" else CheckNotes(owner="me"))


@given(st.sampled_from(sorted(READERS)), st.text() | st.integers() | st.none() | st.lists(st.text()))
def test_any_value_is_taken_or_refused(name: str, value: Any) -> None:
    told: list[tuple[str, str]] = []
    found = read_all({name: value}, lambda *fault: told.append(fault))
    assert len(told) + len(found.document()) == (value is not None)


def test_what_is_missing_is_that_of_the_other() -> None:
    assignment, table = CheckNotes(owner="db"), CheckNotes("https://h/{check}", "web", "n")
    assert assignment.over(table) == CheckNotes("https://h/{check}", "db", "n")
    assert NO_NOTES.over(NO_NOTES).document() == {}


def test_names_are_put_in_as_parts_of_an_address() -> None:
    """A name can't lead elsewhere, nor be a place itself."""
    notes = CheckNotes("https://h/{agent}/{check}?a={agent}")
    assert notes.of("../x", "{agent}").runbook == "https://h/..%2Fx/%7Bagent%7D?a=..%2Fx"
    assert NO_NOTES.of("a", "b") is NO_NOTES


@given(st.text())
def test_a_name_is_quoted_as_urllib_does_it(name: str) -> None:
    with suppress(UnicodeEncodeError):
        assert CheckNotes("https://h/{agent}").of(name, "x").runbook == f"https://h/{quote(name, safe='')}"
