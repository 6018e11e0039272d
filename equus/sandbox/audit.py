"""The local record of what the policy denied: one JSON line each, appended by the broker alone."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

# Two files of this size: some 10,000 denials, and no check can fill the disk by asking again.
AUDIT_BYTES = 1_048_576
# Of the arguments of a call, for an idea of what was wanted.
SHOWN_ARGUMENTS = 512


class AuditLog:
    """Appends; the file before last is given up. Without a path, denials are only counted."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.count = 0

    def denied(self, now: float, check: str, call: str, args: list[Any], text: str) -> None:
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
            # The denial itself stands in the check's result; here it is only that the record is lost.
            print(f"audit log {path}: {fault}", file=sys.stderr)
