"""Tests the journal from outside: the records that come back, their order, and refusals."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal_running import NOW, Running, blob, entry, mark_of

from helen.journal.disk import Disk
from helen.journal.intake import RECORD_OVERHEAD
from helen.journal.journal import Journal
from helen.journal.limits import MIB, Limits
from helen.journal.values import (
    Ack,
    Change,
    Entry,
    JournalError,
    JournalLocked,
    Origin,
    Recovery,
    StoredChange,
    Trouble,
)
from helen.journal.verify import check_history


def test_a_first_start_finds_nothing(running: Running) -> None:
    """The first start recovers nothing, and makes only the lock and the folder of quarantine."""
    assert running.recovery == Recovery()
    assert sorted(path.name for path in (running.state / "journal").iterdir()) == ["lock", "quarantine"]


def test_results_come_back_acked_and_parsed(running: Running) -> None:
    """Each result comes back parsed, once and in order, with rising `at`; the highest sequence is acked."""
    entries = [entry(number, content=blob("warning", took_ms=number)) for number in range(1, 101)]
    assert all(running.journal.append(one) for one in entries)
    running.until_records(100)
    assert [(record.at, record.entry) for record in running.records] == list(enumerate(entries, 1))
    assert [record.document.took_ms for record in running.records] == list(range(1, 101))
    assert {record.document.status for record in running.records} == {1}
    assert running.high() == 100


def test_acks_come_before_the_parsed_records(running: Running) -> None:
    """The acks of a group come in a batch before that of its records."""
    running.journal.append(entry(1))
    running.until_records(1)
    assert [(batch.acks, len(batch.records)) for batch in running.batches] == [((Ack("web1", "s1", 1),), 0), ((), 1)]


def test_what_is_acked_is_in_the_wal(running: Running) -> None:
    """When an ack arrives, the WAL holds the record."""
    running.journal.append(entry(1, content=b"the very blob"))
    running.until(lambda: running.high() == 1)
    assert b"the very blob" in (running.state / "journal" / "wal-00000001.log").read_bytes()


@pytest.mark.adversary(12)
def test_duplicates_are_acked_again_and_stored_once(running: Running) -> None:
    """A duplicate is answered with the highest ack, as after a lost one, and is not stored again."""
    for number in (1, 2, 3):
        running.journal.append(entry(number))
    running.until_records(3)
    running.batches.clear()
    running.journal.append(entry(1))
    running.until(lambda: bool(running.acks))
    assert running.acks == [Ack("web1", "s1", 3)]
    assert running.records == []


def test_nothing_is_acked_beyond_a_hole(running: Running) -> None:
    """Sequence 3 without 2 is stored, and acked only when 2 has come."""
    running.journal.append(entry(1))
    running.journal.append(entry(3))
    running.until_records(2)
    assert running.high() == 1
    assert mark_of(running.journal, "web1", "s1") == (1, [(3, 3)])
    running.journal.append(entry(2))
    running.until_records(3)
    assert running.high() == 3


@pytest.mark.adversary(12)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["s", "t"]), st.integers(1, 12)), min_size=1, max_size=60
    )
)
def test_any_order_with_any_duplicates(tmp_path_factory: pytest.TempPathFactory, arrived: list) -> None:
    """Each (agent, spool, sequence) is in the history exactly once, in any order of arrival and over a restart."""
    state = tmp_path_factory.mktemp("state")
    half = len(arrived) // 2
    for part in (arrived[:half], arrived[half:]):
        running = Running(state).open()
        for agent, spool, sequence in part:
            running.journal.append(entry(sequence, agent, spool))
        running.journal.close()
    last = Running(state).open()
    last.journal.close()
    stored = [(row["spool"], row["sequence"]) for row in last.rows()]
    assert len(stored) == len(set(arrived))
    assert sorted(stored) == sorted((spool, sequence) for _, spool, sequence in set(arrived))
    for agent, spool in {(agent, spool) for agent, spool, _ in arrived}:
        numbers = {number for a, s, number in arrived if (a, s) == (agent, spool)}
        high = next(number for number in range(20) if number + 1 not in numbers)
        assert mark_of(last.journal, agent, spool)[0] == high


# ------------------------------------------------------------------------------------------------ spools


def test_helens_own_numbers_go_on_after_a_restart(start: Callable[..., Running]) -> None:
    """Asked and passive results are numbered per agent by Helen, without an ack, and the numbers go on after a
    restart."""
    first = start()
    numbers = [first.journal.append_own("a", "cpu", "cpu", Origin.ASKED, NOW, blob()) for _ in range(3)]
    other = first.journal.append_own("b", "cpu", None, Origin.PASSIVE, NOW, blob())
    first.until_records(4)
    assert (numbers, other, first.acks) == ([1, 2, 3], 1, [])
    first.journal.close()
    second = start()
    assert second.journal.append_own("a", "cpu", None, Origin.ASKED, NOW, blob()) == 4


@pytest.mark.parametrize(("theirs", "stored"), [("helen", "~helen"), ("~helen", "~~helen"), ("~x", "~x"), ("s", "s")])
def test_an_agents_spool_named_helen(start: Callable[..., Running], theirs: str, stored: str) -> None:
    """An agent's spool named like Helen's own is stored apart from it, and acked under the agent's name for it."""
    running = start()
    running.journal.append(entry(1, spool=theirs))
    running.journal.append_own("web1", "cpu", None, Origin.ASKED, NOW, blob())
    running.until_records(2)
    assert running.acks == [Ack("web1", theirs, 1)]
    assert [record.entry.spool for record in running.records] == [stored, "helen"]
    assert mark_of(running.journal, "web1", theirs) == (1, [])


