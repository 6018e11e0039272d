"""Tests `[[defaults]]` and where values come from: scopes, order and faults; and the link's rule of an
ephemeral agent.
"""

from __future__ import annotations

from typing import Any

import pytest

from helen.assignments import assignments_text
from helen.assignments.arguments import argument_faults
from helen.assignments.assignments_text import read
from helen.assignments.origins import OWN, USUAL, Explained, Value, explain
from helen.assignments.schedule import (
    Assignment,
    Assignments,
    AssignmentsError,
    CheckTable,
    by_id,
    covering_entries,
    defaults_for,
    merged_args,
    schedule,
)
from helen.assignments.state_rules import EPHEMERAL_AWAY, NO_SETTINGS, RuleSettings, link_rule
from helen.states.model import Rule

ONE = "[[defaults]]\nargs={a=1}\n"
TABLE = CheckTable("disk", 30.0, 5.0, args={"a": {"type": "number"}, "b": {"type": "string", "default": "x"}})
BARE = CheckTable("dns", args={})
TABLES = {each.name: each for each in (TABLE, BARE)}


def faults(text: str) -> list[str]:
    try:
        read(text)
    except AssignmentsError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize(("text", "said"), [
    (ONE, None), (ONE + "check='d*'\nagents='web-*'\nlabels={role='x'}\n", None), ("defaults=[]", None),
    ("defaults=7", "defaults: write [[defaults]] for each of at most 1000"),
    ("defaults=[7]", "[[defaults]] number 1: a table is expected"),
    ("[[defaults]]\n", "[[defaults]] number 1: args is missing, so it would say nothing"),
    ("[[defaults]]\nargs={}\n", "[[defaults]] number 1: args is missing, so it would say nothing"),
    (ONE + "every=1\n", "[[defaults]] number 1: 'every' is no setting: check, agents, labels, args"),
    (ONE + ONE + "check='a b'\n",
     "[[defaults]] number 2: check is 'a b': write a text of 1 to 200 characters without spaces"),
    (ONE + "agents=[]\n", "[[defaults]] number 1: agents is []: write a name or pattern, or a list of them"),
    ("[[defaults]]\nargs=7\n", "[[defaults]] number 1: args is no table"),
])  # fmt: skip
def test_what_is_read(text: str, said: str | None) -> None:
    """A default is read if it has a scope and arguments, and nothing else."""
    assert faults(text) == ([] if said is None else [said])


def test_how_many_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand defaults are taken, and the last one of a smaller limit, too."""
    assert (assignments_text.MAX_DEFAULTS, assignments_text.MAX_ENTRIES) == (1_000, 10_000)
    monkeypatch.setattr(assignments_text, "MAX_DEFAULTS", 2)
    assert faults(ONE * 2) == [] and len(faults(ONE * 3)) == 1


def test_places_and_scopes() -> None:
    """A default's place is its number, from 1; without a check it is for all."""
    made = read(ONE + "[[defaults]]\nargs={b=2}\ncheck='dns'\n[[assign]]\ncheck='disk'\n[[assign]]\ncheck='dns'\n")
    assert [(each.check, each.place, each.args) for each in made.defaults] == [("*", 1, {"a": 1}), ("dns", 2, {"b": 2})]
    assert [(each.check, each.place) for each in made.entries] == [("disk", 1), ("dns", 2)]
    assert (Assignment("x").place, Assignments().defaults) == (0, ())
    assert Assignment("x", place=3) == Assignment("x", place=4)


@pytest.mark.parametrize(("check", "table", "args"), [
    ("disk", TABLE, {"a": 1}), ("disk", None, {}), ("dns", BARE, {}), ("load", None, {}),
])  # fmt: skip
def test_defaults_of_a_pattern(check: str, table: CheckTable | None, args: dict[str, Any]) -> None:
    """A default of a pattern gives a check only the arguments that it takes; a named check gets all of them."""
    given = {"a": 1, "z": 2}
    assert defaults_for(Assignment("d*", args=given), check, table) == args
    assert defaults_for(Assignment(check, args=given), check, table) == given
    assert defaults_for(Assignment("other", args=given), check, table) == {}


def test_the_nearest_counts() -> None:
    """Later defaults win over earlier ones, and the entry's own arguments over all."""
    given = [Assignment("disk", args={"a": 1, "b": 1, "c": 1}), Assignment("disk", args={"b": 2, "c": 2})]
    entry = Assignment("disk", args={"c": 3})
    assert merged_args(entry, given, TABLE) == {"a": 1, "b": 2, "c": 3}
    assert merged_args(entry, [], TABLE) is entry.args
    assert merged_args(Assignment("disk"), given[:1], TABLE) == {"a": 1, "b": 1, "c": 1}


