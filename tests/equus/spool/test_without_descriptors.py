"""Test a spool whose process has no descriptor left: it waits, loses nothing, and goes on once there is one again."""

import errno
import io
import json
import os
import queue
import subprocess
import sys

import pytest
from twisted.logger import globalLogPublisher

from equus.spool import spool_thread
from equus.spool.segments import Segments
from equus.spool.spool import Spool
from equus.spool.spool_thread import SpoolThread

# A process of its own has all descriptors taken while the spool is to do a thing, and gives them back a little later.
RUN = """
import json, os, queue, resource, sys, time
from equus.spool import spool_thread
from equus.spool.spool import Spool
from pathlib import Path
from twisted.logger import globalLogPublisher

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
spool_thread.RETRY_SECONDS = 0.01
calls = queue.Queue()
writer = spool_thread.SpoolThread(
    Spool(Path(sys.argv[1]), cap=20_000, segment_size=2_000), lambda call, *more: calls.put((call, more)), print
)
warned, found, left = [], [], []
globalLogPublisher.addObserver(lambda event: warned.append(event["why"]) if "why" in event else None)

def settle(done):
    while not done():
        call, more = calls.get(timeout=60)
        call(*more)

LEFT = int(sys.argv[2])  # descriptors that are free all the while

def without_descriptors(act, done):
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(LEFT):
        os.close(taken.pop())
    before = len(warned)
    act()
    settle(lambda: len(warned) > before or done())
    for each in taken:
        os.close(each)
    settle(done)
    left.append(len([each for each in Path(sys.argv[1]).iterdir() if each.is_dir()]))

def append(first, count):
    for number in range(first, first + count):
        writer.append("load", b"%03d" % number + b"x" * 200)

def read(after):
    found.clear()
    writer.read(writer.state.id, after, 10**9, lambda records: found.append(records))

writer.start()
open_before = len(os.listdir("/proc/self/fd"))
without_descriptors(lambda: append(1, 20), lambda: writer.state.last == 20)
first = writer.state.id
without_descriptors(lambda: writer.acknowledge(first, 5), lambda: writer.state.first == 6)
without_descriptors(lambda: read(5), lambda: found)
kept = [int(record.blob[:3]) for record in found[0]]
without_descriptors(lambda: writer.acknowledge(first, 1_000), lambda: writer.state.id != first)
without_descriptors(lambda: append(21, 200), lambda: writer.state.last >= 200)
read(0)
settle(lambda: found)
gap = json.loads(found[0][0].blob)
assert writer.stop(10)
print(json.dumps({
    "kept": kept, "gap": [gap["from"], gap["to"], gap["gap"]],
    "after": [int(record.blob[:3]) for record in found[0][1:]], "sequences": [each.sequence for each in found[0][1:]],
    "warned": warned, "open": len(os.listdir("/proc/self/fd")) - open_before,
    "folders": left,
}))
"""


@pytest.mark.parametrize("left", [0, 1, 2])
def test_nothing_is_lost_without_descriptors(tmp_path, left):
    """A spool loses nothing without descriptors, whatever it does then: a segment, the cursor, a read, a new spool or a
    gap.
    """
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "spool"), str(left)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kept"] == list(range(6, 21))
    first, last, reason = told["gap"]
    assert (first, reason, told["sequences"]) == (1, "spool-full", list(range(last + 1, 216)))
    assert told["after"] == [number + 5 for number in told["sequences"]]  # 15 of the old ones, then 200: in order
    assert (told["open"], told["folders"]) == (-1, [1] * 5)
    assert set(told["warned"]) == {"Too many open files"} and len(told["warned"]) == {0: 5, 1: 3, 2: 1}[left]


def test_a_new_spool_for_which_there_is_no_room_is_given_up(tmp_path, monkeypatch):
    """A new spool without room is given up and the old reports stay, because they would otherwise become gaps of a full
    disk.
    """
    spool = Spool(tmp_path, cap=20_000, segment_size=400)
    for number in range(10):
        spool.append("load", b"%d" % number + b"x" * 100)
    spool.sync()
    room, write = [3], Segments._write

    def full(self, data):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, data)

    monkeypatch.setattr(Segments, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        spool.acknowledge(999)
    assert [record.blob[:1] for record in spool.read(0, 10**6)] == [b"%d" % number for number in range(10)]
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == [spool.id]
    old, room[0] = spool.id, 100
    spool.acknowledge(999)
    assert (spool.id != old, [record.sequence for record in spool.read(0, 10**6)]) == (True, list(range(1, 11)))
    spool.close()


@pytest.mark.parametrize("text", [None, b"", b"\xff\xfe", b"short", b"NAME\n"])
def test_a_spool_whose_name_is_lost_is_found(tmp_path, text):
    """A spool whose name is lost or damaged is found, because its reports are worth more than the file with the
    name.
    """
    spool = Spool(tmp_path)
    spool.append("load", b"{}")
    spool.sync()
    spool.close()
    half = tmp_path / "0123456789abcdef"  # of a `renew` that was cut
    half.mkdir()
    (tmp_path / "current").unlink()
    if text is not None:
        (tmp_path / "current").write_bytes(text.replace(b"NAME", spool.id.encode()))
    again = Spool(tmp_path)
    assert (again.id, again.last, half.exists()) == (spool.id, 1, False)
    assert (tmp_path / "current").read_text().strip() == spool.id
    again.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_it_is_told_once_and_tried_again(tmp_path, monkeypatch, code):
    """A wait for a descriptor is one line in the log, and the next wait is another."""
    calls, told, faults = queue.Queue(), [], [code] * 3 + [0] + [code] * 2 + [0]
    spool = Spool(tmp_path)
    monkeypatch.setattr(spool_thread, "RETRY_SECONDS", 0.0)
    writer = SpoolThread(spool, lambda call, *more: calls.put((call, more)), None)
    globalLogPublisher.addObserver(told.append)
    sync = spool.sync

    def failing():
        if fault := faults.pop(0):
            raise OSError(fault, os.strerror(fault), "gaps.json")
        sync()

    monkeypatch.setattr(spool, "sync", failing)
    writer.start()
    for number in (1, 2):
        writer.append("load", b"{}")
        while writer.state.last < number:
            call, more = calls.get(timeout=60)
            call(*more)
    assert writer.stop(10)
    globalLogPublisher.removeObserver(told.append)
    assert [(event["path"], event["why"]) for event in told if "why" in event] == [("gaps.json", os.strerror(code))] * 2
    assert faults == []


@pytest.mark.parametrize("name", ["current", "acked", "gaps.json"])
def test_a_spool_that_cannot_be_read_at_a_start_is_not_replaced(tmp_path, monkeypatch, name):
    """A spool whose name, cursor or gaps cannot be read at a start raises the error, and no new spool begins
    over it.
    """
    spool = Spool(tmp_path)
    spool.append("load", b"{}")
    spool.sync()
    spool.close()
    opener = io.open

    def failing(path, *more, **options):
        if str(path).endswith(name):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opener(path, *more, **options)

    monkeypatch.setattr("io.open", failing)
    with pytest.raises(OSError, match="Too many open files"):
        Spool(tmp_path)
    monkeypatch.undo()
    again = Spool(tmp_path)
    assert (again.id, again.last) == (spool.id, 1)
    again.close()