def test_the_longest_names(start: Callable[..., Running]) -> None:
    """The longest names of spool, check_id and check are stored and recovered, also where a spool's name grows by
    one byte."""
    running = start()
    spool, agent, long = "~" * 250 + "helen", "a" * 63, "é" * 127 + "x"
    running.journal.forget_below(agent, spool, 2**80)
    running.journal.append(Entry(agent, long, long, spool, 1, Origin.SCHEDULED, NOW, b""))
    running.journal.append(Entry(agent, long, long, long, 2**31 - 1, Origin.SCHEDULED, NOW, b""))
    running.until_records(1)
    assert running.acks == [Ack(agent, spool, 2**63 - 2)]
    running.journal.close()
    again = start()
    assert (again.recovery.results, again.recovery.quarantined) == (1, 0)
    assert mark_of(again.journal, agent, spool) == (2**63 - 2, [])


def test_a_spool_that_begins_elsewhere(running: Running) -> None:
    """After forget_below all sequences below count as acked, at once, and older results are duplicates."""
    running.journal.forget_below("web1", "s1", 500)
    running.journal.append(entry(500))
    running.journal.append(entry(499))
    running.until_records(1)
    assert running.high() == 500
    assert [record.entry.sequence for record in running.records] == [500]


def test_forgetting_below_what_is_here_changes_nothing(running: Running) -> None:
    """forget_below at or below the present mark writes no record and gives no ack, since `loaded` comes after each
    hello."""
    for number in (1, 2):
        running.journal.append(entry(number))
    running.until_records(2)
    size = (running.state / "journal" / "wal-00000001.log").stat().st_size
    running.batches.clear()
    for first in (0, 1, 2, 3):
        running.journal.forget_below("web1", "s1", first)
    running.journal.append(entry(1))
    running.until(lambda: bool(running.acks))
    assert (running.acks, running.records) == ([Ack("web1", "s1", 2)], [])
    assert (running.state / "journal" / "wal-00000001.log").stat().st_size == size


