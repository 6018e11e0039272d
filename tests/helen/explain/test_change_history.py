"""Tests that every field of a rule has words, so that no later field breaks `helen explain`."""

from __future__ import annotations

import json

from attrs import fields

from helen.evaluation.replay import HistoryRecord
from helen.explain.change_history import what_changed
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.model import Rule


def ruled(at: float, **rules: Rule) -> HistoryRecord:
    document = {"agent": "nas", **rules_to_json(AgentRules({}, rules))}
    return HistoryRecord(int(at), at, "rule", None, None, document=json.dumps(document))


def test_each_field_of_a_rule() -> None:
    """Each field of a rule is told at first, and as a change of it."""
    other = Rule(5, 2, 1.0, 60.0, 40.0, 20.0, ("a/b",), 30.0, True, 2, 2, ("p", "q"))
    lines = [line["text"] for line in what_changed("nas", "c", [ruled(1.0, c=other), ruled(2.0, c=Rule())], [])]
    assert lines[0] == (
        "expected from outside here; 5 bad results confirm a problem; 2 good results confirm a recovery; tried again"
        " after 1 s; unknown after 60 s without a result; flapping begins at 40 % of changes; flapping ends at 20 % of"
        " changes; depends on a/b; its agent is away after 30 s; critical when none came in time;"
        " agents that must see it bad: 2; looked at by p, q"
    )
    assert "results from outside: no; before: yes" in lines
    assert "unknown when none came in time; before: critical" in lines
    assert len(lines) == 1 + len(fields(Rule))


def test_what_is_expected_no_more() -> None:
    """A check that is expected no more is told in the words for expected checks, not for scheduled ones."""
    passive = Rule(passive=True)
    found = what_changed("nas", "c", [ruled(1.0), ruled(2.0, c=passive), ruled(3.0)], [])
    assert [line["text"] for line in found] == [
        "it is expected from outside from here on", "it is not expected from outside any more",
    ]  # fmt: skip
