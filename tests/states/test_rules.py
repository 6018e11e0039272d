"""What assignments.toml says of judging, and the rule that comes of it."""

from __future__ import annotations

import pytest

from helen.judged import Rule
from helen.policy import AssignmentsError, CheckTable, read, schedule
from helen.rules import link_rule

TABLES = {"disk": CheckTable("disk", every=60.0, timeout=10.0), "ping": CheckTable("ping", every=10.0, timeout=5.0)}


def rules(text: str, agent: str = "web-1") -> dict[str, Rule]:
    return {entry.id: entry.rule for entry in schedule(read(text), TABLES, agent, {})}


def test_without_a_word_about_it() -> None:
    """Three attempts, and stale after two intervals, the timeout and half a minute."""
    assert rules("") == {"disk": Rule(stale=160.0), "ping": Rule(stale=55.0)}


def test_an_entry_says_its_own() -> None:
    """The entry before [judge], [judge] before what is usual; parents of the same agent get its name."""
    text = """
        [judge]
        attempts = 2
        flap = [50, 20]
        stale = "1h"
        [[assign]]
        check = "disk"
        attempts = 5
        recover = 2
        retry = "5s"
        stale = "90s"
        flap = false
        depends = ["ping", "gw/up"]
        [[assign]]
        check = "ping"
        flap = true
    """
    assert rules(text) == {
        "disk": Rule(5, 2, 5.0, 90.0, None, 0.0, ("web-1/ping", "gw/up")), "ping": Rule(2, 1, None, 3_600.0),
    }  # fmt: skip


def test_the_rule_of_a_link() -> None:
    """How long an agent may be gone, and nothing else."""
    assert link_rule(read("").judge) == Rule(1, 1, flap_start=None, away=60.0)
    assert link_rule(read('[judge]\naway = "5m"').judge).away == 300.0


FAULTS = {
    "attempts = 0": "attempts is 0: write a number from 1 to 100",
    "attempts = true": "attempts is True",
    "recover = 101": "recover is 101",
    'retry = "soon"': "retry: 'soon' is no duration",
    "stale = 0": "stale is 0 s; 1 s is the least",
    "flap = [15, 30]": "flap is [15, 30]: write [30, 15]",
    "flap = [30]": "flap is [30]",
    "flap = [101, 5]": "flap is [101, 5]",
    "depends = [1]": "depends is [1]: write CHECK or AGENT/CHECK",
    'away = "1m"': "'away' is no setting",
}


@pytest.mark.parametrize("line", FAULTS)
def test_faults(line: str) -> None:
    """Each with its place and what to write."""
    with pytest.raises(AssignmentsError) as refused:
        read(f'[[assign]]\ncheck = "disk"\n{line}')
    assert FAULTS[line] in str(refused.value)
    assert "[[assign]] number 1" in str(refused.value)


JUDGE_FAULTS = [("judge = 1", "judge: write [judge]"), ("[judge]\nx = 1", "'x' is no setting")]


@pytest.mark.parametrize(("text", "fault"), JUDGE_FAULTS)
def test_faults_of_judge(text: str, fault: str) -> None:
    """Of the table for all."""
    with pytest.raises(AssignmentsError, match=fault.replace("[", r"\[")):
        read(text)
