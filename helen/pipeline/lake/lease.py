"""Keeps other processes from writing to a lake in an object store, where nothing has flock.

    LAKE/lock    {"holder": "3f0c...", "process": "host 4711", "released": false}, written anew each RENEW seconds

A lease that was not renewed for SECONDS, by the clock of the store, is over: its process has died. It is a courtesy:
two processes that start in the same moment may both take it. No result is doubled then, because an entry of a log is
written only if nobody has written one since its writer looked: the slower one fails, and looks again.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from helen.pipeline.lake.errors import LakeBusy
from helen.pipeline.lake.places import read_bytes, write_bytes
from helen.pipeline.lake.stores import filesystem, url_of

SECONDS = 60.0
RENEW = 15.0
LEAST = 1.0  # between two renewals, however short the lease


class Lease:
    """Holds the lock of a lake from its construction until `release`. Raises LakeBusy, OSError."""

    def __init__(self, folder: Path, seconds: float = SECONDS) -> None:
        self._path, self._seconds = folder / "lock", seconds
        self._holder = uuid.uuid4().hex
        self._ended = threading.Event()
        self._refuse_other(folder)
        self._write(False)
        self._thread = threading.Thread(target=self._renew, name="lease of the lake", daemon=True)
        self._thread.start()

    def is_in_place(self) -> bool:
        """Return False if the lock is gone, or another process has it. Raises OSError."""
        found = _read(self._path)
        return found is not None and found.get("holder") == self._holder

    def release(self) -> None:
        """Give the lease up, if it is still ours."""
        self._ended.set()
        self._thread.join(30.0)
        with contextlib.suppress(OSError):  # then it ends by itself
            if self.is_in_place():
                self._write(True)

    def _refuse_other(self, folder: Path) -> None:
        found = _read(self._path)
        if found is None or found.get("released") is True:
            return
        probe = folder / "lock.now"
        write_bytes(probe, self._holder.encode())  # its time is the store's own
        ago = max(0.0, _time(probe) - _time(self._path))  # it may be renewed between the two
        if ago < self._seconds:
            process = str(found.get("process", "unknown"))[:80]
            raise LakeBusy(
                f"Process {process} is writing to {url_of(folder)}. `helen pipeline run` compacts and reports by"
                " itself: stop it first if this must be done by hand. If it was killed, try again in"
                f" {self._seconds - ago:.0f} s."
            )

    def _write(self, released: bool) -> None:
        document = {
            "holder": self._holder,
            "process": f"{socket.gethostname()} {os.getpid()}",
            "released": released,
        }
        write_bytes(self._path, json.dumps(document).encode())

    def _renew(self) -> None:
        while not self._ended.wait(max(LEAST, min(RENEW, self._seconds / 4))):
            with contextlib.suppress(OSError):  # the next one may come through, and each entry is safe without
                if self.is_in_place():
                    self._write(False)


def _time(path: Path) -> float:
    store, name = filesystem(path)
    found = store.get_file_info(name).mtime
    return 0.0 if found is None else float(found.timestamp())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(read_bytes(path))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
