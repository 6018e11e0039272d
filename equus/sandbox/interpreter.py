"""Lua 5.4 as a check sees it, and the narrow passage between it and Python: bytes in, bytes out (values.py).

Built once in the zygote, used for one check in each worker. Not a wall: what is here keeps honest checks honest and
makes errors readable. lupa objects never reach Lua code, and Lua tables never reach Python.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Protocol

from lupa.lua54 import LuaError, LuaRuntime

from equus.sandbox.document import OUTPUT_LIMIT
from equus.sandbox.frames import LOG_LINE
from equus.sandbox.values import decode, encode

# Lua raises through lupa's code when it can't hold what Python returns, and then hangs; so before a text is returned
# there must be room for it, its copy, and what lupa makes around it.
HEADROOM = 262_144
# For a short answer a piece of the heap will do, which takes a tenth of the time of a mapping.
SHORT, SHORT_ROOM = 512, 65_536

_LUA = Path(__file__).parent / "lua"


class Outside(Protocol):
    """What Lua asks of its surroundings. No method may raise."""

    def print(self, text: bytes, length: int) -> None: ...
    def metric(self, arguments: bytes) -> bytes: ...
    def log(self, text: bytes) -> bool: ...
    def call(self, name: bytes, arguments: bytes) -> bytes: ...
    def denied(self) -> None: ...
    def now(self) -> float: ...
    def die(self, reason: bytes) -> NoReturn: ...
    def broken(self, fault: BaseException) -> NoReturn: ...


class LuaOutOfMemory(Exception):
    """Lua could not get more memory."""


class Interpreter:
    """One Lua state. `outside` must be set before a check is loaded."""

    outside: Outside

    def __init__(self) -> None:
        runtime = LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            attribute_filter=_no_attributes,
        )
        # lupa's own table would give its functions to whoever finds it.
        runtime.execute(b"python = nil")
        self._runtime = runtime
        native = self._native()
        codec = self._chunk("codec")
        environment = self._chunk("environment")
        bound = runtime.eval(
            b"function(codec, environment, check, native)"
            b"  local env, raw, plain_tostring = environment(native)"
            b"  return check(native, codec(), env, raw, plain_tostring)"
            b" end"
        )
        api = bound(codec, environment, self._chunk("check"), native)
        self._load, self._library, self._run = api[b"load"], api[b"library"], api[b"run"]
        self._compile = api[b"compile"]
        self._offer, self._need, self._seed = api[b"offer"], api[b"need"], api[b"seed"]

    def _chunk(self, name: str) -> Any:
        compile_text = self._runtime.eval(b'function(text) return assert(load(text, "=[sandbox]", "t")) end')
        return compile_text((_LUA / f"{name}.lua").read_bytes())

    def _native(self) -> Any:
        """The Lua table of what Lua may ask; each function answers bytes or a number, and never raises."""
        table = self._runtime.eval(b"{}")
        table[b"output_kept"], table[b"line_kept"] = OUTPUT_LIMIT, LOG_LINE
        for name in ("print", "metric", "log", "call", "denied", "now", "die"):
            table[name.encode()] = self._passage(name)
        return table

    def _passage(self, name: str) -> Callable[..., Any]:
        """A Python exception in Lua would be an object with a way to everything; so there is none."""

        def passage(*arguments: Any) -> Any:
            try:
                answer = getattr(self.outside, name)(*arguments)
                if isinstance(answer, bytes):
                    ensure_room(len(answer))
                return answer
            except MemoryError:
                self.outside.die(b"memory")
            except BaseException as fault:
                self.outside.broken(fault)

        return passage

    def offer(self, name: str, capability: str) -> None:
        """host.NAME exists from now on, for checks that need this capability."""
        self._offer(name.encode(), capability.encode())

    def need(self, capability: str) -> None:
        self._need(capability.encode())

    def seed(self, number: int) -> None:
        """Workers are copies of one process: without a seed of its own each would see the same random numbers."""
        self._seed(number)

    def library(self, name: str, source: bytes) -> None:
        self._library(name.encode(), source)

    def compile(self, source: bytes, name: str) -> str | None:
        """Why this is no Lua, or None."""
        fault = self._bytes(self._compile, source, name.encode()).get("fault")
        return None if fault is None else str(fault)

    def load(self, source: bytes, name: str) -> dict[str, Any]:
        """{"table": ...}, or {"fault": text, "trace": text}."""
        return self._bytes(self._load, source, name.encode())

    def run(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """{"status", "summary", "length"} as far as there are any, or {"fault": text, "trace": text}."""
        return self._bytes(self._run, encode(arguments))

    @staticmethod
    def _bytes(function: Any, *arguments: Any) -> dict[str, Any]:
        try:
            return decode(function(*arguments)) or {}
        except (MemoryError, LuaError) as fault:
            if isinstance(fault, MemoryError) or b"not enough memory" in _message(fault):
                raise LuaOutOfMemory from None
            return {"fault": _message(fault), "trace": b""}


def _message(fault: BaseException) -> bytes:
    text = fault.args[0] if fault.args else b""
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")


def _no_attributes(_object: Any, _name: Any, _setting: bool) -> NoReturn:
    raise AttributeError("not from Lua")


def ensure_room(length: int) -> None:
    """Raise MemoryError unless the address space has room for a text of this length and its copy in Lua."""
    if length <= SHORT:
        bytearray(SHORT_ROOM)
        return
    try:
        mmap.mmap(-1, 2 * length + HEADROOM).close()
    except OSError:
        raise MemoryError from None
