"""Tests tunnels to an agent of another Helen, in memory: the order, both directions, and every way in which it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from helen.cluster.far_tunnels import TRIED_SECONDS, FarTunnel, FarTunnels, NotThere
from helen.cluster.network_key import NetworkKey
from helen.cluster.served_tunnels import FULL, LOST_SECONDS, PIECE, WAIT_SECONDS, ServedTunnels
from helen.cluster.tunnel_orders import LIFE, OrderRefused, Orders, TunnelOrder
from helen.tunnels.tunnels import MOST, OF_TOKEN, TunnelRefused
from helen.web.routes.tunnels import open_here_or_there
from scale0.endpoint.requests import NotAnswered

NOW = 1_700_000_000.0
KEY = NetworkKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
OTHER_KEY = NetworkKey(Ed25519PrivateKey.from_private_bytes(b"1" * 32))
ORDER = TunnelOrder("web-1", "ssh", "token ops", "192.0.2.7", "h1", "h2", NOW, "0" * 32)


class AgentSide:
    """Stands for the TunnelStream to the agent: what came, and whether more is allowed."""

    def __init__(self) -> None:
        self.came, self.is_choked, self.reason = bytearray(), False, ""
        self.sent = self.received = 0
        self.local: Any = None
        self.on_end: Callable[[str], None] = lambda reason: None

    def attach(self, local: Any) -> None:
        self.local = local

    def read(self, data: bytes) -> None:
        self.came += data

    def choke(self) -> None:
        self.is_choked = True

    def unchoke(self) -> None:
        self.is_choked = False

    def close(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            self.local.loseConnection()
            self.on_end(reason)


class CallerSide:
    """Is the local side of the caller's Helen."""

    def __init__(self) -> None:
        self.came, self.is_paused, self.has_gone = bytearray(), False, False

    def write(self, data: bytes) -> None:
        self.came += data

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def loseConnection(self) -> None:
        self.has_gone = True


class Stage:
    """h1 asks h2, which has web-1. `broken`: what a broker answers instead of passing a request on."""

    def __init__(self, here: bool = True, refusal: str = "") -> None:
        self.clock, self.agent = Clock(), AgentSide()
        self.broken: NotAnswered | None = None
        self.notes: list[tuple[str, str, str]] = []
        self.asked: list[Sequence[bytes]] = []

        def open_at_agent(agent: Any, kind: str, described: dict[str, str]) -> Deferred[Any]:
            self.described, self.agent = described, AgentSide()
            return fail(TunnelRefused(refusal)) if refusal else succeed(self.agent)

        known = {"web-1": type("A", (), {"link": object() if here else None})()}
        roster, tunnels = type("R", (), {"agents": known})(), type("T", (), {"open": staticmethod(open_at_agent)})()
        sessions: Any = type("S", (), {"roster": roster, "tunnels": tunnels})()
        self.served = ServedTunnels(self.clock, "h2", KEY, sessions, lambda: NOW, lambda *note: self.notes.append(note))
        self.far = FarTunnels(self.clock, "h1", KEY, self.ask, lambda: ["h0", "h2"], lambda: NOW)

    def ask(self, identity: str, *body: bytes, timeout: float) -> Deferred[Sequence[bytes]]:
        self.asked.append(body)
        if identity != "h2":
            return fail(NotAnswered(404, "unknown_service"))
        if self.broken is not None:
            return fail(self.broken)
        return self.served.answer(body)

    def open(self, token: str = "") -> tuple[FarTunnel, CallerSide, list[str]]:
        found: list[Any] = []
        self.far.open("web-1", "ssh", {"caller": "token ops", "address": "192.0.2.7"}, token).addBoth(found.append)
        [tunnel] = found
        assert isinstance(tunnel, FarTunnel), tunnel
        caller, ends = CallerSide(), []
        tunnel.on_end = ends.append
        tunnel.attach(caller)
        return tunnel, caller, ends

    def why_not(self, token: str = "") -> Exception:
        found: list[Any] = []
        self.far.open("web-1", "ssh", {"caller": "token ops", "address": "192.0.2.7"}, token).addErrback(found.append)
        error: Exception = found[0].value
        return error


