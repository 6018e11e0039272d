"""Tell whether a file is there, apart from not being able to look.

`Path.exists` of Python 3.14 answers False for a disk that fails and for a folder that is closed to us. A program that
then makes a new key would write it over the one that it could not see.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_there(path: Path) -> bool:
    """Return True if something lies at this path, False if nothing does. Raises OSError if that can't be told."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder; none if it is not there. Raises OSError if it can't be listed.

    `Path.glob` of Python 3.13 finds nothing then.
    """
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file, None if there is none. Raises OSError if it can't be read: it may be sound."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
