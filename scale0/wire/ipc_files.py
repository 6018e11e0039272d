"""Removes the files of ipc endpoints when their socket is closed: libzmq leaves them, and a caller would wait there.

A file is removed only if it is the one that the socket was bound to: another process may have bound the path since.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

IPC = "ipc://"


class IpcFiles:
    """Holds the files that one socket was bound to, by path, with the device and inode of each."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[int, int]] = {}

    def note(self, endpoint: str) -> None:
        """Note the file of an endpoint that was bound; endpoints without a file are passed over."""
        path = Path(endpoint.removeprefix(IPC))
        if endpoint.startswith(IPC) and not endpoint.startswith(f"{IPC}@"):  # @: a name that is in no folder
            with contextlib.suppress(OSError):
                self._files[path.absolute()] = _identity(path)

    def remove(self) -> None:
        """Remove the files that are still ours; one on a disk that can't be written stays.

        Call it before the socket is closed: until then no other file can have the inode.
        """
        for path, identity in self._files.items():
            with contextlib.suppress(OSError):
                if _identity(path) == identity:
                    path.unlink()
        self._files.clear()


def _identity(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
