"""Store the data of `host.state` for the broker's threads: plain data for each schedule entry, at most 64 KiB each.

Each entry has one small JSON file, replaced in one step. Nothing is synced: a power cut may lose a check's state, but
never leaves it half written.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from groundwork.disk_faults import DISK_FAULTS, UNUSABLE

STATE_LIMIT = 65_536
# Characters of a key. Check authors choose keys, and each costs a dictionary entry only.
KEY_LIMIT = 128
# Files. A schedule has at most some thousand entries; the oldest states beyond that number are deleted at start.
MOST_FILES = 20_000


class StateError(ValueError):
    """Reports data that has no room; the text is a sentence for the check."""


class StateUnread(Exception):
    """Reports data that can't be read or written for now; the text is a sentence for the check."""


class StateStore:
    """Keeps data by state key (a schedule entry), then by the check's own keys; without a folder in memory only."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._cache: dict[str, dict[str, Any]] = {}
        self._unread: set[str] = set()  # owners whose file lies on a disk that fails, and is left as it is
        self._lock = threading.Lock()
        if folder is not None:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._delete_oldest(folder)
            except OSError as fault:
                if fault.errno not in DISK_FAULTS:
                    raise  # else what can be read is read, and the rest is kept in memory

    def get(self, owner: str, key: str) -> Any:
        """Return the value of a key, or None. Raises StateUnread while the file can't be opened."""
        with self._lock:
            return self._load(owner).get(key)

    def put(self, owner: str, key: str, value: Any) -> None:
        """Store a value; None removes the key.

        Raises StateError if key or state is too long, StateUnread if the file can't be opened or written.
        """
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
            self._cache[owner] = state

    def _load(self, owner: str) -> dict[str, Any]:
        cached = self._cache.get(owner)
        if cached is None:
            cached = self._cache[owner] = self._read(owner)
            if len(self._cache) > MOST_FILES:
                oldest = next(iter(self._cache))
                del self._cache[oldest]
                self._unread.discard(oldest)
        return cached

    def _path(self, folder: Path, owner: str) -> Path:
        """Return the file of a state key. Keys come over the network, and a digest is always a safe file name."""
        return folder / f"{hashlib.sha256(owner.encode('utf-8', 'surrogateescape')).hexdigest()[:40]}.json"

    def _read(self, owner: str) -> dict[str, Any]:
        if self._folder is None:
            return {}
        try:
            document = json.loads(self._path(self._folder, owner).read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as fault:
            if fault.errno not in UNUSABLE:  # it may be sound: the next put would replace it by an empty one
                raise StateUnread(f"host.state cannot be read: {fault.strerror}") from None
            self._unread.add(owner)
            return {}  # on a disk that fails: the check starts without state, and it is kept in memory
        except ValueError:
            return {}  # damaged
        return document if isinstance(document, dict) else {}

    def _write(self, owner: str, text: str) -> None:
        if self._folder is None or owner in self._unread:
            return
        path = self._path(self._folder, owner)
        fresh = path.with_suffix(f".{os.getpid()}")
        try:
            fresh.write_text(text, encoding="ascii")
            fresh.replace(path)
        except OSError as fault:
            if fault.errno in UNUSABLE:
                return  # kept in memory: checks go on as long as the agent does
            raise StateUnread(f"host.state cannot be written: {fault.strerror}") from None

    @staticmethod
    def _delete_oldest(folder: Path) -> None:
        written: list[tuple[float, Path]] = []
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # a broker that ends may still be replacing a file
                written.append((path.lstat().st_mtime, path))
        for _, path in sorted(written)[: max(0, len(written) - MOST_FILES)]:
            with suppress(IsADirectoryError, PermissionError):  # it is none of ours
                path.unlink(missing_ok=True)
