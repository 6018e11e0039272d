"""Tests records, rows and series at their edges: each field through bytes, torn records, and full batches."""

from __future__ import annotations

import errno
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from journal_running import NOW, blob, entry

from equus_protocol.result_fields import END_OF_TIME
from helen.journal import columns, series
from helen.journal import rows as rows_module
from helen.journal.columns import CHANGES, GREAT_VALUE, RESULTS, _binaries, _strings, change_batch, result_batch
from helen.journal.disk import Disk, report_passing
from helen.journal.document import read_document
from helen.journal.folder import Folder
from helen.journal.record import (
    FRAME_SIZE,
    HEADER_SIZE,
    MARK,
    MOST_BODY,
    Bad,
    BadRecord,
    Sound,
    Tail,
    decode,
    encode_change,
    encode_entry,
    encode_floor,
    header,
    read_header,
    scan,
)
from helen.journal.rows import Rows
from helen.journal.series import MOST_PER_AGENT, OVERFLOW_CHECK_ID, Series
from helen.journal.values import Change, Entry, Floor, JournalDamaged, Origin, StoredChange, StoredResult

SALT = 77
GIVEN: list[Entry | Change | Floor] = [
    Entry("web1", "cpu", "load", "s1", 7, Origin.PASSIVE, 1.5, b"blob"),
    Entry("w", "c", None, "s", 2**62, Origin.ASKED, 0.0, b""),
    Entry("w", "c", "", "s", 1, Origin.SCHEDULED, 0.0, b"x"), Change("link", 1.5, "web1", "cpu", b"{}"),
    Change("silence", 1.5, None, None, b""), Change("link", 1.5, "web1", None, b"{}"),
    Change("ack", 1.5, "", "", b"{}"),
    Floor("web1", "s1", 12), Floor("w" * 63, "s" * 300, 2**62),
    Entry("w" * 63, "c" * 300, "n" * 300, "s" * 255, 1, Origin.ASKED, 9.0, b"b"),
]  # fmt: skip


def encoded(value: Entry | Change | Floor, at: int, salt: int = SALT) -> bytes:
    if isinstance(value, Entry):
        return encode_entry(value, at, salt) + value.blob
    return encode_change(value, at, salt) if isinstance(value, Change) else encode_floor(value, at, salt)


@pytest.mark.parametrize("value", GIVEN)
def test_a_record_through_bytes(value: Entry | Change | Floor) -> None:
    """A record is decoded with every field as encoded, and absent fields stay absent."""
    data = encoded(value, 41)
    assert decode(data[FRAME_SIZE:]) == (41, value)
    (found,) = scan(header(1, SALT) + data)
    assert found == Sound(HEADER_SIZE, 41, value)


