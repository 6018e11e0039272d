"""Record each denial of the policy as one JSON line in a local file. The broker alone appends to it."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

# Two files of this size hold some 10,000 denials, and no check can fill the disk by repeating a denied call.
AUDIT_BYTES = 1_048_576
# Characters of a call's arguments that are recorded: enough to see what the check wanted.
SHOWN_ARGUMENTS = 512


class AuditLog:
    """Appends denials to a file, and keeps one older file of the same size. Without a path it only counts them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.count = 0

    def denied(self, now: float, check: str, call: str, args: list[Any], text: str) -> None:
        """Record one denied call. `now`: unix seconds, wall clock. A full disk is reported on stderr, never raised."""
        shown = json.dumps(args)[:SHOWN_ARGUMENTS]
        record = {"time": round(now, 3), "check": check, "call": call, "arguments": shown, "denied": text[:1024]}
        line = json.dumps(record).encode() + b"\n"
        with self._lock:
            self.count += 1
            if self._path is not None:
                self._append(self._path, line)

    @staticmethod
    def _append(path: Path, line: bytes) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if os.fstat(descriptor).st_size + len(line) > AUDIT_BYTES:
                    path.replace(path.with_name(path.name + ".1"))
                    os.close(descriptor)
                    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as fault:
            # Only the record is lost: the check's result says that the call was denied.
            print(f"audit log {path}: {fault}", file=sys.stderr)
