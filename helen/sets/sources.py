"""Fetch a set from where it lies: a tar archive, or a repository of git on this machine. Blocks on files and on git."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from helen.sets.check_set import claimed_version, version_order
from helen.sets.git import MOST_TEXT, git
from helen.sets.refused import SetRefused
from helen.sets.tar_reader import MOST_BYTES, read_tar

GIT = "git+file://"
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

    def tags_above(self, version: str) -> list[Source]:
        """Return the tags with a higher version, 1.2 or v1.2, the highest first. Raises SetRefused.

        There are none for an archive, nor for a branch or a commit: its operator follows that and no tags.
        """
        if not self.is_git or self.ref is None:
            return []
        text = git(["ls-remote", "--tags", f"file://{self.path}"], MOST_TEXT).decode("utf-8", "replace")
        tags = {tag["tag"]: version_order(tag["version"]) for tag in map(_TAG.search, text.splitlines()) if tag}
        if self.ref not in tags:
            return []
        above = sorted((order, tag) for tag, order in tags.items() if order > version_order(version))
        return [Source(self.path, True, tag) for _, tag in reversed(above)]

    def holds_its_version(self, files: Mapping[str, bytes]) -> bool:
        """Return whether these files of a tag are a set of the tag's version. Raises SetRefused for a spoiled set."""
        claimed = claimed_version(files)
        tag = _TAG.fullmatch(f"refs/tags/{self.ref}")
        return claimed is not None and tag is not None and version_order(tag["version"]) == version_order(claimed)


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
        git(["clone", "--quiet", "--bare", "--no-local", "--no-tags", f"file://{path}", copy], MOST_TEXT)
        git(["-C", copy, "fetch", "--quiet", f"file://{path}", f"{ref}"], MOST_TEXT)
        return git(["-C", copy, "archive", "--format=tar", "FETCH_HEAD"], MOST_BYTES)
