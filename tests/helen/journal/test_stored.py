"""Tests that a result of a target is counted for its agent and stored under the target: live, in files and after a
start."""

from __future__ import annotations

import queue
import time
from pathlib import Path
from typing import Any

from groundwork.target_ids import wire_id
from helen.evaluation.replay import since
from helen.journal.journal import Journal
from helen.journal.stored import stored_result
from helen.journal.values import Batch, Entry, Origin
from helen.journal.verify import check_history

BLOB = b'{"status": "ok", "summary": "answers"}'


def entry(sequence: int, check_id: str, origin: Origin) -> Entry:
    return Entry("probe-1", check_id, None, "ab", sequence, origin, 1_700_000_000.0, BLOB)


def test_what_it_is_about() -> None:
    """A stored result of a target has the target's name and check and the agent before the spool; others stay as
    they are."""
    made = stored_result(7, entry(3, wire_id("switch-1", "ping"), Origin.TARGET)).entry
    assert (made.agent, made.check_id, made.spool, made.sequence) == ("switch-1", "ping", "probe-1 ab", 3)
    for origin in (Origin.SCHEDULED, Origin.ASKED):
        kept = entry(3, wire_id("switch-1", "ping"), origin)
        assert stored_result(7, kept).entry is kept
    own = entry(3, "ping", Origin.TARGET)
    assert stored_result(7, own).entry is own


def opened(folder: Path, heard: list[Batch]) -> tuple[Journal, Any]:
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    journal = Journal(
        folder / "journal", folder / "history", lambda *call: calls.put(call), heard.append, lambda trouble: None
    )
    recovered = journal.open()

    def turn(until: Any) -> None:
        end = time.monotonic() + 30.0
        while not until():
            function, *args = calls.get(timeout=max(0.1, end - time.monotonic()))
            function(*args)

    return journal, (turn, recovered)


def test_acknowledged_as_one_spool_and_kept_as_two_names(tmp_path: Path) -> None:
    """Results of an agent and its target share one ack and no duplicate is stored; after a restart both names stay."""
    heard: list[Batch] = []
    journal, (turn, _) = opened(tmp_path, heard)
    sent = [entry(1, "cpu", Origin.SCHEDULED), entry(2, wire_id("switch-1", "ping"), Origin.TARGET)]
    for each in (*sent, sent[1]):
        assert journal.append(each)
    turn(lambda: sum(len(batch.records) for batch in heard) == 2 and not journal.has_undelivered)
    acks = [ack for batch in heard for ack in batch.acks]
    assert {(ack.agent, ack.spool) for ack in acks} == {("probe-1", "ab")} and acks[-1].sequence == 2
    names = [("probe-1", "cpu", "ab"), ("switch-1", "ping", "probe-1 ab")]
    records = [record.entry for batch in heard for record in batch.records]
    assert [(each.agent, each.check_id, each.spool) for each in records] == names
    journal.close()
    again: list[Batch] = []
    journal, (turn, recovered) = opened(tmp_path, again)
    found = [(each.entry.agent, each.entry.check_id, each.entry.spool) for each in recovered.records]
    past = [(each.agent, each.check_id, each.result.spool) for each in since(tmp_path / "history", 0) if each.result]
    assert names in (found, past)
    assert journal.append(sent[1])
    turn(lambda: any(batch.acks for batch in again))
    assert not any(batch.records for batch in again)
    journal.close()
    report = check_history(tmp_path)
    assert (report.problems, report.results) == ((), 2)
