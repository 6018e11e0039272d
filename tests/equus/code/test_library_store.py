"""Test LibraryStore: the syncs that saving a set costs, and the set that a start finds after any end of a save."""

from __future__ import annotations

import contextlib
import os
import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus.code.library import CheckSet, CodeFile, HeldSet, LibraryStore
from equus_protocol.manifest import build, read_unverified, sign
from groundwork import atomic_write

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)


class Ended(BaseException):
    """Stand in for the end of the process."""


def held(version: int, *contents: bytes) -> HeldSet:
    """Return a set of files `c0.lua`, `c1.lua` and so on."""
    files = {f"c{number}.lua": content for number, content in enumerate(contents)}
    envelope = sign(build(files, version, 0.0, 2_000_000_000.0), [KEY])
    manifest = read_unverified(envelope)
    return HeldSet(manifest, envelope, CheckSet(manifest.digest, {n: CodeFile.of(c) for n, c in files.items()}, True))


class Counting(atomic_write.Disk):
    """Counts syncs and renames; the process ends at the call of this number."""

    def __init__(self, end_at: int = 0) -> None:
        self.calls: list[str] = []
        self._end_at = end_at

    def _count(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self._end_at:
            raise Ended

    def sync(self, descriptor):
        self._count("sync")
        super().sync(descriptor)

    def rename(self, source, target):
        self._count("rename")
        super().rename(source, target)

    def sync_folder(self, folder):
        self._count(f"folder {folder.name}")
        super().sync_folder(folder)


@pytest.fixture
def disk(monkeypatch):
    """Return a function that has further writes counted."""

    def count(end_at: int = 0) -> Counting:
        counting = Counting(end_at)
        for write in (atomic_write.write_durably, atomic_write.write_all_durably):
            given = write.__defaults__[:-1]
            monkeypatch.setattr(write, "__defaults__", (*given, counting))
        return counting

    return count


FILE, OBJECTS, CURRENT = ["sync", "rename"], ["folder objects"], ["sync", "rename", "folder library"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((b"a", b"b"), (b"a", b"c"), FILE + OBJECTS + CURRENT),
        ((b"a", b"b"), (b"c", b"d"), FILE * 2 + OBJECTS + CURRENT),
        ((b"a",), (b"a", *(b"%d" % number for number in range(20))), FILE * 20 + OBJECTS + CURRENT),
        ((b"a", b"b"), (b"a", b"b"), CURRENT),
        ((b"a", b"b"), (b"b",), CURRENT),
    ],
    ids=["one changed", "two changed", "twenty new", "signed again", "one less"],
)
def test_syncs_of_a_push(tmp_path, disk, first, second, expected):
    """A push syncs each new file, their names once, and the set twice, and nothing that was there before."""
    store = LibraryStore(tmp_path)
    store.save(held(1, *first))
    counting = disk()
    store.save(held(2, *second))
    assert counting.calls == expected


def test_what_a_killed_process_has_made_becomes_durable(tmp_path, disk):
    """A file whose name was never synced becomes durable, because the next process syncs the folder before the set."""
    LibraryStore(tmp_path).save(held(1, b"a"))
    disk(3)
    with pytest.raises(Ended):
        LibraryStore(tmp_path).save(held(2, b"b"))
    counting = disk()
    LibraryStore(tmp_path).save(held(2, b"b"))
    assert counting.calls == OBJECTS + CURRENT


@pytest.mark.parametrize("is_new_process", [False, True])
@pytest.mark.parametrize("step", range(1, 9))
def test_the_end_of_the_process_at_any_step(tmp_path, disk, step, is_new_process):
    """A start after an end at any step finds the set before or the new one; the next push leaves two sets alone."""
    store = LibraryStore(tmp_path)
    store.save(held(1, b"a", b"b"))
    store.save(held(2, b"a", b"c"))
    counting = disk(step)
    with contextlib.suppress(Ended):
        (LibraryStore(tmp_path) if is_new_process else store).save(held(3, b"d", b"e"))
    counting._end_at = 0
    found = LibraryStore(tmp_path).load()
    assert found is not None and found.manifest.version == (3 if step >= 8 else 2)
    expected = (b"d", b"e") if step >= 8 else (b"a", b"c")
    assert [file.content for file in found.checks.files.values()] == list(expected)
    LibraryStore(tmp_path).save(held(4, b"f"))
    library = tmp_path / "library"
    assert sorted(os.listdir(library)) == ["current", "objects", "previous"]
    assert set(os.listdir(library / "objects")) == {CodeFile.of(each).sha256 for each in (b"f", *expected)}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"files": 3}', b'{"files": {"a": 3}}', b'{"files": {"a": {}}}']
)
def test_a_damaged_set_takes_no_good_ones_place(tmp_path, content):
    """A damaged set is replaced by the one before, and a new one is stored."""
    store = LibraryStore(tmp_path)
    store.save(held(1, b"a"))
    store.save(held(2, b"b"))
    (tmp_path / "library" / "current").write_bytes(content)
    again = LibraryStore(tmp_path)
    assert again.load().manifest.version == 1
    again.save(held(3, b"c"))
    (tmp_path / "library" / "current").write_bytes(content)
    assert LibraryStore(tmp_path).load().manifest.version == 1
    assert len(os.listdir(tmp_path / "library" / "objects")) == 2


@pytest.mark.parametrize("content", [b"", b"x", None], ids=["empty", "other bytes", "gone"])
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_push_mends_a_damaged_file(tmp_path, content, is_shared):
    """A push writes a damaged file anew, and the damaged set does not replace a good one."""
    store = LibraryStore(tmp_path)
    store.save(held(1, b"a", b"b"))
    store.save(held(2, b"a", b"c"))
    damaged = tmp_path / "library" / "objects" / CodeFile.of(b"c").sha256
    damaged.unlink() if content is None else damaged.write_bytes(content)
    again = LibraryStore(tmp_path)
    assert again.load().manifest.version == 1
    again.save(held(3, b"a", b"c" if is_shared else b"d"))
    assert LibraryStore(tmp_path).load().manifest.version == 3
    (tmp_path / "library" / "current").unlink()
    assert LibraryStore(tmp_path).load().manifest.version == (2 if is_shared else 1)


def test_a_push_after_files_were_removed(tmp_path):
    """A push after an operator removed files stores a whole set."""
    store = LibraryStore(tmp_path)
    store.save(held(1, b"a", b"b"))
    (tmp_path / "library" / "objects" / CodeFile.of(b"a").sha256).unlink()
    store.save(held(2, b"a"))
    assert LibraryStore(tmp_path).load().manifest.version == 2
    shutil.rmtree(tmp_path / "library")
    store.save(held(3, b"a"))
    assert LibraryStore(tmp_path).load().manifest.version == 3
