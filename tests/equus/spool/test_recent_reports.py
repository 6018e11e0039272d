"""Test that reports are sent from memory as the disk would give them, and from disk after a start or an absence."""

import errno
import json
import os
import random

import pytest

from equus.spool import spool_thread
from equus.spool.recent_reports import RecentReports
from equus.spool.segment import HEADER_SIZE, Record
from equus.spool.spool import Spool
from equus_protocol import messages as m

LOAD = {"id": "load-1", "check": "load", "every": 1, "offset": 0}
SCHEDULE = m.Schedule(1, json.dumps([LOAD]).encode())


def report(sequence, size=10):
    return Record(sequence, "load", b"x" * size)


def sequences(records):
    return [record.sequence for record in records]


def test_what_was_added_is_there_until_it_is_forgotten():
    """Reports that were added are there in order until they are forgotten, at most so many bytes of them and always
    one.
    """
    recent = RecentReports()
    recent.add("a", map(report, range(1, 6)), 1)
    assert sequences(recent.after("a", 0, 10**6)) == [1, 2, 3, 4, 5]
    assert sequences(recent.after("a", 2, 2 * (10 + HEADER_SIZE))) == [3, 4]
    assert sequences(recent.after("a", 2, 1)) == [3]
    assert recent.after("a", 5, 10**6) == []
    recent.forget("another", 5)
    recent.forget("a", 3)
    assert recent.after("a", 2, 10**6) == []  # the next one is not here, so the disk has to be read
    assert sequences(recent.after("a", 3, 10**6)) == [4, 5]
    recent.forget("a", 100)
    recent.add("a", [report(6)], 1)
    assert sequences(recent.after("a", 5, 10**6)) == [6]


def test_another_spool_and_a_hole_begin_anew():
    """Held reports belong to one spool without a hole; another spool or a hole begins anew."""
    recent = RecentReports()
    recent.add("a", [report(1), report(2)], 1)
    recent.add("a", [report(9)], 1)
    assert (recent.after("a", 0, 10**6), sequences(recent.after("a", 8, 10**6))) == ([], [9])
    recent.add("b", [], 1)
    assert (recent.after("a", 8, 10**6), recent.after("b", 8, 10**6)) == ([], [])


def test_what_lies_before_a_loss_is_the_spools_to_say():
    """A report that the spool has dropped is not sent from memory."""
    recent = RecentReports()
    recent.add("a", map(report, range(1, 6)), 4)
    assert (recent.after("a", 2, 10**6), sequences(recent.after("a", 3, 10**6))) == ([], [4, 5])


def test_no_more_than_its_bytes_are_held():
    """At most `most` bytes are held: the oldest reports go first, and one that is larger than all is not held."""
    recent = RecentReports(most=3 * (10 + HEADER_SIZE))
    recent.add("a", map(report, range(1, 10)), 1)
    assert (recent.after("a", 5, 10**6), sequences(recent.after("a", 6, 10**6))) == ([], [7, 8, 9])
    recent.add("a", [report(10, size=100)], 1)
    assert recent.after("a", 9, 10**6) == []
    recent.add("a", [report(11)], 1)
    assert sequences(recent.after("a", 10, 10**6)) == [11]


class Disk:
    """Counts the reads of an agent's spool."""

    def __init__(self, agent, monkeypatch):
        self.reads = 0
        self._read = agent.writer._spool.read
        monkeypatch.setattr(agent.writer._spool, "read", self.read)

    def read(self, after, limit):
        self.reads += 1
        return self._read(after, limit)


def run(agent, seconds=1.0):
    """Run each entry once, and make its result durable."""
    agent.clock.advance(seconds)
    for each in list(agent.runner.running):
        each.finish()
    agent.writer.work()


def reports(heard):
    return [message for message in heard if isinstance(message, m.Report)]


