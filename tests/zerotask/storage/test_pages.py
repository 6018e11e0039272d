"""Tests pages read without SQLite against what SQLite says: each kind of value, page size, overflow, log and damage."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from pathlib import Path

import pytest

from zerotask.storage import pages
from zerotask.storage.pages import Frame, Pages, Tree, Unreadable, record, varint

VALUES = [
    None, 0, 1, 2, -1, 127, -128, 128, -129, 32_767, -32_768, 32_768, 8_388_607, -8_388_608, 8_388_608, 2**31 - 1,
    -(2**31), 2**31, 2**47 - 1, -(2**47), 2**47, 2**63 - 1, -(2**63), 0.5, -1e300, "", "tea", "\u00e9" * 70, b"",
    b"\0\xff", b"x" * 200,
]  # fmt: skip


def database(folder: Path, size: int = 512, rows: int = 60, longest: int = 3000) -> Path:
    """Return a database with a table of all kinds of values, an index on it, and rows that overflow their page."""
    path = folder / "a.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {size}")
    connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, value, text)")
    connection.execute("CREATE INDEX i ON t (text, value)")
    for number in range(rows):
        text = chr(97 + number % 26) * (number * longest // rows)
        connection.execute("INSERT INTO t VALUES (?, ?, ?)", (1 + number**4, VALUES[number % len(VALUES)], text))
    connection.commit()
    connection.close()
    return path


def roots(path: Path) -> dict[str, int]:
    with sqlite3.connect(path) as connection:
        found = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    connection.close()
    return found


def rows_of(path: Path) -> list[tuple]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT number, value, text FROM t ORDER BY number").fetchall()
    connection.close()
    return found


def read(path: Path, name: str = "t", log: Path | None = None) -> tuple[list[tuple], Tree]:
    """Return the rows of a table as our reader has them, sorted by their rowids, and the tree they are from."""
    opened = Pages(path, log or path.with_suffix(".none"))
    tree = Tree(opened)
    try:
        found = sorted(
            ((rowid, *columns[1:]) for rowid, columns in tree.rows(roots(path)[name])), key=lambda row: row[0]
        )
    finally:
        opened.close()
    return found, tree


def typed(rows: list[tuple]) -> list[tuple]:
    return [tuple((type(value), value) for value in row) for row in rows]


@pytest.mark.parametrize("size", [512, 1024, 4096, 65_536])
def test_all_rows_are_those_that_sqlite_reads(tmp_path: Path, size: int) -> None:
    path = database(tmp_path, size)
    found, tree = read(path)
    assert typed(found) == typed(rows_of(path)) and len(found) == 60 and tree.bad == 0
    assert tree.pages.size == size and tree.pages.count == path.stat().st_size // size


def test_the_first_page_begins_behind_the_header(tmp_path: Path) -> None:
    path = database(tmp_path)
    opened = Pages(path, tmp_path / "none")
    tree = Tree(opened)
    assert {columns[1]: columns[3] for _, columns in tree.rows(1)} == roots(path) and tree.bad == 0
    opened.close()


@pytest.mark.parametrize("size", [512, 1024])
def test_an_index_has_all_its_rows(tmp_path: Path, size: int) -> None:
    path = database(tmp_path, size)
    opened = Pages(path, tmp_path / "none")
    tree = Tree(opened)
    found = list(tree.rows(roots(path)["i"]))
    opened.close()
    assert {rowid for rowid, _ in found} == {0} and tree.bad == 0
    assert sorted(columns[-1] for _, columns in found) == [row[0] for row in rows_of(path)]
    assert {columns[0] for _, columns in found} == {row[2] for row in rows_of(path)}


@pytest.mark.parametrize("length", [*range(470, 485), *range(980, 1000), *range(1480, 1500), *range(0, 20)])
def test_a_row_of_each_length_around_the_page(tmp_path: Path, length: int) -> None:
    """A row is read whole whether it fits into the page, is one byte longer, or is as long as where its first part
    changes.
    """
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, value, text)")
        connection.execute("INSERT INTO t VALUES (1, 5, ?)", ("x" * length,))
        connection.execute("INSERT INTO t VALUES (2, 5, ?)", (bytes(length),))
    connection.close()
    found, tree = read(path)
    assert found == [(1, 5, "x" * length), (2, 5, bytes(length))] and tree.bad == 0


def test_a_bad_page_costs_its_rows_and_no_others(tmp_path: Path) -> None:
    path = database(tmp_path, 512, rows=200, longest=40)
    whole, tree = read(path)
    with path.open("r+b") as file:
        file.seek((max(tree.seen) - 1) * 512)
        file.write(b"\xee" * 512)
    found, tree = read(path)
    assert tree.bad == 1 and 0 < len(whole) - len(found) < 40 and set(found) < set(whole)


@pytest.mark.parametrize("kind, bad", [(pages.LEAF_INDEX, 1), (0, 1)])
def test_a_root_of_another_kind_is_no_table(tmp_path: Path, kind: int, bad: int) -> None:
    path = database(tmp_path, 512, rows=200, longest=40)
    with path.open("r+b") as file:
        opened = Pages(path, tmp_path / "none")
        root = opened.read(roots(path)["t"])
        opened.close()
        assert root[0] == pages.INNER_TABLE
        (child,) = struct.unpack(">I", root[8:12])
        file.seek((child - 1) * 512)
        file.write(bytes([kind]))
    found, tree = read(path)
    assert tree.bad == bad and child not in tree.seen and found


def test_a_page_that_leads_to_itself_is_read_once(tmp_path: Path) -> None:
    path = database(tmp_path, 512, rows=200, longest=40)
    root = roots(path)["t"]
    with path.open("r+b") as file:
        file.seek((root - 1) * 512 + 8)
        file.write(struct.pack(">I", root))
    found, tree = read(path)
    assert tree.bad == 1 and found and len({row[0] for row in found}) == len(found)


def test_counts_and_lengths_beyond_the_page_are_damage(tmp_path: Path) -> None:
    path = database(tmp_path, 512, rows=3, longest=30)
    root = roots(path)["t"]
    opened = Pages(path, tmp_path / "none")
    page = bytearray(opened.read(root))
    tree = Tree(opened)
    assert len(list(tree.on_page(root, bytes(page), []))) == 3 and tree.bad == 0
    page[3:5] = struct.pack(">H", 252)  # 8 + 2 * 252 = 512: fits, and leads nowhere
    list(tree.on_page(root, bytes(page), []))
    assert tree.bad > 1
    tree.bad = 0
    page[3:5] = struct.pack(">H", 253)
    assert list(tree.on_page(root, bytes(page), [])) == [] and tree.bad == 1
    opened.close()


def test_free_pages_are_those_of_the_list(tmp_path: Path) -> None:
    path = database(tmp_path, 512, rows=400, longest=3000)
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM t WHERE number > 500")
    connection.commit()
    (wanted,) = connection.execute("PRAGMA freelist_count").fetchone()
    connection.close()
    opened, tree = Pages(path, tmp_path / "none"), None
    free = opened.free()
    tree = Tree(opened)
    for root in roots(path).values():
        list(tree.rows(root))
    assert len(free) == wanted > 130 and not free & tree.seen and max(free) <= opened.count and min(free) >= 2
    opened.close()


def test_what_is_not_there_is_unreadable(tmp_path: Path) -> None:
    path = database(tmp_path, 512)
    opened = Pages(path, tmp_path / "none")
    for number in (0, opened.count + 1, -1):
        with pytest.raises(Unreadable, match=f"there is no page {number}"):
            opened.read(number)
    assert len(opened.read(1)) == len(opened.read(opened.count)) == 512
    count = opened.count
    opened.close()
    with path.open("r+b") as file:
        file.truncate(512 * (count - 1) + 100)
    opened = Pages(path, tmp_path / "none")
    assert opened.count == count
    with pytest.raises(Unreadable, match=f"page {count} is cut off"):
        opened.read(count)
    opened.close()


@pytest.mark.parametrize(
    "header, size",
    [
        (b"SQLite format 3\0\x02\x00", 512), (b"SQLite format 3\0\x00\x01", 65_536),
        (b"SQLite format 3\0\x01\x00", 4096),
        (b"SQLite format 3\0\x03\x00", 4096), (b"SQLite format 4\0\x02\x00", 4096),
        (b"SQLite format 3\0\x00\x00", 4096),
        (b"SQLite format 3\0\x80\x00", 32_768),
    ],
)  # fmt: skip
def test_the_size_of_a_page_is_what_the_header_says_if_it_can_be(tmp_path: Path, header: bytes, size: int) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(header.ljust(100, b"\0") + bytes(70_000))
    opened = Pages(path, tmp_path / "none")
    assert (opened.size, opened.count) == (size, -(-70_100 // size))
    opened.close()
    path.write_bytes(header.ljust(99, b"\0"))
    short = Pages(path, tmp_path / "none")
    assert (short.size, short.count) == (4096, 1)
    short.close()


# ------------------------------------------------------------------------------------- the log


def logged(folder: Path) -> tuple[Path, Path]:
    """Return a database whose last changes are in its log alone, and that log, as copies that no SQLite has open."""
    path = database(folder, 512, rows=20, longest=200)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("UPDATE t SET value = 'changed' WHERE number > 500")
    connection.commit()
    for number in range(500_000, 500_040):
        connection.execute("INSERT INTO t VALUES (?, 1.5, ?)", (number, "y" * 100))
    connection.commit()
    copy, log = folder / "copy.db", folder / "copy.log"
    shutil.copy(path, copy)
    shutil.copy(folder / "a.db-wal", log)
    connection.close()
    return copy, log


def test_changes_in_the_log_count(tmp_path: Path) -> None:
    path, log = logged(tmp_path)
    root = roots(tmp_path / "a.db")["t"]
    opened = Pages(path, log)
    tree = Tree(opened)
    found = sorted((rowid, *columns[1:]) for rowid, columns in tree.rows(root))
    opened.close()
    assert typed(found) == typed(rows_of(tmp_path / "a.db")) and tree.bad == 0 and len(found) == 60
    assert opened.count > path.stat().st_size // 512


def test_frames_of_the_log_to_its_last_commit(tmp_path: Path) -> None:
    _, log = logged(tmp_path)
    found, text = pages.frames(log), log.read_bytes()
    assert pages.is_sound_log(text[:32]) and not pages.is_sound_log(text[:31])
    assert not pages.is_sound_log(text[:10] + b"\x77" + text[11:32]) and not pages.is_sound_log(bytes(32))
    assert len(found) == (len(text) - 32) // 536 and sum(frame.commits for frame in found) == 2
    assert [frame.offset for frame in found] == [56 + 536 * number for number in range(len(found))]
    first = struct.unpack(">I", text[32:36])[0]
    assert found[0] == Frame(first, 56, commits=False) and found[-1].commits
    log.write_bytes(text[:-1])
    cut = pages.frames(log)
    last = max(number for number, frame in enumerate(found[:-1]) if frame.commits)
    assert cut == found[: last + 1]
    other = bytearray(text)
    other[40:44] = b"\xab\xcd\xef\x01"  # the salt of the first frame: it is of an earlier run
    log.write_bytes(other)
    assert pages.frames(log) == found[1:]
    log.write_bytes(text[:32])
    assert pages.frames(log) == []
    assert pages.frames(log.with_name("none")) == []


def test_a_log_of_either_byte_order_is_sound() -> None:
    """The checksum of a log is that of the format, which is written out here."""
    for magic, order in ((b"\x37\x7f\x06\x82", "<"), (b"\x37\x7f\x06\x83", ">")):
        head = magic + struct.pack(">IIIII", 3_007_000, 4096, 7, 0xDEADBEEF, 0xFFFFFFFF)
        first = second = 0
        words = struct.unpack(f"{order}6I", head)
        for one, two in zip(words[::2], words[1::2], strict=True):
            first = (first + one + second) % 2**32
            second = (second + two + first) % 2**32
        assert pages.is_sound_log(head + struct.pack(">II", first, second))
        assert not pages.is_sound_log(head + struct.pack(">II", first, second ^ 1))
        assert not pages.is_sound_log(head + struct.pack(">II", first ^ 1, second))


def test_a_log_without_its_header_is_read_by_the_salt_of_its_first_frame(tmp_path: Path) -> None:
    log = tmp_path / "log"
    frame = lambda page, commit, salt: struct.pack(">II", page, commit) + salt + bytes(8) + bytes(4096)  # noqa: E731
    log.write_bytes(
        bytes(32) + frame(3, 0, b"a" * 8) + frame(4, 9, b"a" * 8) + frame(5, 1, b"b" * 8) + frame(0, 1, b"a" * 8)
    )
    assert pages.frames(log) == [Frame(3, 56, commits=False), Frame(4, 56 + 4120, commits=True)]


# ------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    "data, value, behind",
    [
        (b"\x00", 0, 1), (b"\x7f", 127, 1), (b"\x81\x00", 128, 2), (b"\xff\x7f", 16_383, 2),
        (b"\x81\x80\x00", 16_384, 3),
        (b"\x80" * 7 + b"\x01", 1, 8), (b"\xff" * 9, 2**64 - 1, 9), (b"\x80" * 8 + b"\x05", 5, 9),
        (b"\x81" + b"\x80" * 7 + b"\x85", (1 << 57) + 0x85, 9),
    ],
)  # fmt: skip
def test_numbers_of_variable_length(data: bytes, value: int, behind: int) -> None:
    assert varint(data, 0) == (value, behind)
    assert varint(b"xy" + data, 2) == (value, behind + 2)
    with pytest.raises(IndexError):
        varint(data[:-1], 0)


@pytest.mark.parametrize(
    "payload, columns",
    [
        (b"\x01", []),
        (b"\x02\x00", [None]),
        (b"\x04\x08\x09\x01\xff", [0, 1, -1]),
        (b"\x03\x02\x03\x01\x00\x01\x00\x00", [256, 65_536]),
        (b"\x02\x07" + struct.pack(">d", 2.5), [2.5]),
        (b"\x03\x11\x10abcd", ["ab", b"cd"]),
        (b"\x03\x0c\x0d", [b"", ""]),
    ],
)
def test_rows_column_by_column(payload: bytes, columns: list) -> None:
    assert typed([tuple(record(payload))]) == typed([tuple(columns)])


@pytest.mark.parametrize(
    "payload, why",
    [
        (b"", "no row"), (b"\x02\x01", "a row is cut off"), (b"\x02\x0a", "no row"), (b"\x02\x0b", "no row"),
        (b"\x02\x0f\xff", "no row"), (b"\x02\x08x", "the parts of a row do not make its size"),
        (b"\x00x", "the parts of a row"), (b"\x02\x81\x00", "."), (b"\x05\x08", "no row"),
        (b"\x02\x07abc", "a row is cut off"),
    ],
)  # fmt: skip
def test_what_is_no_row(payload: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        record(payload)


def test_a_row_of_an_impossible_size_is_not_read(tmp_path: Path) -> None:
    assert pages.MOST_PAYLOAD == 67_108_864
    opened = Pages(database(tmp_path), tmp_path / "none")
    tree = Tree(opened)
    with pytest.raises(Unreadable, match="a row of 67108865 bytes"):
        tree._payload(bytes(512), 0, pages.MOST_PAYLOAD + 1, in_table=True)
    with pytest.raises(Unreadable, match="there is no page 0"):
        tree._payload(bytes(512), 0, pages.MOST_PAYLOAD, in_table=True)
    opened.close()
