"""Tests that arguments are refused here as the agent would refuse them: by its own rules, over values of all kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equus.sandbox.check_table import BadArguments, read_table
from helen.assignments.arguments import argument_faults, faults_of
from helen.assignments.assignments_text import read
from helen.assignments.schedule import CheckTable

ARGS: dict[str, Any] = {
    "name": {"type": "string", "required": True},
    "limit": {"type": "number", "min": 1, "max": 9.5},
    "slots": {"type": "integer"},
    "deep": {"type": "boolean"},
    "warn": {"type": "range"},
    "span": {"type": "duration", "min": "5s", "max": 90},
    "paths": {"type": "list"},
    "mode": {"type": "string", "choices": ["fast", "slow"]},
}
EQUUS = read_table({"summary": "x", "args": ARGS})
HELEN = EQUUS.document()["args"]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-20, 120), st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(["fast", "10s", "4s", "2m", "~:10", "10:", "x", "", "@1:2", "1:x"]),
    st.sampled_from([10**400, -(10**400)]),
    st.lists(st.sampled_from(["a", "b"]), max_size=2), st.lists(st.integers(), min_size=1, max_size=2),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from([*ARGS, "nonsense", "args"]), VALUES, max_size=5))
def test_as_the_agent_does(args: dict[str, Any]) -> None:
    """The agent takes arguments without a fault here, and the agent's fault is one of those found here (J9)."""
    faults = list(faults_of(args, HELEN))
    try:
        EQUUS.read_arguments(json.dumps(args).encode())
    except BadArguments as error:
        said = str(error).split("; this check")[0].split(", not ")[0]
        assert any(fault.startswith(said) for fault in faults), (str(error), faults)
    else:
        assert faults == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('[[assign]]\ncheck = "disk"\nargs = { path = 1 }', ['disk: the argument "path" must be a string']),
        ('[[assign]]\ncheck = "disk"\nid = "root"\nargs = { pth = "/" }',
         ['disk (id root): there is no argument "pth"; this check takes path']),
        ('[[assign]]\ncheck = "d*"\nargs = { path = "/" }',
         ['dns: there is no argument "path"; this check takes none']),
        ('[[assign]]\ncheck = "other"\nargs = { x = 1 }', []),
        ('[[assign]]\ncheck = "*"', []),
    ],
)  # fmt: skip
def test_entries(text: str, faults: list[str]) -> None:
    """An entry is judged by its check and id; a pattern stands for all checks that fit; an unpublished check has no
    table.
    """
    tables = {
        "disk": CheckTable("disk", 60.0, args={"path": {"type": "string"}}), "dns": CheckTable("dns", 60.0),
        "df": CheckTable("df", args={"path": {"type": "string"}}),
    }  # fmt: skip
    assert argument_faults(read(text), tables) == faults
