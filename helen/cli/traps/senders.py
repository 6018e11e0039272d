"""Remember the time of each sender of version 3, so that a copy of an old message is known, also after a restart.

A file keeps engine, boots and time of each, not when that was: a wall clock may be set, a sender's own time only grows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import msgspec
from attrs import define, field

from groundwork.atomic_write import write_durably

WINDOW = 150  # seconds: an older message is a copy of one
AT_ONCE = -1  # seconds, in the place of WINDOW for what a file keeps: nothing of the last start is taken again
SLOWER = 0.999  # how slowly a sender's clock may go: after a month of silence it is behind by more than the window
MOST_ENGINES = 10_000  # senders whose time is remembered
MOST_FILE = 2_097_152  # bytes: more than so many senders take
LARGEST = 2**31 - 1


class SendersUnreadable(Exception):
    """Says that the file of senders is damaged or can't be read; the text says how, and what follows."""


class _Kept(msgspec.Struct, array_like=True):
    engine: str
    boots: int
    time: int


_DECODER = msgspec.json.Decoder(list[_Kept])


@define
class Senders:
    """Remembers senders by their engines, those seen last behind the others. Any thread.

    `steady`: monotonic seconds; `path`: the file, None for none.
    """

    steady: Callable[[], float]
    path: Path | None = None
    is_changed: bool = False
    _seen: OrderedDict[bytes, tuple[int, int, float, int]] = field(factory=OrderedDict)  # boots, time, when, and window
    _lock: threading.Lock = field(factory=threading.Lock)

    def is_old(self, engine: bytes, boots: int, time: int) -> bool:
        """Return True for the time of an old message; remember a newer one than before."""
        with self._lock:
            now, known = self.steady(), self._seen.get(engine)
            if known is not None:
                age = round((now - known[2]) * SLOWER)
                if boots < known[0] or (boots == known[0] and time < known[1] + age - known[3]):
                    return True
            if known is None or (boots, time) > known[:2]:
                self._seen[engine] = boots, time, now, WINDOW
                self.is_changed = True
            self._seen.move_to_end(engine)
            if len(self._seen) > MOST_ENGINES:
                self._seen.popitem(last=False)
            return False

    def load(self) -> None:
        """Read the file, if there is one. Raises SendersUnreadable, and nothing is known then."""
        if self.path is None:
            return
        try:
            with self.path.open("rb") as file:
                kept = _DECODER.decode(file.read(MOST_FILE))
            found = [(bytes.fromhex(each.engine), each.boots, each.time) for each in kept[-MOST_ENGINES:]]
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else "it is damaged"
            raise SendersUnreadable(
                f"the times of senders in {self.path} can't be read ({why}): the first message of each sender is taken,"
                " however old it is"
            ) from fault
        now = self.steady()
        for engine, boots, time in found:
            if len(engine) <= 32 and 0 <= boots <= LARGEST and 0 <= time <= LARGEST:
                self._seen[engine] = boots, time, now, AT_ONCE

    def save(self) -> None:
        """Write the file if something is new. Raises OSError, and the next call tries again. Blocks."""
        with self._lock:
            if self.path is None or not self.is_changed:
                return
            kept = [_Kept(engine.hex(), boots, time) for engine, (boots, time, *_) in self._seen.items()]
            self.is_changed = False
        try:
            write_durably(self.path, msgspec.json.encode(kept))
        except OSError:
            self.is_changed = True
            raise
