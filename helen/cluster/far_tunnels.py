"""Opens tunnels to agents that other Helens have, as requests of Scale0, which served_tunnels.py answers there."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from equus_protocol.tunnel_streams import Stream
from helen.agents.load_report import read_object, read_shell
from helen.cluster.network_key import NetworkKey
from helen.cluster.served_tunnels import END, MORE, PIECE, WAIT, WAIT_SECONDS
from helen.cluster.tunnel_orders import TunnelOrder
from helen.tunnels.tunnels import ANSWER_SECONDS, MOST, OF_TOKEN, NotThere, TunnelRefused
from scale0.endpoint.requests import NotAnswered

ASK_SECONDS = WAIT_SECONDS + 10.0  # that the other Helen has for one answer
TRIED_SECONDS = 30.0  # for which a request is tried again while no broker passes it on
AGAIN_SECONDS = 1.0
PASSING = (503, 504)  # codes of brokers that may be gone a moment later

Ask = Callable[..., Deferred[Sequence[bytes]]]  # ask(identity, *body, timeout=seconds)


class FarTunnels:
    """Opens tunnels at other Helens. `others()` are their identities; `wall` returns unix seconds."""

    def __init__(
        self, reactor: Any, identity: str, key: NetworkKey, ask: Ask, others: Callable[[], Iterable[str]],
        wall: Callable[[], float],
    ) -> None:  # fmt: skip
        self._reactor, self._identity, self._key, self._wall = reactor, identity, key, wall
        self._ask, self._others = ask, others
        self._open_of: Counter[str] = Counter()  # tunnels by the token of their callers

    def open(self, agent: str, kind: str, described: Mapping[str, str], token: str = "") -> Deferred[FarTunnel]:
        """Ask the others for a tunnel to an agent, one by one. Fails with TunnelRefused if none of them opens it.

        `token` is the name of the caller's, empty for the operator.
        """
        return Deferred.fromCoroutine(self._open(agent, kind, described, token))

    async def _open(self, agent: str, kind: str, described: Mapping[str, str], token: str) -> FarTunnel:
        if token and self._open_of[token] >= OF_TOKEN:
            raise TunnelRefused(f"the token {token} has {OF_TOKEN} tunnels to agents of others open already: end one")
        if self._open_of.total() >= MOST:
            raise TunnelRefused(f"this Helen has {MOST} tunnels to agents of others open already: wait until one ends")
        self._open_of[token] += 1
        ended = partial(self._ended, token)
        try:
            for other in self._others():
                number = await self._opened_at(other, agent, kind, described)
                if number is not None:
                    return FarTunnel(self._reactor, partial(self._request, other), number, ended)
        except BaseException:
            ended()
            raise
        ended()
        raise NotThere(f"{agent} is not connected to this Helen, nor to another one of its network that answers")

    def host_key(self, agent: str) -> Deferred[dict[str, str]]:
        """Return what an agent's report says of SSH (docs/protocol.rst, `shell`), by the Helen that has it; else {}."""
        return Deferred.fromCoroutine(self._host_key(agent))

    async def _host_key(self, agent: str) -> dict[str, str]:
        for other in self._others():
            try:
                answer = await self._ask(other, b"tunnel-host-key", agent.encode(), timeout=ASK_SECONDS)
            except NotAnswered:
                continue
            if len(answer) == 2 and answer[0] == b"shell":
                return read_shell(read_object(answer[1]))
        return {}

    def _request(self, other: str, *body: bytes) -> Deferred[Sequence[bytes]]:
        return self._ask(other, *body, timeout=ASK_SECONDS)

    async def _opened_at(self, other: str, agent: str, kind: str, described: Mapping[str, str]) -> bytes | None:
        """Return the id of the tunnel, None if that Helen does not have the agent. Raises TunnelRefused."""
        order = TunnelOrder(
            agent, kind, described["caller"], described["address"], self._identity, other, self._wall(),
            secrets.token_hex(16),
        )  # fmt: skip
        try:
            answer = await self._ask(other, b"tunnel", *order.signed(self._key), timeout=ANSWER_SECONDS + 5.0)
        except NotAnswered:  # it is gone, or older
            return None
        if len(answer) != 2:
            return None
        word, said = answer
        if word == b"open":
            return bytes(said)
        if said:
            raise TunnelRefused(f"{other}: {said[:500].decode('utf-8', 'replace')}")
        return None

    def _ended(self, token: str) -> None:
        self._open_of[token] -= 1
        if not self._open_of[token]:
            del self._open_of[token]