def test_only_defaults_that_cover_an_agent() -> None:
    """A default covers an agent by name and labels, as an entry does."""
    made = Assignments((Assignment("disk"),), defaults=(
        Assignment("*", ("db-*",), args={"a": 1}), Assignment("*", labels={"role": "web"}, args={"a": 2}),
    ))  # fmt: skip
    found = {agent: schedule(made, TABLES, agent, labels)[0].args for agent, labels in
             (("db-1", {}), ("web-1", {"role": "web"}), ("x", {}))}  # fmt: skip
    assert found == {"db-1": {"a": 1}, "web-1": {"a": 2}, "x": {}}
    assert list(by_id(covering_entries(made, "x", {}), TABLES)) == ["disk"]


def test_where_values_come_from() -> None:
    """A value comes from an entry, a default with its scope, or the check itself; overridden places are
    named as well.
    """
    made = Assignments(
        (Assignment("disk", every=9.0, args={"a": 3}, place=1),),
        defaults=(
            Assignment("*", args={"a": 1}, place=1),
            Assignment("disk", ("web-*",), {"role": "w"}, args={"a": 2, "c": 4}, place=2),
        ),
    )
    assert explain(made, TABLES, "web-1", {"role": "w"}, "disk") == Explained(
        "disk", "[[assign]] number 1",
        (Value("every", 9.0, "[[assign]] number 1"), Value("timeout", 5.0, OWN)),
        (
            Value("a", 3, "[[assign]] number 1", ("[[defaults]] number 2 (web-*, role=w)", "[[defaults]] number 1")),
            Value("c", 4, "[[defaults]] number 2 (web-*, role=w)"), Value("b", "x", OWN),
        ),
    )  # fmt: skip
    assert explain(made, TABLES, "web-1", {}, "dns") is None


def test_where_values_of_the_default_set_come_from() -> None:
    """A check without a table has the usual times."""
    found = explain(Assignments(), TABLES, "a", {}, "disk")
    assert found is not None
    assert (found.entry, found.settings) == ("the default set", (Value("every", 30.0, OWN), Value("timeout", 5.0, OWN)))
    assert found.args == (Value("b", "x", OWN),)
    other = explain(Assignments((Assignment("no", place=1),)), {}, "a", {}, "no")
    assert other is not None
    assert other.settings == (Value("every", 60.0, USUAL), Value("timeout", 10.0, USUAL)) and other.args == ()
    plain = explain(Assignments((Assignment("dns", place=2),)), TABLES, "a", {}, "dns")
    assert plain is not None and [(each.why, each.over) for each in plain.settings] == [(USUAL, ()), (OWN, ())]


def test_faults_of_defaults() -> None:
    """A value that a check refuses is told, and so is an argument that no fitting check takes; one given elsewhere is
    not missing.
    """
    tables = {each.name: each for each in (
        CheckTable("disk", 30.0, args={"a": {"type": "number", "required": True}}), CheckTable("dig", args={"b": {}}),
    )}  # fmt: skip
    wanted = Assignment("disk")
    missing = 'disk: the argument "a" is missing'
    for given, said in (
        ((), [missing]), ((Assignment("disk", args={"a": 1}, place=1),), []),
        ((Assignment("d*", args={"a": 1}, place=1),), []),
        ((Assignment("no", args={"a": 1}, place=1),), [missing]),
        ((Assignment("d*", args={"a": "x"}, place=4),),
         ['[[defaults]] number 4: the argument "a" of disk must be a number']),
        ((Assignment("d*", args={"b": 1, "q": 1}, place=2),),
         [missing, '[[defaults]] number 2: no check that fits d* takes an argument "q"']),
    ):  # fmt: skip
        assert argument_faults(Assignments((wanted,), defaults=given), tables) == said


@pytest.mark.parametrize(("given", "is_ephemeral", "rule"), [
    (NO_SETTINGS, False, Rule(1, 1, flap_start=None, away=60.0)),
    (NO_SETTINGS, True, Rule(1, 1, flap_start=None, away=5.0, missing=0)),
    (RuleSettings(away=3.0), True, Rule(1, 1, flap_start=None, away=3.0, missing=0)),
    (RuleSettings(away=300.0), True, Rule(1, 1, flap_start=None, away=5.0, missing=0)),
    (RuleSettings(away=300.0), False, Rule(1, 1, flap_start=None, away=300.0)),
])  # fmt: skip
def test_the_link_of_an_ephemeral_agent(given: RuleSettings, is_ephemeral: bool, rule: Rule) -> None:
    """The link of an ephemeral agent is away after five seconds at the most, and that is no problem."""
    assert (link_rule(given, is_ephemeral), EPHEMERAL_AWAY) == (rule, 5.0)
