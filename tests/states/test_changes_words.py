"""Every field of a rule has words, so that no later field breaks `helen explain`."""

from __future__ import annotations

import json

from attrs import fields

from helen.changes import what_changed
from helen.judged import Rule
from helen.replaying import Past
from helen.timeline import AgentRules, rules_to_json


def ruled(at: float, **rules: Rule) -> Past:
    document = {"agent": "nas", **rules_to_json(AgentRules({}, rules))}
    return Past(int(at), at, "rule", None, None, document=json.dumps(document))


def test_each_field_of_a_rule() -> None:
    """At first, and as a change of it."""
    other = Rule(5, 2, 1.0, 60.0, 40.0, 20.0, ("a/b",), 30.0, True, 2)
    lines = [line["text"] for line in what_changed("nas", "c", [ruled(1.0, c=other), ruled(2.0, c=Rule())], [])]
    assert lines[0] == (
        "it is expected from outside, and judged as usual but for bad results that confirm a problem: 5; good results"
        " that confirm a recovery: 2; seconds until a retry: 1; seconds without a result until it is unknown: 60; per"
        " cent of changes at which flapping begins: 40; per cent at which flapping ends: 20; what it depends on: a/b;"
        " seconds until its agent is away: 30; what it is when none came in time: critical"
    )
    assert "its results come from outside: no, yes before" in lines
    assert "what it is when none came in time: unknown, critical before" in lines
    assert len(lines) == 1 + len(fields(Rule))


def test_what_is_expected_no_more() -> None:
    """As what was scheduled, in its own words."""
    passive = Rule(passive=True)
    found = what_changed("nas", "c", [ruled(1.0), ruled(2.0, c=passive), ruled(3.0)], [])
    assert [line["text"] for line in found] == [
        "it is expected from outside from here on", "it is not expected from outside any more",
    ]  # fmt: skip