class FarTunnel:
    """Describes a tunnel at another Helen, with the methods of a TunnelStream.

    `request(word, id, ...)` asks that Helen.
    """

    log = Logger()

    def __init__(
        self, reactor: Any, request: Callable[..., Deferred[Sequence[bytes]]], number: bytes, ended: Callable[[], None]
    ) -> None:
        self.sent = self.received = 0
        self.on_end: Callable[[str], None] = lambda reason: None
        self._reactor, self._request, self._number, self._on_over = reactor, request, number, ended
        self._local: Stream | None = None
        self._waiting = bytearray()  # of the caller
        self._is_writing = self._is_paused = self._is_over = self._has_ended = self._is_choked = False
        self._unchoked: Deferred[None] | None = None

    # ---------------------------------------------------------------------------------------------- the caller

    def attach(self, local: Stream) -> None:
        """Join the caller's side, and begin to read of the other Helen."""
        if self._is_over:
            local.loseConnection()
            return
        self._local = local
        self._run(self._read())

    def read(self, data: bytes) -> None:
        """Take bytes of the caller, to be sent."""
        if self._is_over:
            return
        self._waiting += data
        if len(self._waiting) >= PIECE and self._local is not None and not self._is_paused:
            self._is_paused = True
            self._local.pauseProducing()
        self._write_soon()

    def choke(self) -> None:
        """Read no more for now: the caller takes nothing."""
        self._is_choked = True

    def unchoke(self) -> None:
        """Read again."""
        self._is_choked = False
        waiting, self._unchoked = self._unchoked, None
        if waiting is not None:
            waiting.callback(None)

    def ended(self) -> None:
        """Close the tunnel once all that the caller has brought is sent: there will be no more."""
        self._local, self._has_ended = None, True
        if not self._is_writing:
            self.close("done")

    def cut(self) -> None:
        """Close the tunnel if it is not over yet, whatever was not sent."""
        self.close("done")

    def close(self, reason: str) -> None:
        """Close the tunnel now, and tell the other Helen."""
        if not self._is_over:
            self._request(b"tunnel-close", self._number, reason.encode()).addErrback(lambda _: None)
            self._finish(reason)

    # ---------------------------------------------------------------------------------------------- the other Helen

    def _write_soon(self) -> None:
        if not self._is_writing and self._waiting:
            self._is_writing = True
            self._run(self._write())

    async def _read(self) -> None:
        while not self._is_over:
            if self._is_choked:
                self._unchoked = Deferred()
                await self._unchoked
            word, data = await self._asked(b"tunnel-read", lambda: (str(self.received).encode(),))
            if self._is_over:
                return
            if word != MORE:
                self._finish(data.decode("utf-8", "replace"))
                return
            self.received += len(data)
            if data and self._local is not None:
                self._local.write(data)

    async def _write(self) -> None:
        while self._waiting and not self._is_over:
            piece = bytes(self._waiting[:PIECE])
            word, said = await self._asked(b"tunnel-write", lambda: (str(self.sent).encode(), piece))  # noqa: B023
            if word != END:
                del self._waiting[: len(piece)]
                self.sent += len(piece)
            while word == WAIT:
                word, said = await self._asked(b"tunnel-write", lambda: (str(self.sent).encode(), b""))
            if word != MORE:
                self._finish(said.decode("utf-8", "replace"))
                return
            if self._is_paused and len(self._waiting) < PIECE and self._local is not None:
                self._is_paused = False
                self._local.resumeProducing()
        self._is_writing = False
        if self._has_ended:
            self.close("done")

    async def _asked(self, word: bytes, more: Callable[[], tuple[bytes, ...]]) -> tuple[bytes, bytes]:
        """Ask, again and again while no broker passes it on, and return the answer, `end` if there is none."""
        until = self._reactor.seconds() + TRIED_SECONDS
        while not self._is_over:
            try:
                answer = await self._request(word, self._number, *more())
            except NotAnswered as error:
                if error.code not in PASSING or error.reason == "stopped" or self._reactor.seconds() >= until:
                    break
                await deferLater(self._reactor, AGAIN_SECONDS)
            else:
                if len(answer) == 2 and answer[0] in (MORE, WAIT, END):
                    return bytes(answer[0]), bytes(answer[1])
                break
        return END, b"connection-lost"

    def _run(self, work: Any) -> None:
        running = Deferred.fromCoroutine(work)
        running.addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        self.log.failure("a tunnel to an agent of another Helen", failure)
        self.close("failed")

    def _finish(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self.unchoke()
        local, self._local = self._local, None
        if local is not None:
            local.loseConnection()
        self._on_over()
        self.on_end(reason)
