"""Tests answers of agents that lie: each is bounded, and names nothing but checks of that agent itself."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.assignments.assignments_text import read as read_assignments
from helen.assignments.schedule import CheckTable, schedule
from helen.discovery import answers
from helen.discovery.answers import MOST_OF_KIND, NoAnswer
from helen.discovery.entries import Proposed, with_entries
from helen.discovery.proposals import MOST_PROPOSALS, propose
from helen.discovery.watched import Schedule

HOST = {"type": "string", "default": "localhost"}
PORT = {"type": "integer", "required": True, "min": 1, "max": 65535}
TABLES = {
    table.name: table
    for table in (
        CheckTable("tcp", args={"host": HOST, "port": PORT}),
        CheckTable("http", args={"url": {"type": "string", "required": True}}),
        CheckTable("tls_certificate", args={"host": HOST, "port": PORT, "server_name": {"type": "string"},
                                            "verify": {"type": "boolean", "default": True}}),
        CheckTable("ssh_banner", args={"host": HOST, "port": PORT | {"required": False, "default": 22}}),
        CheckTable("systemd_unit", args={"unit": {"type": "string"}}),
        CheckTable("process", args={"name": {"type": "string", "required": True}}),
        CheckTable("raid"),
        CheckTable("load", every=60.0),
        CheckTable("disk", every=60.0, args={"path": {"type": "string"}}),
    )
}  # fmt: skip
OTHERS = '[[assign]]\ncheck = "load"\nagents = ["db-1"]\nid = "load"\n'


def answer(**listed: Any) -> str:
    return json.dumps({"discover": 1} | listed)


@pytest.mark.parametrize(
    "text",
    [None, 5, [], "", "{", "[]", "5", "null", '{"discover": 2}', "x" * 65_537, "[" * 60_000, '{"discover": "1"}',
     '{"discover": 1' + "0" * 5000 + "}"],
)  # fmt: skip
def test_no_answer(text: Any) -> None:
    """An answer that is not the document is refused as such, whatever it is."""
    with pytest.raises(NoAnswer, match="its answer"):
        answers.read(text)


WRONG = [
    {"listeners": [{"port": port, "address": "127.0.0.1"} for port in (0, -1, 65_536, "80", 80.5, True, None, [], {})]},
    {"listeners": [{"port": 80, "address": address} for address in ("10.0.0.1", "a.org", "", 5, None, "127.0.0.1\n")]},
    {"listeners": ["80", 80, None, [80]]},
    {"mounts": [{"path": path, "type": "ext4"} for path in ("srv", "/a/../b", "/a\nb", "/\x1b[2J", "/a\u202eb", 5)]},
    {"mounts": [{"path": "/" + "x" * 300, "type": "ext4"}, {"path": "/srv"}, {}, "/srv"]},
    {"mounts": [{"path": "/srv", "type": kind} for kind in ("", "EXT4", "a b", "x" * 50, 5, None)]},
    {"services": ["nginx", "a b.service", "../x.service", "-x.service", "*.service", "a\n.service", 5]},
    {"services": ["x" * 300 + ".service", "nginx.socket", "é.service", None]},
    {"processes": ["bash", "evil", "nginx ", 5, None, ["nginx"]], "facilities": ["everything", {}, 1]},
    {"listeners": 5, "mounts": "x", "services": {"a": 1}, "processes": True},
]  # fmt: skip


@pytest.mark.parametrize("document", WRONG)
def test_wrong_types_and_characters(document: dict[str, Any]) -> None:
    """A wrong type or character makes no finding, and each is counted."""
    found = answers.read(answer(**document))
    assert found.count == 0
    assert found.left_out == sum(len(listed) if isinstance(listed, list) else 1 for listed in document.values())


def test_too_many() -> None:
    """Findings beyond the limit are counted, and no more become proposals than a person would read."""
    found = answers.read(answer(listeners=[{"port": port, "address": "::"} for port in range(1, 1001)]))
    assert (len(found.listeners), found.left_out) == (MOST_OF_KIND, 1000 - MOST_OF_KIND)
    proposals, more = propose(found, Schedule("web-1", [], TABLES), TABLES)
    assert (len(proposals), more) == (MOST_PROPOSALS, MOST_OF_KIND - MOST_PROPOSALS)


def test_notes_are_shown_as_one_line() -> None:
    """Notes are bounded in number and length, and hold nothing that a terminal obeys."""
    notes = answers.read(answer(notes=["a\x1b[31mb\nc", "x" * 5000, 5, *[f"note {at}" for at in range(20)]])).notes
    assert len(notes) == 8
    assert all(note.isprintable() and len(note) <= 400 for note in notes)
    assert "a\\x1b[31mb\\nc" in notes


def applied(text: str, agent: str = "web-1", before: str = OTHERS) -> tuple[str, list[str]]:
    """Return the file after all proposals of an answer were accepted, and the proposed ids."""
    running = schedule(read_assignments(before), TABLES, agent, {})
    proposals, _ = propose(answers.read(text), Schedule(agent, running, TABLES), TABLES)
    return with_entries(before, [Proposed(agent, proposals, has_default_set=True)]), [each.id for each in proposals]


def test_other_agents_keep_what_they_run() -> None:
    """An agent's name in an answer is nothing; an id that is taken stays with its check."""
    lies = answer(
        agent="db-1", agents=["*"], on=["*"], check="load", id="load",
        listeners=[{"port": 80, "address": "::", "agents": ["db-1"], "id": "load", "check": "load", "host": "db-1"}],
        services=["load.service"],
        mounts=[{"path": '/"]\nagents = ["*"]', "type": "ext4"}, {"path": '/"] #', "type": "ext4"}],
    )  # fmt: skip
    after, ids = applied(lies)
    assignments = read_assignments(after)
    assert schedule(assignments, TABLES, "db-1", {}) == schedule(read_assignments(OTHERS), TABLES, "db-1", {})
    assert {agent for entry in assignments.entries[1:] for agent in entry.agents} == {"web-1"}
    assert [each.id for each in schedule(assignments, TABLES, "web-1", {})] == sorted({"disk", "load", *ids})


def test_an_id_that_is_taken_is_not_replaced() -> None:
    """The new check gets another one."""
    before = '[[assign]]\ncheck = "load"\nagents = ["web-1"]\nid = "tcp-80"\n'
    after, ids = applied(answer(listeners=[{"port": 80, "address": "::"}]), before=before)
    assert ids == ["tcp-80-2"]
    assert [each.check for each in schedule(read_assignments(after), TABLES, "web-1", {})][-2:] == ["load", "tcp"]


WORDS = st.sampled_from(
    ["nginx.service", "/srv", "127.0.0.1", "::", "nginx", "raid", "tls", "http", "www.example.org", "ext4"]
)
KEYS = st.sampled_from(["port", "address", "path", "type", "speaks", "names", "fine"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=10,
)  # fmt: skip
KINDS = ["listeners", "mounts", "services", "processes", "facilities", "notes"]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KINDS), PLAIN | st.lists(PLAIN, max_size=6), max_size=6))
def test_whatever_it_says(document: dict[str, Any]) -> None:
    """The file stays good and the other agent's schedule as it is, whatever an answer has; a second run proposes
    nothing.
    """
    after, _ = applied(answer(**document))
    assignments = read_assignments(after)
    assert schedule(assignments, TABLES, "db-1", {}) == schedule(read_assignments(OTHERS), TABLES, "db-1", {})
    assert applied(answer(**document), before=after) == (after, [])