def test_bytes_there_and_back_and_the_end() -> None:
    """More than a piece goes each way; the agent's end comes behind its bytes, and both audits have what moved."""
    stage = Stage()
    tunnel, caller, ends = stage.open()
    assert stage.described == {"caller": "token ops by h1", "address": "192.0.2.7"}
    data = bytes(range(256)) * 3_000
    tunnel.read(data)
    assert bytes(stage.agent.came) == data
    stage.agent.local.write(data)
    assert bytes(caller.came) == data
    stage.agent.local.write(b"last")
    stage.agent.close("done")
    assert (bytes(caller.came[-4:]), caller.has_gone, ends) == (b"last", True, ["done"])
    assert (tunnel.sent, tunnel.received) == (len(data), len(data) + 4)
    assert len(stage.served) == 0
    assert [note[:2] for note in stage.notes] == [("h1", "tunnel"), ("h1", "tunnel-end")]
    assert stage.notes[0][2] == "web-1 ssh for token ops"


def test_a_caller_that_ends() -> None:
    """The bytes that it had brought are sent before, and the other Helen forgets the tunnel at once."""
    stage = Stage()
    tunnel, _, ends = stage.open()
    stage.agent.local.pauseProducing()
    tunnel.read(b"x" * PIECE + b"last")
    tunnel.ended()
    assert (ends, stage.agent.reason) == ([], "")
    stage.agent.local.resumeProducing()
    assert bytes(stage.agent.came) == b"x" * PIECE + b"last"
    assert (ends, stage.agent.reason, len(stage.served)) == (["done"], "done", 0)


