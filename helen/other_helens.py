"""The other Helens of a Scale0 network, as agents are told of them: whom to try when this one is gone.

They come as the document `servers` of the network's configuration: the JSON list of `servers` (docs/protocol.rst) in
base64. Every agent of version 2 is told when it comes and when the list changes. How they are tried is the agent's own
business, and whether another Helen lets them in is hers.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from twisted.logger import Logger

from equus_protocol import messages as m
from equus_protocol.codec import MAX_BLOB
from helen.house import House
from helen.roster import Agent
from helen.settings import SettingsError, address

DOCUMENT = "servers"
MOST = 64  # of one list, as the protocol has it
NOBODY = b"[]"


class OtherHelens:
    """`own` is the address of this Helen, which agents know already."""

    log = Logger()

    def __init__(self, house: House, own: str) -> None:
        self._house = house
        self._own = own
        self._blob = NOBODY

    def start(self) -> None:
        self._house.on_attached.append(self._attached)

    def stop(self) -> None:
        self._house.on_attached.remove(self._attached)

    def configured(self, document: dict[str, Any]) -> None:
        """A [ CLIENT CONFIG ]. A list that is of no use is told in the log, and the one before stays."""
        found = [each for each in document.get("documents", []) if each.get("name") == DOCUMENT]
        try:
            blob = read_list(found[0].get("content", ""), self._own) if found else NOBODY
        except ValueError as error:
            self.log.error("the document `servers` of the Scale0 network is left out: {error}", error=error)
            return
        if blob != self._blob:
            self._blob = blob
            self._house.turns.walk(self._house.roster.connected(), self._tell)

    def _attached(self, agent: Agent) -> None:
        if self._blob != NOBODY:
            self._tell(agent)

    def _tell(self, agent: Agent) -> None:
        link: Any = agent.link
        if link is not None and link.version == 2 and not link.closing:
            link.send(m.Servers(link.next_id(), self._blob))


def read_list(content: str, own: str) -> bytes:
    """The blob of `servers`, without ourselves; ValueError with a sentence if agents could make nothing of it."""
    try:
        listed = json.loads(base64.b64decode(content, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON in base64: {error}") from error
    if not isinstance(listed, list) or len(listed) > MOST:
        raise ValueError(f"it is no list of at most {MOST} servers")
    for server in listed:
        _judge(server)
    others = [server for server in listed if server["address"] != own]
    blob = json.dumps(others, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if len(blob) > MAX_BLOB:
        raise ValueError(f"it has more than {MAX_BLOB} bytes")
    return blob


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
