"""Build the Lua 5.4 that a check sees, and exchange nothing but bytes between it and Python (value_codec.py).

It is built once in the zygote and used for one check in each worker. It is not the security boundary, which is the
process: it prevents accidents and makes errors readable. lupa objects never reach Lua code, and Lua tables never
reach Python.
"""

from __future__ import annotations

import mmap
import os.path
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from lupa.lua54 import LuaError, LuaRuntime

from equus.sandbox.document import OUTPUT_LIMIT
from equus.sandbox.frames import LOG_LINE
from equus.sandbox.value_codec import decode

# Lua raises through lupa's code if it has no memory for a value that Python returns, and then hangs. So before a text
# is returned there must be room for it, its copy, and the objects that lupa makes for it.
HEADROOM = 262_144
# For a short answer an allocation from the heap is enough, which takes a tenth of the time of a mapping.
SHORT, SHORT_ROOM = 512, 65_536

_LUA = os.path.join(os.path.dirname(__file__), "lua")


class Callbacks(Protocol):
    """Declares the functions of Python that Lua code may call. No method may raise."""

    def print(self, text: bytes, length: int) -> None: ...
    def metric(self, arguments: bytes) -> bytes: ...
    def log(self, text: bytes) -> bool: ...
    def call(self, name: bytes, arguments: bytes) -> bytes: ...
    def denied(self) -> None: ...
    def now(self) -> float: ...
    def die(self, reason: bytes) -> NoReturn: ...
    def internal_error(self, fault: BaseException) -> NoReturn: ...


class LuaOutOfMemory(Exception):
    """Reports that Lua could not get more memory."""


class Interpreter:
    """Owns one Lua state. `callbacks` must be set before a check is loaded."""

    callbacks: Callbacks

    def __init__(self) -> None:
        runtime = LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            attribute_filter=_no_attributes,
        )
        # lupa's own table would give its functions to every check.
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
        with open(os.path.join(_LUA, f"{name}.lua"), "rb") as source:
            return compile_text(source.read())

    def _native(self) -> Any:
        """Return the Lua table of callbacks; each returns bytes, a number or nil, and never raises."""
        table = self._runtime.eval(b"{}")
        table[b"output_kept"], table[b"line_kept"] = OUTPUT_LIMIT, LOG_LINE
        for name in ("print", "metric", "log", "call", "denied", "now", "die"):
            table[name.encode()] = self._guarded_callback(name)
        return table

    def _guarded_callback(self, name: str) -> Callable[..., Any]:
        """Wrap a callback so that it never raises: from an exception object Lua could reach all of Python."""

        def guarded(*arguments: Any) -> Any:
            try:
                answer = getattr(self.callbacks, name)(*arguments)
                if isinstance(answer, bytes):
                    ensure_room(len(answer))
                return answer
            except MemoryError:
                self.callbacks.die(b"memory")
            except BaseException as fault:
                self.callbacks.internal_error(fault)

        return guarded

    def offer(self, name: str, capability: str) -> None:
        """Define host.NAME for checks that list this capability in their needs."""
        self._offer(name.encode(), capability.encode())

    def settle(self) -> None:
        """Collect Lua's garbage and let its table of strings grow, once all calls are offered.

        Else some run fills the table, and Lua puts all its strings into a larger one, which writes to a hundred pages.
        """
        self._runtime.execute(b"collectgarbage() for number = 1, 512 do local _ = ' ' .. number end")

    def need(self, capability: str) -> None:
        """Allow the calls of this capability to the check."""
        self._need(capability.encode())

    def seed(self, number: int) -> None:
        """Seed math.random. Workers are copies of one process, and would all see the same random numbers otherwise."""
        self._seed(number)

    def library(self, name: str, source: bytes) -> None:
        """Keep a library's source for `require`."""
        self._library(name.encode(), source)

    def compile(self, source: bytes, name: str) -> str | None:
        """Compile a source without running it. Return the error's text, or None."""
        fault = self._call_lua(self._compile, source, name.encode()).get("fault")
        return None if fault is None else str(fault)

    def load(self, source: bytes, name: str, is_known: bool = False) -> dict[str, Any]:
        """Run a check's chunk and keep its table. Return {"table": ...}, or {"fault": text, "trace": text}.

        is_known: the table is not returned, since the agent knows it.
        """
        return self._call_lua(self._load, source, name.encode(), is_known)

    def run(self, arguments: bytes) -> dict[str, Any]:
        """Call the check's run(args, host), its arguments in the form of value_codec.py.

        Return {"fault": text, "trace": text} if it failed.

        Otherwise return {"status", "summary", "length", "output", "metrics"}, each if `run` returned it; `length` is
        the uncut summary's, `output` and `metrics` say how much there was before the check itself left something out.
        """
        return self._call_lua(self._run, arguments)

    @staticmethod
    def _call_lua(function: Any, *arguments: Any) -> dict[str, Any]:
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
