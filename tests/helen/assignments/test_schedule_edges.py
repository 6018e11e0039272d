"""Tests assignments.toml and its rules at their edges: the last value that is taken, the first that is not, and
defaults.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from equus.schedule import document
from groundwork.check_notes import NO_NOTES, CheckNotes
from helen.agents.roster import Agent
from helen.assignments import assignments_text
from helen.assignments.arguments import argument_faults, faults_of
from helen.assignments.assignments_text import read
from helen.assignments.known_notes import KnownNotes
from helen.assignments.password_arguments import _is_named_so, _is_random, _suspects, password_warnings
from helen.assignments.schedule import (
    MAX_ENTRIES,
    MAX_SCHEDULE,
    Assignment,
    Assignments,
    AssignmentsError,
    CheckTable,
    ScheduleEntry,
    phase,
    schedule,
    to_json,
    unknown_checks,
    with_further,
)
from helen.assignments.state_rules import NO_SETTINGS, RuleSettings, link_rule, read_defaults, read_settings, rule_for
from helen.states.model import USUAL, Rule

ONE = "[[assign]]\ncheck='disk'\n"


def faults(text: str) -> list[str]:
    try:
        read(text)
    except AssignmentsError as error:
        return str(error).splitlines()
    return []


FIELDS = [  # (the file up to the value, what is taken, what is not)
    ("default_set=", ["true", "false"], ["1", "'yes'"]),
    (ONE + "every=", ["1", "'1s'", "'30d'"], ["0.9", "'999ms'", "'x'", "-1"]),
    (ONE + "timeout=", ["0.1", "'100ms'"], ["0.09", "'99ms'", "true"]),
    (ONE + "overlap=", ["'skip'", "'queue'", "'kill'"],
     ["'run'", "1"]),
    (ONE + "id=", ["'x'", f"'{'x' * 200}'", "'\u00e4'"], ["''", f"'{'x' * 201}'", "'a b'", "7", "'equus:x'"]),
    (ONE + "agents=", ["'web-*'", "['a', 'b']"], ["[]", "7", "['a', 7]"]),
    (ONE + "labels=", ["{}", "{role='w*'}"], ["{role=7}", "'x'"]),
    (ONE + "args=", ["{}", "{a=1}"], ["7", "{a=nan}", "{a=2020-01-01}"]), (ONE + "nothing=", [], ["1"]),
    (ONE + "attempts=", ["1", "100"], ["0", "101", "true", "1.0"]), (ONE + "recover=", ["1", "100"], ["0", "101"]),
    (ONE + "retry=", ["1", "'1s'"], ["0.9", "'x'"]), (ONE + "stale=", ["1"], ["0.9"]), (ONE + "away=", [], ["60"]),
    (ONE + "flap=", ["true", "false", "[100, 99]", "[2, 1]", "[0.2, 0.1]"],
     ["[101, 15]", "[15, 15]", "[15, 30]", "[30, 0]", "[30]", "[30, 15, 1]", "['a', 'b']", "[true, false]", "1"]),
    (ONE + "depends=", ["'ping'", "[]", str(["x"] * 20)], [str(["x"] * 21), "7", "['']", "[7]"]),
    ("[judge]\naway=", ["1", "'1m'"], ["0.9"]), ("[judge]\ndepends=", [], ["'x'"]), ("judge=", ["{}"], ["7"]),
    ("x=", [], ["1"]),
    ("assign=", ["[]"], ["7", "[7]"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "value", "is_taken"), [
    *((before, value, True) for before, taken, _ in FIELDS for value in taken),
    *((before, value, False) for before, _, wrong in FIELDS for value in wrong),
])  # fmt: skip
def test_each_field(before: str, value: str, is_taken: bool) -> None:
    """A wrong value of a field is one fault, and a right one is none."""
    assert len(faults(before + value + "\n")) == (0 if is_taken else 1)


def test_faults_are_told_by_their_place() -> None:
    """Faults are told at once by the number of their entry, from 1 on; a pattern of checks has no id."""
    found = faults("[[assign]]\ncheck='a'\n[[assign]]\ncheck='a*'\nid='x'\n[[assign]]\nevery='0s'\n")
    assert found == [
        "[[assign]] number 2: an id for a pattern of checks would give all of them one name",
        "[[assign]] number 3: check is None: write a text of 1 to 200 characters without spaces",
        "[[assign]] number 3: every is 0 s; 1 s is the least",
    ]
    assert faults("= 1")[0].startswith("no TOML")
    assert faults("assign=[7]") == ["[[assign]] number 1: a table is expected"]


@pytest.mark.parametrize(("count", "is_taken"), [(3, True), (4, False)])
def test_how_many_entries(count: int, is_taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may have MAX_ENTRIES entries and no more."""
    monkeypatch.setattr(assignments_text, "MAX_ENTRIES", 3)
    assert (faults(ONE * count) == []) is is_taken


