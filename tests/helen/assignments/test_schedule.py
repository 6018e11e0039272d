"""Tests assignments.toml: which check runs where, how often, with which arguments."""

import json
from collections import Counter

import pytest

from helen.assignments import schedule as policy
from helen.assignments.assignments_text import read
from helen.assignments.schedule import (
    Assignment,
    Assignments,
    AssignmentsError,
    CheckTable,
    ScheduleEntry,
    phase,
    schedule,
)

TABLES = {
    "cpu": CheckTable("cpu", 60.0, 10.0),
    "disk": CheckTable("disk", 120.0, 5.0),
    "file": CheckTable("file", None, 3.0),
}


def brief(entries: tuple[ScheduleEntry, ...]) -> list[tuple[str, str, float, float]]:
    return [(entry.id, entry.check, entry.every, entry.timeout) for entry in entries]


@pytest.mark.parametrize(
    ("text", "agent", "labels", "expected"),
    [
        ("", "a", {}, [("cpu", "cpu", 60.0, 10.0), ("disk", "disk", 120.0, 5.0)]),
        ("default_set = false", "a", {}, []),
        ('[[assign]]\ncheck = "file"', "a", {}, [("file", "file", 60.0, 3.0)]),
        ('[[assign]]\ncheck = "*"\nevery = "5m"', "a", {}, [("cpu", "cpu", 300.0, 10.0), ("disk", "disk", 300.0, 5.0)]),
        ('[[assign]]\ncheck = "c?u"\nagents = "web-*"', "web-1", {}, [("cpu", "cpu", 60.0, 10.0)]),
        (
            '[[assign]]\ncheck = "c?u"\nagents = "web-*"', "db-1", {},
            [("cpu", "cpu", 60.0, 10.0), ("disk", "disk", 120.0, 5.0)],
        ),
        ('[[assign]]\ncheck = "cpu"\nlabels = { role = "w*", site = "n" }', "a", {"role": "web", "site": "n"},
         [("cpu", "cpu", 60.0, 10.0)]),
        ('default_set = false\n[[assign]]\ncheck = "cpu"\nlabels = { role = "*", at = "n" }', "a", {"role": "web"}, []),
        ('[[assign]]\ncheck = "disk"\nid = "root"\n[[assign]]\ncheck = "disk"\nid = "home"\ntimeout = "1s"', "a", {},
         [("home", "disk", 120.0, 1.0), ("root", "disk", 120.0, 5.0)]),
        ('[[assign]]\ncheck = "cpu"\nevery = "10s"\n[[assign]]\ncheck = "cpu"\nevery = "20s"\nagents = ["a"]', "a", {},
         [("cpu", "cpu", 20.0, 10.0)]),
        ('[[assign]]\ncheck = "none_such"', "a", {}, [("none_such", "none_such", 60.0, 10.0)]),
    ],
)  # fmt: skip
def test_schedules(
    text: str, agent: str, labels: dict[str, str], expected: list[tuple[str, str, float, float]]
) -> None:
    """Read from top to bottom, later entries of one id winning; agents that no entry covers run the default set."""
    assert brief(schedule(read(text), TABLES, agent, labels)) == expected