def test_a_gap_record_closes_the_hole(running: Running) -> None:
    """A gap record closes the hole of sequences that the agent dropped, and the ack goes on behind it."""
    running.journal.append(entry(1))
    running.journal.append(entry(5))
    gap = entry(6, check_id="equus:gap", content=blob("unknown", **{"from": 2, "to": 4, "reason": "gap"}))
    running.journal.append(gap)
    running.until_records(3)
    assert running.high() == 6
    assert [(record.document.status, record.document.reason) for record in running.records[2:]] == [(3, "gap")]


@pytest.mark.parametrize(
    ("content", "high"),
    [
        (blob(**{"from": 2, "to": 10**18}), 4),  # nobody can write off what is yet to come
        (blob(**{"from": 3, "to": 2}), 1),
        (blob(**{"from": 0, "to": 3}), 1),
        (blob(**{"from": "2", "to": 3}), 1),
        (b"rubbish", 1),
        (b"[" * 100_000, 1),
    ],
)
def test_strange_gap_records(running: Running, content: bytes, high: int) -> None:
    """Strange gap records are rows like any other, and close no more sequences than they may."""
    running.journal.append(entry(1))
    running.journal.append(entry(4, check_id="equus:gap", content=content))
    running.journal.append(entry(6))
    running.until_records(3)
    assert running.high() == high


def test_sequences_that_cannot_be_counted(running: Running) -> None:
    """Sequences below 1 are dropped and not acked, and the operator is told once."""
    for number in (0, -1, 1):
        running.journal.append(entry(number))
    running.until_records(1)
    assert running.journal.refused == 2
    assert running.troubles == [
        Trouble("A sequence of web1's spool s1 can't be counted: dropped, and not acknowledged.")
    ]