@pytest.mark.parametrize(("size", "is_taken"), [(262_144, True), (262_145, False)])
def test_how_long_arguments_are(size: int, is_taken: bool) -> None:
    """The length of arguments is that of their JSON."""
    text = ONE + f"args={{a='{'x' * (size - len(json.dumps({'a': ''})))}'}}\n"
    assert (faults(text) == []) is is_taken


def test_the_usual_values() -> None:
    """A table of a check, an entry, the whole file and an agent's run have these."""
    assert CheckTable("c") == CheckTable("c", None, 10.0, "", (), {}, None, NO_NOTES)
    assert Assignment("c") == Assignment("c", ("*",), {}, None, None, None, "skip", {}, NO_SETTINGS, NO_NOTES)
    assert (Assignments(), read("")) == (Assignments((), True, NO_SETTINGS), Assignments((), True, NO_SETTINGS))
    assert ScheduleEntry("i", "c", 1.0, 0.0, 1.0, {}) == ScheduleEntry(
        "i", "c", 1.0, 0.0, 1.0, {}, "skip", USUAL, NO_NOTES
    )
    [entry] = read(ONE).entries
    assert entry == Assignment("disk")
    assert RuleSettings() == RuleSettings(None, None, None, None, None, None, None)


@pytest.mark.parametrize(("agents", "labels", "name", "given", "covers"), [
    (("*",), {}, "a", {}, True), (("web-*", "db"), {}, "db", {}, True), (("web-*",), {}, "db", {}, False),
    ((), {}, "a", {}, False),
    (("web",), {}, "web-1", {}, False), (("*",), {"role": "w*"}, "a", {"role": "web"}, True),
    (("*",), {"role": "w*"}, "a", {}, False),
    (("*",), {"role": "*", "site": "x"}, "a", {"role": "web", "site": "y"}, False),
    (("*",), {"role": "w"}, "a", {"role": "ww"}, False),
])  # fmt: skip
def test_whom_an_entry_covers(
    agents: tuple[str, ...], labels: dict[str, str], name: str, given: dict[str, str], covers: bool
) -> None:
    """An entry covers an agent by name, and by all of its labels."""
    assert Assignment("c", agents, labels).covers(name, given) is covers


# ------------------------------------------------------------------------------------------------ schedules


TABLES = {each.name: each for each in (
    CheckTable("disk", 30.0, 5.0, attempts=2, notes=CheckNotes(owner="ops", notes="n")),
    CheckTable("dns", 60.0), CheckTable("app"),
)}  # fmt: skip


def ran(entries: list[Assignment], default_set: bool = True) -> list[tuple[str, str, float, float]]:
    made = schedule(Assignments(tuple(entries), default_set), TABLES, "web-1", {})
    return [(each.id, each.check, each.every, each.timeout) for each in made]


def test_what_an_agent_runs() -> None:
    """An agent runs the default set, or what covers it; a later entry of an id wins; the order is that of ids."""
    usual = [("disk", "disk", 30.0, 5.0), ("dns", "dns", 60.0, 10.0)]
    assert (ran([]), ran([], False), ran([Assignment("x", ("db",))])) == (usual, [], usual)
    assert ran([Assignment("d*")], False) == usual
    assert ran([Assignment("app"), Assignment("no")]) == [("app", "app", 60.0, 10.0), ("no", "no", 60.0, 10.0)]
    assert ran([Assignment("disk", id="b", every=0.5), Assignment("disk", id="a", timeout=2.0)]) == [
        ("a", "disk", 30.0, 2.0), ("b", "disk", 1.0, 5.0),
    ]  # fmt: skip
    assert ran([Assignment("disk", every=9.0), Assignment("disk", every=8.0)]) == [("disk", "disk", 8.0, 5.0)]


