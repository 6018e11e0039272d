"""Tells agents of the other Helens of a Scale0 network, which they try when this one is gone.

They come from two places. Helens that share a network key tell each other where they are, and are listed while they
live and take agents: first those of the own group, then those of its fallbacks, and within a group in another order
for each agent, so that a fleet which loses its Helen spreads over the others. Behind them come those of the document
`servers` of the network's configuration, the JSON list of `servers` (docs/protocol.rst) in base64, as an operator
wrote them.

Every agent of version 2 is told when it connects and when the list changes. How it tries them is the agent's business;
whether it is let in is decided by the other Helen.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from equus_protocol import messages as m
from equus_protocol.codec import MAX_BLOB
from helen.agents.roster import Agent
from helen.cluster.presence import Presence
from helen.sessions.session_service import SessionService
from helen.settings.settings import SettingsError, address

DOCUMENT = "servers"
MOST = 64  # of one list, as the protocol has it
Servers = list[dict[str, str]]


class HelenList:
    """Keeps the list and tells it to agents. `own` is the address of this Helen, which they know already."""

    log = Logger()

    def __init__(self, sessions: SessionService, own: str) -> None:
        self._sessions = sessions
        self._own = own
        self._written: Servers = []  # by an operator
        self._live: dict[str, Presence] = {}
        self._groups: list[str] = []  # the own one, then its fallbacks

    def start(self) -> None:
        """Tell each agent that connects from now on."""
        self._sessions.attached.subscribe(self._attached)

    def stop(self) -> None:
        """Tell no further agent."""
        self._sessions.attached.unsubscribe(self._attached)

    def configured(self, document: dict[str, Any]) -> None:
        """Take a [ CLIENT CONFIG ]. A list that can't be used is told in the log, and the one before stays."""
        found = [each for each in document.get("documents", []) if each.get("name") == DOCUMENT]
        try:
            written = read_list(found[0].get("content", ""), self._own) if found else []
        except ValueError as error:
            self.log.error("the document `servers` of the Scale0 network is left out: {error}", error=error)
            return
        if written != self._written:
            self._written = written
            self._tell_all()

    def grouped(self, groups: Sequence[str]) -> None:
        """Take the groups of our broker, its own first."""
        if list(groups) != self._groups:
            self._groups = list(groups)
            if self._live:
                self._tell_all()

    def live(self, others: Mapping[str, Presence]) -> None:
        """Take the other Helens that live and accept agents, by identity."""
        if dict(others) != self._live:
            self._live = dict(others)
            self._tell_all()

    def known(self) -> list[str]:
        """Return the addresses of all of them, HOST:PORT."""
        return [server["address"] for server in self.servers_for("")]

    def servers_for(self, agent: str) -> Servers:
        """Return the list for one agent: Helens that live, in an order of its own, then those written down."""
        ranked = sorted(self._live.items(), key=lambda item: (self._rank(item[1]), _spread(agent, item[0])))
        listed = [as_server(presence) for _, presence in ranked if presence.address != self._own]
        there = {server["address"] for server in listed}
        return [*listed, *(server for server in self._written if server["address"] not in there)][:MOST]

    def _rank(self, presence: Presence) -> int:
        """Return 0 for the own group, and for a network without groups; Helens of an unknown group come last."""
        groups = self._groups or [""]
        return groups.index(presence.group) if presence.group in groups else len(groups)

    def _attached(self, agent: Agent) -> None:
        if self._live or self._written:
            self._tell(agent)

    def _tell_all(self) -> None:
        self._sessions.fair_turns.walk(self._sessions.roster.connected(), self._tell)

    def _tell(self, agent: Agent) -> None:
        link: Any = agent.link
        if link is not None and link.version == 2 and not link.closing:
            link.send(m.Servers(link.next_id(), to_blob(self.servers_for(agent.name))))


def _spread(agent: str, identity: str) -> bytes:
    return hashlib.sha256(f"{agent}\0{identity}".encode()).digest()


def as_server(presence: Presence) -> dict[str, str]:
    """Return an entry of `servers` (docs/protocol.rst): `address`, and `name` and `ca` if they are known."""
    named = {"address": presence.address, "name": presence.name, "ca": presence.ca}
    return {key: text for key, text in named.items() if text}


def to_blob(servers: Servers) -> bytes:
    """Return the blob of `servers`, with as many entries as there is room for."""
    while (
        len(blob := json.dumps(servers, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
        > MAX_BLOB
    ):
        servers = servers[:-1]
    return blob


def read_list(content: str, own: str) -> Servers:
    """Return the list that an operator wrote, without this Helen.

    Raises ValueError, with a sentence, if agents could not use it.
    """
    try:
        listed = json.loads(base64.b64decode(content, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON in base64: {error}") from error
    if not isinstance(listed, list) or len(listed) > MOST:
        raise ValueError(f"it is no list of at most {MOST} servers")
    for server in listed:
        _judge(server)
    others = [server for server in listed if server["address"] != own]
    if len(json.dumps(others).encode()) > MAX_BLOB:
        raise ValueError(f"it has more than {MAX_BLOB} bytes")
    return others


def _judge(server: Any) -> None:
    known = {"address", "name", "ca"}
    if not isinstance(server, dict) or server.keys() - known or "address" not in server:
        raise ValueError(f"a server is an object of address, and perhaps name and ca: {str(server)[:100]!r}")
    if not all(isinstance(text, str) for text in server.values()):
        raise ValueError(f"what is said of {str(server['address'])[:100]!r} is no text")
    try:
        address(server["address"], DOCUMENT)
    except SettingsError as error:
        raise ValueError(str(error)) from error
