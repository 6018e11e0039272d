"""Test the spool: it reads back what was synced, reports what was lost, and nothing else."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from equus.spool.segment import HEADER_SIZE, Record
from equus.spool.spool import MAX_SEQUENCE, Spool
from equus_protocol.result_fields import GAP_CHECK_ID

SMALL = {"cap": 4_000, "segment_size": 1_000}


def filled(folder: Path, count: int, size: int = 100, **limits: int) -> Spool:
    spool = Spool(folder, **limits)
    for number in range(1, count + 1):
        spool.append("load", b"%d:" % number + b"x" * size)
    spool.sync()
    return spool


def sequences(spool: Spool, after: int = 0) -> list[int]:
    return [record.sequence for record in spool.read(after, 10**9)]


def gap_of(record: Record) -> tuple[int, int, int, str]:
    document = json.loads(record.blob)
    assert (record.check, document["status"], document["reason"]) == (GAP_CHECK_ID, "unknown", "gap")
    return record.sequence, document["from"], document["to"], document["gap"]


def test_sequences_begin_at_one_and_are_read_back_as_written(tmp_path):
    """A report that is appended is read with its sequence, in order, byte for byte."""
    spool = Spool(tmp_path)
    assert (spool.first, spool.last, spool.depth) == (1, 0, 0)
    spool.append("load", b"{}")
    spool.append("disk ☃"[:5], b"\x00\n")
    spool.sync()
    assert spool.read(0, 10**6) == [Record(1, "load", b"{}"), Record(2, "disk ", b"\x00\n")]
    assert (spool.first, spool.last, spool.depth) == (1, 2, 2)


def test_a_reopened_spool_goes_on_where_it_stood(tmp_path):
    """A spool that is opened again has its name, cursor, reports and the next sequence."""
    spool = filled(tmp_path, 5)
    spool.acknowledge(3)
    name = spool.id
    spool.close()
    again = Spool(tmp_path)
    assert (again.id, again.acked, sequences(again), again.append("load", b"")) == (name, 3, [4, 5], 6)


def test_an_acked_segment_is_removed_and_an_unacked_one_is_not(tmp_path):
    """A segment that is acknowledged is removed, and one that is not stays."""
    spool = filled(tmp_path, 40, segment_size=1_000)
    before = spool.size
    spool.acknowledge(20)
    assert spool.size < before
    assert sequences(spool) == list(range(21, 41))
    spool.close()
    assert sequences(Spool(tmp_path)) == list(range(21, 41))


def test_a_read_takes_one_report_however_small_its_limit(tmp_path):
    """A read returns one report however small its limit is, because the sender's window may be smaller."""
    spool = filled(tmp_path, 3)
    assert [record.sequence for record in spool.read(0, 1)] == [1]
    assert [record.sequence for record in spool.read(1, 2 * (102 + HEADER_SIZE))] == [2, 3]
    assert spool.read(3, 1) == []


@pytest.mark.adversary(58)
@pytest.mark.parametrize("cut", range(1, 117))
def test_a_torn_tail_is_cut_wherever_it_tore(tmp_path, cut):
    """A record that lacks its last bytes is cut off, and its sequence is used again."""
    filled(tmp_path, 3).close()
    segment = next(tmp_path.rglob("*.spool"))
    os.truncate(segment, segment.stat().st_size - cut)
    spool = Spool(tmp_path)
    assert sequences(spool) == [1, 2]
    assert spool.append("load", b"again") == 3
    spool.sync()
    assert spool.read(2, 10**6) == [Record(3, "load", b"again")]


def test_a_tail_of_zeros_is_cut(tmp_path):
    """A tail of zeros is cut from a segment, because some file systems grow a file before they fill it."""
    filled(tmp_path, 3).close()
    with next(tmp_path.rglob("*.spool")).open("ab") as file:
        file.write(bytes(5_000))
    assert sequences(Spool(tmp_path)) == [1, 2, 3]


def test_a_flipped_bit_in_the_middle_becomes_a_gap(tmp_path):
    """Reports behind a flipped bit in a segment become a gap, and the next segment is whole."""
    spool = filled(tmp_path, 20, segment_size=600)
    spool.close()
    second = sorted(tmp_path.rglob("*.spool"))[1]
    content = bytearray(second.read_bytes())
    content[HEADER_SIZE + 20] ^= 1
    second.write_bytes(content)
    first, beyond = int(second.stem), int(sorted(tmp_path.rglob("*.spool"))[2].stem)
    spool = Spool(tmp_path, segment_size=600)
    records = spool.read(0, 10**6)
    gaps = [record for record in records if record.check == GAP_CHECK_ID]
    assert [gap_of(gap) for gap in gaps] == [(beyond - 1, first, beyond - 1, "damaged")]
    assert [r.sequence for r in records] == [*range(1, first), beyond - 1, *range(beyond, 21)]


