"""Tests bodies as typed values: each field by its reader, its default if missing, and one sentence for a fault."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helen.web.bodies import AT_ONCE, MAX_BODY_PARTS, Body, json_value, read_as
from helen.web.body_fields import (
    AnswerTime,
    Duration,
    Files,
    Flag,
    OnlyTrue,
    OptionalPatterns,
    OptionalText,
    Patterns,
    Strings,
    Text,
    Wheels,
    whole_of,
    whole_or_none_of,
)
from helen.web.problems import Problem

ONES = ",".join(["1"] * MAX_BODY_PARTS)  # one part more with the bracket around them: that of the list


@pytest.mark.parametrize(
    "text", [f"[{ONES}]", '{"a": "' + ",[{" * MAX_BODY_PARTS + '"}', '["\\"' + "," * MAX_BODY_PARTS + '"]'],
    ids=["as many as may be", "in a string", "behind a quote that is escaped"],
)  # fmt: skip
def test_a_body_of_many_parts(text: str) -> None:
    """A body has parts outside of strings only, however its strings are escaped."""
    assert json_value(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "text", [f"[{ONES},1]", "[" * (MAX_BODY_PARTS + 1), '["' + "," * 9 + '"' + ",{}" * MAX_BODY_PARTS + "]"],
    ids=["one more", "that is no JSON", "objects"],
)  # fmt: skip
def test_a_body_of_too_many_parts_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        json_value(text.encode())
    said = f"the body has more than {MAX_BODY_PARTS} commas, [ and {{ outside of its strings: send several smaller ones"
    assert (refused.value.status, str(refused.value)) == (413, said)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20,
))  # fmt: skip
def test_great_bodies_are_read_as_small_ones_are(value: Any) -> None:
    """A great body is read to the same value as a small one."""
    text = json.dumps(value)
    assert json_value(text.encode() + b" " * AT_ONCE) == json_value(text.encode()) == value


@pytest.mark.parametrize("text", ["[1e999]", "[NaN, Infinity]", '{"a": 1, "a": 2}', "[-0, 1.50]"])
def test_odd_numbers_and_keys_of_great_bodies(text: str) -> None:
    assert repr(json_value(text.encode() + b" " * AT_ONCE)) == repr(json.loads(text))


@pytest.mark.parametrize("raw", ["[1]".encode("utf-16"), b"[1", b"\xff", b"[" * 20_000, b"[" + b"1" * 5_000 + b"]"])
def test_what_is_no_great_body(raw: bytes) -> None:
    """A great body that is no JSON in UTF-8 is refused, since the parts of UTF-16 could not be counted."""
    with pytest.raises(Problem, match="the body is no JSON") as refused:
        json_value(raw + b" " * AT_ONCE if raw[:1] != b"\xff" else raw + " ".encode("utf-16-le") * AT_ONCE)
    assert refused.value.status == 400


class Everything(Body, frozen=True, kw_only=True):
    """Declare a field of each kind."""

    name: Text
    on: Patterns
    note: OptionalText = None
    others: OptionalPatterns = None
    ttl: Duration = 60.0
    timeout: AnswerTime = 30.0
    replace: Flag = False
    sticky: OnlyTrue = False
    remove: Strings = []
    files: Files = {}
    wheels: Wheels = {}
    whole: Annotated[str, whole_of("x.toml")] = ""
    file: Annotated[str | None, whole_or_none_of("y.toml")] = None
    number: int = 0


LEAST = {"name": "web", "on": "*"}


def test_defaults_and_values() -> None:
    """A missing field has its default, and a given one becomes the value that the code uses."""
    body = read_as(Everything, LEAST)
    assert (body.name, body.on, body.ttl, body.others, body.dry_run) == ("web", ["*"], 60.0, None, False)
    given: dict[str, Any] = {"ttl": "2m", "others": ["a", "b"], "sticky": 1, "remove": "x.lua", "unknown": 1}
    given |= {"files": {"a.lua": "é"}, "wheels": {"a.whl": "aGk="}, "whole": "text", "file": None, "number": "raw"}
    body = read_as(Everything, LEAST | given)
    assert (body.ttl, body.others, body.sticky, body.remove) == (120.0, ["a", "b"], False, ["x.lua"])
    assert (body.files, body.wheels) == ({"a.lua": "é".encode()}, {"a.whl": b"hi"})
    assert (body.whole, body.file, body.number) == ("text", None, "raw")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": None}, "`name` is missing, or no text"), ({"name": ""}, "`name` is missing, or no text"),
        ({"name": "\ud800"}, "`name` is no text: surrogates"), ({"on": []}, "`on` is a name, a pattern"),
        ({"note": 5}, "`note` is missing, or no text"), ({"others": {}}, "`others` is a name"),
        ({"ttl": None}, "`ttl`: "), ({"timeout": 0}, "`timeout` is more than 0"),
        ({"timeout": "2h"}, "at most 3600 s"), ({"replace": "yes"}, "`replace` is true or false"),
        ({"dry_run": None}, "`dry_run` is true or false"), ({"remove": [5]}, "`remove` is a list of texts"),
        ({"wheels": {"a": "%"}}, "`wheels` is an object of file names and their bytes in base64"),
        ({"whole": None}, "`whole` is the whole of x.toml"), ({"whole": "\ud800"}, "`whole` holds what is no text"),
        ({"file": 5}, "`file` is the whole of y.toml, or null"),
    ],
)  # fmt: skip
def test_a_fault_is_told(given: dict[str, Any], said: str) -> None:
    """A wrong field is refused by its name, with the values that it takes."""
    with pytest.raises(Problem) as caught:
        read_as(Everything, LEAST | given)
    assert (caught.value.status, caught.value.title) == (400, "bad request")
    assert said in str(caught.value)


def test_what_must_be_there() -> None:
    """A missing field without a default is refused by its own sentence."""
    with pytest.raises(Problem, match="`on` is a name"):
        read_as(Everything, {"name": "web"})