def test_a_helen_that_follows_costs_no_read(memory_agent, folder, monkeypatch):
    """A Helen that acknowledges each of a hundred results causes no read of the disk."""
    agent = memory_agent(checks=folder)
    disk, helen = Disk(agent, monkeypatch), agent.meet()
    helen.say(SCHEDULE)
    heard = []
    for _ in range(100):
        run(agent)
        heard += reports(helen.hear())
        heard += reports(helen.say(m.Ack(agent.writer.state.id, heard[-1].sequence)))
    assert [each.check for each in heard].count("load-1") == 100  # the others are of the agent on itself
    assert sequences(heard) == list(range(1, len(heard) + 1))
    assert disk.reads == 0


def test_the_disk_is_read_after_a_start_and_no_more_once_that_is_sent(memory_agent, folder, monkeypatch):
    """The disk is read after a start, which finds older reports there alone, and no more once they are sent."""
    first = memory_agent(checks=folder)
    first.meet().say(SCHEDULE)
    for _ in range(3):
        run(first)
    first.close()
    agent = memory_agent(checks=folder)
    disk, helen = Disk(agent, monkeypatch), agent.meet()
    assert reports(helen.say(SCHEDULE)) == []
    agent.writer.work()
    heard = reports(helen.hear())
    assert (sequences(heard), disk.reads) == ([1, 2, 3], 1)
    for _ in range(20):
        run(agent)
        heard += reports(helen.hear())
    assert (sequences(heard), disk.reads) == (list(range(1, 24)), 1)


def test_an_absence_that_memory_bears_costs_no_read_and_a_longer_one_does(memory_agent, folder, monkeypatch):
    """A short absence costs no read of the disk and a longer one does; in both cases each report comes once, in
    order.
    """
    monkeypatch.setattr(spool_thread, "RecentReports", lambda: RecentReports(most=1000))
    agent = memory_agent(checks=folder)
    disk, helen = Disk(agent, monkeypatch), agent.meet()
    helen.say(SCHEDULE)
    expected = 0
    for away, reads in ((5, 0), (60, 1)):
        agent.part(helen)
        for _ in range(away):
            run(agent)
        helen = agent.meet()
        heard = reports(helen.say(SCHEDULE))
        while agent.writer._commands.qsize():
            agent.writer.work()
        heard += reports(helen.hear())
        assert [each.check for each in heard].count("load-1") == away
        assert sequences(heard) == list(range(expected + 1, expected + len(heard) + 1))
        assert disk.reads == reads
        expected += len(heard)
        helen.say(m.Ack(agent.writer.state.id, expected))
        agent.writer.work()


@pytest.mark.parametrize("seed", range(20))
def test_memory_gives_what_the_disk_gives(tmp_path, monkeypatch, seed):
    """Reports of memory are the first of those that the disk would give, from any sequence, whatever was lost on the
    way.
    """
    chance = random.Random(seed)
    spool, recent = Spool(tmp_path, cap=3_000, segment_size=800), RecentReports(most=1_500)
    honest, found = os.write, 0

    def full(fd, data):
        if fd == spool._segments._fd:
            raise OSError(errno.ENOSPC, "No space left on device")
        return honest(fd, data)

    for _ in range(150):
        written = []
        with monkeypatch.context() as disk:
            if chance.random() < 0.1:
                disk.setattr(os, "write", full)
            for _ in range(chance.randrange(4)):
                blob = b"x" * chance.randrange(1, 120)
                written.append(Record(spool.append("load", blob), "load", blob))
        spool.sync()
        recent.add(spool.id, written, max(spool.whole_from, spool.first))
        if chance.random() < 0.3:
            acked = chance.randint(spool.acked, spool.last)
            recent.forget(spool.id, acked)
            spool.acknowledge(acked)
        for after in range(spool.acked, spool.last):
            limit = chance.randrange(1, 500)
            memory = recent.after(spool.id, after, limit)
            assert not memory or memory == spool.read(after, limit)
            found += bool(memory)
    assert found > 100
    spool.close()
