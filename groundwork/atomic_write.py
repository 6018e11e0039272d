"""Replace a file durably: after a crash or a power cut it has its old content or its new one, never a part.

    write_durably(path, content)
    write_all_durably(folder, {name: content})

The content is written to a temporary file beside the target and synced; then it takes the target's name, and the folder
is synced. All functions block: call them at the start of a process, or in a thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644
TEMPORARY = ".tmp"  # how the names of temporary files end; they begin with a dot


class Disk:
    """Make the system calls of a durable write.

    A test passes a subclass that fails at one of them, or that ends the process there.
    """

    def create(self, path: Path, mode: int) -> int:
        """Return a descriptor of a new, empty file. Raises OSError."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        os.fchmod(descriptor, mode)  # the umask may have taken bits away
        return descriptor

    def write(self, descriptor: int, content: bytes | memoryview, offset: int) -> None:
        """Write all of `content` at `offset`; after a failure the same call can be made again. Raises OSError."""
        rest = memoryview(content)
        while rest:
            written = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[written:], offset + written

    def sync(self, descriptor: int) -> None:
        """Make the content of an open file durable.

        Raises OSError. Don't call it again after a failure: the kernel may have dropped the pages, and would say yes.
        """
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give the file `source` the name `target`, in place of the file that had it. Raises OSError."""
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Make new, changed and removed names in `folder` durable. Raises OSError."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Delete a file; do nothing if it is gone already. Raises OSError."""
        path.unlink(missing_ok=True)


DISK = Disk()


def sync_folder(folder: Path) -> None:
    """Make new, changed and removed names in `folder` durable. Raises OSError."""
    DISK.sync_folder(folder)


def sync_file(path: Path) -> None:
    """Make a file or a folder durable that another program has written and closed. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes | memoryview | str, mode: int = PRIVATE, disk: Disk = DISK) -> None:
    """Replace the file `path` by one of this content and mode; text becomes UTF-8.

    Raises OSError if that fails. The temporary file is removed then, because on a full disk its room is needed. The old
    file stays unless only the last step failed, the sync of the folder.
    """
    _replace(path, content.encode() if isinstance(content, str) else content, mode, disk)
    disk.sync_folder(path.parent)


def write_all_durably(folder: Path, contents: Mapping[str, bytes], mode: int = PRIVATE, disk: Disk = DISK) -> None:
    """Replace files of a folder, by their names, and sync the folder once, also if there are none to replace.

    Raises OSError if one can't be replaced; those before it are new then, and their names may not be durable.
    """
    for name, content in contents.items():
        _replace(folder / name, content, mode, disk)
    disk.sync_folder(folder)


def _replace(path: Path, data: bytes | memoryview, mode: int, disk: Disk) -> None:
    """Replace a file by one whose content is durable; its name is so once the folder is synced."""
    temporary = temporary_name(path)
    disk.remove(temporary)  # left by a killed process that had our process id
    try:
        descriptor = disk.create(temporary, mode)
        try:
            disk.write(descriptor, data, 0)
            disk.sync(descriptor)
        finally:
            os.close(descriptor)
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise


def temporary_name(path: Path) -> Path:
    """Return the name under which this thread writes the next content of `path`; two writers never share one."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}{TEMPORARY}")


def remove_leftovers(folder: Path, disk: Disk = DISK) -> None:
    """Delete the temporary files that killed processes left in `folder`.

    Call it only while no other thread or process writes there: its temporary file would go too. Raises OSError.
    """
    for path in folder.glob(f".*{TEMPORARY}"):
        disk.remove(path)
