"""Checks the wheels of an Equus that goes out with a check set, before they are signed. Pure.

Several requests may bring them, since one holds 8 MiB: Uploads keeps those that have come.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping

from attrs import define, field

from equus_protocol import pieces

MAX_WHEELS = 8  # ours, and dependencies that have to come along
MAX_BYTES = 16 * 1024 * 1024  # of all of them: agents take no more
UPLOAD_SECONDS = 600.0  # between two requests of one upload; then it is forgotten
_OURS = re.compile(r"helen_equus-(?P<version>[0-9]+(?:\.[0-9]+)*)-py3-none-any\.whl")
_ANY = re.compile(r"[A-Za-z0-9_.]+-[0-9][A-Za-z0-9_.!+]*-py3-none-any\.whl")


class NotAnEquus(Exception):
    """Says that these are no wheels that agents can take; the text says why."""


def version_of(wheels: Mapping[str, bytes]) -> str:
    """Return the version of Equus in these wheels. Raises NotAnEquus if agents could not take them."""
    if not 1 <= len(wheels) <= MAX_WHEELS:
        raise NotAnEquus(f"an Equus comes as 1 to {MAX_WHEELS} wheels")
    size = sum(map(len, wheels.values()))
    if size > MAX_BYTES:
        raise NotAnEquus(f"the wheels have {size} bytes; {MAX_BYTES} is the most that agents take")
    for name, content in wheels.items():
        if _ANY.fullmatch(name) is None:
            raise NotAnEquus(f"{name} is no wheel of pure Python (NAME-VERSION-py3-none-any.whl)")
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise NotAnEquus(f"{name} is no archive")
    ours = [found for found in map(_OURS.fullmatch, wheels) if found is not None]
    if len(ours) != 1:
        raise NotAnEquus("one of the wheels must be helen_equus-VERSION-py3-none-any.whl, VERSION of numbers and dots")
    return ours[0]["version"]


@define
class _Upload:
    pieces: dict[str, bytes] = field(factory=dict)
    changed: float = 0.0  # monotonic seconds


class Uploads:
    """Keeps the pieces of wheels that callers send in several requests, until the last one."""

    def __init__(self) -> None:
        self._by_caller: dict[str, _Upload] = {}

    def add(self, caller: str, wheels: Mapping[str, bytes], now: float) -> None:
        """Keep more of a caller's wheels or pieces. `now`: monotonic seconds. Raises NotAnEquus if it is too much."""
        self._by_caller = {
            each: upload for each, upload in self._by_caller.items() if now - upload.changed < UPLOAD_SECONDS
        }
        upload = self._by_caller.setdefault(caller, _Upload())
        upload.pieces |= wheels
        upload.changed = now
        if sum(len(content) for one in self._by_caller.values() for content in one.pieces.values()) > MAX_BYTES:
            del self._by_caller[caller]
            raise NotAnEquus(f"the wheels have more than {MAX_BYTES} bytes, the most that agents take")

    def peek(self, caller: str, wheels: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return a caller's whole wheels: those of earlier requests and these. Raises NotAnEquus if pieces lack."""
        kept = self._by_caller.get(caller, _Upload()).pieces
        try:
            return pieces.join({**kept, **wheels})
        except ValueError as error:
            raise NotAnEquus(f"{error}: send them all again") from error

    def forget(self, caller: str) -> None:
        """Forget what a caller has sent."""
        self._by_caller.pop(caller, None)
