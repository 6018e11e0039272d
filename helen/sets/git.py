"""Run git on repositories of this machine, with bounds, and without the settings of the person who runs it. Blocks.

A line ending or a filter of the operator's configuration would change bytes that an author has signed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Mapping

from groundwork.counts import count
from helen.sets.refused import SetRefused

GIT_SECONDS = 120.0
MOST_DISK = 256 * 1024 * 1024  # bytes of one file that git may write
MOST_TEXT = 1_048_576  # bytes that are read of a list of tags, or of settings


def git(words: list[str], most: int) -> bytes:
    """Run git, and return the bytes that it prints, at most so many. Raises SetRefused."""
    with tempfile.NamedTemporaryFile(prefix="helen-git-", suffix=".config") as settings:
        settings.write(_settings())
        settings.flush()
        status, printed, said = _run(words, most, {"GIT_CONFIG_GLOBAL": settings.name, "GIT_CONFIG_NOSYSTEM": "1"})
    if status:
        raise SetRefused(f"git can't read it: {said or f'it ended with {status}'}")
    if len(printed) > most:
        raise SetRefused(f"git prints more than {count(most, 'byte')} of it: no set of checks is that large")
    return printed


def _settings() -> bytes:
    """Return the only settings that git gets: no attributes of the operator, and the repositories that they call safe.

    Git refuses a repository of another person unless the operator has named it so. It looks for that in no argument,
    when it reads a repository for another git, but in a file alone.
    """
    _, printed, _ = _run(["config", "--null", "--get-all", "safe.directory"], MOST_TEXT, {})
    safe = [each.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for each in printed.split(b"\0")[:-1]]
    lines = [b'directory = "%s"\n' % each for each in safe if b"\n" not in each]
    return b"[core]\nattributesFile = /dev/null\n[safe]\n" + b"".join(lines)


def _run(words: list[str], most: int, settings: Mapping[str, str]) -> tuple[int, bytes, str]:
    """Return the exit status of git, what it prints, up to a byte more than `most`, and its complaint."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                ["git", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=GIT_SECONDS,
                cwd="/", env={**_environment(), **settings}, preexec_fn=_bound_files,
            )  # fmt: skip
        except FileNotFoundError:
            raise SetRefused("there is no git on this machine: make FILE.tar of the set elsewhere") from None
        except subprocess.TimeoutExpired:
            raise SetRefused(f"git did not end within {GIT_SECONDS:g} s") from None
        out.seek(0)
        err.seek(0)
        said = err.read(2000).decode("utf-8", "replace").strip().splitlines()
        fatal = [line for line in said if line.startswith("fatal: ")]  # advice of several lines may follow
        return done.returncode, out.read(most + 1), (fatal or said[-1:] or [""])[0]


def _bound_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_DISK, MOST_DISK))


def _environment() -> dict[str, str]:
    """Return our environment without what steers git, and with what keeps it to this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_ALLOW_PROTOCOL": "file", "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"
    }  # fmt: skip
