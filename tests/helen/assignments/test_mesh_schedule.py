"""Tests entries of a mesh: who checks whom, with which ids and arguments; and entries that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from helen.assignments.arguments import argument_faults
from helen.assignments.assignments_text import read
from helen.assignments.mesh_schedule import MOST_MEMBERS, address_of, first_of, members_among, mesh_entries
from helen.assignments.origins import explain
from helen.assignments.schedule import AssignmentsError, CheckTable, schedule
from helen.assignments.target_schedule import ADDRESSES
from helen.cli.assign import changes_of, entry

HOST = {"type": "string", "required": True}
TABLES = {"ping": CheckTable("ping", None, 5.0, args={"host": HOST}), "http": CheckTable("http", args={"url": HOST}),
          "cpu": CheckTable("cpu", 60.0)}  # fmt: skip
PING = '[[assign]]\ncheck = "ping"\nmesh = ["role=edge"]\nevery = "1m"\ndepends = ["cpu"]\n'
MEMBERS = {"edge-1": "10.0.0.1", "edge-2": "10.0.0.2", "edge-3": "10.0.0.3"}


def of(text: str, agent: str = "edge-1") -> list[tuple[str, str, dict[str, Any], tuple[str, ...]]]:
    made = mesh_entries(read(text), TABLES, agent, {"role": "edge"}, lambda mesh: MEMBERS)
    return [(each.id, each.check, each.args, each.rule.depends) for each in made]


def test_each_checks_each_other_one() -> None:
    """A member checks each other one, by an id with its name, at its address and with its link as a parent; others run
    nothing.
    """
    assert of(PING) == [
        ("ping@edge-2", "ping", {"host": "10.0.0.2"}, ("edge-1/cpu", "edge-2/equus:link")),
        ("ping@edge-3", "ping", {"host": "10.0.0.3"}, ("edge-1/cpu", "edge-3/equus:link")),
    ]
    assert of(PING, "web-1") == []
    web = '[[assign]]\ncheck = "http"\nid = "web"\nmesh = "edge-*"\nargs = { url = "http://{address}/{name}" }\n'
    assert of(web, "edge-3")[0] == ("web@edge-1", "http", {"url": "http://10.0.0.1/edge-1"}, ("edge-1/equus:link",))
    assert len({each.offset for each in mesh_entries(read(PING), TABLES, "edge-1", {}, lambda mesh: MEMBERS)}) == 2


def test_it_changes_nothing_else() -> None:
    """A mesh keeps the default set, and of two with one id the last counts; the address is no missing argument."""
    assert [each.id for each in schedule(read(PING), TABLES, "edge-1", {"role": "edge"})] == ["cpu"]
    assert [args for _, _, args, _ in of(PING + PING + 'args = { host = "gw" }\n')] == [{"host": "gw"}] * 2
    assert argument_faults(read(PING), TABLES) == [] and ADDRESSES == ("host", "address")


@pytest.mark.parametrize(
    ("more", "fault"),
    [('agents = ["a"]', "agents and mesh: a mesh names its agents itself"), ('targets = ["a"]', "targets and mesh"),
     ('labels = { a = "b" }', "labels and mesh"), (f'id = "{"x" * 179}"', "an id of a mesh has at most 178 bytes"),
     ("mesh = []", "mesh is []"), ("mesh = 1", "mesh is 1"), (f"mesh = {['a'] * 21}", "21 patterns; 20 are the most"),
     ('check = "*"', "check is a pattern: a mesh is of one check")],
)  # fmt: skip
def test_entries_that_cannot_be(more: str, fault: str) -> None:
    head = "".join(line for line in ('check = "ping"\n', 'mesh = ["a"]\n') if line.split()[0] != more.split()[0])
    with pytest.raises(AssignmentsError) as refused:
        read(f"[[assign]]\n{head}{more}")
    assert fault in str(refused.value)


def test_who_is_a_member() -> None:
    """A member is chosen by name or label, with the address that it connects from or its label's; the first 50 by name
    count.
    """
    mesh = ("role=edge", "gw-*")
    assert address_of(mesh, "a", {"role": "edge"}, "10.0.0.1") == "10.0.0.1"
    assert address_of(mesh, "gw-1", {"address": "203.0.113.7"}, "10.0.0.1") == "203.0.113.7"
    assert address_of(mesh, "a", {"role": "web"}, "10.0.0.1") is None
    assert address_of(mesh, "gw-1", {}, "") is None
    many = {f"edge-{number:03}": "x" for number in reversed(range(MOST_MEMBERS + 5))}
    assert list(first_of(many)) == sorted(many)[:MOST_MEMBERS]
    listed = [{"name": "gw-2", "kind": "agent", "labels": {}, "address": "10.0.0.2", "revoked": None},
              {"name": "gw-1", "kind": "agent", "labels": {}, "address": "10.0.0.1", "revoked": None},
              {"name": "gw-3", "kind": "host", "labels": {}, "address": "", "revoked": None},
              {"name": "gw-4", "kind": "agent", "labels": {}, "address": "10.0.0.4", "revoked": 7.0}]  # fmt: skip
    assert members_among(mesh, listed) == {"gw-1": "10.0.0.1", "gw-2": "10.0.0.2"}
    changes = changes_of("", read('[[assign]]\ncheck = "ping"\nmesh = "gw-*"'), TABLES, listed)
    assert [(each.agent, each.gains, each.loses) for each in changes] == [
        ("gw-2", ["ping@gw-1"], []), ("gw-1", ["ping@gw-2"], [])
    ]  # fmt: skip


def test_where_its_values_come_from() -> None:
    """The check of a mesh is explained by its entry, to a member; an id with another name is none of it."""
    found = explain(read(PING), TABLES, "edge-1", {"role": "edge"}, "ping@edge-2")
    assert found is not None and (found.check, found.settings[0].value) == ("ping", 60.0)
    assert explain(read(PING), TABLES, "web-1", {"role": "web"}, "ping@edge-2") is None
    assert explain(read(PING), TABLES, "edge-1", {"role": "edge"}, "pong@edge-2") is None


def test_the_command_writes_one() -> None:
    written = entry("ping", (), None, None, (), ("role=edge", "gw-*"), every="1m")
    assert read(written).entries[0].mesh == ("role=edge", "gw-*")
