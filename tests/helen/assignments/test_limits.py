"""Tests assignments.toml at its limits: the last value that is taken, and the first that isn't, with its place."""

from __future__ import annotations

import pytest

from helen.assignments.assignments_text import read
from helen.assignments.schedule import (
    MAX_SCHEDULE,
    Assignment,
    Assignments,
    AssignmentsError,
    CheckTable,
    phase,
    schedule,
    to_json,
    unknown_checks,
)

LIMITS = [
    ('every = "1s"', 'every = "0.99s"', "every is 0.99 s; 1 s is the least"),
    ('timeout = "0.1s"', 'timeout = "0.09s"', "timeout is 0.09 s; 0.1 s is the least"),
    (f'id = "{"x" * 200}"', f'id = "{"x" * 201}"', "write a text of 1 to 200 characters without spaces"),
    ('id = "é"', 'id = "a b"', "id is 'a b': write a text"),
    ('id = "a"', 'id = ""', "id is '': write a text"),
    ('id = "equus"', 'id = "equus:x"', "an id that begins with equus: is the agent's own"),
    ('overlap = "kill"', 'overlap = "wait"', "overlap is 'wait': write skip, queue, kill"),
    ('agents = ["a"]', "agents = []", "agents is []: write a name or pattern"),
    ('agents = "a"', "agents = [1]", "agents is [1]: write a name or pattern"),
    ('labels = { a = "b" }', "labels = { a = 1 }", "labels is {'a': 1}"),
    ("args = { a = 1 }", "args = { a = nan }", "args holds what JSON has no word for"),
    ("args = {}", "args = 1", "args is no table"),
    ("args = {}", "hosts = 1", "'hosts' is no setting: check, agents"),
]


@pytest.mark.parametrize(("taken", "refused", "said"), LIMITS)
def test_limits(taken: str, refused: str, said: str) -> None:
    """A fault names the entry by its number; every fault of the file is told."""
    head = '[[assign]]\ncheck = "cpu"\n'
    assert [entry.check for entry in read(head + taken).entries] == ["cpu"]
    with pytest.raises(AssignmentsError) as faults:
        read(head + "\n" + head + refused + "\n" + head + refused)
    lines = str(faults.value).split("\n")
    assert [line.partition(": ")[0] for line in lines] == ["[[assign]] number 2", "[[assign]] number 3"]
    assert all(said in line for line in lines)


def test_an_id_for_a_pattern_is_refused() -> None:
    """Each check of it would have the same one."""
    with pytest.raises(AssignmentsError, match="an id for a pattern of checks would give all of them one name"):
        read('[[assign]]\ncheck = "c*"\nid = "one"')
    assert read('[[assign]]\ncheck = "c"\nid = "one"').entries[0].id == "one"


def test_what_is_left_out() -> None:
    """An entry is for all agents, skips a run that would overlap, and leaves the rest to the check's own table."""
    (entry,) = read('[[assign]]\ncheck = "cpu"').entries
    assert entry == Assignment("cpu", ("*",), {}, None, None, None, "skip", {})
    assert read("").default_set is True
    (made,) = schedule(Assignments((entry,), False), {}, "web-1", {})
    assert (made.every, made.timeout, made.args, made.overlap) == (60.0, 10.0, {}, "skip")
    (made,) = schedule(Assignments((entry,), False), {"cpu": CheckTable("cpu", 0.5, 3.0)}, "web-1", {})
    assert (made.every, made.timeout) == (1.0, 3.0)


def test_the_phase() -> None:
    """Within the interval, another for each agent and check, and the same for ever: agents were given it."""
    assert phase("web-1", "disk", 60.0) == phase("web-1", "disk", 60.0)
    assert phase("web-1", "disk", 120.0) == pytest.approx(2 * phase("web-1", "disk", 60.0), abs=0.002)
    phases = [phase(f"web-{number}", check, 60.0) for number in range(200) for check in ("disk", "cpu")]
    assert all(0 <= each < 60 for each in phases)
    assert len({*phases}) > 390
    assert 27 < sum(phases) / 400 < 33


def test_a_schedule_has_the_size_of_a_blob() -> None:
    """A schedule that is longer than a blob by a byte is refused with both figures."""

    def made(size: int) -> bytes:
        entry = Assignment("cpu", args={"a": "x" * size})
        return to_json(schedule(Assignments((entry,), False), {}, "a", {}))

    spare = MAX_SCHEDULE - len(made(0))
    assert len(made(spare)) == MAX_SCHEDULE == 1_048_576
    with pytest.raises(AssignmentsError, match="takes 1048577 bytes; 1048576 is the most"):
        made(spare + 1)


def test_unknown_checks() -> None:
    """Unknown checks are named in order, each once; a pattern may fit nothing."""
    entries = tuple(map(Assignment, ("zfs", "cpu", "b*", "apt", "zfs")))
    assert unknown_checks(Assignments(entries, True), {"cpu": CheckTable("cpu", 60.0, 10.0)}) == ["apt", "zfs"]


FLAPS = [("[100, 0.1]", True), ("[100.1, 1]", False), ("[5, 0]", False), ("[5, 5]", False), ("[true, 1]", False)]


@pytest.mark.parametrize(("flap", "taken"), FLAPS)
def test_where_flapping_begins_and_ends(flap: str, taken: bool) -> None:
    """Flapping begins above 0 and at most at 100 per cent, and ends below where it begins."""
    text = f'[[assign]]\ncheck = "cpu"\nflap = {flap}'
    if taken:
        (made,) = schedule(read(text), {}, "a", {})
        assert (made.rule.flap_start, made.rule.flap_stop) == (100.0, 0.1)
        return
    with pytest.raises(AssignmentsError, match=r"write \[30, 15\]"):
        read(text)
