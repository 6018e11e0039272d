"""Tests what assignments.toml says of judging, and the rule that comes of it."""

from __future__ import annotations

import pytest

from helen.assignments.assignments_text import read
from helen.assignments.schedule import AssignmentsError, CheckTable, schedule
from helen.assignments.state_rules import link_rule
from helen.states.model import Rule

TABLES = {"disk": CheckTable("disk", every=60.0, timeout=10.0), "ping": CheckTable("ping", every=10.0, timeout=5.0)}


def rules(text: str, agent: str = "web-1") -> dict[str, Rule]:
    return {entry.id: entry.rule for entry in schedule(read(text), TABLES, agent, {})}


def test_without_a_word_about_it() -> None:
    """A rule without settings has three attempts, and is stale after two intervals, the timeout and half a minute."""
    assert rules("") == {"disk": Rule(stale=160.0), "ping": Rule(stale=55.0)}


def test_an_entry_says_its_own() -> None:
    """An entry's own rule comes before [judge], which comes before the usual one; parents of the same agent get its
    name.
    """
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"reboot": 1, "disk": 3}),
        ("[judge]\nattempts = 4", {"reboot": 1, "disk": 4}),  # the nature of a check, before what holds for all
        ('[[assign]]\ncheck = "*"\nattempts = 2', {"reboot": 2, "disk": 2}),
        (
            '[judge]\nattempts = 4\n[[assign]]\ncheck = "*"\n[[assign]]\ncheck = "reboot"\nattempts = 5',
            {"reboot": 5, "disk": 4},
        ),
        ('[[assign]]\ncheck = "reboot"\nid = "one"\n[[assign]]\ncheck = "disk"\nid = "other"', {"one": 1, "other": 3}),
    ],
)  # fmt: skip
def test_a_check_declares_how_many_bad_results_count(text: str, expected: dict[str, int]) -> None:
    """A check with one attempt is told at its first bad result, unless the entry asks for more (F26)."""
    tables = {"reboot": CheckTable("reboot", every=300.0, attempts=1), "disk": CheckTable("disk", every=60.0)}
    found = {entry.id: entry.rule.attempts for entry in schedule(read(text), tables, "web-1", {})}
    assert found == expected


def test_the_rule_of_a_link() -> None:
    """The rule of a link says how long an agent may be gone, and nothing else."""
    assert link_rule(read("").rule_defaults) == Rule(1, 1, flap_start=None, away=60.0)
    assert link_rule(read('[judge]\naway = "5m"').rule_defaults).away == 300.0


FAULTS = {
    "attempts = 0": "attempts is 0: write a number from 1 to 100",
    "attempts = true": "attempts is True",
    "recover = 101": "recover is 101",
    'retry = "soon"': "retry: 'soon' is not a duration",
    "stale = 0": "stale is 0 s; 1 s is the least",
    "flap = [15, 30]": "flap is [15, 30]: write [30, 15]",
    "flap = [30]": "flap is [30]",
    "flap = [101, 5]": "flap is [101, 5]",
    "depends = [1]": "depends is [1]: write CHECK or AGENT/CHECK",
    'away = "1m"': "'away' is no setting",
}


@pytest.mark.parametrize("line", FAULTS)
def test_faults(line: str) -> None:
    """A fault of a rule is told with its place and what to write."""
    with pytest.raises(AssignmentsError) as refused:
        read(f'[[assign]]\ncheck = "disk"\n{line}')
    assert FAULTS[line] in str(refused.value)
    assert "[[assign]] number 1" in str(refused.value)


JUDGE_FAULTS = [("judge = 1", "judge: write [judge]"), ("[judge]\nx = 1", "'x' is no setting")]


@pytest.mark.parametrize(("text", "fault"), JUDGE_FAULTS)
def test_faults_of_judge(text: str, fault: str) -> None:
    """A fault in the table for all is told."""
    with pytest.raises(AssignmentsError, match=fault.replace("[", r"\[")):
        read(text)