def test_a_missing_segment_becomes_a_gap(tmp_path):
    """A segment that was removed becomes a gap, instead of being passed over."""
    filled(tmp_path, 20, segment_size=600).close()
    first, second, third, *_ = sorted(tmp_path.rglob("*.spool"))
    second.unlink()
    first.unlink()
    records = Spool(tmp_path).read(0, 10**6)
    assert gap_of(records[0]) == (int(third.stem) - 1, 1, int(third.stem) - 1, "damaged")
    assert [record.sequence for record in records[1:]] == list(range(int(third.stem), 21))


@pytest.mark.adversary(58)
def test_a_full_spool_drops_the_oldest_and_says_which(tmp_path):
    """A full spool drops the oldest records and puts one gap in their place, also after reopening."""
    spool = filled(tmp_path, 100, **SMALL)
    records = spool.read(0, 10**6)
    last_lost = records[1].sequence - 1
    assert gap_of(records[0]) == (last_lost, 1, last_lost, "spool-full")
    assert [record.sequence for record in records[1:]] == list(range(last_lost + 1, 101))
    assert spool.size <= SMALL["cap"]
    assert spool.depth == len(records)
    spool.close()
    assert Spool(tmp_path, **SMALL).read(0, 10**6) == records


def test_a_gap_that_is_acked_is_forgotten(tmp_path):
    """The acknowledgement of a gap forgets all that it stands for, because its sequence is the last of those lost."""
    spool = filled(tmp_path, 100, **SMALL)
    gap = spool.read(0, 1)[0]
    spool.acknowledge(gap.sequence)
    assert (spool.first, sequences(spool)[0]) == (gap.sequence + 1, gap.sequence + 1)
    spool.close()
    assert sequences(Spool(tmp_path, **SMALL))[0] == gap.sequence + 1


@pytest.mark.adversary(53)
def test_a_full_disk_loses_loudly_and_recovers(tmp_path, monkeypatch):
    """The reports that could not be written are one gap, and those after it are kept."""
    spool = filled(tmp_path, 2)
    honest = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return honest(fd, data[:20])

    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        spool.append("load", b"lost " + b"x" * 40)
    monkeypatch.undo()
    assert spool.append("load", b"kept") == 6
    spool.sync()
    spool.close()
    records = Spool(tmp_path).read(2, 10**6)
    assert gap_of(records[0]) == (5, 3, 5, "disk-full")
    assert records[1:] == [Record(6, "load", b"kept")]


def test_an_ack_of_the_future_means_a_new_spool(tmp_path):
    """An ack beyond the last sequence begins a new spool, because Helen holds those sequences under the old name."""
    spool = filled(tmp_path, 3)
    name = spool.id
    spool.acknowledge(1)
    spool.acknowledge(7)
    assert spool.id != name
    assert [(r.sequence, r.blob[:2]) for r in spool.read(0, 10**6)] == [(1, b"2:"), (2, b"3:")]


def test_an_exhausted_sequence_means_a_new_spool(tmp_path):
    """A sequence at the end of int32 begins a new spool, and reports without an ack get new numbers there."""
    spool = filled(tmp_path, 1)
    name = spool.id
    spool.acknowledge(1)
    spool.next = MAX_SEQUENCE
    spool._segments._begin(spool.next)
    assert spool.append("load", b"last") == MAX_SEQUENCE
    spool.acknowledge(MAX_SEQUENCE - 1)
    assert spool.append("load", b"next") == 2
    assert spool.id != name
    assert spool.read(0, 10**6) == [Record(1, "load", b"last"), Record(2, "load", b"next")]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [spool.id]


WRITER = """
import sys
from pathlib import Path
from equus.spool.spool import Spool
spool = Spool(Path(sys.argv[1]), segment_size=20_000)
print(spool.last, flush=True)
while True:
    for _ in range(7):
        sequence = spool.append("load", b"%d" % spool.next * 50)
    spool.sync()
    print(sequence, flush=True)
    if sequence % 5 == 0:
        spool.acknowledge(sequence - 100)
"""


@pytest.mark.adversary(58)
def test_nothing_synced_is_lost_by_kill_9(tmp_path):
    """Reports that the writer called durable are there after kill -9, unbroken, and the next round goes on
    behind them.
    """
    durable = 0
    for turn in range(10):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert int(writer.stdout.readline()) >= durable
            for _ in range(10 + 7 * turn):
                durable = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            durable = max([durable, *(int(line) for line in writer.stdout.read().split(b"\n")[:-1])])
        spool = Spool(tmp_path, segment_size=20_000)
        found = spool.read(0, 10**9)
        assert [record.sequence for record in found] == list(range(spool.first, spool.last + 1))
        assert spool.last >= durable
        assert all(record.blob == b"%d" % record.sequence * 50 for record in found)
        spool.close()