def test_an_entry_of_a_schedule() -> None:
    """The rule and the notes of an entry are made of the entry, the table and the defaults."""
    entry = Assignment(
        "disk", args={"a": 1}, overlap="kill", notes=CheckNotes(runbook="https://r/{agent}/{check}", owner="me")
    )
    [made] = schedule(Assignments((entry,), rule_defaults=RuleSettings(recover=4)), TABLES, "web-1", {})
    assert made == ScheduleEntry(
        "disk", "disk", 30.0, phase("web-1", "disk", 30.0), 5.0, {"a": 1}, "kill",
        Rule(attempts=2, recover=4, stale=95.0), CheckNotes("https://r/web-1/disk", "me", "n"),
    )  # fmt: skip
    assert json.loads(to_json([made])) == [
        {
            "id": "disk",
            "check": "disk",
            "every": 30.0,
            "offset": made.offset,
            "timeout": 5.0,
            "args": {"a": 1},
            "overlap": "kill",
        }
    ]
    assert to_json([]) == b"[]"
    assert unknown_checks(
        Assignments((Assignment("z"), Assignment("d*"), Assignment("disk"), Assignment("b"))), TABLES
    ) == ["b", "z"]


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_how_long_a_schedule_is(more: int, is_taken: bool) -> None:
    """A schedule fits into one blob, to the byte."""
    empty = len(to_json([ScheduleEntry("i", "c", 1.0, 0.0, 1.0, {"a": ""})]))
    entry = ScheduleEntry("i", "c", 1.0, 0.0, 1.0, {"a": "x" * (1_048_576 - empty + more)})
    if is_taken:
        assert len(to_json([entry])) == 1_048_576
        return
    with pytest.raises(AssignmentsError, match="takes 1048577 bytes; 1048576 is the most"):
        to_json([entry])


def test_phases() -> None:
    """A phase is always the same, lies within the interval, and is exact to the millisecond."""
    found = [phase("web-1", "disk", 60.0), phase("web-1", "dns", 60.0), phase("web-2", "disk", 60.0)]
    assert found == [49.196, 29.184, 33.767]
    assert phase("web-1", "disk", 6.0) == 4.92


# ------------------------------------------------------------------------------------------------ rules


@pytest.mark.parametrize(("wanted", "default", "attempts", "rule"), [
    (RuleSettings(), RuleSettings(), None, Rule(stale=155.0)),
    (RuleSettings(), RuleSettings(attempts=5), None, Rule(5, stale=155.0)),
    (RuleSettings(), RuleSettings(attempts=5), 1, Rule(1, stale=155.0)),
    (RuleSettings(attempts=7), RuleSettings(5), 1, Rule(7, stale=155.0)),
    (RuleSettings(recover=2, retry=3.0, stale=4.0), RuleSettings(recover=9, retry=9.0, stale=9.0), None,
     Rule(3, 2, 3.0, 4.0)),
    (RuleSettings(flap=False), RuleSettings(), None, Rule(stale=155.0, flap_start=None, flap_stop=0.0)),
    (RuleSettings(flap=(50.0, 20.0)), RuleSettings(flap=False), None,
     Rule(stale=155.0, flap_start=50.0, flap_stop=20.0)),
    (RuleSettings(flap=True), RuleSettings(flap=(50.0, 20.0)), None, Rule(stale=155.0)),
    (RuleSettings(depends=("ping", "gw/up")), RuleSettings(), None, Rule(stale=155.0, depends=("web-1/ping", "gw/up"))),
    (RuleSettings(), RuleSettings(depends=("x",), away=5.0), None, Rule(stale=155.0)),
])  # fmt: skip
def test_a_rule(wanted: RuleSettings, default: RuleSettings, attempts: int | None, rule: Rule) -> None:
    """A rule has the entry's own settings, then the table's attempts, then the defaults; stale follows from the
    interval.
    """
    assert rule_for("web-1", wanted, default, 60.0, 5.0, attempts) == rule


def test_the_rule_of_a_link() -> None:
    """The rule of a link has one attempt and no flapping."""
    assert link_rule(NO_SETTINGS) == Rule(1, 1, flap_start=None, away=60.0)
    assert link_rule(RuleSettings(away=5.0)) == Rule(1, 1, flap_start=None, away=5.0)
    found: list[str] = []
    assert read_defaults([], found) == NO_SETTINGS and found == ["judge: write [judge] and its settings below"]
    given = {"attempts": 2, "recover": 3, "retry": 4, "stale": 5, "flap": [30, 15], "depends": "x"}
    assert read_settings(given, given, "p", found) == RuleSettings(2, 3, 4.0, 5.0, (30.0, 15.0), ("x",))


