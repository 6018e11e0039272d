"""Tests targets.toml, and entries of assignments.toml that name targets."""

from __future__ import annotations

from typing import Any

import pytest

from groundwork import target_ids
from groundwork.counts import all_of
from helen.assignments.arguments import argument_faults
from helen.assignments.assignments_text import read as read_assignments
from helen.assignments.schedule import AssignmentsError, CheckTable, schedule
from helen.assignments.target_schedule import of_runner, rule_of, schedule_of_target
from helen.states.model import UNKNOWN
from helen.targets.declarations import MAX_GROUPS, MAX_TARGETS, Declared, read
from helen.targets.target_fields import ONE, Quorum, Target, TargetsError

TEXT = """
[[target]]
name = "switch-1"
address = "10.0.3.1"
labels = { role = "switch" }
via = ["probe-*", "site=north"]
[[target]]
name = "www.example.org"
via = "probe-1"
"""
HOST = {"type": "string", "required": True}
TABLES = {
    "ping": CheckTable("ping", None, 5.0, args={"host": HOST, "count": {"type": "integer"}}),
    "http": CheckTable("http", 60.0, 10.0, args={"url": HOST, "headers": {"type": "list"}}),
    "cpu": CheckTable("cpu", 60.0),
}


def test_what_is_read() -> None:
    """An address is the name unless it is given; one agent may stand without brackets."""
    assert read(TEXT).targets == {
        "switch-1": Target("switch-1", "10.0.3.1", ("probe-*", "site=north"), {"role": "switch"}),
        "www.example.org": Target("www.example.org", "www.example.org", ("probe-1",), {}),
    }
    assert read("") == Declared()


