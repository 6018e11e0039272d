"""Test which side may say what and when: the table in section 7 of docs/protocol.rst against the code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from equus_protocol import messages as m
from equus_protocol.codec import FORMS, encode
from equus_protocol.conversation import Conversation, Role, State
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError
from equus_protocol.legality import LEGAL

PAGE = Path(__file__).parents[2] / "docs" / "protocol.rst"
MESSAGES = (m.Error, *(form.kind for form in FORMS))
# One of each. Answers and results fit what `ready` has asked for.
SAMPLES: dict[type, m.Message] = {
    m.Hello: m.Hello(1, "kit"), m.Error: m.Error("internal"), m.Reload: m.Reload(), m.Check: m.Check("load", 9, b"{}"),
    m.Result: m.Result(1, "load", b"{}"), m.Enrol: m.Enrol(9, "web-1", b"{}"), m.Enrolled: m.Enrolled(3, b"{}"),
    m.Ping: m.Ping(1), m.Pong: m.Pong(1), m.AskManifest: m.AskManifest(8), m.Manifest: m.Manifest(1, b"{}"),
    m.Fetch: m.Fetch(7, "f"), m.File: m.File(2, "f", b"{}"), m.Loaded: m.Loaded("d", b"{}"),
    m.Schedule: m.Schedule(2, b"[]"), m.Report: m.Report("s", 1, "load", b"{}"), m.Ack: m.Ack("s", 1),
    m.Cancel: m.Cancel(1), m.Servers: m.Servers(1, b"[]"), m.Tunnel: m.Tunnel(12, "ssh", 9, b"{}"),
    m.Bytes: m.Bytes(11, b"x"), m.Window: m.Window(11, 5), m.Close: m.Close(11, "done"),
}  # fmt: skip
WORD = {form.kind: form.command for form in FORMS} | {m.Error: b"error"}
STATES = [State.WANT_HELLO, State.READY_1, State.READY_2, State.FAILED, State.CLOSED]


def documented() -> dict[tuple[Role, State], frozenset[type]]:
    """Return the table of the page: a row for each command and sender, a column for each state, `yes` or `no`."""
    named = {(form.sender, form.command.decode()): form.kind for form in FORMS} | {(Role.HELEN, "error"): m.Error}
    legal: dict[tuple[Role, State], set[type]] = {(role, state): set() for role in Role for state in State}
    rows = re.findall(r"^(\w+) +(equus|helen)" + " +(yes|no)" * len(STATES) + "$", PAGE.read_text(), re.M)
    assert len(rows) == len(named), "the page has one line for each command of each side"
    for word, sender, *columns in rows:
        for state, may in zip(STATES, columns, strict=True):
            if may == "yes":
                legal[Role(sender), state].add(named[Role(sender), word])
    return {key: frozenset(kinds) for key, kinds in legal.items()}


def test_the_page_shows_the_table_of_the_code() -> None:
    """Section 7 of docs/protocol.rst and conversation.LEGAL are the same table."""
    assert documented() == LEGAL


def before_hello(role: Role) -> Conversation:
    ours = Conversation(role)
    exchange(ours, m.Enrol(3, "web-1", b"{}"))
    return ours


def version_1(role: Role) -> Conversation:
    ours = Conversation(role)
    exchange(ours, m.Hello(1, "kit"), m.Check("load", 1, b"{}"))
    return ours


def version_2(role: Role) -> Conversation:
    ours = Conversation(role)
    exchange(ours, m.Hello(2, "kit"), m.Schedule(1, b"[]"), m.Check("load", 1, b"{}"), m.AskManifest(1),
             m.Fetch(2, "f"), m.Enrol(3, "web-1", b"{}"), m.Tunnel(11, "ssh", 9, b"{}"))  # fmt: skip
    ours.tunnels.open[11].credit = ours.tunnels.open[11].granted = 9  # as after a `window` of each side
    return ours


def failed(role: Role) -> Conversation:
    ours = version_2(role)
    ours.feed(b"frobnicate\n")
    with pytest.raises(RemoteProtocolError):
        ours.next_message()
    return ours


def closed(role: Role) -> Conversation:
    ours = version_2(role)
    ours.hang_up()
    return ours


def exchange(ours: Conversation, *messages: m.Message) -> None:
    """Send or feed each message, by the side that may say it."""
    for message in messages:
        if type(message) in LEGAL[ours.role, State.READY_2] | LEGAL[ours.role, State.WANT_HELLO]:
            ours.send(message)
        else:
            ours.feed(encode(message, ours.role.peer))
            assert ours.next_message() == message


READY: dict[State, Callable[[Role], Conversation]] = {
    State.WANT_HELLO: before_hello, State.READY_1: version_1, State.READY_2: version_2, State.FAILED: failed,
    State.CLOSED: closed,
}  # fmt: skip


@pytest.mark.parametrize(("role", "state", "kind"), list(itertools.product(Role, State, SAMPLES)))
def test_what_we_may_say(role: Role, state: State, kind: type) -> None:
    """`send` gives bytes for a legal message, and raises LocalProtocolError for another one, without a change."""
    ours = READY[state](role)
    assert ours.state is state
    if kind in documented()[role, state]:
        assert ours.send(SAMPLES[kind]) == encode(SAMPLES[kind], role)
    else:
        before = ours.state, dict(ours.outstanding), dict(ours.requests)
        with pytest.raises(LocalProtocolError):
            ours.send(SAMPLES[kind])
        assert (ours.state, ours.outstanding, ours.requests) == before


@pytest.mark.adversary(13, 14)
@pytest.mark.parametrize(
    ("role", "state", "kind"),
    list(itertools.product(Role, [State.WANT_HELLO, State.READY_1, State.READY_2], SAMPLES)),
)
def test_what_the_peer_may_say(role: Role, state: State, kind: type) -> None:
    """`next_message` returns a legal message, and raises RemoteProtocolError for another one, after which all
    is over.
    """
    ours, sender = READY[state](role), role.peer
    message = SAMPLES[kind]
    try:
        data = encode(message, sender)
    except LocalProtocolError:
        data = encode(message, role)  # a word of our own side comes back at us
    ours.feed(data)
    if kind in documented()[sender, state]:
        assert ours.next_message() == message
    else:
        with pytest.raises(RemoteProtocolError) as failure:
            ours.next_message()
        assert failure.value.slug == expected_slug(role, state, kind)
        assert ours.state is State.FAILED


def expected_slug(role: Role, state: State, kind: type) -> str:
    """Return the slug for something illegal: docs/protocol.rst, sections 2 and 3."""
    sender, newest = role.peer, 1 if state is State.READY_1 else 2
    if WORD[kind] not in {form.command for form in FORMS if form.sender is sender and form.version <= newest}:
        return "unknown-command"
    if not any(form.kind is kind and form.sender is sender for form in FORMS):
        return "bad-line"  # the other side's `manifest` has another number of fields
    if role is Role.EQUUS:
        return "unknown-command"
    return "hello-expected" if state is State.WANT_HELLO else "hello-repeated"


@pytest.mark.parametrize("kind", sorted(LEGAL[Role.EQUUS, State.READY_2] - {m.Result}, key=lambda kind: kind.__name__))
def test_an_agent_waits_for_helens_first_word_of_version_2(kind: type) -> None:
    """An agent sends nothing of version 2 before Helen's first word of it, because a Helen of version 1 may accept
    `hello 2` (section 5).
    """
    equus = Conversation(Role.EQUUS)
    equus.send(m.Hello(2, "kit"))
    with pytest.raises(LocalProtocolError, match="before Helen has sent a command of version 2"):
        equus.send(SAMPLES[kind])
    exchange(equus, m.Schedule(1, b"[]"), m.Tunnel(11, "ssh", 9, b"{}"))
    assert equus.send(SAMPLES[kind])


def test_every_message_has_a_sample() -> None:
    """Each message has a sample, so that none is left out of these tables."""
    assert set(SAMPLES) == set(MESSAGES)
