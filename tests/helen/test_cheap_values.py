"""Tests that values which are frozen by the type checker alone behave as frozen ones in everything but
an assignment.
"""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest
from attrs import asdict, evolve, fields
from msgspec.structs import replace

from equus_protocol import messages as m
from helen.agents.roster import Latest
from helen.evaluation.replay import HistoryRecord
from helen.states.clock_offset import AgentClock, Newest
from helen.states.inputs import Result
from helen.states.model import Seen, State

VALUES: list[tuple[Any, dict[str, Any]]] = [
    (m.Report("s", 1, "disk", b"{}"), {"sequence": 2}),
    (m.Result(1, "disk", b"{}"), {"blob": b"x"}),
    (m.Check("disk", 1, b""), {"name": "load"}),
    (m.Ack("s", 1), {"sequence": 2}),
    (m.Ping(1), {"message_id": 2}),
    (m.Pong(1), {"message_id": 2}),
    (Result(1.0, 0, 0.5, "s", 3), {"status": 2}),
    (Seen(1.0, 0.5, "s", 3, None), {"at": 2.0}),
    (State.pending(1.0), {"number": 7}),
    (Newest("s", 1, 0.5, 1.0), {"doubted": True}),
    (AgentClock(0.5), {"count": 3}),
]


@pytest.mark.parametrize(("value", "change"), VALUES, ids=lambda each: type(each).__name__)
def test_a_value_is_its_attributes(value: Any, change: dict[str, Any]) -> None:
    """Values are equal and of one hash if all attributes are; copies and pickles are; no attribute can be added."""
    same, other = evolve(value), evolve(value, **change)
    assert (same == value, other == value, hash(same) == hash(value)) == (True, False, True)
    assert {value, same, other} == {value, other}
    assert pickle.loads(pickle.dumps(value)) == value
    assert set(asdict(other, recurse=False)) == {each.name for each in fields(type(value))}
    with pytest.raises(AttributeError):
        value.anything_else = 1


@pytest.mark.parametrize("value", [HistoryRecord(1, 2.0, "link", "web-1", None), Latest("disk", 0, "fine", 1.0)])
def test_those_of_which_one_is_made_for_each_result(value: Any) -> None:
    """A struct can't be changed, not even at run time, and the garbage collector does not visit it."""
    assert (replace(value), hash(replace(value))) == (value, hash(value))
    assert pickle.loads(pickle.dumps(value)) == value
    assert not gc.is_tracked(value)
    with pytest.raises(AttributeError):
        value.agent = "another"


def test_one_that_holds_a_table_has_no_hash() -> None:
    """A value with a table has no hash, since a result's metrics may have labels."""
    assert Latest("disk", 0, "fine", 1.0) == Latest("disk", 0, "fine", 1.0)
    with pytest.raises(TypeError):
        hash(Latest("disk", 0, "fine", 1.0, metrics=({},)))