def test_arguments_and_overlap_reach_the_agent() -> None:
    """The blob is what docs/protocol.rst shows."""
    text = '[[assign]]\ncheck = "disk"\nid = "root"\nevery = "1m"\noverlap = "kill"\nargs = { path = "/ü" }'
    (entry,) = schedule(read(text), TABLES, "a", {})
    assert json.loads(policy.to_json([entry])) == [
        {"id": "root", "check": "disk", "every": 60.0, "offset": phase("a", "root", 60.0), "timeout": 5.0,
         "args": {"path": "/ü"}, "overlap": "kill"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("x = 1", ["'x' is no setting: default_set, [[assign]], [[defaults]] and [judge]"]),
        ("default_set = 1", ["default_set: write true or false"]),
        ("assign = 1", ["assign: write [[assign]] for each of at most 10000 entries"]),
        ("assign = [1]", ["[[assign]] number 1: a table is expected"]),
        ("[[assign]]", ["number 1: check is None: write a text of 1 to 200 characters without spaces"]),
        ('[[assign]]\ncheck = "a b"', ["check is 'a b'"]),
        ('[[assign]]\ncheck = "c"\nevry = 1', ["'evry' is no setting: check, agents"]),
        ('[[assign]]\ncheck = "c"\nevery = "0.5s"', ["every is 0.5 s; 1 s is the least"]),
        ('[[assign]]\ncheck = "c"\nevery = "soon"', ["every: 'soon' is not a duration"]),
        ('[[assign]]\ncheck = "c"\nagents = []', ["agents is []: write a name or pattern"]),
        ('[[assign]]\ncheck = "c"\nlabels = { a = 1 }', ["labels is {'a': 1}: write"]),
        ('[[assign]]\ncheck = "c"\noverlap = "both"', ["overlap is 'both': write skip, queue, kill"]),
        ('[[assign]]\ncheck = "c*"\nid = "x"', ["an id for a pattern of checks"]),
        ('[[assign]]\ncheck = "c?"\nid = "x"', ["an id for a pattern of checks"]),
        ('[[assign]]\ncheck = "c"\nid = "equus:gap"', ["an id that begins with equus: is the agent's own"]),
        ('[[assign]]\ncheck = "c"\nargs = 1', ["args is no table"]),
        ('[[assign]]\ncheck = "c"\nargs = { a = nan }', ["args holds what JSON has no word for"]),
        ('[[assign]]\ncheck = "c"\nargs = { a = 1979-05-27 }', ["args holds what JSON has no word for"]),
        ('[[assign]]\ncheck = "c"\nx = 1\n[[assign]]\ncheck = ""', ["number 1: 'x'", "number 2: check is ''"]),
        ("[[assign", ["no TOML"]),
        ("x = " + "[" * 5_000, ["no TOML"]),
    ],
)
def test_every_fault_is_told(text: str, faults: list[str]) -> None:
    """All faults of a file are told at once, each with its place."""
    with pytest.raises(AssignmentsError) as refused:
        read(text)
    assert [fault in str(refused.value) for fault in faults] == [True] * len(faults)


@pytest.mark.parametrize(("size", "fits"), [(262_144, True), (262_145, False)])
def test_the_size_of_arguments(size: int, fits: bool) -> None:
    """Arguments of up to MAX_ARGS bytes are taken, and longer ones are refused."""
    text = f'[[assign]]\ncheck = "c"\nargs = {{ a = "{"x" * (size - len(json.dumps({"a": ""})))}" }}'
    if fits:
        assert len(read(text).entries) == 1
    else:
        with pytest.raises(AssignmentsError, match="262144 is the most"):
            read(text)


def test_the_size_of_a_schedule() -> None:
    """A schedule that fits into no blob is refused when it is made, and not on the wire."""
    entries = [ScheduleEntry(f"i{n}", "c", 60.0, 0.0, 10.0, {"a": "x" * 262_000}) for n in range(5)]
    with pytest.raises(AssignmentsError, match="1048576 is the most"):
        policy.to_json(entries)
    assert len(policy.to_json(entries[:3])) < 1_048_576


def test_phases_are_stable_and_spread() -> None:
    """The same agent and check have the same phase for ever; a fleet's phases fill the interval evenly."""
    assert phase("web-1", "cpu", 60.0) == phase("web-1", "cpu", 60.0) == 15.766
    tenths = Counter(int(phase(f"web-{n}", "cpu", 60.0) / 6) for n in range(5_000))
    assert len(tenths) == 10
    assert max(tenths.values()) < 600


def test_more_patterns_than_fnmatch_remembers() -> None:
    """A thousand entries of globs cost little to look through, whoever asks."""
    entries = tuple(Assignment("cpu", (f"host-{n}-*",)) for n in range(1_000))
    assignments = Assignments(entries, default_set=False)
    assert brief(schedule(assignments, TABLES, "host-999-x", {})) == [("cpu", "cpu", 60.0, 10.0)]
    assert schedule(assignments, TABLES, "host-1000-x", {}) == ()


def test_unknown_checks() -> None:
    """A name that no published check has is unknown; patterns are left out."""
    text = "".join(f'[[assign]]\ncheck = "{name}"\n' for name in ("cpu", "nope", "x*"))
    assert policy.unknown_checks(read(text), TABLES) == ["nope"]
