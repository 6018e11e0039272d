"""Tests `[[defaults]]`: values for arguments by label, merged in order; and where each value of a check comes from."""

from __future__ import annotations

from typing import Any

import pytest

from helen.assignments.arguments import argument_faults
from helen.assignments.assignments_text import MAX_DEFAULTS, read
from helen.assignments.origins import OWN, USUAL, Explained, Value, explain
from helen.assignments.password_arguments import password_warnings
from helen.assignments.schedule import AssignmentsError, CheckTable, schedule
from helen.web.label_warnings import of_assignments

RANGE = {"type": "range"}
TABLES = {
    "cpu": CheckTable("cpu", 60.0, args={"warn": RANGE}),
    "disk": CheckTable("disk", 120.0, 5.0, args={"warn": RANGE | {"default": "90"}, "path": {"type": "string"}}),
    "host": CheckTable("host", None, args={"address": {"type": "string", "required": True}}),
}
FILE = """
[[defaults]]
args = { warn = "70", path = "/" }
[[defaults]]
check = "disk"
labels = { role = "db*" }
args = { warn = "80" }
[[defaults]]
check = "disk"
agents = ["db-9", "x-*"]
args = { warn = "85" }
[[assign]]
check = "*"
[[assign]]
check = "disk"
id = "disk-data"
labels = { role = "db" }
args = { path = "/data" }
"""
DB = {"role": "db"}


def args_of(text: str, agent: str, labels: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {each.id: each.args for each in schedule(read(text), TABLES, agent, labels)}


@pytest.mark.parametrize(
    ("agent", "labels", "expected"),
    [
        ("web-1", {}, {"cpu": {"warn": "70"}, "disk": {"warn": "70", "path": "/"}}),
        ("db-1", DB, {"cpu": {"warn": "70"}, "disk": {"warn": "80", "path": "/"},
                      "disk-data": {"warn": "80", "path": "/data"}}),
        ("db-9", DB, {"cpu": {"warn": "70"}, "disk": {"warn": "85", "path": "/"},
                      "disk-data": {"warn": "85", "path": "/data"}}),
    ],
)  # fmt: skip
def test_values_are_merged_in_order(agent: str, labels: dict[str, str], expected: dict[str, Any]) -> None:
    """A later default counts more, and an entry's own value most; a pattern gives a check only what it takes."""
    assert args_of(FILE, agent, labels) == expected


def test_they_reach_the_default_set_and_assign_nothing() -> None:
    """An agent that no entry covers runs the default set with these values, and nothing more."""
    text = FILE.partition("[[assign]]")[0]
    assert args_of(text, "web-1", {}) == {"cpu": {"warn": "70"}, "disk": {"warn": "70", "path": "/"}}
    assert args_of("default_set = false\n" + text, "web-1", {}) == {}


def test_a_check_that_is_not_published_yet() -> None:
    """A check that is not published yet takes the defaults for just it, and none for a pattern."""
    text = '[[defaults]]\nargs = { a = 1 }\n[[defaults]]\ncheck = "new"\nargs = { b = 2 }\n[[assign]]\ncheck = "new"\n'
    assert args_of(text, "web-1", {}) == {"new": {"b": 2}}


FAULTS = [
    ('[[defaults]]\ncheck = "disk"', "[[defaults]] number 1: args is missing, so it would say nothing"),
    ("[[defaults]]\nargs = {}", "args is missing"), ("[[defaults]]\nargs = 1", "args is no table"),
    ('[[defaults]]\nargs = { a = 1 }\nevery = "1m"', "'every' is no setting: check, agents, labels, args"),
    ('[[defaults]]\ncheck = ""\nargs = { a = 1 }', "check is ''"), ("defaults = 1", "defaults: write [[defaults]]"),
    ("defaults = [1]", "[[defaults]] number 1: a table is expected"),
    ("[[defaults]]\nlabels = { a = 1 }\nargs = { a = 1 }", "labels is {'a': 1}"),
    ("[[defaults]]\nargs = { a = nan }", "args holds what JSON has no word for"),
    ("[[defaults]]\nargs = { a = 1 }\n" * (MAX_DEFAULTS + 1), "at most 1000"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_faults(text: str, fault: str) -> None:
    """A fault of a default is told with its place; the greatest number is taken."""
    with pytest.raises(AssignmentsError) as refused:
        read(text)
    assert fault in str(refused.value)
    assert len(read("[[defaults]]\nargs = { a = 1 }\n" * MAX_DEFAULTS).defaults) == MAX_DEFAULTS


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (FILE, []),
        ('[[defaults]]\ncheck = "disk"\nargs = { warm = 1 }',
         ['[[defaults]] number 1: no check that fits disk takes an argument "warm"']),
        ('[[defaults]]\nargs = { warn = true }',
         [f'[[defaults]] number 1: the argument "warn" of {check} must be a range (10, 10:, ~:10, 10:20 or @10:20)'
          for check in ("cpu", "disk")]),
        ('[[defaults]]\ncheck = "host"\nargs = { address = "h" }\n[[assign]]\ncheck = "host"', []),
        ('[[assign]]\ncheck = "host"', ['host: the argument "address" is missing']),
        ('[[defaults]]\ncheck = "new"\nargs = { a = 1 }', []),
    ],
)  # fmt: skip
def test_values_that_no_check_takes(text: str, faults: list[str]) -> None:
    """A value that no check takes is told when the file is written; a value that a default gives is not missing."""
    assert argument_faults(read(text), TABLES) == faults


def test_warnings_are_of_defaults_too() -> None:
    """Defaults count for warnings: their labels, and values that look like passwords."""
    assert of_assignments(read(FILE)) == {"role"}
    (warning,) = password_warnings(read('[[defaults]]\ncheck = "http"\nargs = { password = "x" }'))
    assert warning.startswith('[[defaults]] number 1: the argument "password" looks like a password')


def test_where_each_value_comes_from() -> None:
    """A value names its place, those that it overrides, and the check's own declaration; another id
    explains nothing.
    """
    found = explain(read(FILE), TABLES, "db-9", DB, "disk-data")
    assert found == Explained(
        "disk", "[[assign]] number 2",
        (Value("every", 120.0, OWN), Value("timeout", 5.0, OWN)),
        (
            Value("path", "/data", "[[assign]] number 2", ("[[defaults]] number 1",)),
            Value("warn", "85", "[[defaults]] number 3 (db-9, x-*)",
                  ("[[defaults]] number 2 (role=db*)", "[[defaults]] number 1")),
        ),
    )  # fmt: skip
    own = explain(read('[[assign]]\ncheck = "disk"\nevery = "5m"'), TABLES, "a", {}, "disk")
    assert own is not None
    assert own.settings[0] == Value("every", 300.0, "[[assign]] number 1")
    assert own.args == (Value("warn", "90", OWN),)
    assert explain(read(FILE), TABLES, "web-1", {}, "disk-data") is None


def test_the_default_set_and_unknown_checks_are_explained() -> None:
    """The default set is explained by its name; an unknown check has no table to tell anything."""
    found = explain(read(""), TABLES, "a", {}, "cpu")
    assert found == Explained("cpu", "the default set", (Value("every", 60.0, OWN), Value("timeout", 10.0, OWN)), ())
    found = explain(read('[[assign]]\ncheck = "new"\nargs = { a = 1 }'), TABLES, "a", {}, "new")
    assert found == Explained(
        "new", "[[assign]] number 1", (Value("every", 60.0, USUAL), Value("timeout", 10.0, USUAL)),
        (Value("a", 1, "[[assign]] number 1"),),
    )  # fmt: skip
