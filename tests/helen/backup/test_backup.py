"""Tests copies of a state directory: sound during writes, whole or not there, and refused in a sentence."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import stat
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from journal_running import Running, entry

from helen.backup.archive import About, BackupFailed, BackupWriter, read_about
from helen.backup.capture import back_up
from helen.backup.restore import check, restore
from helen.cli.main import main
from helen.evaluation import state_snapshot
from helen.files import restored
from helen.journal.limits import Limits
from helen.journal.verify import check_history
from helen.states.fleet_timeline import Timeline
from helen.storage import agent_rows, schema

MADE = 1_800_000_000.0


def about(has_history: bool = False) -> About:
    return About(MADE, "1.2.3", has_history)


def a_state(folder: Path) -> Path:
    """Return a state directory with a database, keys, settings, and files that pass away."""
    folder.mkdir(mode=0o700)
    with closing(schema.connect(folder / "helen.db")) as database:
        agent_rows.put(database, "events.epoch", "abcd")
        agent_rows.put(database, "drawer", "kept")
    for name, content in (("signing.key", "secret"), ("passive.toml", "# none"), ("ca/ca.key", "own"), ("lock", "1"),
                          ("checks/lib/x.lua", "return {}"), ("lint/x.lua", "x"), ("drained.json", "{}"),
                          ("zerotask/run.json", "{}"), ("jobs/a.json", "[]")):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "signing.key").chmod(0o600)
    with closing(sqlite3.connect(folder / "zerotask" / "tasks.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE tasks (id TEXT)")
        database.execute("INSERT INTO tasks VALUES ('t1')")
        database.commit()
    return folder


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_in_it(tmp_path: Path) -> None:
    """A backup has files with their modes, each database as it is, and nothing that passes away; events get other ids
    (J3).
    """
    state, file, other = a_state(tmp_path / "state"), tmp_path / "b", tmp_path / "deep" / "other"
    back_up(state, file, about())
    assert (stat.S_IMODE(file.stat().st_mode), read_about(file)) == (0o600, about())
    assert restore(file, other, MADE + 60) == about()
    kept = {"signing.key", "passive.toml", "ca/ca.key", "checks/lib/x.lua", "jobs/a.json", "zerotask/tasks.db"}
    assert names(other) - {"helen.db-wal", "helen.db-shm"} == kept | {"helen.db", "restored.json"}
    assert stat.S_IMODE((other / "signing.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    with closing(sqlite3.connect(other / "helen.db")) as database:
        kv = dict(database.execute("SELECT key, value FROM kv"))
        assert list(database.execute("SELECT action FROM audit")) == [("restore",)]
    assert ("events.epoch" in kv, kv["drawer"]) == (False, "kept")
    with closing(sqlite3.connect(other / "zerotask" / "tasks.db")) as database:
        assert list(database.execute("SELECT id FROM tasks")) == [("t1",)]
    found = restored.read(other)
    assert found is not None and (found.made, found.restored) == (MADE, MADE + 60)
    assert "2027-01-15 08:00 UTC" in found.sentence


def test_checks_of_another_folder(tmp_path: Path) -> None:
    """The other folder's checks replace those of the state directory; the caller may publish them at once."""
    state, own = a_state(tmp_path / "state"), tmp_path / "own"
    (own / "tests").mkdir(parents=True)
    (own / "mine.lua").write_text("return 1")
    (own / "tests" / "mine.lua").write_text("return 2")
    back_up(state, tmp_path / "b", about(), own)
    restore(tmp_path / "b", tmp_path / "other", MADE, may_publish=True)
    assert names(tmp_path / "other" / "checks") == {"mine.lua", "tests/mine.lua"}
    assert restored.read(tmp_path / "other") is None


