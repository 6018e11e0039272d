"""Let through what may be shown of a recorded terminal: it can draw, but never ask, copy, or send as if typed. Pure.

The recorded person chose every byte of it, and the terminal that plays it belongs to another one. A terminal answers
some sequences as if its owner had typed, and others change its title, its clipboard or its files.
"""

from __future__ import annotations

import re

MOST_HELD = 256  # characters of a sequence that is not complete yet; a longer one is dropped
# Colours, the cursor, erasing, inserting, scrolling; and of the modes those that show or hide.
_CSI = re.compile(r"\x1b\[(?:[0-9;:]*[ABCDEFGHJKLMPSTX@`adefmrsu]|(?:4|20)[hl]|\?(?:[67]|12|25|47|104[789])[hl])")
_SHORT = re.compile(r"\x1b(?:[78DEM=>]|[()][AB0])")
_WHOLE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX^_\]][^\x07\x1b\x9c]*(?:\x07|\x9c|\x1b\\)|[ -/]+[0-~]|[0-OQ-WYZ`-~\\])"
)
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f]+|[\n\r\t\b]+")
_STRING = re.compile(r"[PX^_\]]")  # begins a string that has no length
_STRING_END = re.compile(r"\x07|\x9c|\x1b\\")


class SafeScreen:
    """Filters the output of one recording, piece by piece: a sequence may begin in one and end in the next."""

    RESET = "\x1b[0m\x1b[?25h\x1b[?1049l\x1b[?7h\x1b[4l\x1b[r\x1b(B"

    def __init__(self) -> None:
        self._held = ""
        self._is_in_string = False  # everything is dropped up to its end

    def feed(self, text: str) -> str:
        """Return the part of a text that may be shown now."""
        text, self._held = self._held + text, ""
        shown, at = [], 0
        while at < len(text):
            if self._is_in_string:
                end = _STRING_END.search(text, at)
                if end is None:
                    self._held = "\x1b" if text.endswith("\x1b") else ""
                    break
                self._is_in_string, at = False, end.end()
            elif (found := _PLAIN.match(text, at)) is not None:
                shown.append(found[0])
                at = found.end()
            elif text[at] != "\x1b":
                at += 1
            else:
                piece, at = self._sequence(text, at)
                shown.append(piece)
        return "".join(shown)

    def _sequence(self, text: str, at: int) -> tuple[str, int]:
        """Return the part that may be shown of the sequence at a place, and the place behind it."""
        for allowed in (_CSI, _SHORT):
            if (found := allowed.match(text, at)) is not None:
                return found[0], found.end()
        if (found := _WHOLE.match(text, at)) is not None:
            return "", found.end()
        if at + 1 < len(text) and _STRING.match(text, at + 1):
            self._is_in_string = True
            return "", at + 2
        if len(text) - at < MOST_HELD and _is_beginning(text[at:]):
            self._held = text[at:]
            return "", len(text)
        return "", at + 1


def _is_beginning(text: str) -> bool:
    """Return True if a sequence may go on behind this text."""
    return re.fullmatch(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)", text) is not None
