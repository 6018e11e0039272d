"""Test the table of a check and the arguments of a run, judged without Lua."""

# ruff: noqa: E501 - a table has a line for each case

import json
from typing import Any

import pytest

from equus.sandbox.check_table import Argument, BadArguments, BadTable, CheckTable, read_table


def test_the_smallest_table() -> None:
    """A table needs a summary alone, and all other fields have defaults."""
    assert read_table({"summary": "s"}) == CheckTable("s", (), None, 10.0, {})


@pytest.mark.parametrize("attempts", [1, 2, 100, 3.0])
def test_a_table_declares_its_attempts(attempts: Any) -> None:
    """The document of a table has `attempts` only if they are given, because older readers do not know the
    field (F26).
    """
    table = read_table({"summary": "s", "attempts": attempts})
    assert (table.attempts, table.document()["attempts"]) == (int(attempts), int(attempts))
    assert "attempts" not in read_table({"summary": "s"}).document()


@pytest.mark.parametrize("attempts", [0, 101, -1, 1.5, True, "1", [1], {}])
def test_attempts_that_are_none(attempts: Any) -> None:
    """Wrong numbers of attempts are refused with the numbers that are allowed (F26)."""
    with pytest.raises(BadTable, match="attempts must be a whole number from 1 to 100"):
        read_table({"summary": "s", "attempts": attempts})


TYPES = [
    ("string", "x", "x"), ("string", "", ""), ("string", 1, None), ("string", True, None),
    ("number", 1, 1), ("number", 1.5, 1.5), ("number", "1", None), ("number", True, None), ("number", float("nan"), None),
    ("integer", 1, 1), ("integer", 1.0, 1), ("integer", 1.5, None), ("integer", 2**63, None), ("integer", "1", None),
    ("integer", float("inf"), None), ("integer", True, None),
    ("boolean", True, True), ("boolean", 1, None), ("boolean", "true", None),
    ("range", "10:20", "10:20"), ("range", 10, "10"), ("range", 0.5, "0.5"), ("range", "x", None), ("range", "", None),
    ("range", True, None), ("range", "~:5", "~:5"), ("range", "@1:2", "@1:2"), ("range", "3:2", None),
    ("duration", "1m", 60.0), ("duration", 5, 5), ("duration", "5", 5.0), ("duration", -1, None), ("duration", True, None),
    ("list", ["a"], ["a"]), ("list", [], []), ("list", {}, []), ("list", [1], None), ("list", "a", None), ("list", {"a": 1}, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "seen"), TYPES)
def test_types(kind: str, value: Any, seen: Any) -> None:
    """Each type accepts these values, and run() sees them so; None here means refused."""
    if seen is None:
        with pytest.raises(ValueError, match=r"^must (not )?be"):
            Argument(kind).read(value)
    else:
        assert Argument(kind).read(value) == seen
        assert type(Argument(kind).read(value)) is type(seen)


LIMITS = [
    (Argument("integer", min=1, max=9), 1, True),
    (Argument("integer", min=1, max=9), 9, True),
    (Argument("integer", min=1, max=9), 0, False),
    (Argument("integer", min=1, max=9), 10, False),
    (Argument("string", choices=("a", "b")), "a", True),
    (Argument("string", choices=("a", "b")), "c", False),
    (Argument("duration", max=60.0), "1m", True),
    (Argument("duration", max=60.0), "61s", False),
]


@pytest.mark.parametrize(("argument", "value", "accepted"), LIMITS)
def test_limits_of_arguments(argument: Argument, value: Any, accepted: bool) -> None:
    """Both ends of a limit belong to the accepted values."""
    if accepted:
        argument.read(value)
    else:
        with pytest.raises(ValueError):
            argument.read(value)


