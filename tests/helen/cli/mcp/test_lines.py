"""Tests lines of the protocol: too long ones, lines that are no message, ids in use, and requests without end."""

from __future__ import annotations

import io
import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from helen.cli.mcp.lines import MOST_LINE, MOST_UNANSWERED, Lines


class Source(io.BytesIO):
    """Count the lines that were read."""

    read_lines = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.read_lines += 1
        return super().readline(size)


def request(number: int, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping", **more}).encode() + b"\n"


def answer(number: int) -> SessionMessage:
    return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=number, result={}))


async def heard(lines: Lines) -> list[str]:
    """Return the methods of all messages that `lines` passes on."""
    give, take = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    found = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.read_all, give)
        async with take:
            async for each in take:
                assert isinstance(each, SessionMessage)
                found.append(each.message.method)  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("line", [
    b"\n", b"nonsense\n", b"{}\n", b"[1, 2]\n", b'"text"\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n",
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}\n', b'{"jsonrpc": "2.0", "id": 1, "method": 7}\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 7}\n', request(9, x="y" * MOST_LINE),
    b"z" * (3 * MOST_LINE) + b"\n",
])  # fmt: skip
def test_a_line_that_is_no_message_is_answered_and_forgotten(line: bytes) -> None:
    """A line that is no message is answered with a parse error, and the next message is read."""
    sink = io.BytesIO()
    assert anyio.run(heard, Lines(io.BytesIO(line + request(1)), sink)) == ["ping"]
    [said] = [json.loads(each) for each in sink.getvalue().splitlines()]
    assert (said["id"], said["error"]["code"]) == (None, -32700)


def test_a_line_without_end_is_not_kept() -> None:
    """At most MOST_LINE bytes and one more of a line without end are kept, and the next line begins behind its end."""
    source = Source(b"z" * (5 * MOST_LINE + 7))
    lines = Lines(source, io.BytesIO())
    assert len(lines._line()) == MOST_LINE + 1
    assert (source.read_lines, lines._line()) == (6, b"")


def test_an_id_is_used_once_at_a_time() -> None:
    """A second request with the id of an unanswered one is refused, since their answers could not be told apart."""
    sink = io.BytesIO()
    assert anyio.run(heard, Lines(io.BytesIO(request(1) + request(1) + request(2)), sink)) == ["ping", "ping"]
    [said] = [json.loads(each) for each in sink.getvalue().splitlines()]
    assert (said["error"]["code"], said["error"]["message"]) == (
        -32600, "a request has an id that no other unanswered one has",
    )  # fmt: skip


def test_a_cancelled_request_makes_room() -> None:
    """A cancelled request gets no answer, and its id may be used again."""
    cancel = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).encode()
    odd = cancel.replace(b'{"requestId": 1}', b'{"requestId": [1]}')
    given = request(1) + odd + b"\n" + cancel + b"\n" + request(1)
    sink = io.BytesIO()
    names = ["ping", "notifications/cancelled", "notifications/cancelled", "ping"]
    assert anyio.run(heard, Lines(io.BytesIO(given), sink)) == names
    assert sink.getvalue() == b""


def test_no_more_is_read_while_nothing_is_answered() -> None:
    """No more requests are read while sixteen wait for an answer; all are answered in order later."""
    count = 60
    source, sink = Source(b"".join(map(request, range(count)))), io.BytesIO()
    assert anyio.run(_answered_late, Lines(source, sink), source, count) == count
    assert [json.loads(each)["id"] for each in sink.getvalue().splitlines()] == list(range(count))


async def _answered_late(lines: Lines, source: Source, count: int) -> int:
    give, take = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, written = anyio.create_memory_object_stream[SessionMessage](0)
    got = []

    async def hear() -> None:
        async with take:
            async for each in take:
                got.append(each)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lines.read_all, give)
            tasks.start_soon(lines.write_all, written)
            tasks.start_soon(hear)
            for number in range(count):
                while source.read_lines < min(number + MOST_UNANSWERED + 1, count) or len(got) <= number:
                    await anyio.sleep(0.001)
                await anyio.sleep(0)
                assert len(got) <= number + MOST_UNANSWERED
                assert source.read_lines <= number + MOST_UNANSWERED + 1
                await answers.send(answer(number))
                while len(lines.sink.getvalue().splitlines()) <= number:  # type: ignore[attr-defined]
                    await anyio.sleep(0.001)
            await answers.aclose()
    return len(got)