HOSTILE = {
    "the last sequence": (2**31 - 1, "c", b"{}"),
    "a time far away": (1, "c", b'{"status": "ok", "started": 1e308, "took_ms": 1e308}'),
    "a time before all": (1, "c", b'{"status": "ok", "started": -1e308}'),
    "NaN": (1, "c", b'{"status": "ok", "started": NaN, "took_ms": NaN}'),
    "infinity": (1, "c", b'{"status": "ok", "started": Infinity, "took_ms": -Infinity, "cpu_ms": 1e999}'),
    "figures": (1, "c", b'{"metrics": [{"name": "n", "value": 1e999}, {"name": "m", "value": 9999999999999999999}]}'),
    "lengths": (1, "c", b'{"truncated": {"output": 18446744073709551616}}'),
    "half a surrogate pair": (1, "c", rb'{"summary": "\ud800", "metrics": [{"name": "\udfff", "value": "\ud800"}]}'),
    "a NUL": (1, "c", rb'{"status": "ok", "summary": "a\u0000b", "reason": "\u0000"}'),
    "a gap to the end": (1, "equus:gap", b'{"from": 1, "to": 9223372036854775807, "reason": "x"}'),
    "a gap of nothing": (5, "equus:gap", b'{"from": -9223372036854775809, "to": 1e400}'),
    "the id of the series that all further checks share": (1, "equus:too-many-checks", b"{}"),
    "the longest id": (1, "c" * 255, b"{}"),
    "no JSON": (1, "c", b"\xff" * 1000),
    "deep": (1, "c", b'{"output": ' + b"[" * 100_000),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_no_result_is_a_trouble_of_the_journal(running: Running, start: Callable[..., Running], what: str) -> None:
    """A hostile result is a row like any other, through segments as well, and never a trouble of the journal (F50)."""
    sequence, check_id, content = HOSTILE[what]
    running.journal.append(entry(sequence, check_id=check_id, content=content))
    running.journal.append(entry(1, agent="other"))
    running.until_records(2)
    running.journal.close()
    again = start()  # it seals what was written
    again.journal.append(entry(2, agent="other"))
    again.until_records(1)
    assert (running.troubles, again.troubles, again.journal.refused) == ([], [], 0)
    assert [trouble for trouble in again.recovery.sentences if trouble not in again.recovery.harmless] == []


# ------------------------------------------------------------------------------------------------ changes


def test_changes_share_the_order_of_results(running: Running) -> None:
    """Changes and results share one `at`; a change comes back as it was given, with Helen's time."""
    running.journal.append(entry(1))
    running.journal.change("transition", {"to": "down"}, "web1", "cpu")
    running.journal.change("link", {"up": False}, "web1")
    running.journal.change("helen_start", {})
    running.journal.append(entry(2))
    running.until_records(5)
    assert [record.at for record in running.records] == [1, 2, 3, 4, 5]
    assert running.records[1:4] == [
        StoredChange(2, Change("transition", NOW, "web1", "cpu", b'{"to":"down"}')),
        StoredChange(3, Change("link", NOW, "web1", None, b'{"agent":"web1","up":false}')),
        StoredChange(4, Change("helen_start", NOW, None, None, b"{}")),
    ]


def test_changes_of_an_unknown_kind(running: Running) -> None:
    """A change of an unknown kind, or one that lacks its agent, raises ValueError: the kinds are a contract with the
    pipeline."""
    with pytest.raises(ValueError, match="kind 'party'"):
        running.journal.change("party", {})
    with pytest.raises(ValueError, match="needs its agent"):
        running.journal.change("flap", {}, check_id="cpu")


# ------------------------------------------------------------------------------------------------ bounds and life


@pytest.mark.parametrize(("size", "count"), [(2, 3), (400_000, 2)])
def test_behind_by_records_or_by_bytes(start: Callable[..., Running], size: int, count: int) -> None:
    """The journal is behind once enough records or bytes wait: small records cost as much to judge as great ones to
    write."""
    running = start(Limits(backlog_behind=800_000, records_behind=3, group_seconds=60))
    running.journal.append(entry(1))
    running.until_records(1)  # the next group waits for 60 s or 4 MiB
    behind = []
    for number in range(2, count + 2):
        behind.append(running.journal.is_behind)
        running.journal.append(entry(number, content=b"x" * size))
    assert (behind, running.journal.is_behind, running.journal.full) == ([False] * count, True, False)
    running.journal.close()
    running.until(lambda: running.high() == count + 1)
    assert not running.journal.is_behind


def test_backpressure(start: Callable[..., Running]) -> None:
    """The journal is `full` at its limit, refuses an append at the hard one, and takes more once the disk has caught
    up."""
    running = start(Limits(backlog_full=1 * MIB, backlog_most=2 * MIB, group_seconds=60))
    running.journal.append(entry(1))
    running.until_records(1)  # the next group waits for 60 s or 4 MiB
    big = b"x" * (MIB // 2)
    assert running.journal.append(entry(2, content=big))
    assert not running.journal.full
    assert running.journal.append(entry(3, content=big))
    assert running.journal.full
    assert running.journal.append(entry(4, content=big))
    assert not running.journal.append(entry(5, content=big))
    assert running.journal.append_own("web1", "cpu", None, Origin.ASKED, NOW, big) is None
    assert running.journal._own == {}
    running.journal.close()
    running.until(lambda: running.high() == 4)
    assert (running.journal.full, running.journal.backlog_bytes) == (False, 0)


def test_a_blob_that_waits_for_the_disk_is_held_once(start: Callable[..., Running]) -> None:
    """A blob that waits for the disk is held once, with less than RECORD_OVERHEAD beside it, so the backlog measures
    memory."""
    running = start(Limits(group_seconds=60))
    running.journal.append(entry(1))
    running.until_records(1)
    entries = [entry(number, content=bytes([number]) * (MIB // 4)) for number in range(2, 10)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for each in entries:
            assert running.journal.append(each)
        held = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert held <= len(entries) * RECORD_OVERHEAD + 16_384
    assert running.journal.backlog_bytes == len(entries) * (MIB // 4 + RECORD_OVERHEAD)
    running.journal.close()
    running.until(lambda: running.high() == 9)
    assert [record.entry.blob for record in running.records[1:]] == [each.blob for each in entries]


def test_close_writes_what_is_queued_and_is_quick(start: Callable[..., Running]) -> None:
    """Closing is quick, writes all queued results and makes no half segment."""
    running = start()
    for number in range(1, 3001):
        running.journal.append(entry(number))
    began = time.monotonic()
    running.journal.close()
    assert time.monotonic() - began < 60
    assert running.high() == 3000
    assert running.names() == []
    assert start().recovery.results == 3000


def test_a_closed_journal_takes_nothing(start: Callable[..., Running], tmp_path: Path) -> None:
    """An append before open or after close raises JournalError."""
    journal = Journal(tmp_path / "x", tmp_path / "y", lambda: None, lambda batch: None, lambda trouble: None)
    with pytest.raises(JournalError, match="isn't open"):
        journal.append(entry(1))
    running = start()
    running.journal.close()
    with pytest.raises(JournalError, match="isn't open"):
        running.journal.append(entry(1))
    with pytest.raises(JournalError, match="isn't open"):
        running.journal.change("helen_stop", {})


def test_a_hanging_disk_keeps_the_lock(start: Callable[..., Running]) -> None:
    """With a hanging disk close gives up in time, and keeps the lock as long as its thread may still write."""
    disk, hang = Disk(), threading.Event()
    disk.sync = lambda descriptor: hang.wait()  # type: ignore[method-assign]
    running = start(Limits(close_seconds=0.2), disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: (running.state / "journal" / "wal-00000001.log").exists())
    began = time.monotonic()
    running.journal.close()
    assert time.monotonic() - began < 60
    with pytest.raises(JournalLocked):
        start()
    hang.set()
    running.until(lambda: running.high() == 1)
    running.journal.close()
    assert start().recovery.results == 1


def test_a_second_helen_is_refused(start: Callable[..., Running]) -> None:
    """A second Helen on a folder is refused by a sentence with the process, until the first has closed it."""
    first = start()
    with pytest.raises(JournalLocked, match=r"Another Helen \(process \d+\) has .* open\. Stop it first"):
        start()
    first.journal.close()
    assert start().recovery == Recovery()


def test_the_lock_dies_with_its_process(start: Callable[..., Running], tmp_path: Path) -> None:
    """The lock file of a killed Helen does not stop the next start."""
    script = (
        "import os, sys, pathlib; from helen.journal.journal import Journal; p = pathlib.Path(sys.argv[1]);"
        "Journal(p / 'journal', p / 'history', print, print, print).open(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == -9
    assert (tmp_path / "journal" / "lock").exists()
    assert start().recovery == Recovery()


def test_the_history_check_agrees(start: Callable[..., Running]) -> None:
    """The history check finds no problem in a history of all kinds of records, before and after sealing."""
    running = start()
    for number in (1, 2, 2, 7):
        running.journal.append(entry(number))
    running.journal.append(entry(8, check_id="equus:gap", content=blob(**{"from": 3, "to": 6})))
    running.journal.forget_below("web1", "s1", 20)
    running.journal.append(entry(20))
    running.journal.append_own("web1", "cpu", None, Origin.ASKED, NOW, blob())
    running.journal.change("flap", {}, "web1", "cpu")
    running.until_records(7)
    acked = [Ack("web1", "s1", running.high())]
    assert acked == [Ack("web1", "s1", 20)]
    while_open = check_history(running.state, acked)
    assert (while_open.results, while_open.changes, while_open.wals, while_open.problems) == (6, 1, 1, ())
    running.journal.close()
    start().journal.close()
    sealed = check_history(running.state, acked)
    assert (sealed.results, sealed.changes, sealed.segments, sealed.wals, sealed.problems) == (6, 1, 1, 0, ())
