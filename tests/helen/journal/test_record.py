"""Tests that the bytes of a WAL are read back as written, and that each kind of damage is told from the others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.journal import record
from helen.journal.record import (
    HEADER_SIZE,
    MARK,
    VERSION,
    Bad,
    BadRecord,
    Sound,
    Tail,
    encode_change,
    encode_entry,
    encode_floor,
    encode_frame,
    header,
    read_header,
    scan,
)
from helen.journal.values import Change, Entry, Floor, Origin

SALT = 0x5EED
names = st.text(st.characters(codec="utf-8"), max_size=60)
long_names = st.text(st.characters(codec="utf-8"), max_size=63)
entries = st.builds(
    Entry, names, long_names, st.none() | long_names, long_names, st.integers(1, 2**63 - 1), st.sampled_from(Origin),
    st.floats(0, 1e11), st.binary(max_size=200), st.none() | st.integers(-(2**63), 2**63 - 1),
)  # fmt: skip
changes = st.builds(
    Change, st.sampled_from(["flap", "link"]), st.floats(0, 1e11), st.none() | names, st.none() | long_names,
    st.binary(max_size=200),
)  # fmt: skip
floors = st.builds(Floor, names, long_names, st.integers(1, 2**62))


def encode(value: Entry | Change | Floor, at: int, salt: int = SALT) -> bytes:
    encoder = {Entry: encode_entry, Change: encode_change, Floor: encode_floor}[type(value)]
    return encoder(value, at, salt) + (value.blob if isinstance(value, Entry) else b"")


def entry(sequence: int, content: bytes = b"{}") -> Entry:
    return Entry("web1", "cpu", "cpu", "s1", sequence, Origin.SCHEDULED, 1.5, content)


def wal(*values: Entry) -> tuple[bytes, list[int]]:
    """Return the bytes of a WAL of these entries, and the offset of each record and of the end."""
    data, offsets = header(1, SALT), []
    for at, value in enumerate(values, 1):
        offsets.append(len(data))
        data += encode(value, at)
    return data, [*offsets, len(data)]


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.lists(entries | changes | floors, max_size=8))
def test_what_is_written_is_read_back(values: list) -> None:
    """Records of all three types, with any names and any blob, are read back as written."""
    data = header(7, SALT) + b"".join(encode(value, at) for at, value in enumerate(values, 5))
    assert read_header(data) == (7, SALT)
    assert [(part.at, part.value) for part in scan(data)] == list(enumerate(values, 5))


@settings(deadline=None)
@given(entries, st.integers(1, 2**62))
def test_a_frame_that_is_made_later(value: Entry, at: int) -> None:
    """A head encoded without its frame, behind a frame made later, equals the head that is encoded with its frame."""
    head = encode_entry(value, at, None)
    assert encode_frame(head, value.blob, SALT) + head == encode_entry(value, at, SALT)


def test_a_torn_last_record_at_every_byte() -> None:
    """A last record cut at any byte is a torn tail, and the records before it are read."""
    data, offsets = wal(entry(1), entry(2), entry(3, b'{"status":"ok"}'))
    whole = list(scan(data))
    for end in range(offsets[2] + 1, offsets[3]):
        assert list(scan(data[:end])) == [*whole[:2], Tail(offsets[2], end, torn=True)], end
    assert list(scan(data[: offsets[2]])) == whole[:2]


def test_every_flipped_bit_of_a_record_in_the_middle() -> None:
    """A flipped bit makes exactly its own record bad, and both neighbours stay sound."""
    data, offsets = wal(entry(1), entry(2), entry(3))
    first, _, third = scan(data)
    for position in range(offsets[1], offsets[2]):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            assert list(scan(bytes(damaged))) == [first, Bad(offsets[1], offsets[2]), third], (position, bit)


def test_every_flipped_bit_of_the_last_record() -> None:
    """A last record with a flipped bit is never sound; behind its mark and length it is no torn write, so it is
    kept."""
    data, offsets = wal(entry(1), entry(2))
    first = next(iter(scan(data)))
    for position in range(offsets[1], offsets[2]):
        damaged = bytearray(data)
        damaged[position] ^= 4
        parts = list(scan(bytes(damaged)))
        assert parts[0] == first
        assert isinstance(parts[1], Tail) and len(parts) == 2
        if position >= offsets[1] + 8:
            assert parts[1] == Tail(offsets[1], offsets[2], torn=False)


@pytest.mark.parametrize("zeros", [1, 3, 12, 13, 4096])
def test_a_zero_filled_tail(zeros: int) -> None:
    """Zeros behind the last record, or in place of its last bytes, are a torn tail."""
    data, offsets = wal(entry(1), entry(2))
    both = list(scan(data))
    assert list(scan(data + bytes(zeros))) == [*both, Tail(offsets[2], offsets[2] + zeros, torn=True)]
    cut = data[: offsets[1] + 20] + bytes(zeros + 100)
    assert list(scan(cut)) == [both[0], Tail(offsets[1], len(cut), torn=True)]


def test_two_bad_records_and_rubbish_between() -> None:
    """The reader goes on at the next sound record behind damaged bytes."""
    data, offsets = wal(entry(1), entry(2), entry(3))
    first, second, third = scan(data)
    rubbish = MARK + b"\x00\x00\x00\x00 something else " + MARK
    mixed = data[: offsets[1]] + rubbish + data[offsets[1] :]
    moved = [Sound(part.offset + len(rubbish), part.at, part.value) for part in (second, third)]
    assert list(scan(mixed)) == [first, Bad(offsets[1], offsets[1] + len(rubbish)), *moved]


def test_a_record_inside_a_blob_is_not_believed() -> None:
    """A record that an agent puts into its blob is not read as one, even if the agent's own record is damaged."""
    forged = encode(entry(99), 99, salt=0)
    data, offsets = wal(entry(1), entry(2, forged), entry(3))
    damaged = bytearray(data)
    damaged[offsets[1] + 10] ^= 1
    first, _, third = scan(data)
    assert list(scan(bytes(damaged))) == [first, Bad(offsets[1], offsets[2]), third]


def test_blocks_of_an_older_wal_are_not_believed() -> None:
    """Records of another WAL, with another salt, behind the last one are a damaged tail."""
    data, _ = wal(entry(1))
    old = encode(entry(2), 2, salt=1)
    assert list(scan(data + old))[1:] == [Tail(len(data), len(data) + len(old), torn=False)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it ends within its header"),
        (header(1, SALT)[:-1], "it ends within its header"),
        (bytes(HEADER_SIZE), "its header is damaged"),
        (b"X" + header(1, SALT)[1:], "its header is damaged"),
        (header(1, SALT)[:16] + b"\xff" + header(1, SALT)[17:], "its header is damaged"),
    ],
)
def test_damaged_headers(data: bytes, message: str) -> None:
    """A WAL with a damaged or short header raises BadRecord with the reason, since without its salt nothing is
    believed."""
    with pytest.raises(BadRecord, match=message):
        list(scan(data))


@pytest.mark.parametrize("version", [0, VERSION + 1, 255])
def test_a_header_of_another_version(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound header of another version raises BadRecord with both versions."""
    monkeypatch.setattr(record, "VERSION", version)
    written = header(7, SALT)
    monkeypatch.undo()
    with pytest.raises(BadRecord, match=f"it is of version {version}; this Helen reads version {VERSION}"):
        read_header(written)
    assert read_header(header(7, SALT)) == (7, SALT)
