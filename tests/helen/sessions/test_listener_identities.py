"""Tests a thousand identities of one listener that end while they are connected; and twins (docs/security.rst)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from helen_parts import WALL
from twisted.internet.task import Clock

from helen.identity.authority import Identity
from helen.sessions.listener import TICK_SECONDS, AgentListener

MANY = 1_000


def home_of_house(clock: Clock) -> Any:
    """Return the stage of test_session_service.py, whose parts but the session service are in memory."""
    name = "helen_test_house"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("test_session_service.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name].Home(clock)


@pytest.fixture
def crowd(clock: Clock) -> tuple[Any, Any, list[Any]]:
    """Return a session service with a thousand agents that have said hello; each has a key and a last moment of its
    own.
    """
    home = home_of_house(clock)
    peers = [home.agent(f"web-{number}") for number in range(MANY)]
    for number, peer in enumerate(peers):
        peer.connection.identity = Identity(f"web-{number}", f"key-{number}", WALL + 100.0 + number)
    listener = AgentListener(clock, home.house, home.house.connections, encrypted=False)
    listener.startFactory()
    return home, listener, peers


def closed(peers: list[Any]) -> list[int]:
    return [number for number, peer in enumerate(peers) if peer.connection.closing]


@pytest.mark.adversary(23)
def test_a_certificate_expires_among_a_thousand(crowd: tuple[Any, Any, list[Any]], clock: Clock) -> None:
    """A connection is closed within one tick of its certificate's last moment, 2 s at most; nobody else is."""
    _, listener, peers = crowd
    assert TICK_SECONDS <= 2.0
    for peer in peers:
        peer.connection._read_at = clock.seconds() + 1e6  # silence is another test's
    for second in range(1, 4):
        clock.advance(100.0 + second - clock.seconds() - 1.0 - TICK_SECONDS / 2)
        assert closed(peers) == list(range(second - 1))
        clock.advance(TICK_SECONDS)
        assert closed(peers) == list(range(second))
    listener.stopFactory()


@pytest.mark.adversary(24)
def test_a_revocation_among_a_thousand(crowd: tuple[Any, Any, list[Any]]) -> None:
    """A revocation ends each connection with a key of the name, and no other, before `revoke` has returned."""
    home, listener, peers = crowd
    before = home.clock.seconds()
    home.authority.tell_revoked("web-7", frozenset({"key-7", "an older key"}))
    assert (closed(peers), home.clock.seconds()) == ([7], before)
    home.authority.tell_revoked("all", frozenset(f"key-{number}" for number in range(MANY)))
    assert len(closed(peers)) == MANY
    listener.stopFactory()


@pytest.mark.adversary(27)
def test_a_twin_is_refused_shown_and_audited(clock: Clock) -> None:
    """The agent that was there first stays, and an operator can see where its clone is."""
    home = home_of_house(clock)
    first, twin = home.agent("web-1"), home.agent("web-1")
    twin.connection.address = "192.0.2.9"
    home.house.roster.heard_from(first.connection)
    agent = home.house.roster.agents["web-1"]
    assert (agent.link is first.connection, twin.connection.closing) == (True, True)
    assert (agent.clash["address"], home.authority.conflicts, home.house.counts["clashes"]) == ("192.0.2.9", 1, 1)
