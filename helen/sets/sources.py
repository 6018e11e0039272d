"""Fetch a set from where it lies: a tar archive, or a repository of git on this machine. Blocks on files and on git."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from helen.sets.check_set import version_order
from helen.sets.refused import SetRefused
from helen.sets.tar_reader import MOST_BYTES, read_tar

GIT = "git+file://"
GIT_SECONDS = 120.0
MOST_DISK = 256 * 1024 * 1024  # bytes of one file that git may write
MOST_TEXT = 1_048_576  # bytes that are read of a list of tags
_GIT_SOURCE = re.compile(r"git\+file://(?P<path>/[^@]*)(@(?P<ref>[A-Za-z0-9][A-Za-z0-9._/-]{0,199}))?")
_TAG = re.compile(r"refs/tags/(?P<tag>v?(?P<version>\d{1,9}(\.\d{1,9}){0,3}))$")


@frozen
class Source:
    """Names where a set comes from: the path of an archive, or of a repository with a tag, branch or commit."""

    path: Path
    is_git: bool = False
    ref: str | None = None

    def __str__(self) -> str:
        return f"{GIT}{self.path}{f'@{self.ref}' if self.ref else ''}" if self.is_git else str(self.path)

    def files(self) -> dict[str, bytes]:
        """Return the files that are there, by name. Raises SetRefused."""
        return read_tar(_archive(self.path, self.ref or "HEAD") if self.is_git else _read(self.path))

    def newest(self) -> Source:
        """Return the source of the newest version: of a repository its highest tag, 1.2 or v1.2. Raises SetRefused."""
        if not self.is_git or self.ref is None:
            return self
        text = _git(["ls-remote", "--tags", f"file://{self.path}"], MOST_TEXT).decode("utf-8", "replace")
        tags = [found for found in map(_TAG.search, text.splitlines()) if found is not None]
        if not tags:
            return self
        highest = max(tags, key=lambda found: version_order(found["version"]))
        return Source(self.path, True, highest["tag"])


def read_source(text: str) -> Source:
    """Return the source that a person names. Raises SetRefused for one that can't be fetched."""
    if not text.startswith(("git+", "http:", "https:", "git:", "ssh:")):
        return Source(Path(os.path.abspath(text)))
    found = _GIT_SOURCE.fullmatch(text)
    if found is None:
        raise SetRefused(
            f"{text[:200]!r} can't be fetched: give FILE.tar, or {GIT}/FOLDER@TAG of a repository on this machine; "
            "clone one that lies elsewhere first"
        )
    return Source(Path(found["path"]), True, found["ref"])


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            content: bytes | None = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SetRefused(f"{path} can't be read: {error.strerror}") from error
    if content is None or len(content) > MOST_BYTES:
        raise SetRefused(f"{path} is no archive of at most {MOST_BYTES} bytes: no set of checks is that large")
    return content


def _open_at_once(name: str, flags: int) -> int:
    """Open without waiting: a FIFO must not keep the command waiting for a writer."""
    return os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _archive(path: Path, ref: str) -> bytes:
    """Return a tar archive of one state of a repository. It is cloned first: its settings and hooks are not used."""
    with tempfile.TemporaryDirectory(prefix="helen-set-") as folder:
        copy = f"{folder}/copy.git"
        _git(["clone", "--quiet", "--bare", "--no-local", "--no-tags", f"file://{path}", copy], MOST_TEXT)
        _git(["-C", copy, "fetch", "--quiet", f"file://{path}", f"{ref}"], MOST_TEXT)
        return _git(["-C", copy, "archive", "--format=tar", "FETCH_HEAD"], MOST_BYTES)


def _git(words: list[str], most: int) -> bytes:
    """Run git with bounds, and return what it prints. Raises SetRefused."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                ["git", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=GIT_SECONDS,
                env=_environment(), preexec_fn=_bound_files,
            )  # fmt: skip
        except FileNotFoundError:
            raise SetRefused("there is no git on this machine: make FILE.tar of the set elsewhere") from None
        except subprocess.TimeoutExpired:
            raise SetRefused(f"git did not end within {GIT_SECONDS:g} s") from None
        out.seek(0)
        err.seek(0)
        printed, said = out.read(most + 1), err.read(2000).decode("utf-8", "replace").strip()
    if done.returncode:
        raise SetRefused(f"git can't read it: {said.splitlines()[-1] if said else f'it ended with {done.returncode}'}")
    if len(printed) > most:
        raise SetRefused(f"the repository has more than {most} bytes of files: no set of checks is that large")
    return printed


def _bound_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_DISK, MOST_DISK))


def _environment() -> Mapping[str, str]:
    """Return our environment without what steers git, and with what keeps it to this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_ALLOW_PROTOCOL": "file", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