# ------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(("rule", "good", "bad"), [
    ({"type": "string"}, ["x", ""], [1, True]), ({"type": "number"}, [1, 1.5, -1], ["1", True]),
    ({"type": "integer"}, [1, 2.0], [1.5, True, "1"]), ({"type": "boolean"}, [True, False], [1, "true"]),
    ({"type": "range"}, [10, "10:", "@1:2", " ~:3 "], ["x", [], "20:10"]),
    ({"type": "duration"}, [5, "5s", 0], ["x", -1]),
    ({"type": "list"}, [[], ["a"]], ["a", [1]]), ({"type": "of a later version"}, [1, "x", []], []), ({}, [1, "x"], []),
    ({"type": "number", "min": 1, "max": 3}, [1, 2, 3], [0.9, 3.1]),
    ({"type": "duration", "min": 60, "max": 120}, ["1m", "2m", 90],
     ["59s", "121s"]),
    ({"type": "string", "choices": ["a", "b"]}, ["a", "b"], ["c"]),
    ({"type": "duration", "choices": [60.0]}, ["1m", 60], ["2m"]),
    ({"type": "number", "min": 0}, [0, 1], [-1]), ({"type": "string", "min": "x"}, ["a"], []),
])  # fmt: skip
def test_values_of_arguments(rule: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    """Values are judged by type, choices and limits, each limit included."""
    assert [value for value in good if list(faults_of({"a": value}, {"a": rule}))] == []
    assert [value for value in bad if not list(faults_of({"a": value}, {"a": rule}))] == [
        None for value in bad if value is None
    ]


def test_sentences_of_arguments() -> None:
    """A sentence names the argument, and what it takes."""
    declared = {
        "n": {"type": "number", "min": 1, "max": 3, "required": True},
        "s": {"choices": ["x", "y"]},
        "odd": "no rule",
    }
    assert list(faults_of({}, declared)) == ['the argument "n" is missing']
    assert list(faults_of({"n": None, "odd": 1}, declared)) == ['the argument "n" is missing']
    assert list(faults_of({"n": 0, "s": "z", "q": 1}, declared)) == [
        'there is no argument "q"; this check takes n, odd, s', 'the argument "n" must be at least 1',
        'the argument "s" must be one of x, y',
    ]  # fmt: skip
    assert list(faults_of({"n": 4}, declared)) == ['the argument "n" must be at most 3']
    assert list(faults_of({"n": "4"}, declared)) == ['the argument "n" must be a number']
    assert list(faults_of({"q": 1}, {})) == ['there is no argument "q"; this check takes none']


def test_faults_of_a_file() -> None:
    """A check that an entry names or fits has its own fault, by its id; none comes twice."""
    tables = {
        "disk": CheckTable("disk", 60.0, args={}),
        "dns": CheckTable("dns", args={}),
        "dig": CheckTable("dig", 60.0),
    }
    said = 'there is no argument "x"; this check takes none'
    entries = [Assignment("disk", id="root", args={"x": 1}), Assignment("disk", id="disk", args={"x": 1}),
               Assignment("disk", args={"x": 1}), Assignment("d*", args={"x": 1}),
               Assignment("no", args={"x": 1})]  # fmt: skip
    assert argument_faults(Assignments(tuple(entries)), tables) == [
        f"disk (id root): {said}", f"disk: {said}", f"dig: {said}",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ passwords and notes


@pytest.mark.parametrize(("name", "is_one"), [
    ("password", True), ("db_password", True), ("apiKey", True), ("api_key", True), ("x.token", True),
    ("token.x", False),
    ("path", False), ("tokens", False), ("secretary", False), ("passwd", True), ("accessKey", True), ("key", False),
    ("dbPwd", True), ("authorization", True), ("private-key", True), ("myApiKey", True), ("", False),
])  # fmt: skip
def test_names_of_passwords(name: str, is_one: bool) -> None:
    """A name is a password's by its last part and by its last words."""
    assert _is_named_so(name) is is_one


@pytest.mark.parametrize(("text", "is_random"), [
    ("aB3dE6gH9jK2mN5pQ8sT", True), ("aB3dE6gH9jK2mN5pQ8s", False), ("aaaaaaaaaaaaaaaaaB3a", False),
    ("ab3de6gh9jk2mn5pq8st", False),
    ("AB3DE6GH9JK2MN5PQ8ST", False), ("aBcdEfghIjklMnopQrst", False), ("0123456789abcdef0123456789abcdef", False),
    ("/aB3dE6gH9jK2mN5pQ8sT", False), ("a/B3dE6gH9jK2mN5pQ8sT", False), ("aB/3dE6gH9jK2mN5pQ8sT", True),
    ("aB3dE6gH9jK2mN5pQ8s T", False),
    ("aB3aB3aB3aB3aB3aB3aB3", False),
])  # fmt: skip
def test_texts_of_generators(text: str, is_random: bool) -> None:
    """A text counts as random with twenty characters of three kinds without a pattern, but not as a path
    or a checksum.
    """
    assert _is_random(text) is is_random


@pytest.mark.parametrize(("value", "names"), [
    ({"password": "x"}, ["password"]), ({"password": ""}, []), ({"password": 7}, []),
    ({"password": {"secret": "DB"}}, []),
    ({"a": {"token": "x"}}, ["a.token"]), ({"token": ["x", "y"]}, ["token", "token"]),
    ({"url": "http://u:p@h/"}, ["url"]),
    ({"h": "Bearer abcdef"}, ["h"]), ({"h": "Bearer abcde"}, []), ({"q": "a?token=x"}, ["q"]), ({"q": "token"}, []),
    ({"secret": "x", "b": 1}, ["secret"]), ({"secret": "x"}, []), ("x", []),
])  # fmt: skip
def test_what_looks_like_a_password(value: Any, names: list[str]) -> None:
    """An argument looks like a password by its name or by its text; a reference is none."""
    assert list(_suspects(value, "", 0)) == names


def test_how_deep_it_is_looked_for() -> None:
    """Passwords are found within eight tables or lists, and not deeper."""
    for depth, found in ((7, True), (8, False)):
        tables: Any = {"token": "x", "y": 1}
        lists: Any = "Bearer abcdef"
        for _ in range(depth):
            tables = {"a": tables}
        for _ in range(depth + 1):
            lists = [lists]
        assert (bool(list(_suspects(tables, "", 0))), bool(list(_suspects(lists, "", 0)))) == (found, found)
    said = password_warnings(
        Assignments((Assignment("c", args={"pwd": "x"}), Assignment("c", id="i", args={"pwd": "x"})))
    )
    assert [each.partition(":")[0] for each in said] == ["c", "i"]


def test_notes_of_agents() -> None:
    """The checks that have notes are listed; none are left of an agent that has none any more."""
    known, notes = KnownNotes(), CheckNotes(owner="ops")
    other = CheckNotes(runbook="https://r")
    known.take(Agent("a"), [ScheduleEntry(id, id, 1.0, 0.0, 1.0, {}, notes=each) for id, each in
                            (("c", notes), ("d", NO_NOTES), ("e", other))])  # fmt: skip
    assert (known.of("a", "c"), known.of("a", "d"), known.of("b", "c")) == (notes, NO_NOTES, NO_NOTES)
    assert (list(known.owners("a")), list(known.owners("b"))) == ([("c", "ops")], [])
    known.take(Agent("a"), [])
    assert (known.of("a", "c"), known._by_agent) == (NO_NOTES, {})


def an_entry(name: str, size: int = 0) -> ScheduleEntry:
    return ScheduleEntry(name, "c", 60.0, 0.0, 5.0, {"a": "x" * size})


@pytest.mark.parametrize("own", [0, 1, 4_095, 4_096, 4_097])
def test_further_entries_up_to_what_an_agent_takes(own: int) -> None:
    """An agent's own entries come first, and further ones fill up 4,096: with one more, all of the schedule would be
    refused.
    """
    assert MAX_ENTRIES == document.MAX_ENTRIES
    mine, others = [an_entry(f"i{n}") for n in range(own)], [an_entry(f"t{n}") for n in range(4_099)]
    blob, left_out = with_further(mine, others)
    room = max(0, 4_096 - own)
    assert [each["id"] for each in json.loads(blob)] == [each.id for each in (*mine, *others[:room])]
    assert left_out == tuple(each.id for each in others[room:])
    if own <= 4_096:
        assert [len(document.parse(blob).entries), document.parse(blob).refused] == [4_096, ()]


@pytest.mark.parametrize("own", [0, 2])
def test_further_entries_up_to_a_blob(own: int) -> None:
    """Further entries fill a blob to the byte; those behind one that has no room are left out, too."""
    mine, first = [an_entry(f"i{n}") for n in range(own)], an_entry("a", 500)
    spare = MAX_SCHEDULE - len(to_json([*mine, first, an_entry("b")]))
    others = [first, an_entry("b", spare), an_entry("c")]
    assert with_further(mine, others[:2]) == (to_json([*mine, *others[:2]]), ())
    assert len(with_further(mine, others)[0]) == MAX_SCHEDULE
    assert with_further(mine, others)[1] == ("c",)
    others[1] = an_entry("b", spare + 1)
    assert with_further(mine, others) == (to_json([*mine, first]), ("b", "c"))
