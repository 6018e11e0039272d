"""Tests that history files that cannot be opened are reported, and only missing or damaged ones are left out."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helen.cluster.document_store import APPLIED, DocumentStore
from helen.evaluation import segment_footers, state_snapshot
from helen.evaluation.replay import changes_since, series_names
from helen.explain.history_around import HistoryAround
from helen.journal.segments import wal_of
from helen.journal.series import load
from helen.journal.unread import HistoryUnread, demand_content, is_of_content
from helen.journal.values import JournalDamaged
from helen.sessions.rollout_baseline import look_back
from helen.states.fleet_timeline import Timeline

FULL = os.strerror(errno.EMFILE)


@contextmanager
def no_descriptor() -> Iterator[None]:
    """Take all descriptors of this process until the block ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    try:
        yield
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Return STATE/history with the names of series, and a segment of each kind."""
    folder = tmp_path / "history"
    (folder / "segments").mkdir(parents=True)
    pq.write_table(pa.table({"series_id": [1], "agent": ["a"], "check_id": ["c"]}), folder / "series.parquet")
    for kind in ("seg", "chg"):
        pq.write_table(pa.table({"at": [1]}), folder / "segments" / f"{kind}-00000001.parquet")
    state_snapshot.save(tmp_path, 7, Timeline())
    DocumentStore(tmp_path).keep([], {"rules": 3})
    return folder


READ: dict[str, Callable[[Path], Any]] = {
    "the names of series": lambda history: series_names(history / "series.parquet"),
    "changes of a replay": lambda history: changes_since(history, 0),
    "bounds of a segment": lambda history: segment_footers.oldest(history / "segments" / "seg-00000001.parquet"),
    "the states": lambda history: state_snapshot.load(history.parent),
    "changes of an explanation": lambda history: HistoryAround(history).changes(0.0, 1.0),
    "results before a rollout": lambda history: look_back(history, {("a", "c")}, 1.0),
}


@pytest.mark.parametrize("name", READ)
def test_without_a_descriptor(history: Path, name: str) -> None:
    """Without a descriptor each reader of the history raises HistoryUnread with the file and the action, instead of
    finding nothing."""
    with no_descriptor(), pytest.raises(HistoryUnread) as caught:
        READ[name](history)
    assert str(caught.value).endswith(
        f"can't be read ({FULL}): what it holds is not known. Raise LimitNOFILE of Helen's unit (ulimit -n), then try"
        " again."
    )
    assert str(history.parent) in str(caught.value)


def test_the_series_of_a_start_without_a_descriptor(history: Path) -> None:
    """Without a descriptor the journal neither numbers series anew nor takes a segment's WAL for unknown."""
    with no_descriptor():
        with pytest.raises(JournalDamaged, match=FULL):
            load(history / "series.parquet")
        with pytest.raises(OSError, match=FULL):
            wal_of(history / "segments" / "seg-00000001.parquet")


def test_documents_of_the_network(history: Path) -> None:
    """The documents in force are not forgotten for want of a descriptor, but a damaged list is. Each would be
    adopted anew."""
    store = DocumentStore(history.parent)
    assert store.load_applied() == {"rules": 3}
    (history.parent / "network" / "rules.document").write_bytes(b"x")
    assert store.load() == []
    with no_descriptor(), pytest.raises(OSError, match=FULL):
        store.load_applied()
    with no_descriptor(), pytest.raises(OSError, match=FULL):
        store.load()
    (history.parent / "network" / APPLIED).write_bytes(b"[1]")
    assert store.load_applied() == {}
    (history.parent / "network" / APPLIED).unlink()
    assert store.load_applied() == {}


@pytest.mark.parametrize(
    ("error", "is_content"),
    [
        (FileNotFoundError("gone"), True), (OSError("no thrift"), True), (pa.ArrowInvalid("no magic"), True),
        (OSError(errno.EMFILE, FULL), False), (OSError(errno.EIO, "input"), False), (MemoryError(), False),
        (PermissionError(errno.EACCES, "closed"), False),
    ],
)  # fmt: skip
def test_which_errors_are_of_the_content(error: Exception, is_content: bool) -> None:
    """Errors of missing or damaged content are told from those of the system; Arrow gives no number to an error of
    decoding."""
    assert is_of_content(error) is is_content
    if is_content:
        demand_content(Path("x"), error)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.ENFILE, "x"), r"Raise LimitNOFILE"), (OSError(errno.EIO, "x"), "Look at `dmesg`"),
        (OSError(errno.EACCES, "x"), "Chown it to the user"), (MemoryError(), "Give this machine more memory"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_to_do(error: Exception, advice: str) -> None:
    """The sentence on an unread file gives the action that fits the error's number."""
    with pytest.raises(HistoryUnread, match=rf"^seg-1 can't be read \(.*\): what it holds is not known\. {advice}"):
        demand_content(Path("seg-1"), error)
