"""Tests that each option which a refusal, a note or a help text names exists at each command that can
print the text.
"""

from __future__ import annotations

import ast

import pytest
from named_options import NamedOption, command_in, named_options, places, places_of, printed
from reached_code import Part

LEAST = 250  # options that are named at the least: a reader that finds none judges nothing
# The code's graph goes by names. These texts can't be heard at these commands, since:
NOT_HEARD = {
    # quickstart and demo know their Helen's folder, and log in by it
    ("helen.cli.base.client", "Client"): {"helen quickstart", "helen demo"},
    ("helen.keys.ca_files", "_server"): {"helen quickstart"},  # its Helen's name is always localhost
    # quickstart brings no keys of its own, and `keys rotate` writes --new in place of --signing-keys
    ("helen.keys.signing_keys", "load_public"): {"helen quickstart", "helen keys rotate"},
    ("helen.keys.signing_keys", "_public"): {"helen quickstart", "helen keys rotate"},
    ("helen.cli.downtimes", "window_body"): {"helen mcp"},  # it demands an end, and has no times of day
    ("helen.cli.declared.plan", "show"): {"helen discover"},  # its plan has nothing that only Helen has
}


def faults_of(named: NamedOption) -> list[str]:
    """Return the commands that hear of an option and don't have it."""
    not_heard = NOT_HEARD.get((named.part.module, named.part.name), set())
    where = [each for each in named.places if each not in not_heard and named.option not in places()[each]]
    return [f"{named.part.module}: {named.option} is none of `{each}`: {named.text}" for each in where[:3]]


def test_all_options_exist_where_they_are_named() -> None:
    """A person who reads of an option can type it at that command, and behind the command's name."""
    assert [fault for named in named_options() for fault in faults_of(named)] == []
    assert len(named_options()) >= LEAST


def test_each_exception_is_needed() -> None:
    """An exception for a text that is gone would hide the next fault."""
    named = {(each.part.module, each.part.name, place) for each in named_options() for place in each.places}
    assert [(key, place) for key, found in NOT_HEARD.items() for place in found if (*key, place) not in named] == []


@pytest.mark.parametrize(
    ("before", "place"),
    [
        ("start Helen with ", "twistd helen"),
        ("this Helen was started with ", "twistd helen"),
        ("make a token for it (helen token ", "helen token"),
        ("start it: twistd -n helen ", "twistd helen"),
        ("The next person runs: zerotask schedule list ", "zerotask schedule list"),
    ],
)
def test_words_before_an_option_say_where_it_is_typed(before: str, place: str) -> None:
    """An option without such words is one of the command that prints the text."""
    assert places_of(Part("zerotask.commands.broker_calls", "operate"), before) == (place,)


def test_a_text_is_heard_at_the_commands_that_call_its_function() -> None:
    """Clients' and operators' commands print such a text; the programs' own options are none of their commands."""
    heard = places_of(Part("zerotask.commands.broker_calls", "operate"), "give ")
    assert {"zerotask tasks", "zerotask schedule list", "zerotask drain"} <= set(heard)
    assert {"zerotask", "zerotask submit", "zerotask node", "helen status"} & set(heard) == set()
    assert ("--broker" in places()["zerotask"], "--broker" in places()["zerotask tasks"]) == (True, False)
    assert command_in("helen checks add of a set") == "helen checks add"


def test_texts_are_those_that_can_be_printed() -> None:
    """A docstring, a shell script and pieces of a command line are no such texts; a filled-in value is
    one character.
    """
    source = 'def f(a):\n    """Say --x now."""\n    g(f" --x {a}", "--y")\n    raise E(f"{a}: give --x")'
    assert printed(ast.parse(source).body[0], is_loose=False) == ["\ue000: give --x"]
    assert printed(ast.parse('"""A module with --x."""').body[0], is_loose=True) == []
