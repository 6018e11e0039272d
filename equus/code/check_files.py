"""Read a folder of checks as bytes by name: `disk.lua`, `lib/json.lua`, `tests/disk.lua`.

The contents are not looked at.
"""

import os
import stat
from pathlib import Path

from attrs import field, frozen

from equus_protocol.manifest import FILE_NAME, MAX_FILE, MAX_FILES

SUFFIX = ".lua"
_PLACES = ("", "lib/", "tests/")
# As many bytes as Helen accepts for a whole set with its tests.
MAX_BYTES = 64 * 1_048_576


class FolderError(Exception):
    """Says that a folder can't be read; the text is a sentence with its path."""


@frozen
class CheckFiles:
    """Holds the files of one folder by name; `faults` says by name why others were left out."""

    folder: Path
    files: dict[str, bytes] = field(factory=dict, repr=False)
    faults: dict[str, str] = field(factory=dict)

    @property
    def checks(self) -> dict[str, bytes]:
        """Return the sources of checks, by the name of the check."""
        return {name.removesuffix(SUFFIX): source for name, source in self.files.items() if "/" not in name}

    @property
    def libraries(self) -> dict[str, bytes]:
        """Return the sources of libraries, by the name that `require` takes."""
        return {name[4:].removesuffix(SUFFIX): text for name, text in self.files.items() if name.startswith("lib/")}

    def tests(self, check: str) -> bytes | None:
        """Return the recorded tests of a check, or None."""
        return self.files.get(f"tests/{check}{SUFFIX}")


def read_check_files(folder: Path, tests: bool = True) -> CheckFiles:
    """Read a folder of checks. Raises FolderError if it can't be read or holds too much."""
    files: dict[str, bytes] = {}
    faults: dict[str, str] = {}
    size = 0
    for name in _names(folder, tests):
        content = _read(folder, name, faults)
        if content is None:
            continue
        size += len(content)
        if len(files) >= 2 * MAX_FILES or size > MAX_BYTES:
            raise FolderError(f"{folder} holds more than {2 * MAX_FILES} files or {MAX_BYTES} bytes of Lua")
        files[name] = content
    return CheckFiles(folder, files, faults)


def _names(folder: Path, tests: bool) -> list[str]:
    found = []
    for place in _PLACES if tests else _PLACES[:2]:
        try:
            entries = sorted(os.listdir(folder / place))
        except (FileNotFoundError, NotADirectoryError) as fault:
            if not place:
                raise FolderError(f"{folder} is not a folder of checks: {fault.strerror}") from None
            continue
        except OSError as fault:
            raise FolderError(f"{folder / place} cannot be read: {fault.strerror}") from None
        found += [place + name for name in entries if name.endswith(SUFFIX) and not name.startswith((".", "#"))]
    return found


def _read(folder: Path, name: str, faults: dict[str, str]) -> bytes | None:
    if not FILE_NAME.fullmatch(name.removeprefix("tests/")):
        faults[name] = "the file is left out: its name must be NAME.lua, of letters, digits, _ - and ."
        return None
    try:
        # A pipe called x.lua must not keep us waiting for its writer.
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        faults[name] = f"the file cannot be read: {fault.strerror}"
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            faults[name] = "the file is left out: it is not a regular file"
            return None
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        faults[name] = f"the file is left out: it has more than {MAX_FILE} bytes"
        return None
    return content
