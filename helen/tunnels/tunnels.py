"""Opens tunnels through the connections of agents, for callers of the API, and limits their number.

Helen carries the bytes of a tunnel and can't read them: its two ends are a program at the agent, which the host's own
policy has to allow, and whoever asked for it. docs/protocol.rst, "tunnel".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation
from equus_protocol.errors import LocalProtocolError
from equus_protocol.tunnel_streams import Tunnel, TunnelMessage, TunnelStream, TunnelStreams
from helen.agents.roster import Agent
from helen.quotas.budget import Bucket
from helen.quotas.quotas import Quota

MOST_OF_AGENT = 8  # open at once to one agent: half of what the protocol allows
MOST = 64  # open at once through this Helen: each may have two windows of bytes in memory
OF_TOKEN = 32  # of these, with all sessions of the token: no token takes the room of others
AT_ONCE = 30  # openings to one agent, and as many in a minute: each costs it a process
OPENINGS = Quota("openings", AT_ONCE, AT_ONCE, "tunnels")
ANSWER_SECONDS = 15.0  # that an agent has to start the program
LEAVE_SECONDS = 30.0  # that an agent has to take the last bytes of a caller that has gone
# The end of the sentence that begins with the agent's name, by the reason of its `close`.
WHY = {
    "denied": "lets nobody in: its policy has no [shell] with allow = true, and only a file of that machine can say so",
    "unknown-kind": "has no program for a tunnel of this kind",
    "busy": "has as many tunnels open as its policy allows, or was asked for too many: end one, or try again later",
    "full": "has no room for the recording of a session: its log says what to do",
    "failed": "can't start the program of the tunnel: its log says why",
    "connection-lost": "has gone before it answered",
    "stopping": "is stopping",
}


class TunnelRefused(Exception):
    """Report that no tunnel was opened; the text says why and what to do."""


class NotThere(TunnelRefused):
    """Report that no other Helen of the network that answers has the agent."""


class Link(Protocol):
    """Describes the part of an agent's connection that tunnels use."""

    name: str
    conversation: Conversation

    @property
    def version(self) -> int: ...

    @property
    def closing(self) -> bool: ...

    @property
    def congested(self) -> bool: ...

    def next_id(self) -> int: ...

    def send(self, message: m.Message) -> None: ...


class Tunnels:
    """Holds the tunnels of all connections. `reactor` is Twisted's; rates are counted by its clock, in seconds."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._of: dict[Link, TunnelStreams] = {}
        self._open: dict[TunnelStream, str] = {}  # with the token of each
        self._openings: dict[str, Bucket] = {}  # of agents, by name

    def __len__(self) -> int:
        """Return how many callers have a tunnel; one that only its agent has not closed is that agent's alone."""
        self._open = {stream: token for stream, token in self._open.items() if not stream.is_over}
        return len(self._open)

    def open(self, agent: Agent, kind: str, description: dict[str, str], token: str = "") -> Deferred[TunnelStream]:
        """Ask an agent for a tunnel, and return its stream once the agent has opened it; `leave` is for its end.

        `token` is the name of the caller's, empty for the operator. Fails with TunnelRefused if the agent refuses or
        does not answer; raises it if the agent can't be asked.
        """
        link = self._checked(agent, kind, token)
        message_id = link.next_id()
        blob = json.dumps(description, ensure_ascii=False).encode("utf-8", "replace")
        try:
            link.send(m.Tunnel(message_id, kind, 0, blob))
        except LocalProtocolError as error:
            raise TunnelRefused(f"{agent.name} can't be asked for a tunnel: {error}") from error
        stream = self._streams(link).add(message_id)
        self._open[stream] = token
        return _Opening(agent.name, stream, self._reactor).opened

    def leave(self, tunnel: Tunnel) -> None:
        """End a tunnel whose caller has gone: what it brought is sent if the agent takes it, for LEAVE_SECONDS."""
        tunnel.ended()
        self._reactor.callLater(LEAVE_SECONDS, tunnel.cut)

    def _checked(self, agent: Agent, kind: str, token: str) -> Any:
        """Return the agent's connection. Raises TunnelRefused if it can have no tunnel now."""
        link: Any = agent.link
        if link is None or link.closing:
            raise TunnelRefused(f"{agent.name} is not connected to this Helen: `helen agents` says since when")
        if kind not in agent.tunnels:
            raise TunnelRefused(
                f"{agent.name} knows no tunnel of the kind {kind[:40]!r}: its Equus ({agent.equus_version}) is too old,"
                " or lacks the extra `shell`"
            )
        if len(self._of.get(link, ())) >= MOST_OF_AGENT:
            raise TunnelRefused(f"{agent.name} has {MOST_OF_AGENT} tunnels open already: end one")
        if len(self) and token and list(self._open.values()).count(token) >= OF_TOKEN:
            raise TunnelRefused(f"the token {token} has {OF_TOKEN} tunnels open already: end one")
        if len(self) >= MOST:
            raise TunnelRefused(f"this Helen has {MOST} tunnels open already: wait until one ends")
        self._count(agent.name)
        return link

    def _count(self, name: str) -> None:
        now = self._reactor.seconds()
        bucket = self._openings.setdefault(name, Bucket(OPENINGS, now))
        bucket.left -= 1
        if bucket.left < 0:
            bucket.fill(now)
        if bucket.left < 0:
            bucket.left += 1
            raise TunnelRefused(f"{name} was asked for too many tunnels: {OPENINGS.sentence}. Wait a minute")

    def _streams(self, link: Link) -> TunnelStreams:
        if link not in self._of:
            soon: Callable[[Callable[[], None]], object] = lambda call: self._reactor.callLater(0, call)  # noqa: E731
            self._of[link] = TunnelStreams(
                link.conversation, link.send, lambda: not (link.congested or link.closing), soon
            )
        return self._of[link]

    # ---------------------------------------------------------------------------------------------- the connection

    def heard(self, link: Link, message: TunnelMessage) -> None:
        """Handle `bytes`, `window` or `close` of an agent."""
        if link in self._of:
            self._of[link].heard(message)

    def drained(self, link: Link) -> None:
        """Go on: the connection has written what it held."""
        if link in self._of:
            self._of[link].wake()

    def gone(self, link: Link) -> None:
        """End the tunnels of a connection that has ended."""
        streams = self._of.pop(link, None)
        if streams is not None:
            streams.over()


class _Opening:
    """Waits for the answer of an agent to one `tunnel`."""

    def __init__(self, name: str, stream: TunnelStream, reactor: Any) -> None:
        self._name, self._stream = name, stream
        self.opened: Deferred[TunnelStream] = Deferred(lambda _: stream.close("done"))
        self._is_answered = False
        self._timer = reactor.callLater(ANSWER_SECONDS, self._too_late)
        stream.on_open, stream.on_end = self._open, self._refused

    def _open(self) -> None:
        if self._answer():
            self._stream.on_end = lambda reason: None
            self.opened.callback(self._stream)

    def _refused(self, reason: str) -> None:
        if self._answer() and not self.opened.called:
            why = WHY.get(reason, f"opens no tunnel ({reason[:60]})")
            self.opened.errback(TunnelRefused(f"{self._name} {why}"))

    def _too_late(self) -> None:
        if self._answer():
            self._stream.close("done")
            self.opened.errback(TunnelRefused(f"{self._name} has not answered within {ANSWER_SECONDS:g} s"))

    def _answer(self) -> bool:
        is_first, self._is_answered = not self._is_answered, True
        if self._timer.active():
            self._timer.cancel()
        return is_first