FAULTS = [
    ("x = 1", "'x' is no setting: write [[target]] or [[source]]"),
    ("target = 1", "write [[target]] for each of at most 10,000"),
    ("target = [1]", "[[target]] number 1: a table is expected"), ("[[target", "no TOML"),
    ('[[target]]\nname = "Switch 1"\nvia = "a"', "'Switch 1' is no name"), ('[[target]]\nvia = "a"', "name: "),
    ('[[target]]\nname = "a"', "via is None: write an agent's name"), ('[[target]]\nname = "a"\nvia = []', "via is []"),
    ('[[target]]\nname = "a"\nvia = [1]', "via is [1]"),
    ('[[target]]\nname = "a"\nvia = "b"\ncolour = 1', "'colour' is no setting"),
    ('[[target]]\nname = "a"\nvia = "b"\naddress = ""', "address is ''"),
    ('[[target]]\nname = "a"\nvia = "b"\naddress = "a\\u001b[2J"', "write a name or an address"),
    ('[[target]]\nname = "a"\nvia = "b"\nlabels = { agent = "x" }', "the label agent is Helen's own"),
    ('[[target]]\nname = "a"\nvia = "b"\nlabels = { a = 1 }', "labels is {'a': 1}"),
    ('[[target]]\nname = "a"\nvia = "b"\n[[target]]\nname = "a"\nvia = "b"', "number 2: a is there twice"),
    ("[[target]]\n" * (MAX_TARGETS + 1), "at most 10,000"),
    ("".join(f'[[target]]\nname = "a{n}"\nvia = "b{n}"\n' for n in range(MAX_GROUPS + 1)), "201 different via"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_faults(text: str, fault: str) -> None:
    """A fault is told with its place."""
    with pytest.raises(TargetsError) as refused:
        read(text)
    assert fault in str(refused.value)


def of_target(text: str, **labels: str) -> list[tuple[str, str, dict[str, Any]]]:
    made = schedule_of_target(read_assignments(text), TABLES, Target("switch-1", "10.0.3.1", (), labels))
    return [(each.id, each.check, each.args) for each in made]


def test_an_address_goes_into_the_arguments() -> None:
    """An address goes into `host`, and into texts where it stands, at any depth; a value that is given stays."""
    entry = '[[assign]]\ncheck = "{}"\ntargets = ["switch-*"]\n'
    assert of_target(entry.format("ping")) == [("ping", "ping", {"host": "10.0.3.1"})]
    gateway = entry.format("ping") + 'args = { host = "gw.{name}" }'
    assert of_target(gateway) == [("ping", "ping", {"host": "gw.switch-1"})]
    web = 'args = { url = "https://{address}/", headers = ["Host: {name}"] }'
    assert of_target(entry.format("http") + web) == [
        ("http", "http", {"url": "https://10.0.3.1/", "headers": ["Host: switch-1"]})
    ]
    assert of_target(entry.format("cpu")) == [("cpu", "cpu", {})]


def test_which_entries_are_for_a_target() -> None:
    """Entries that name it, with labels that fit, are for it; no default set; values by label as for agents; none for
    agents.
    """
    text = '[[defaults]]\ncheck = "ping"\nlabels = { role = "switch" }\nargs = { count = 3 }\n'
    text += '[[assign]]\ncheck = "ping"\ntargets = "switch-1"\nlabels = { role = "switch" }\n'
    assert of_target(text) == []
    assert of_target(text, role="switch") == [("ping", "ping", {"host": "10.0.3.1", "count": 3})]
    assert of_target("") == of_target('[[assign]]\ncheck = "*"\n') == []
    agents = schedule(read_assignments(text), TABLES, "switch-1", {"role": "switch"})
    assert [each.id for each in agents] == ["cpu", "http"]
    assert argument_faults(read_assignments(text), TABLES) == []


@pytest.mark.parametrize(
    ("more", "fault"),
    [('agents = ["a"]', "agents and targets: the agents that look at a target stand in targets.toml"),
     (f'id = "{"x" * 179}"', "an id on targets has at most 178 bytes"), ("targets = []", "targets is []")],
)  # fmt: skip
def test_entries_that_cannot_be(more: str, fault: str) -> None:
    """An entry that cannot be is refused with its place; the longest id is taken."""
    head = '[[assign]]\ncheck = "ping"\n' + ("" if "targets" in more else 'targets = ["a"]\n')
    with pytest.raises(AssignmentsError) as refused:
        read_assignments(head + more)
    assert fault in str(refused.value)
    (entry,) = read_assignments(f'[[assign]]\ncheck = "ping"\ntargets = ["a"]\nid = "{"x" * 178}"').entries
    assert len(target_ids.wire_id("a" * 63, entry.id or "").encode()) == 255


def test_how_its_results_are_judged() -> None:
    """A target is judged by silence as long as Helen listens, and held back by its agent's link; its
    phase is its own.
    """
    text = '[[assign]]\ncheck = "ping"\ntargets = "*"\nevery = "1m"\ndepends = "up"'
    (entry,) = schedule_of_target(read_assignments(text), TABLES, Target("nas", "nas", ()))
    rule = rule_of(entry, ["probe-1"])
    assert (rule.passive, rule.missing, rule.stale) == (True, UNKNOWN, 155.0)
    assert rule.depends == ("nas/up", "probe-1/equus:link")
    assert rule_of(entry, ()).depends == ("nas/up",)
    assert (of_runner("nas", entry).id, of_runner("nas", entry).offset) == ("equus:target/nas/ping", entry.offset)


def test_names_on_the_wire_and_in_the_history() -> None:
    """A target's id is read both ways, and an id that is none of a target is refused."""
    assert target_ids.parsed(target_ids.wire_id("nas", "a/b")) == ("nas", "a/b")
    for other in ("ping", "equus:gap", "equus:target/", "equus:target/nas", "equus:target//x", "equus:target/nas/"):
        assert target_ids.parsed(other) is None
    assert target_ids.source_of("nas", target_ids.kept_spool("probe-1", "ab12")) == ("probe-1", "ab12")
    assert target_ids.source_of("web-1", "ab12") == ("web-1", "ab12")


def test_how_many_have_to_agree() -> None:
    """One looks unless it is said; the rule names the agents, and depends on their links where each is needed."""
    head = '[[target]]\nname = "nas"\nvia = "a"\n'
    assert read(head).targets["nas"].quorum == ONE == Quorum(1, 1)
    assert {read(f'{head}quorum = "{each}"').targets["nas"].quorum for each in ("2 of 3", "9 of 9", "1 of 2")} == {
        Quorum(2, 3), Quorum(9, 9), Quorum(1, 2)
    }  # fmt: skip
    for wrong in ('"3 of 2"', '"0 of 3"', '"2 of 10"', "2", '"2/3"', '"2 of 3 "', '"²  of 3"'):
        with pytest.raises(TargetsError, match="write how many of how many agents, such as"):
            read(f"{head}quorum = {wrong}")
    everything = read_assignments('[[assign]]\ncheck = "ping"\ntargets = "*"')
    (entry,) = schedule_of_target(everything, TABLES, Target("nas", "nas", ()))
    made = [rule_of(entry, runners, 2) for runners in (("a", "b", "c"), ("a", "b"))]
    assert [(rule.quorum, rule.runners, rule.depends) for rule in made] == [
        (2, ("a", "b", "c"), ()), (2, ("a", "b"), ("a/equus:link", "b/equus:link"))
    ]  # fmt: skip


def test_names_in_a_sentence() -> None:
    assert [all_of(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
