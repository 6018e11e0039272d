"""Tests that every command that a text names can be typed so: docs, messages, pages in a browser, units, comments."""

from __future__ import annotations

from collections import Counter

import pytest
from named_commands import (
    FILLED,
    READERS,
    fault_of,
    named_commands,
    of_javascript,
    of_page,
    of_python,
    of_script,
    of_template,
)  # fmt: skip

LEAST = {  # kinds of files -> how many commands are named there at the least: a reader that finds none judges nothing
    "rst": 500, "py": 200, "html": 25, "js": 3, "service": 3,
}  # fmt: skip


def test_all_commands_exist() -> None:
    """Each is held against the parser of its program: subcommand, options, number of values."""
    faults = [f"{each.place}: `{each.text}`: {fault}" for each in named_commands() if (fault := fault_of(each.text))]
    assert faults == []


def test_each_kind_of_file_is_read() -> None:
    """Find at least so many commands in each kind of file; fewer would mean that a reader has gone blind."""
    found = Counter(each.place.partition(":")[0].rpartition(".")[2] for each in named_commands())
    assert {kind: found[kind] for kind, least in LEAST.items() if found[kind] < least} == {}
    assert len(READERS) == 16


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("helen rollout list", "rollout has no list"),
        ("helen rollouts", "main has no rollouts"),
        ("helen token web-1", ""),
        ("helen token web-1 web-2", "token takes no web-2"),
        ("helen status --ouput json", "status: No such option '--ouput'. Did you mean '--output'?"),
        ("helen push FILES --key", ""),
        ("helen push --key --save FILE x", ""),
        ("helen status [AGENT[/CHECK]] | less", ""),
        ("helen downtime|silence|ack", ""),
        ("helen downtime|quiet", "main has no quiet"),
        (f"helen {FILLED} --comment TEXT", ""),
        (f"helen {FILLED} --nonesuch", "ack: No such option '--nonesuch'."),
        ("helen pipeline report availability --from 2026-11-01", ""),
        ("helen pipeline weigh", "main has no weigh"),
        ("helen run disk --on 'db-*", "No closing quotation"),
        ("twistd -n helen --state DIR --web off", ""),
        ("twistd -n helen --stat DIR", "twistd helen has no --stat"),
        ("twistd -n equus", "twistd has no equus"),
        ("equus lint --output json FILE", ""),
        ("scale0ctl lint", "main has no lint"),
        ("zerotask --wait", "main: No such option '--wait'."),
        ("./dev mutants --seed 2", ""),
        ("./dev wash", "./dev has no wash"),
    ],
)
def test_what_is_wrong_is_said(text: str, fault: str) -> None:
    """The fault of a command is the sentence that a person who types it would read."""
    assert fault_of(text) == fault


def test_texts_are_read_as_they_are_written() -> None:
    """Each reader finds filled-in values, lines that go on and words beside a command, and skips what is no command."""
    page = "Say ``helen ack\n--on x``.\n\n    helen run disk \\\n        --on db  asks\n    a helen\n"
    assert list(of_page(page)) == [
        (1, "helen ack\n--on x"), (4, "helen run disk --on db"),
    ]  # fmt: skip
    assert list(of_script("ExecStart=/usr/bin/helen run\nnot helen run\n")) == [(1, "/usr/bin/helen run")]
    source = 'a = f"try `helen status {name}`"\nb = "helen push"  # as `helen keys` does\nc = "helen runs; all well"\n'
    assert list(of_python(source)) == [(1, f"helen status {FILLED}"), (2, "helen push"), (2, "helen keys")]
    assert list(of_template("<p>\n<code>helen {{ kind }}{% if on %} --on &lt;{% endif %}</code>")) == [
        (2, f"helen {FILLED}  --on < ")
    ]
    assert list(of_javascript("x = `helen run ${map((a) => { return a; })} --x`; // `helen status`")) == [
        (1, f"helen run {FILLED} --x"), (1, "helen status"),
    ]  # fmt: skip


def test_each_word_of_a_choice_is_read() -> None:
    """A condition between two words gives two commands, of which each must exist."""
    two = [(1, "helen ack x"), (1, "helen run x")]
    assert list(of_template('<code>helen {{ "ack" if a else "run" }} x</code>')) == two
    assert list(of_javascript('`helen ${a ? "ack" : "run"} x`')) == two
    assert list(of_python('f"""helen {"ack" if a else "run"} x"""')) == two