def test_headers() -> None:
    """A header gives the number and the salt; one that is too short, damaged or of another version raises BadRecord."""
    whole = header(9, SALT)
    assert (len(whole), HEADER_SIZE, FRAME_SIZE, read_header(whole), read_header(whole + b"x")) == (
        28,
        28,
        12,
        (9, SALT),
        (9, SALT),
    )
    with pytest.raises(BadRecord, match="it ends within its header"):
        read_header(whole[:-1])
    for at in (0, 12, 20, 27):
        with pytest.raises(BadRecord, match="its header is damaged"):
            read_header(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    other = struct.pack("<8sHHIQ", b"HELENWAL", 2, 0, SALT, 9)
    with pytest.raises(BadRecord, match="it is of version 2; this Helen reads version 1"):
        read_header(other + struct.pack("<I", crc32(other)))


def framed(body: bytes, salt: int = SALT, length: int | None = None) -> bytes:
    return struct.pack("<4sII", MARK, len(body) if length is None else length, crc32(body, salt)) + body


def test_records_of_unknown_form() -> None:
    """Records of another type, too short, or with names beyond their end are refused."""
    good = encoded(GIVEN[0], 1)[FRAME_SIZE:]
    for body in (b"\x04" + good[1:], b"\x00" + good[1:], b"", good[:8], good[:20], good[: -len(b"blob") - 1]):
        with pytest.raises(BadRecord, match="a record of unknown form"):
            decode(body)
    assert decode(good[: -len(b"blob")])[1] == Entry("web1", "cpu", "load", "s1", 7, Origin.PASSIVE, 1.5, b"")
    floor = encoded(Floor("web1", "s1", 12), 1)[FRAME_SIZE:]
    with pytest.raises(BadRecord):
        decode(floor[:-1])


ONE, TWO = encoded(GIVEN[3], 1), encoded(GIVEN[7], 2)


@pytest.mark.parametrize(("rest", "found"), [
    (b"", []), (ONE, ["sound 1"]), (ONE + TWO, ["sound 1", "sound 2"]),
    (ONE + b"x" + TWO, ["sound 1", "bad 1", "sound 2"]),
    (b"junk" + ONE, ["bad 4", "sound 1"]), (ONE + ONE[:20] + TWO, ["sound 1", "bad 20", "sound 2"]),
    (encoded(GIVEN[3], 1, 78) + TWO, [f"bad {len(ONE)}", "sound 2"]),  # of another file
    (ONE + bytes(5), ["sound 1", "torn 5"]), (ONE + TWO[:-1], ["sound 1", f"torn {len(TWO) - 1}"]),
    (ONE + TWO[:3], ["sound 1", "torn 3"]), (ONE + TWO[:12], ["sound 1", "torn 12"]),
    (ONE + b"x", ["sound 1", "tail 1"]),
    (ONE + TWO[:-1] + bytes([TWO[-1] ^ 1]), ["sound 1", f"tail {len(TWO)}"]),
    (ONE + TWO[:-3] + bytes(3), ["sound 1", f"torn {len(TWO)}"]),
    (ONE + TWO[:-3] + bytes(30), ["sound 1", f"torn {len(TWO) + 27}"]), (framed(b"x" * 40), ["tail 52"]),
    (framed(b"x", length=MOST_BODY), ["torn 13"]), (framed(b"x", length=MOST_BODY + 1), ["tail 13"]),
    (MARK[:3] + b"y", ["tail 4"]),
])  # fmt: skip
def test_what_a_file_holds(rest: bytes, found: list[str]) -> None:
    """A scan gives sound records, the damage between them, and a torn or damaged tail."""
    words = []
    for part in scan(header(1, SALT) + rest):
        if isinstance(part, Sound):
            words.append(f"sound {part.at}")
        elif isinstance(part, Bad):
            words.append(f"bad {part.end - part.start}")
        else:
            assert isinstance(part, Tail) and part.end == HEADER_SIZE + len(rest)
            words.append(f"{'torn' if part.torn else 'tail'} {part.end - part.start}")
    assert words == found


@pytest.mark.parametrize(("more", "is_sound"), [(0, True), (1, False)])
def test_the_longest_record(more: int, is_sound: bool) -> None:
    """A record of MOST_BODY bytes is sound, and one of a byte more is not."""
    empty = len(encode_change(Change("link", 1.0, None, None, b""), 1, SALT)) - FRAME_SIZE
    data = encode_change(Change("link", 1.0, None, None, b"x" * (MOST_BODY - empty + more)), 1, SALT)
    (found,) = scan(header(1, SALT) + data)
    assert isinstance(found, Sound) is is_sound


# ------------------------------------------------------------------------------------------------ rows


def stored(at: int, content: bytes | None = None) -> StoredResult:
    given = entry(at, content=content)
    return StoredResult(at, given, read_document(given.check_id, given.blob))


def a_change(at: int, agent: str | None = "web1", check: str | None = "cpu") -> StoredChange:
    return StoredChange(at, Change("link", NOW, agent, check, b"{}"))


def test_rows_become_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows become a batch after so many rows or so many bytes, and the rest at the end."""
    monkeypatch.setattr(rows_module, "BATCH_ROWS", 3)
    monkeypatch.setattr(rows_module, "BATCH_BYTES", 10_000)
    rows = Rows(Series())
    assert (rows.results, rows.changes, rows.held_bytes) == (0, 0, 0)
    batches = []
    for at in range(1, 8):
        rows.add(stored(at))
        rows.add(a_change(at))
        batches.append((len(rows._result_batches), len(rows._change_batches)))
    assert batches == [(0, 0), (0, 0), (1, 1), (1, 1), (1, 1), (2, 2), (2, 2)]
    held = rows.held_bytes
    rows.finish()
    rows.finish()
    assert (len(rows._result_batches), rows.held_bytes > held > 0) == (3, True)
    assert rows.held_bytes == sum(each.nbytes for each in (*rows._result_batches, *rows._change_batches))
    assert (rows.result_table()["at"].to_pylist(), rows.change_table()["at"].to_pylist()) == (
        [*range(1, 8)],
        [*range(1, 8)],
    )
    assert (rows.results, rows.changes) == (7, 7)


def test_columns_are_counted_as_they_are_made() -> None:
    """Bytes held by rows grow with each column made, so that a WAL with too great rows is closed at that column."""
    rows = Rows(Series())
    rows.extend([stored(at) for at in range(1, rows_module.BATCH_ROWS + 1)])
    held = []
    while rows.convert_some():
        held.append(rows.held_bytes)
    assert held[0] == 8 * rows_module.BATCH_ROWS  # `at`, a number of 64 bits
    assert held == sorted(held) and held[-1] == rows._result_batches[0].nbytes
    assert len(set(held)) > 10


@pytest.mark.parametrize(("size", "batches"), [(4_999, [0, 0, 1]), (5_000, [0, 1, 1]), (10_000, [1, 2, 3])])
def test_great_rows_become_batches_sooner(size: int, batches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Great rows become a batch sooner, by the bytes of their blobs."""
    monkeypatch.setattr(rows_module, "BATCH_BYTES", 10_000)
    rows, found = Rows(Series()), []
    for at in range(1, 4):
        rows.add(stored(at, b"x" * size))
        found.append(len(rows._result_batches))
    assert found == batches


def test_a_great_row_is_a_batch_of_its_own() -> None:
    """A great row is a batch of its own, whose bytes are not copied; the batches keep the order of `at`."""
    rows, content = Rows(Series()), blob(output="x" * rows_module.BATCH_BYTES)
    rows.extend([stored(1), stored(2), stored(3, content), stored(4, content), stored(5)])
    rows.finish()
    assert [batch["at"].to_pylist() for batch in rows._result_batches] == [[1, 2], [3], [4], [5]]
    assert rows.held_bytes == sum(batch.nbytes for batch in rows._result_batches)
    great = rows._result_batches[1]
    assert great["raw"].buffers()[2].address == pa.py_buffer(content).address
    assert great.to_pylist()[0]["raw"] == content
    rows.result_table().validate(full=True)


@pytest.mark.parametrize("one", ["x", "\u2603", "\ud800", b"\xff"])
def test_a_great_value_is_what_a_small_one_is(one: str | bytes) -> None:
    """A column of one great value equals the one that Arrow makes; half a pair of surrogates becomes a question
    mark."""
    value = one * GREAT_VALUE
    column = _binaries([value]) if isinstance(value, bytes) else _strings([value])
    column.validate(full=True)
    expected = value if isinstance(value, bytes) else value.encode("utf-8", "replace").decode()
    assert (column.to_pylist(), column.null_count, column.type) == (
        [expected], 0, pa.binary() if isinstance(value, bytes) else pa.string(),
    )  # fmt: skip


def test_a_result_as_a_row() -> None:
    """A result's row has the number of its series and its document, and the series has the name of the check if
    known."""
    names = Series()
    content = blob(
        "warning", started=NOW, took_ms=2.5, metrics=[{"name": "m", "value": 1, "labels": {"a": "b"}}], check="of-doc"
    )
    table = pa.Table.from_batches([result_batch([stored(3, content), stored(4)], names)], RESULTS)
    first, second = table.to_pylist()
    assert (first["at"], first["series_id"], first["spool"], first["sequence"], first["raw"]) == (
        3,
        0,
        "s1",
        3,
        content,
    )
    assert (first["received"].timestamp(), first["started"].timestamp(), first["took_ms"]) == (NOW, NOW, 2.5)
    assert (first["status"], first["origin"], first["metrics"][0]["labels"]) == (1, 0, [("a", "b")])
    assert (second["status"], second["started"], second["metrics"], second["truncated"]) == (0, None, [], [])
    assert names.table().to_pylist() == [{"series_id": 0, "agent": "web1", "check_id": "cpu", "check": "of-doc"}]


def test_a_change_as_a_row() -> None:
    """A change's row has a series only if the change is about a check."""
    given = [a_change(1), a_change(2, None, None), a_change(3, "web1", None), a_change(4, "web1", "disk")]
    table = pa.Table.from_batches([change_batch(given, Series())], CHANGES)
    assert table["series_id"].to_pylist() == [0, None, None, 1]
    assert table.to_pylist()[0]["received"].timestamp() == NOW


@pytest.mark.parametrize(("seconds", "kept"), [
    (0.0, 0), (-0.5, None), (1.0000004, 1_000_000), (1.0000006, 1_000_001), (None, None), (END_OF_TIME, None),
    (END_OF_TIME - 1, 253_402_300_799_000_000),
])  # fmt: skip
def test_times(seconds: float | None, kept: int | None) -> None:
    """Times are kept to the microsecond from 1970 to the year 9999, and are null otherwise."""
    assert columns._times([seconds]).cast(pa.int64()).to_pylist() == [kept]


def test_half_a_surrogate_pair() -> None:
    """Half a surrogate pair becomes a question mark, since it cannot be stored; maps keep their rows, empty ones
    too."""
    assert columns._strings(["a", None, "\ud800b"]).to_pylist() == ["a", None, "?b"]
    assert columns._maps([{}, {}], pa.int64()).to_pylist() == [[], []]
    assert columns._maps([{"a": 1}, {}, {"b": 2, "c": 3}], pa.int64()).to_pylist() == [
        [("a", 1)],
        [],
        [("b", 2), ("c", 3)],
    ]


# ------------------------------------------------------------------------------------------------ series


def test_numbers_of_series() -> None:
    """A series gets its number once, keeps the check's name seen last, and gives a table after each change."""
    names = Series()
    assert [names.number(*each) for each in (("a", "c", None), ("a", "d", "x"), ("b", "c", None), ("a", "c", "y"))] == [
        0,
        1,
        2,
        0,
    ]
    assert (len(names), names.names(), names._checks) == (3, [("a", "c"), ("a", "d"), ("b", "c")], ["y", "x", None])
    table = names.take_changes()
    names.number("c", "c", None)
    assert table is not None and table().num_rows == 3  # as it was then
    assert names.take_changes() is not None
    assert names.take_changes() is None
    names.number("a", "c", None)
    names.number("a", "c", "y")
    assert names.take_changes() is None
    names.number("a", "c", "z")
    assert names.take_changes() is not None


def test_an_agent_with_too_many_checks() -> None:
    """Further checks of an agent above the limit share one series, and other agents are not affected."""
    names = Series()
    assert (names.most, MOST_PER_AGENT, names.left_out) == (4_096, 4_096, {})
    names.most = 2
    assert [names.number("a", f"c{number}", None) for number in range(5)] == [0, 1, 2, 2, 2]
    assert (names.number("a", "c0", None), names.number("b", "c", None), names.left_out) == (0, 3, {"a": 3})
    assert names.names()[2] == ("a", OVERFLOW_CHECK_ID)
    fixed = names.fixed()
    assert [fixed.number("a", check, None) for check in ("c1", "c4", "new")] == [1, 2, 2]


def test_series_on_disk(tmp_path: Path) -> None:
    """Series are loaded as they were stored; a file that names one twice or cannot be read raises JournalDamaged."""
    path, names = tmp_path / "series.parquet", Series()
    assert len(series.load(path)) == 0
    for each in (("a", "c", None), ("a", "d", "x")):
        names.number(*each)
    pq.write_table(names.table(), path)
    found = series.load(path)
    assert (found.names(), found._checks, found._per_agent, found.take_changes()) == (
        names.names(),
        [None, "x"],
        {"a": 2},
        None,
    )
    twice = names.table().to_pylist()
    pq.write_table(pa.Table.from_pylist([twice[0], twice[0]], series.SERIES), path)
    with pytest.raises(JournalDamaged, match="names a/c twice; restore it from a backup"):
        series.load(path)
    path.write_bytes(b"x")
    with pytest.raises(JournalDamaged, match="can't be read"):
        series.load(path)


# ------------------------------------------------------------------------------------------------ the folder


def test_names_of_files(tmp_path: Path) -> None:
    """Files are listed in the order of their numbers of eight digits or more, and other names are ignored."""
    folder = Folder(tmp_path / "journal", tmp_path / "history", Disk())
    folder.lock()
    for number in (3, 12, 123_456_789):
        for path in (folder.wal(number), folder.segment(number), folder.changes(number)):
            path.write_bytes(b"")
    for name in ("wal-1.log", "wal-00000009.parquet.tmp", "seg-00000001.log"):
        (folder.journal / name).write_bytes(b"")
    assert folder.wal_numbers() == folder.segment_numbers() == folder.change_numbers() == [3, 12, 123_456_789]
    assert (folder.wal(3).name, folder.segment(3).name, folder.changes(3).name) == (
        "wal-00000003.log", "seg-00000003.parquet", "chg-00000003.parquet",
    )  # fmt: skip
    folder.unlock()
    folder.unlock()


@pytest.mark.parametrize(("text", "number"), [
    (None, None), (b"7\n", 7), (b" 12 ", 12), (b"", 0), (b"x", 0), (b"\xff", 0), (b"-1", 0),
    (b"9" * 18, 10**18 - 1), (b"9" * 19, 0),
])  # fmt: skip
def test_what_the_pipeline_has_published(tmp_path: Path, text: bytes | None, number: int | None) -> None:
    """The number that the pipeline has published is read; an unreadable one counts as 0, so that nothing is deleted
    for it."""
    if text is not None:
        (tmp_path / "committed").write_bytes(text)
    assert Folder(tmp_path, tmp_path, Disk()).committed("committed") == number


@pytest.mark.parametrize(("number", "said"), [
    (errno.ENOSPC, "No space for a WAL (words): later. Free some space; it is tried again each second."),
    (errno.EROFS,
     "a WAL can't be written (words): later. Mount its filesystem for writing again; it is tried again each second."),
])  # fmt: skip
def test_what_passes(number: int, said: str) -> None:
    """Each error that an operator can end is reported with the action."""
    error: Any = OSError(number, "words")
    assert report_passing(error, "a WAL", "later") == said