BAD_TABLES = [
    (None, "the table of a check has names, it is not a list"),
    (["x"], "the table of a check has names, it is not a list"),
    ({}, "summary must be one line that says what the check looks at"),
    ({"summary": " "}, "summary must be one line that says what the check looks at"),
    ({"summary": "a\nb"}, "summary must be one line that says what the check looks at"),
    ({"summary": "s", "arg": {}}, "the table has no field 'arg'; its fields are summary, needs, every, timeout, args, run, attempts, "
            "runbook, owner, notes"),
    ({"summary": "s", "needs": "disk"}, 'needs must be a list of capability names, such as { "disk" }'),
    ({"summary": "s", "needs": ["a b"]}, 'needs must be a list of capability names, such as { "disk" }'),
    ({"summary": "s", "every": "1 minute"}, "every: '1 minute' is not a duration: write 500ms, 30s, 5m, 1h or 2d"),
    ({"summary": "s", "timeout": "0s"}, "timeout must be more than nothing"),
    ({"summary": "s", "args": ["x"]}, "args must be a table of arguments by name"),
    ({"summary": "s", "args": {"X": {"type": "string"}}}, "args.X: an argument's name is a-z, 0-9 and _, beginning with a letter"),
    ({"summary": "s", "args": {"x": {}}}, "args.x needs a type: one of string, number, integer, boolean, range, duration, list"),
    ({"summary": "s", "args": {"x": "string"}}, "args.x needs a type: one of string, number, integer, boolean, range, duration, list"),
    ({"summary": "s", "args": {"x": {"type": "string", "defualt": 1}}},
     "args.x has no field 'defualt'; its fields are type, default, required, choices, min, max, help"),
    ({"summary": "s", "args": {"x": {"type": "integer", "default": "1"}}}, "args.x: must be a whole number"),
    ({"summary": "s", "args": {"x": {"type": "integer", "default": 9, "max": 5}}}, "args.x: must be at most 5"),
    ({"summary": "s", "args": {"x": {"type": "string", "default": "c", "choices": ["a"]}}}, "args.x: must be one of a"),
    ({"summary": "s", "args": {"x": {"type": "string", "min": 1}}}, "args.x: min is for numbers"),
    ({"summary": "s", "args": {"x": {"type": "string", "help": 1}}}, "args.x: help must be a string"),
    ({"summary": "s", "args": {"x": {"type": "string", "required": True, "default": "a"}}},
     "args.x is required, so its default is never used: leave one of them out"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "sentence"), BAD_TABLES)
def test_bad_tables(raw: Any, sentence: str) -> None:
    """A bad table is refused with a sentence for its author."""
    with pytest.raises(BadTable) as fault:
        read_table(raw)
    assert str(fault.value) == sentence


def test_a_table_of_a_newer_helen() -> None:
    """A table of a newer Helen is read without its unknown fields where that is asked for, and known fields must be
    right.
    """
    raw = {"summary": "s", "colour": [1], "every": "5s"}
    assert read_table(raw, passes_over=True) == CheckTable("s", (), 5.0, 10.0, {})
    with pytest.raises(BadTable, match="every: "):
        read_table({**raw, "every": "5 parsecs"}, passes_over=True)
    with pytest.raises(BadTable, match=r"args\.x has no field 'colour'"):
        read_table({"summary": "s", "args": {"x": {"type": "string", "colour": 1}}}, passes_over=True)


TABLE = read_table(
    {
        "summary": "s",
        "args": {
            "a": {"type": "string", "default": "d"},
            "b": {"type": "integer", "required": True},
            "c": {"type": "number"},
        },
    }
)


@pytest.mark.parametrize(
    ("blob", "seen"),
    [
        (b'{"b": 1}', {"a": "d", "b": 1, "c": None}),
        (b'{"b": 1, "a": null}', {"a": "d", "b": 1, "c": None}),
        (b' {"b":\r\n2, "c": 1.5}\n', {"a": "d", "b": 2, "c": 1.5}),
    ],
)
def test_arguments(blob: bytes, seen: dict[str, Any]) -> None:
    """Arguments that are given are read; those that are left out or null have their defaults."""
    assert TABLE.read_arguments(blob) == seen


def test_no_arguments_at_all() -> None:
    """An empty blob is read as no arguments."""
    assert read_table({"summary": "s"}).read_arguments(b"") == {}


@pytest.mark.parametrize(
    "blob", [b"[]", b"1", b'"x"', b"null", b"{", b"\xff", b'{"b": NaN}', b'{"b": 1e999}', b'{"b": true}',
             b'{"b": 1, "c": 1%s}' % (b"0" * 400), b'{"b": 1%s}' % (b"0" * 400)]
)  # fmt: skip
def test_bad_blobs(blob: bytes) -> None:
    """Any other bytes raise BadArguments, and no other exception."""
    with pytest.raises(BadArguments):
        TABLE.read_arguments(blob)


def test_the_document_of_a_table() -> None:
    """The document of a table is JSON, with times in seconds."""
    document = TABLE.document()
    assert json.loads(json.dumps(document)) == {
        "summary": "s",
        "needs": [],
        "every": None,
        "timeout": 10.0,
        "args": {
            "a": {"type": "string", "default": "d"},
            "b": {"type": "integer", "required": True},
            "c": {"type": "number"},
        },
    }


@pytest.mark.parametrize(("given", "seconds"), [("5m", 300), ("1.5 h", 5400), ("90", 90), (90, 90), (0.25, 0.25)])
def test_a_table_has_durations_by_the_one_rule(given: object, seconds: float) -> None:
    """A duration is a text with a unit or a number of seconds, as in groundwork.durations."""
    assert read_table({"summary": "s", "every": given}).every == seconds
