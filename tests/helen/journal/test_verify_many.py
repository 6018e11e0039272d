"""Tests the history check over several Helens: an agent that moved, and results lost between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from journal_running import Running, blob, entry

from helen.journal.values import Ack
from helen.journal.verify import check_history
from helen.journal.verify_many import check_together, main

Start = Callable[[str], Running]


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Start]:
    """Provide a function that opens a journal on a folder of its own."""
    opened: list[Running] = []

    def open_one(name: str) -> Running:
        opened.append(Running(tmp_path / name).open())
        return opened[-1]

    yield open_one
    for running in opened:
        running.journal.close()


def take(running: Running, *sequences: int, text: str = "fine") -> None:
    """Append results with these sequences and wait until they are durable."""
    before = len(running.records)
    for sequence in sequences:
        running.journal.append(entry(sequence, content=blob(summary=text)))
    running.until_records(before + len(sequences))


def moved(helen: Start, *second: int, first: int = 4) -> list[Path]:
    """Move web1 from h1, where it was up to 3, to h2, where it begins at `first`; return both state folders."""
    h1, h2 = helen("h1"), helen("h2")
    take(h1, 1, 2, 3)
    h2.journal.forget_below("web1", "s1", first)
    take(h2, *second)
    return [h1.state, h2.state]


def test_an_agent_that_moved(helen: Start) -> None:
    """The results of an agent that moved are all there, once, and there is no problem."""
    found = check_together(moved(helen, 4, 5, 6), [Ack("web1", "s1", 6)])
    assert (found.results, found.repeated, found.problems) == (6, 0, ())


def test_what_two_have_counts_once(helen: Start) -> None:
    """A result that two Helens have counts once, as after an ack that the agent never heard."""
    found = check_together(moved(helen, 3, 4, first=3))
    assert (found.results, found.repeated, found.problems) == (4, 1, ())


def test_a_result_that_fell_between_two(helen: Start) -> None:
    """A result that fell between two Helens is a problem of both together, although neither alone has one."""
    states = moved(helen, 6, 7, first=6)
    assert [check_history(state).problems for state in states] == [(), ()]
    assert check_together(states).problems == ("web1 s1: sequences 4 to 5 are acknowledged, and in no history.",)


def test_what_the_agent_gave_up_is_explained(helen: Start) -> None:
    h1, h2 = helen("h1"), helen("h2")
    take(h1, 1)
    h2.journal.forget_below("web1", "s1", 4)
    h2.journal.append(entry(4, check_id="equus:gap", content=blob(**{"from": 2, "to": 3})))
    h2.until_records(1)
    assert check_together([h1.state, h2.state]).problems == ()


def test_an_ack_for_what_nobody_has(helen: Start) -> None:
    problems = check_together(moved(helen, 4), [Ack("web1", "s1", 5), Ack("web9", "s2", 1)]).problems
    assert problems == (
        "web1 s1: sequence 5 is acknowledged, and in no history.",
        "web9 s2: sequence 1 is acknowledged, and in no history.",
    )


def test_two_things_under_one_number(helen: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """Two different results under one number are problems, and the command ends with 1."""
    h1, h2 = helen("h1"), helen("h2")
    take(h1, 1, 2)
    take(h2, 1, 2, text="other")
    assert main([str(h1.state), str(h2.state)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [f"web1 s1 {number} is another thing with each of two Helens." for number in (1, 2)]
    assert said[2] == "2 results of agents with 2 Helens, 2 of them with more than one: 2 problems."


def test_the_fault_of_one_is_named_with_its_folder(helen: Start, tmp_path: Path) -> None:
    take(helen("h4"), 2)
    assert check_together([tmp_path / "h4"]).problems[0] == (
        f"{tmp_path / 'h4'}: web1 s1: sequence 1 is missing without a gap record."
    )
    assert main([str(tmp_path / "h5")]) == 2  # there is nobody