def test_slow_sides_wait_for_each_other() -> None:
    """A caller that takes nothing chokes the agent; an agent that takes nothing pauses the caller."""
    stage = Stage()
    tunnel, caller, _ = stage.open()
    tunnel.choke()
    stage.agent.local.write(b"first")  # for the read that waited already
    for _ in range(FULL // PIECE):
        stage.agent.local.write(b"x" * PIECE)
    assert (stage.agent.is_choked, len(caller.came)) == (True, 5)
    tunnel.unchoke()
    assert (stage.agent.is_choked, len(caller.came)) == (False, 5 + FULL)
    stage.agent.local.pauseProducing()
    for _ in range(3):
        tunnel.read(b"y" * PIECE)
    assert (caller.is_paused, len(stage.agent.came)) == (True, PIECE)
    stage.agent.local.resumeProducing()
    assert (caller.is_paused, len(stage.agent.came)) == (False, 3 * PIECE)


def test_a_reader_that_waits_is_answered_in_time() -> None:
    """A waiting reader is answered with nothing, so that its request does not run out, and asks again."""
    stage = Stage()
    _, caller, ends = stage.open()
    before = len(stage.asked)
    for _ in range(10):
        stage.clock.advance(WAIT_SECONDS)
    assert (len(stage.asked) - before, ends) == (10, [])
    stage.agent.local.write(b"x")
    assert caller.came == b"x"


def test_a_broker_that_is_away_for_a_while() -> None:
    """Nothing is lost and nothing comes twice while a broker is away, though an answer was lost on the way."""
    stage = Stage()
    tunnel, caller, ends = stage.open()
    real, lost = stage.served.answer, []

    def lossy(body: Sequence[bytes]) -> Deferred[Sequence[bytes]]:
        """Do what is asked, and lose each second answer."""
        answer = real(body)
        lost.append(body)
        return answer if len(lost) % 2 else fail(NotAnswered(503, "no_broker"))

    stage.served.answer = lossy  # type: ignore[method-assign]
    tunnel.read(b"a" * PIECE)
    tunnel.read(b"b" * PIECE)
    stage.agent.local.write(b"c" * 10)
    stage.clock.pump([1.0] * 10)
    stage.agent.local.write(b"d" * 10)
    stage.clock.pump([1.0] * 10)
    assert bytes(stage.agent.came) == b"a" * PIECE + b"b" * PIECE
    assert bytes(caller.came) == b"c" * 10 + b"d" * 10
    stage.broken = NotAnswered(503, "no_broker")
    stage.agent.local.write(b"e")
    stage.clock.pump([1.0] * int(TRIED_SECONDS + WAIT_SECONDS + 5))
    assert ends == ["connection-lost"]
    stage.clock.advance(LOST_SECONDS)
    assert (stage.agent.reason, len(stage.served)) == ("connection-lost", 0)


def test_an_agent_that_takes_nothing_for_long() -> None:
    """The agent's Helen says so before the request runs out; the tunnel stays, and goes on where it was."""
    stage = Stage()
    tunnel, caller, ends = stage.open()
    stage.agent.local.pauseProducing()
    for _ in range(2):
        tunnel.read(b"y" * PIECE)
    for _ in range(10):
        stage.clock.advance(WAIT_SECONDS)
    assert (len(stage.agent.came), ends, caller.is_paused) == (PIECE, [], True)
    stage.agent.local.resumeProducing()
    assert (len(stage.agent.came), caller.is_paused) == (2 * PIECE, False)


def test_a_helen_that_stops_ends_it_at_once() -> None:
    """A Helen that stops ends the tunnel at once, and is not tried again."""
    stage = Stage()
    tunnel, caller, ends = stage.open()
    stage.broken = NotAnswered(503, "stopped")
    tunnel.read(b"x")
    assert (ends, caller.has_gone) == (["connection-lost"], True)


@pytest.mark.parametrize(("here", "refusal", "words"), [
    (False, "", "web-1 is not connected to this Helen, nor to another one"),
    (True, "web-1 lets nobody in", "h2: web-1 lets nobody in"),
])  # fmt: skip
def test_refusals(here: bool, refusal: str, words: str) -> None:
    """A refusal says that no Helen has the agent, or why the Helen that has it opens no tunnel."""
    stage = Stage(here, refusal)
    why = stage.why_not()
    assert str(why).startswith(words)
    assert isinstance(why, NotThere) is not here


def test_the_number_of_them_is_limited() -> None:
    """Tunnels to agents of others are limited as those to our own agents; one that has ended makes room."""
    stage = Stage()
    tunnels = [stage.open()[0] for _ in range(MOST)]
    assert "64 tunnels to agents of others open already" in str(stage.why_not())
    tunnels[0].close("done")
    stage.open()


# ------------------------------------------------------------------------------------------------ the order


def test_an_order_counts_once() -> None:
    """An order counts as it was signed, for the Helen that it names, near to its time, and only once."""
    orders = Orders("h2", KEY)
    signed = ORDER.signed(KEY)
    assert orders.read(signed, NOW + LIFE) == ORDER
    with pytest.raises(OrderRefused, match="counted before"):
        orders.read(signed, NOW)


@pytest.mark.parametrize(("parts", "now", "words"), [
    (ORDER.signed(OTHER_KEY), NOW, "not signed with the key"),
    (evolve(ORDER, to="h3").signed(KEY), NOW, "it is for h3"),
    (ORDER.signed(KEY), NOW + LIFE + 1, "61 s away"), (ORDER.signed(KEY), NOW - LIFE - 1, "61 s away"),
    ((ORDER.signed(KEY)[0].replace(b"web-1", b"web-2"), ORDER.signed(KEY)[1]), NOW, "not signed"),
    ((b"x",), NOW, "two parts"),
])  # fmt: skip
def test_orders_that_count_for_nothing(parts: Sequence[bytes], now: float, words: str) -> None:
    """Refuse orders of a broker or of a program that may only read, of an hour ago, and for another Helen."""
    with pytest.raises(OrderRefused, match=words):
        Orders("h2", KEY).read(parts, now)


@given(
    st.lists(
        st.binary(max_size=30)
        | st.sampled_from([b"tunnel", b"tunnel-read", b"tunnel-write", b"tunnel-close", b"tunnel-host-key", b"0"]),
        min_size=1,
        max_size=5,
    )
)
def test_requests_of_others_do_nothing(body: list[bytes]) -> None:
    """A request of others is answered, and opens, moves and ends nothing."""
    stage = Stage()
    tunnel, _, ends = stage.open()
    found: list[Any] = []
    stage.served.answer(body).addBoth(found.append)
    assert found[0][0] in (b"end", b"refused")
    assert (len(stage.served), ends, bytes(stage.agent.came)) == (1, [], b"")
    tunnel.close("done")


def test_a_token_has_a_share_of_the_tunnels_to_others() -> None:
    """Another token and the operator have room beside one that opens all it can; a refusal counts for nothing."""
    stage = Stage()
    tunnels = [stage.open("greedy")[0] for _ in range(OF_TOKEN)]
    for _ in range(3):
        assert "the token greedy has 32 tunnels to agents of others open already" in str(stage.why_not("greedy"))
    stage.open("other")
    stage.open()
    tunnels[0].close("done")
    stage.broken = NotAnswered(404, "unknown_service")
    assert isinstance(stage.why_not("greedy"), NotThere)
    stage.broken = None
    stage.open("greedy")
    assert "the token greedy has 32" in str(stage.why_not("greedy"))


def test_the_api_says_whose_tunnel_it_is() -> None:
    """A tunnel is a token's by its name; the operator has none, and no share."""
    stage, found = Stage(), list[Any]()
    for token in [*["greedy"] * (OF_TOKEN + 1), *[None] * (OF_TOKEN - 1)]:
        caller = SimpleNamespace(actor="token ops", token=token)
        request: Any = SimpleNamespace(caller=caller, getClientAddress=lambda: None)
        parts: Any = None  # of this Helen nothing is asked
        opening = Deferred.fromCoroutine(open_here_or_there(parts, request, stage.far, "web-1", "ssh"))
        opening.addErrback(lambda failure: failure.value).addCallback(found.append)
    refused = [at for at, each in enumerate(found) if isinstance(each, TunnelRefused)]
    assert (refused, len(found)) == ([OF_TOKEN], 2 * OF_TOKEN)


@pytest.mark.parametrize("offset", [b"", b"-1", b"x", b"\xb2", b"9" * 18, b"9" * 19, b"9" * 5_000, b"0" * 5_000])
@pytest.mark.parametrize("word", [b"tunnel-read", b"tunnel-write"])
def test_offsets_that_no_byte_has(word: bytes, offset: bytes) -> None:
    """An offset that no byte has ends the tunnel, as the other Helen has lost its way; its requests are answered."""
    stage, answers = Stage(), list[Any]()
    stage.open()
    number = next(iter(stage.served._ends))
    more = [b"data"] if word == b"tunnel-write" else []
    stage.served.answer([word, number, offset, *more]).addBoth(answers.append)
    assert [answer[0] for answer in answers] == [b"end"]
    assert (stage.agent.reason, bytes(stage.agent.came)) == ("failed", b"")


@pytest.mark.parametrize("said", [[], [b""], [b"a b"], [b"done\n"], [b"\xff"], [b"d" * 61], [b"done", b"done"]])
def test_reasons_that_no_agent_can_be_told(said: list[bytes]) -> None:
    """A line of the protocol has no place for them; the tunnel ends all the same."""
    stage, answers = Stage(), list[Any]()
    for reason in (said, [b"done"]):
        stage.open()
        number = next(iter(stage.served._ends))
        stage.served.answer([b"tunnel-close", number, *reason]).addBoth(answers.append)
        answers.append(stage.agent.reason)
    assert answers == [(b"end", b"done"), "failed", (b"end", b"done"), "done"]
    assert len(stage.served) == 0
