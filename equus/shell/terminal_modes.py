"""Set the modes of a new terminal as the client's own terminal has them: its keys, its echo, UTF-8. RFC 4254, 8."""

from __future__ import annotations

import termios
from collections.abc import Iterable

from twisted.conch.ttymodes import TTYMODES

_INPUT, _CONTROLS = 0, 6  # places in what tcgetattr returns
_IUTF8, _IUTF8_FLAG = 42, 0o40000  # RFC 8160, and asm-generic/termbits.h; neither Twisted nor termios has them
_SPEEDS = frozenset({"ISPEED", "OSPEED"})  # a pseudoterminal has none
_NO_KEY, _DISABLED = 255, b"\0"  # how SSH and Linux write that no key has a function


def set_modes(terminal: int, modes: Iterable[tuple[int, int]]) -> None:
    """Set the modes of a terminal (a descriptor), each an opcode and its argument; those that it lacks are passed over.

    Raises termios.error if it is no terminal.
    """
    state = termios.tcgetattr(terminal)
    for opcode, value in modes:
        known = (_INPUT, _IUTF8_FLAG) if opcode == _IUTF8 else TTYMODES.get(opcode)
        if isinstance(known, tuple):
            _set_flag(state, *known, bool(value))
        elif known is not None and known not in _SPEEDS:
            place = getattr(termios, known, None)
            if place is not None and value <= _NO_KEY:
                state[_CONTROLS][place] = _DISABLED if value == _NO_KEY else bytes([value])
    termios.tcsetattr(terminal, termios.TCSANOW, state)


def _set_flag(state: list[int], place: int, flag: int | str, is_on: bool) -> None:
    bit = flag if isinstance(flag, int) else getattr(termios, flag, 0)
    state[place] = state[place] | bit if is_on else state[place] & ~bit
