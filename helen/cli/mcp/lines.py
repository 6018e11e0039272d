"""Carry messages of the protocol over a pair of pipes: one line of JSON each, as the transport `stdio` has it.

A line has a length at most, and too many requests without an answer hold up the next one, and all lines after it: a
program that writes without end is read no faster than it reads. The SDK's own transport has neither limit.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from attrs import define, field
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

MOST_LINE = 1_048_576  # bytes
MOST_UNANSWERED = 16  # requests


def _refusal(code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}).encode() + b"\n"


UNREADABLE = _refusal(types.PARSE_ERROR, f"a line is one message as JSON-RPC 2.0, of at most {MOST_LINE} bytes")
IN_USE = _refusal(types.INVALID_REQUEST, "a request has an id that no other unanswered one has")


@define
class Lines:
    """Reads and writes the messages of one client."""

    source: BinaryIO
    sink: BinaryIO
    _unanswered: set[Any] = field(factory=set)
    _answered: anyio.Event = field(factory=anyio.Event)
    _writing: anyio.Lock = field(factory=anyio.Lock)

    async def read_all(self, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hand over messages until the client closes its end. A line that is no message is answered with an error."""
        async with into:
            while line := await anyio.to_thread.run_sync(self._line, abandon_on_cancel=True):
                message = None if len(line) > MOST_LINE else _message_of(line)
                if message is None:
                    await self._write(UNREADABLE)
                    continue
                if await self._admit(message):
                    await into.send(SessionMessage(message))
                else:
                    await self._write(IN_USE)

    async def write_all(self, out_of: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write messages until the server ends."""
        async with out_of:
            async for each in out_of:
                await self._write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                if isinstance(each.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._settle(each.message.id)

    async def _admit(self, message: types.JSONRPCMessage) -> bool:
        """Wait until there is room for a request, which counts until it is answered, or cancelled.

        Return False for one whose id another one has: by their ids they are told apart.
        """
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))  # it gets no answer
        if not isinstance(message, types.JSONRPCRequest):
            return True
        while len(self._unanswered) >= MOST_UNANSWERED:
            await self._answered.wait()
        is_new = message.id not in self._unanswered
        self._unanswered.add(message.id)
        return is_new

    def _settle(self, name: Any) -> None:
        if isinstance(name, str | int):
            self._unanswered.discard(name)
        self._answered.set()
        self._answered = anyio.Event()

    def _line(self) -> bytes:
        """Return the next line, or the beginning of one that is too long; nothing at the end. Blocks."""
        line = self.source.readline(MOST_LINE + 1)
        rest = line
        while len(rest) > MOST_LINE and not rest.endswith(b"\n"):
            rest = self.source.readline(MOST_LINE + 1)
        return line

    async def _write(self, line: bytes) -> None:
        async with self._writing:
            await anyio.to_thread.run_sync(self._write_now, line)

    def _write_now(self, line: bytes) -> None:
        self.sink.write(line)
        self.sink.flush()


def _message_of(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, UnicodeDecodeError):
        return None
