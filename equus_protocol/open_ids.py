"""Refuses messages that use an id which is open, or is not: of checks, of an agent's requests and of tunnels.

Helen chooses the ids of checks and tunnels, the agent those of its requests.
"""

from __future__ import annotations

from typing import Any

from equus_protocol import messages as m
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError
from equus_protocol.legality import ANSWERS, ASKS, OF_TUNNELS, REPLIES, REQUESTS
from equus_protocol.tunnels import KINDS as TUNNEL_KINDS
from equus_protocol.tunnels import Fault, Tunnels

MAX_CHECKS = 64  # that Helen keeps outstanding on one connection: more would only wait in the agent's own queue
MAX_CHECKS_RECEIVED = 1_024  # that an agent takes from a foreign server, which may not know our figure
MAX_REQUESTS = 64  # of an agent's manifest, fetch and enrol, unanswered: each may cost Helen a megabyte
MAX_ENROL_BLOB = 65_536  # bytes from a stranger: a token and a request for a certificate take about two thousand


class OpenIds:
    """Judge and keep ids of one connection. `outstanding` maps those of unanswered checks to their names, `requests`
    those of the agent's unanswered requests to the requests; `tunnels` has the open tunnels.
    """

    __slots__ = ("_versions", "outstanding", "requests", "tunnels")

    def __init__(self, versions: tuple[int, ...]) -> None:
        self._versions = versions  # of the protocol, that this side speaks
        self.outstanding: dict[int, str] = {}
        self.requests: dict[int, m.AskManifest | m.Fetch | m.Enrol] = {}
        self.tunnels = Tunnels()

    def note(self, message: m.Message, ours: bool) -> None:
        """Open or close the id of a message that was permitted, sent (`ours`) or received."""
        if isinstance(message, OF_TUNNELS):
            self.tunnels.note(message, ours)
        elif isinstance(message, m.Check):
            self.outstanding[message.message_id] = message.name
        elif isinstance(message, m.Result):
            del self.outstanding[message.message_id]
        elif isinstance(message, REQUESTS):
            self.requests[message.message_id] = message
        elif isinstance(message, REPLIES):
            del self.requests[message.message_id]

    def permit(self, kind: type, values: list[Any]) -> None:
        """Refuse a line of the remembered kinds that is illegal now; its blob isn't needed to tell.

        Raises RemoteProtocolError, which names the fault.
        """
        if kind is m.Result:
            message_id, name, _ = values
            if self.outstanding.get(message_id) != name:
                raise RemoteProtocolError("unknown-message-id", f"no check {name!r} is outstanding as {message_id}")
        elif kind is m.Check:
            self._permit_check(*values)
        elif kind is m.Hello:
            if values[0] not in self._versions:
                raise RemoteProtocolError("unsupported-protocol-version", f"version {values[0]} is not spoken here")
        elif kind in ASKS:
            self._permit_request(kind, values)
        elif kind in TUNNEL_KINDS:
            self._permit_tunnel(kind, values)
        elif not self._is_awaited(kind, values[0], values[1] if kind is m.File else None):
            raise RemoteProtocolError("unknown-message-id", f"{kind.__name__} {values[0]} answers no request of ours")

    def _permit_tunnel(self, kind: type, values: list[Any]) -> None:
        value = values[-2] if kind is m.Tunnel else values[-1]
        if (fault := self._tunnel_fault(kind, values[0], value, values[-1], ours=False)) is not None:
            raise RemoteProtocolError(*fault)

    def _tunnel_fault(self, kind: type, message_id: int, value: object, size: Any, ours: bool) -> Fault | None:
        if kind is m.Tunnel and message_id in self.outstanding:
            return "unknown-message-id", f"tunnel {message_id}: a check that is outstanding has this id"
        return self.tunnels.fault(kind, message_id, value, size, ours)

    def _permit_check(self, name: str, message_id: int, _: int) -> None:
        if message_id in self.outstanding or message_id in self.tunnels.open:
            raise RemoteProtocolError("unknown-message-id", f"check {name!r}: id {message_id} is still outstanding")
        if len(self.outstanding) >= MAX_CHECKS_RECEIVED:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_CHECKS_RECEIVED} checks at once")

    def _permit_request(self, kind: type, values: list[Any]) -> None:
        if kind is m.Enrol and values[-1] > MAX_ENROL_BLOB:
            raise RemoteProtocolError("blob-too-large", f"{values[-1]} bytes to enrol; {MAX_ENROL_BLOB} is the most")
        if values[0] in self.requests:
            raise RemoteProtocolError("unknown-message-id", f"request {values[0]} is still outstanding")
        if len(self.requests) >= MAX_REQUESTS:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_REQUESTS} requests at once")

    def _is_awaited(self, answer: type, message_id: int, sha256: str | None) -> bool:
        """Return True if an answer fits an open request: its kind, and for a file, its hash."""
        asked = self.requests.get(message_id)
        return type(asked) is ANSWERS[answer] and getattr(asked, "sha256", None) == sha256

    def permit_ours(self, message: m.Message) -> None:
        """Refuse a message to the peer by the same rules that `permit` applies to the peer's messages.

        Raises LocalProtocolError.
        """
        if isinstance(message, m.Check):
            if message.message_id in self.outstanding or message.message_id in self.tunnels.open:
                raise LocalProtocolError(f"check id {message.message_id} is still outstanding")
            if len(self.outstanding) >= MAX_CHECKS:
                raise LocalProtocolError(f"{MAX_CHECKS} checks are outstanding already")
        elif isinstance(message, m.Result):
            if self.outstanding.get(message.message_id) != message.name:
                raise LocalProtocolError(f"no check {message.name!r} is outstanding as {message.message_id}")
        elif isinstance(message, m.Hello):
            if message.version not in self._versions:
                raise LocalProtocolError(f"hello {message.version} is not one of {self._versions}")
        elif isinstance(message, REQUESTS):
            self._permit_our_request(message)
        elif isinstance(message, OF_TUNNELS):
            self._permit_our_tunnel(message)
        elif isinstance(message, REPLIES):
            sha256 = message.sha256 if isinstance(message, m.File) else None
            if not self._is_awaited(type(message), message.message_id, sha256):
                raise LocalProtocolError(f"{type(message).__name__} {message.message_id} answers no request")

    def _permit_our_request(self, message: m.AskManifest | m.Fetch | m.Enrol) -> None:
        if isinstance(message, m.Enrol) and len(message.blob) > MAX_ENROL_BLOB:
            raise LocalProtocolError(f"{len(message.blob)} bytes to enrol; {MAX_ENROL_BLOB} is the most")
        if message.message_id in self.requests:
            raise LocalProtocolError(f"request id {message.message_id} is still outstanding")
        if len(self.requests) >= MAX_REQUESTS:
            raise LocalProtocolError(f"{MAX_REQUESTS} requests are outstanding already")

    def _permit_our_tunnel(self, message: m.Tunnel | m.Bytes | m.Window | m.Close) -> None:
        value, size = getattr(message, "window", getattr(message, "more", 0)), len(getattr(message, "blob", b""))
        if (fault := self._tunnel_fault(type(message), message.message_id, value, size, ours=True)) is not None:
            raise LocalProtocolError(f"{fault[0]}: {fault[1]}")
