"""Join what is said in one turn of the reactor into one write, and keep it while Helen doesn't read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_UNSENT = 64 * 1024 * 1024  # bytes that wait for a Helen that does not read


class JoinedWrites:
    """Holds what has not been written yet. `is_writable` is False while the transport has enough.

    `later` and `cancel` set and end a timer by its name; `write` hands bytes to the transport.
    """

    def __init__(
        self,
        later: Callable[[str, float, Callable[[], Any]], None],
        cancel: Callable[[str], None],
        write: Callable[[bytes], None],
    ) -> None:
        self._later, self._cancel, self._write = later, cancel, write
        self.is_writable = True
        self.size = 0  # bytes that wait
        self._parts: list[bytes] = []

    def add(self, data: bytes) -> bool:
        """Write these bytes at the end of this turn, with others; return False if too many wait already."""
        self._parts.append(data)
        self.size += len(data)
        if self.size > MAX_UNSENT:
            return False
        if self.is_writable:
            self._later("flush", 0, self.flush)
        return True

    def flush(self) -> None:
        """Write all that waits."""
        parts, self._parts, self.size = self._parts, [], 0
        if parts:
            self._write(b"".join(parts))

    def clear(self) -> None:
        """Let go of all that waits."""
        self._parts, self.size = [], 0

    def pause(self) -> None:
        """Keep everything until `resume`, because Helen reads more slowly than we write."""
        self.is_writable = False
        self._cancel("flush")

    def resume(self) -> None:
        """Write again from now on; what waits needs a `flush`."""
        self.is_writable = True
