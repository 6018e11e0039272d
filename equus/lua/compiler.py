"""Ask the real Lua 5.4 compiler whether a source is good. It compiles and never runs."""

import re

from lupa.lua54 import LuaError, LuaRuntime, LuaSyntaxError

# A goto without its label is noticed at the end of the function, and the text says where it stands.
_LATER = re.compile(r" at line (\d+)$")
_PLACE = re.compile(r'(?:\[string "[^\n]*"\]|source):(\d+): (.*)', re.DOTALL)


class Compiler:
    """One Lua state for many sources."""

    def __init__(self) -> None:
        # No limit of memory: reaching it can end the process, and compiling 1 MiB of source takes some ten times that.
        self._lua = LuaRuntime(encoding=None, register_eval=False, register_builtins=False)

    def fault(self, source: bytes) -> tuple[int, str] | None:
        """The line and what is wrong there, or None."""
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