@pytest.mark.parametrize("has_history", [True, False])
def test_copies_while_results_are_written_and_sealed(tmp_path: Path, has_history: bool) -> None:
    """Each copy holds all that was durable when it was begun, once, and a journal opens on it (J3)."""
    state = a_state(tmp_path / "state")
    journal = Running(state, limits=Limits(results_per_segment=7, group_seconds=0.005)).open()
    with closing(sqlite3.connect(state / "helen.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    source = Growing(journal)
    try:
        for number in range(6):
            source.until_records(40 * (number + 1))
            before = {each.entry.sequence for each in journal.records if hasattr(each, "entry")}
            if number == 3:
                state_snapshot.save(state, journal.records[len(journal.records) // 2].at, Timeline())
            copy = tmp_path / f"copy{number}"
            source.meanwhile(partial(back_up, state, tmp_path / f"b{number}", about(has_history)))
            restore(tmp_path / f"b{number}", copy, MADE)
            assert check_history(copy).problems == ()
            saved = state_snapshot.load(copy)
            least = 0 if saved is None or has_history else saved[0]
            again = Running(copy).open()
            again.journal.close()
            assert [each for each in again.recovery.sentences if "missing" in each or "damaged" in each] == []
            kept = _sequences(copy, least)
            needed = {each.entry.sequence for each in journal.records if hasattr(each, "entry") and each.at > least}
            assert needed & before <= set(kept) and len(kept) == len(set(kept))
    finally:
        journal.journal.close()


class Growing:
    """Appends results to a journal in the test's thread, as a reactor does, while something else reads the disk."""

    def __init__(self, journal: Running) -> None:
        self._journal = journal
        self._sent = 0

    def until_records(self, count: int) -> None:
        while len(self._journal.records) < count:
            self._append()

    def meanwhile(self, work: Callable[[], object]) -> None:
        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(work)
            while not going.done():
                self._append()
            going.result()

    def _append(self) -> None:
        self._sent += 1
        self._journal.journal.append(entry(self._sent))
        if self._sent % 5 == 0:
            self._journal.journal.change("link", {"event": "up"}, "web1")
        self._journal.turn()
        time.sleep(0.003)


def test_states_that_are_ahead_of_all_segments(tmp_path: Path) -> None:
    """A slow disk seals late; the copy without history has the newest segment all the same, so nothing looks lost."""
    state = a_state(tmp_path / "state")
    journal = Running(state, limits=Limits(results_per_segment=7)).open()
    source = Growing(journal)
    source.until_records(60)
    journal.until_segment(4)
    state_snapshot.save(state, journal.records[-1].at, Timeline())
    sealed = journal.journal.segment
    back_up(state, tmp_path / "b", about(has_history=False))
    journal.journal.close()
    restore(tmp_path / "b", tmp_path / "copy", MADE)
    copied = sorted(path.name for path in (tmp_path / "copy" / "history" / "segments").glob("seg-*.parquet"))
    assert (len(copied), copied[-1] >= f"seg-{sealed:08}.parquet") == (1, True)
    assert check_history(tmp_path / "copy").problems == ()


def _sequences(state: Path, above: int) -> list[int]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    for path in sorted((state / "history" / "segments").glob("seg-*.parquet")):
        rows += pq.read_table(path, columns=["at", "sequence"]).to_pylist()
    return [row["sequence"] for row in rows if row["at"] > above]


def _cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 2 // 3])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def _without_end(file: Path) -> None:
    """Cut the file so that it is whole for gzip and tar: only the last member is gone."""
    _rewrite(file, lambda name, content: None if name == "complete.json" else content)


def _other_content(file: Path) -> None:
    _rewrite(file, lambda name, content: b"other!" if name.endswith("signing.key") else content)


def _newer(file: Path) -> None:
    _rewrite(file, lambda name, content: content.replace(b'"format": 1', b'"format": 2'))


def _rewrite(file: Path, change: Any) -> None:
    out = io.BytesIO()
    with tarfile.open(file, "r:gz") as tar, tarfile.open(fileobj=out, mode="w:gz") as made:
        for member in tar:
            held = tar.extractfile(member)
            assert held is not None
            content = change(member.name, held.read())
            if content is not None:
                member.size = len(content)
                made.addfile(member, io.BytesIO(content))
    file.write_bytes(out.getvalue())


def _outside(file: Path) -> None:
    out = io.BytesIO()
    head = json.dumps({"format": 1, "made": 1.0, "version": "1", "history": False}).encode()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for name, content in (("backup.json", head), ("state/../../evil", b"x")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    file.write_bytes(out.getvalue())


def _text(file: Path) -> None:
    file.write_text("no backup")


def _packed_text(file: Path) -> None:
    file.write_bytes(gzip.compress(b"no backup"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_cut, "cut off"), (_flip, "damaged|cut off"), (_without_end, "cut off"), (_other_content, "differs"),
        (_newer, "newer Helen, 1.2.3"), (_outside, "it has 'state/../../evil' in it"), (_text, "no backup of Helen"),
        (_packed_text, "no backup of Helen"), (Path.unlink, "there is no"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_whole_backup(tmp_path: Path, spoil: Any, why: str) -> None:
    """A file that is no whole backup is refused with the reason, and nothing is left of the try."""
    folder = tmp_path / "folder"
    folder.mkdir()
    back_up(a_state(folder / "state"), folder / "b", about())
    spoil(folder / "b")
    with pytest.raises(BackupFailed, match=why):
        restore(folder / "b", folder / "other", MADE)
    with pytest.raises(BackupFailed, match=why):
        check(folder / "b", MADE)
    assert {path.name for path in folder.iterdir()} - {"b"} == {"state"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_check_restores_nothing(tmp_path: Path) -> None:
    """A check tells that a whole backup is one, by the command as well, and leaves nothing."""
    back_up(a_state(tmp_path / "state"), tmp_path / "b", about())
    found, files = check(tmp_path / "b", MADE)
    assert (found, files) == (about(), 7)
    done = CliRunner().invoke(main, ["restore", str(tmp_path / "b"), "--check"])
    assert (done.exit_code, f"{tmp_path}/b is whole: 7 files, " in done.output) == (0, True), done.output
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes()[:600])
    done = CliRunner().invoke(main, ["restore", str(tmp_path / "b"), "--check"])
    assert (done.exit_code, "cut off" in done.output or "damaged" in done.output) == (1, True), done.output
    assert CliRunner().invoke(main, ["restore", str(tmp_path / "b")], env={"HELEN_STATE": None}).exit_code == 2
    assert {path.name for path in tmp_path.iterdir()} == {"b", "state"}


def test_a_database_that_is_damaged(tmp_path: Path) -> None:
    """A damaged database has a checksum that fits the copy, so only SQLite can tell."""
    with closing(schema.connect(tmp_path / "helen.db")) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.executemany("INSERT INTO kv VALUES (?, ?)", [(f"k{at:04}", "v" * 2_000) for at in range(200)])
        database.commit()
    content = bytearray((tmp_path / "helen.db").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 20_000] = b"\xff" * 20_000
    for damaged in (bytes(content), b"no database" * 1_000):
        writer = BackupWriter(tmp_path / "b", about())
        writer.add("helen.db", damaged)
        writer.finish()
        with pytest.raises(BackupFailed, match="is damaged"):
            check(tmp_path / "b", MADE)


def test_places_that_are_taken(tmp_path: Path) -> None:
    """No state is written over, no other file is replaced, and a backup of before is."""
    state, file = a_state(tmp_path / "state"), tmp_path / "b"
    back_up(state, file, about())
    with pytest.raises(BackupFailed, match="is there already"):
        restore(file, state, MADE)
    back_up(state, file, About(MADE + 1, "1.2.3", True))
    assert read_about(file).made == MADE + 1
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(BackupFailed, match="is no backup"):
        back_up(state, tmp_path / "notes", about())
    with pytest.raises(BackupFailed, match="lies in the state directory"):
        back_up(state, state / "b", about())
    with pytest.raises(BackupFailed, match="no state directory of Helen"):
        back_up(tmp_path, tmp_path / "c", about())
    with pytest.raises(BackupFailed, match="can't be written"):
        back_up(state, tmp_path / "nowhere" / "c", about())
    assert (tmp_path / "notes").read_text() == "mine"
