"""Tests tunnels of Helen in memory: who is asked, how many, and each answer that an agent can give."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.tunnel_end import WINDOW
from equus_protocol.tunnel_streams import TunnelStream
from equus_protocol.tunnels import MAX_FRAME
from helen.agents.roster import Agent
from helen.tunnels.tunnels import (
    ANSWER_SECONDS,
    LEAVE_SECONDS,
    MOST,
    MOST_OF_AGENT,
    OF_TOKEN,
    OPENINGS,
    TunnelRefused,
    Tunnels,
)


class Link:
    """Is a connection of version 2, and keeps what was sent on it."""

    closing, congested, version, address = False, False, 2, "192.0.2.1"

    def __init__(self, name: str) -> None:
        self.name, self.said = name, []
        self.conversation = Conversation(Role.HELEN)
        self.conversation.feed(b"hello 2 kit\n")
        self.conversation.next_message()
        self._last = 0

    def next_id(self) -> int:
        self._last += 1
        return self._last

    def send(self, message: m.Message) -> None:
        self.conversation.send(message)
        self.said.append(message)


class Caller:
    """Is the local side of a tunnel, which takes what comes."""

    def write(self, data: bytes) -> None:
        """Take it."""

    pauseProducing = resumeProducing = loseConnection = lambda self: None


class Stage:
    def __init__(self) -> None:
        self.clock = Clock()
        self.tunnels = Tunnels(self.clock)

    def agent(self, name: str = "web-1") -> Agent:
        link: Any = Link(name)
        return Agent(name, link=link, tunnels=("ssh",), equus_version="equus/9")

    def hear(self, agent: Agent, data: bytes) -> None:
        link: Any = agent.link
        link.conversation.feed(data)
        while (message := link.conversation.next_message()) is not None:
            self.tunnels.heard(link, message)
        self.clock.advance(0)

    def open(self, agent: Agent, token: str = "") -> list[Any]:
        """Return a list that gets the stream once it is open, or the exception."""
        found: list[Any] = []
        opening: Deferred[TunnelStream] = self.tunnels.open(agent, "ssh", {"caller": "operator"}, token)
        opening.addCallbacks(found.append, lambda failure: found.append(failure.value))
        return found


def said(agent: Agent) -> list[m.Message]:
    link: Any = agent.link
    return link.said


def test_a_tunnel_is_open_with_the_first_window() -> None:
    """The agent may send nothing before the caller's side is there, which allows it a window."""
    stage, agent = Stage(), Stage().agent()
    found = stage.open(agent)
    assert said(agent) == [m.Tunnel(1, "ssh", 0, b'{"caller": "operator"}')]
    assert found == []
    stage.hear(agent, b"window 1 500\n")
    assert isinstance(found[0], TunnelStream)
    stage.clock.advance(ANSWER_SECONDS + 1)
    assert len(stage.tunnels) == 1


@pytest.mark.parametrize(("reason", "words"), [
    ("denied", "web-1 lets nobody in: its policy has no [shell]"), ("busy", "web-1 has as many tunnels open"),
    ("unknown-kind", "web-1 has no program"), ("failed", "web-1 can't start"),
    ("tired", "web-1 opens no tunnel (tired)"),
])  # fmt: skip
def test_an_agent_that_refuses(reason: str, words: str) -> None:
    """A refusal has a sentence for each reason, one of other makers too; the id is free again."""
    stage, agent = Stage(), Stage().agent()
    found = stage.open(agent)
    stage.hear(agent, f"close 1 {reason}\n".encode())
    assert isinstance(found[0], TunnelRefused)
    assert str(found[0]).startswith(words)
    assert said(agent)[1:] == [m.Close(1, reason)]
    assert len(stage.tunnels) == 0


def test_an_agent_that_does_not_answer_and_one_that_goes() -> None:
    """A caller is told that an agent does not answer or has gone; a late `window` opens nothing."""
    stage, agent = Stage(), Stage().agent()
    found = stage.open(agent)
    stage.clock.advance(ANSWER_SECONDS)
    assert "has not answered within 15 s" in str(found[0])
    stage.hear(agent, b"window 1 500\n")
    stage.hear(agent, b"close 1 done\n")
    assert len(found) == 1
    found = stage.open(agent)
    link: Any = agent.link
    stage.tunnels.gone(link)
    assert str(found[0]) == "web-1 has gone before it answered"


def test_a_caller_that_hangs_up_while_the_agent_thinks() -> None:
    """The tunnel is closed, and what the agent answers is passed over."""
    stage, agent = Stage(), Stage().agent()
    opening = stage.tunnels.open(agent, "ssh", {})
    opening.addErrback(lambda _: None)
    opening.cancel()
    assert said(agent)[1:] == [m.Close(1, "done")]
    stage.hear(agent, b"window 1 500\nclose 1 done\n")
    assert len(stage.tunnels) == 0


