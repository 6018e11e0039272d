"""What `helen agents` says below its table: what an agent doesn't use, and machines that share one identity."""

from __future__ import annotations

from typing import Any

from helen.cli.show import notes


def agent(**about: Any) -> dict[str, Any]:
    return {"name": "web-1", "troubles": {}, "clash": None} | about


def test_nothing_to_say() -> None:
    """The table is enough."""
    assert notes(agent(), 1_000.0) == []


def test_a_set_that_is_not_used() -> None:
    """A frozen manifest, an upgrade that was undone: the agent's own sentence, and nothing that moves a cursor."""
    troubles = {"manifest": "frozen: nobody says \x1b[2J that it is the newest", "upgrade": "undone: it did not start"}
    assert notes(agent(troubles=troubles), 1_000.0) == [
        "web-1: the newest manifest is not used: frozen: nobody says \\x1b[2J that it is the newest",
        "web-1: the newest upgrade is not used: undone: it did not start",
    ]


def test_a_clone() -> None:
    """Where it is, and since when."""
    [line] = notes(agent(clash={"at": 700.0, "address": "192.0.2.7"}), 1_000.0)
    assert line == "web-1: a second machine with its identity was refused 5m ago, from 192.0.2.7: is it a clone?"
