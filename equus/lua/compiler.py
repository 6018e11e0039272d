"""Compile sources with the real Lua 5.4 compiler, and report its errors. Never runs them."""

import re

from lupa.lua54 import LuaError, LuaRuntime, LuaSyntaxError

# A goto without its label is noticed at the end of the function; the text has the line of the goto.
_LATER = re.compile(r" at line (\d+)$")
_PLACE = re.compile(r'(?:\[string "[^\n]*"\]|source):(\d+): (.*)', re.DOTALL)


class Compiler:
    """Owns one Lua state, which compiles many sources."""

    def __init__(self) -> None:
        # Without a limit of memory: reaching it can end the process. 1 MiB of source takes some 10 MiB to compile.
        self._lua = LuaRuntime(encoding=None, register_eval=False, register_builtins=False)

    def fault(self, source: bytes) -> tuple[int, str] | None:
        """Compile a source. Return the line and the text of its first error, or None."""
        try:
            self._lua.compile(source, name=b"@source", mode=b"t")
        except (LuaSyntaxError, LuaError) as fault:
            raw = fault.args[0] if fault.args else b""
            text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
            found = _PLACE.search(text)
            if found is None:
                return 1, text
            later = _LATER.search(found[2])
            return int(later[1] if later else found[1]), _LATER.sub("", found[2])
        return None