def test_who_can_not_be_asked() -> None:
    """An agent that is away or whose report names no such kind (an older one) is sent nothing, so
    nothing is illegal.
    """
    stage = Stage()
    away, old = Agent("web-2"), stage.agent("web-3")
    old.tunnels = ()
    for agent, words in ((away, "is not connected to this Helen"), (old, "its Equus (equus/9) is too old")):
        with pytest.raises(TunnelRefused) as refused:
            stage.tunnels.open(agent, "ssh", {})
        assert words in str(refused.value)
    assert said(old) == []


def test_limits() -> None:
    """One tunnel too many to one agent or in all is refused; openings come back with the time."""
    stage = Stage()
    agents = [stage.agent(f"web-{number}") for number in range(MOST // MOST_OF_AGENT + 1)]
    for agent in agents[:-1]:
        for _ in range(MOST_OF_AGENT):
            stage.open(agent)
    with pytest.raises(TunnelRefused, match="web-0 has 8 tunnels open already"):
        stage.open(agents[0])
    with pytest.raises(TunnelRefused, match="this Helen has 64 tunnels open already"):
        stage.open(agents[-1])
    stage = Stage()
    agent = stage.agent()
    for number in range(1, OPENINGS.most + 1):
        stage.open(agent)
        stage.hear(agent, b"close %d busy\n" % number)
    for _ in range(1_000):
        with pytest.raises(TunnelRefused, match="30 tunnels at once, then 30 a minute"):
            stage.open(agent)
    stage.clock.advance(2.1)
    stage.open(agent)


def test_a_token_has_a_share_of_the_tunnels() -> None:
    """Another token and the operator have room beside one that opens all it can."""
    stage = Stage()
    agents = [stage.agent(f"web-{number}") for number in range(OF_TOKEN // MOST_OF_AGENT + 1)]
    for number in range(OF_TOKEN):
        stage.open(agents[number // MOST_OF_AGENT], "greedy")
    with pytest.raises(TunnelRefused, match="the token greedy has 32 tunnels open already"):
        stage.open(agents[-1], "greedy")
    stage.open(agents[-1], "other")
    stage.open(agents[-1])
    stage.hear(agents[0], b"close 1 done\n")
    stage.open(agents[-1], "greedy")
    assert len(stage.tunnels) == OF_TOKEN + 2


def test_an_agent_that_keeps_its_tunnels() -> None:
    """An agent that takes no byte of a caller and answers no `close` holds none of the places that all agents share."""
    stage = Stage()
    agents = [stage.agent(f"web-{number}") for number in range(MOST // MOST_OF_AGENT)]
    streams: list[TunnelStream] = []
    for agent in agents:
        for number in range(1, MOST_OF_AGENT + 1):
            found = stage.open(agent)
            stage.hear(agent, b"window %d 1\n" % number)
            streams.append(found[0])
    for stream in streams:
        stream.attach(Caller())
        stream.read(b"SSH-2.0-people\r\n")
    stage.clock.advance(0)
    for stream in streams:
        stage.tunnels.leave(stream)
    stage.clock.advance(LEAVE_SECONDS - 1.0)
    assert len(stage.tunnels) == MOST
    allowed = [each for each in said(agents[0]) if isinstance(each, m.Window)]
    for _ in range(WINDOW // MAX_FRAME):
        stage.hear(agents[0], b"bytes 1 %d\n%b\n" % (MAX_FRAME, b"x" * MAX_FRAME))
    assert [each for each in said(agents[0]) if isinstance(each, m.Window)] == allowed, "nobody takes more of it"
    stage.clock.advance(1.0)
    assert len(stage.tunnels) == 0
    with pytest.raises(TunnelRefused, match="web-0 has 8 tunnels open already"):
        stage.open(agents[0])
    stage.open(stage.agent("web-99"))


def test_a_caller_that_goes_in_order() -> None:
    """The caller's last bytes are sent, then the end; the time for that ends nothing later."""
    stage, agent = Stage(), Stage().agent()
    stream = stage.open(agent)
    stage.hear(agent, b"window 1 500\n")
    stream[0].read(b"bye")
    stage.tunnels.leave(stream[0])
    stage.clock.advance(0)
    assert said(agent)[-2:] == [m.Bytes(1, b"bye"), m.Close(1, "done")]
    stage.clock.advance(LEAVE_SECONDS)
    assert said(agent)[-1:] == [m.Close(1, "done")]
    assert len(stage.tunnels) == 0
