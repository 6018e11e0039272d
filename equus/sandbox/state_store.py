"""What `host.state` keeps: plain data for each schedule entry, on disk, at most 64 KiB each. For the broker's threads.

One small JSON file per key, replaced in one step; nothing is synced, because a check's memory may be lost in a power
cut, but never half written.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

STATE_LIMIT = 65_536
# Of one check: names are the author's, and each costs a dictionary entry only.
KEY_LIMIT = 128
# Files. A schedule has at most some thousand entries; the oldest states beyond are forgotten at start.
MOST_FILES = 20_000


class StateError(ValueError):
    """A put that can't be kept; the text is a sentence for the check."""


class StateStore:
    """By state key (a schedule entry), then by the check's own keys. Without a folder it lasts as long as we do."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._forget_oldest(folder)

    def get(self, owner: str, key: str) -> Any:
        with self._lock:
            return self._load(owner).get(key)

    def put(self, owner: str, key: str, value: Any) -> None:
        """None removes the key."""
        if not key or len(key) > KEY_LIMIT:
            raise StateError(f"a key of host.state is a text of at most {KEY_LIMIT} characters")
        with self._lock:
            state = dict(self._load(owner))
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
            text = json.dumps(state, separators=(",", ":"))
            if len(text) > STATE_LIMIT:
                raise StateError(f"host.state of one check holds {STATE_LIMIT} bytes, and this would be {len(text)}")
            self._write(owner, text)
            self._held[owner] = state

    def _load(self, owner: str) -> dict[str, Any]:
        held = self._held.get(owner)
        if held is None:
            held = self._held[owner] = self._read(owner)
            if len(self._held) > MOST_FILES:
                del self._held[next(iter(self._held))]
        return held

    def _path(self, folder: Path, owner: str) -> Path:
        """State keys are texts of others; a digest is a file name whatever they hold."""
        return folder / f"{hashlib.sha256(owner.encode('utf-8', 'surrogateescape')).hexdigest()[:40]}.json"

    def _read(self, owner: str) -> dict[str, Any]:
        if self._folder is None:
            return {}
        try:
            document = json.loads(self._path(self._folder, owner).read_bytes())
        except (OSError, ValueError):
            return {}  # never put, or not ours: a check begins anew
        return document if isinstance(document, dict) else {}

    def _write(self, owner: str, text: str) -> None:
        if self._folder is None:
            return
        path = self._path(self._folder, owner)
        fresh = path.with_suffix(f".{os.getpid()}")
        try:
            fresh.write_text(text, encoding="ascii")
            fresh.replace(path)
        except OSError as fault:
            raise StateError(f"host.state cannot be written: {fault.strerror}") from None

    @staticmethod
    def _forget_oldest(folder: Path) -> None:
        files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in files[: max(0, len(files) - MOST_FILES)]:
            path.unlink(missing_ok=True)
