"""Serves tunnels to this Helen's agents to the other Helens of the network, as requests of Scale0.

    tunnel ORDER SIGNATURE         opens one: `open` and its id, or `refused` and a sentence
    tunnel-read ID OFFSET          `more` and bytes from that offset on, as soon as there are any, or `end` and a reason
    tunnel-write ID OFFSET BYTES   `more` once the agent takes more, `wait` if it does not for long (the bytes are
                                   taken; ask again without any), or `end` and a reason
    tunnel-close ID REASON         `end`
    tunnel-host-key AGENT          `shell` and what the agent's report says of SSH, or `refused`

Each direction has one request on its way, so a reader that is slow stops its writer, and offsets let a request come
twice after a broker was lost. The id is a secret of the two Helens, but brokers see it: SSH at both ends of the tunnel
is what keeps its bytes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed

from equus_protocol.tunnel_streams import TunnelStream
from helen.cluster.network_key import NetworkKey
from helen.cluster.tunnel_orders import OrderRefused, Orders, TunnelOrder
from helen.sessions.session_service import SessionService
from helen.tunnels.tunnels import TunnelRefused

PIECE = 131_072  # bytes of one answer, and of one request
FULL = 2 * PIECE  # bytes that wait for the other Helen, from which on the agent is allowed no more
WAIT_SECONDS = 20.0  # that a read may wait for bytes
MOST_DIGITS = 18  # of an offset
LOST_SECONDS = 60.0  # without a read: the other Helen is gone
REASON = re.compile(rb"[a-z0-9-]{1,60}")  # of a close: the agent is told, and other texts have no place on its line
MORE, WAIT, END = b"more", b"wait", b"end"

Answer = Sequence[bytes]
Note = Callable[[str, str, str], None]


class ServedTunnels:
    """Holds the tunnels that other Helens have asked for. `note(actor, action, subject)` writes into the audit."""

    def __init__(
        self, reactor: Any, identity: str, key: NetworkKey, sessions: SessionService, wall: Callable[[], float],
        note: Note,
    ) -> None:  # fmt: skip
        self._reactor, self._sessions, self._wall, self._note = reactor, sessions, wall, note
        self._orders = Orders(identity, key)
        self._ends: dict[bytes, FarEnd] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def answer(self, body: Sequence[bytes]) -> Deferred[Answer]:
        """Answer one request."""
        word, *parts = body
        if word == b"tunnel":
            return Deferred.fromCoroutine(self._open(parts))
        if word == b"tunnel-host-key" and parts:
            return succeed(self._host_key(parts[0].decode("utf-8", "replace")))
        end = self._ends.get(parts[0]) if parts else None
        if end is None:
            return succeed((END, b"connection-lost"))
        if word == b"tunnel-read" and len(parts) == 2 and _is_offset(parts[1]):
            return end.give(int(parts[1]))
        if word == b"tunnel-write" and len(parts) == 3 and _is_offset(parts[1]):
            return end.take(int(parts[1]), parts[2])
        is_word = word == b"tunnel-close" and len(parts) == 2 and REASON.fullmatch(parts[1])
        end.hang_up(parts[1].decode() if is_word else "failed")
        return succeed((END, b"done"))

    async def _open(self, parts: Sequence[bytes]) -> Answer:
        try:
            order = self._orders.read(parts, self._wall())
            agent = self._sessions.roster.agents.get(order.agent)
            if agent is None or agent.link is None:
                return b"refused", b""
            described = {"caller": f"{order.caller} by {order.asker}", "address": order.address}
            stream = await self._sessions.tunnels.open(agent, order.kind, described)
        except (OrderRefused, TunnelRefused) as refused:
            return b"refused", str(refused).encode("utf-8", "replace")
        number = secrets.token_hex(16).encode()
        self._ends[number] = FarEnd(self._reactor, stream, lambda: self._forget(number, order, stream))
        self._note(order.asker, "tunnel", f"{order.agent} {order.kind} for {order.caller}")
        stream.attach(self._ends[number])
        return b"open", number

    def _host_key(self, name: str) -> Answer:
        """Return what an agent that is connected here has said of its SSH host key."""
        agent = self._sessions.roster.agents.get(name)
        if agent is None or agent.link is None:
            return b"refused", b""
        return b"shell", json.dumps(agent.shell).encode()

    def _forget(self, number: bytes, order: TunnelOrder, stream: TunnelStream) -> None:
        del self._ends[number]
        moved = f"{stream.sent} bytes there, {stream.received} back"
        self._note(order.asker, "tunnel-end", f"{order.agent} {order.kind} for {order.caller}: {moved}")


class FarEnd:
    """Serves the other Helen's side of a tunnel: a `Stream` of equus_protocol.tunnel_streams."""

    def __init__(self, reactor: Any, stream: TunnelStream, forget: Callable[[], None]) -> None:
        self._reactor, self._stream, self._forget = reactor, stream, forget
        self._waiting, self._given = bytearray(), 0  # for the other Helen, and the offset of its first byte
        self._taken = 0  # bytes of the other Helen
        self._is_paused = False
        self._reader: Deferred[Answer] | None = None
        self._writer: Deferred[Answer] | None = None
        self._reason: str | None = None  # of the end
        self._read_timer: Any = None
        self._write_timer: Any = None
        self._lost = reactor.callLater(LOST_SECONDS, self._expire)
        stream.on_end = self._ended

    # ---------------------------------------------------------------------------------------------- the other Helen

    def give(self, offset: int) -> Deferred[Answer]:
        """Return bytes from an offset on, at once or when there are any. The other Helen has all that are before it."""
        self._answer_reader()
        self._lost.reset(LOST_SECONDS)
        if not self._given <= offset <= self._given + len(self._waiting):
            self.close("failed")
            return succeed((END, b"failed"))
        del self._waiting[: offset - self._given]
        self._given = offset
        if not self._waiting and self._reason is not None:
            return succeed(self._over())
        if len(self._waiting) < FULL:
            self._stream.unchoke()
        if self._waiting:
            return succeed((MORE, bytes(self._waiting[:PIECE])))
        self._reader = Deferred(lambda _: self._answer_reader())
        self._read_timer = self._reactor.callLater(WAIT_SECONDS, self._answer_reader)
        return self._reader

    def take(self, offset: int, data: bytes) -> Deferred[Answer]:
        """Take bytes for the agent, and answer when it takes more; those that have come before are left out."""
        self._answer_writer(WAIT)
        if self._reason is not None:
            return succeed((END, self._reason.encode()))
        if offset > self._taken or len(data) > PIECE:
            self.close("failed")
            return succeed((END, b"failed"))
        fresh = data[self._taken - offset :]
        self._taken += len(fresh)
        if fresh:
            self._stream.read(fresh)
        if not self._is_paused:
            return succeed((MORE, b""))
        self._writer = Deferred(lambda _: self._answer_writer(WAIT))
        self._write_timer = self._reactor.callLater(WAIT_SECONDS, self._answer_writer, WAIT)
        return self._writer

    def close(self, reason: str) -> None:
        """Close the tunnel. Frames that wait for the other Helen are dropped."""
        self._waiting.clear()
        self._stream.close(reason)
        self._answer_reader()

    def hang_up(self, reason: str) -> None:
        """Close the tunnel, and forget it: the other Helen asks no more."""
        self.close(reason)
        self._over()

    def _expire(self) -> None:
        self.close("connection-lost")
        self._forget()

    # ---------------------------------------------------------------------------------------------- the agent

    def write(self, data: bytes) -> None:
        """Keep bytes of the agent until the other Helen takes them."""
        self._waiting += data
        if len(self._waiting) >= FULL:
            self._stream.choke()
        self._answer_reader()

    def pauseProducing(self) -> None:
        """Let the other Helen wait with more bytes."""
        self._is_paused = True

    def resumeProducing(self) -> None:
        """Take more bytes of the other Helen."""
        self._is_paused = False
        self._answer_writer(MORE)

    def loseConnection(self) -> None:
        """Do nothing: `_ended` comes behind it."""

    def _ended(self, reason: str) -> None:
        self._reason = reason[:60]
        self._answer_writer(END, self._reason.encode())
        if self._lost.active():
            self._lost.reset(LOST_SECONDS)  # for the last read
        self._answer_reader()

    def _answer_reader(self) -> None:
        """Answer the read that waits, with what there is."""
        reader, self._reader = self._reader, None
        _cancel(self._read_timer)
        if reader is None or reader.called:
            return
        if self._waiting or self._reason is None:
            reader.callback((MORE, bytes(self._waiting[:PIECE])))
        else:
            reader.callback(self._over())

    def _answer_writer(self, word: bytes, said: bytes = b"") -> None:
        writer, self._writer = self._writer, None
        _cancel(self._write_timer)
        if writer is not None and not writer.called:
            writer.callback((word, said))

    def _over(self) -> Answer:
        """Return the answer of the end, which is the last one: this end is forgotten."""
        assert self._reason is not None
        if self._lost.active():
            self._lost.cancel()
            self._forget()
        return END, self._reason.encode()


def _is_offset(text: bytes) -> bool:
    return text.isdigit() and len(text) <= MOST_DIGITS


def _cancel(timer: Any) -> None:
    if timer is not None and timer.active():
        timer.cancel()
