"""Tests how a start recovers from the files that it finds: torn tails, bad records, lost and repeated files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from journal_running import Running, blob, entry, mark_of
from msgspec.structs import replace

from groundwork.target_ids import wire_id
from helen.journal.limits import Limits
from helen.journal.record import HEADER_SIZE, Sound, scan
from helen.journal.values import Ack, JournalDamaged, Origin
from helen.journal.verify import check_history


@pytest.fixture
def left(start: Callable[..., Running]) -> Path:
    """Provide the state folder of a Helen that ended with results 1, 2 and 3 and one change in its WAL."""
    running = start()
    for number in (1, 2, 3):
        running.journal.append(entry(number))
    running.journal.change("flap", {"n": 1}, "web1", "cpu")
    running.until_records(4)
    running.journal.close()
    return running.state


def wal(state: Path, number: int = 1) -> Path:
    return state / "journal" / f"wal-{number:08}.log"


def offsets(state: Path) -> list[int]:
    data = wal(state).read_bytes()
    return [part.offset for part in scan(data) if isinstance(part, Sound)] + [len(data)]


def sequences(running: Running) -> list[int]:
    return [row["sequence"] for row in running.rows()]


def test_what_was_left_is_sealed_and_handed_back(left: Path, start: Callable[..., Running]) -> None:
    """A start seals the WAL's records in one segment, hands them back, deletes the WAL and says one harmless
    sentence."""
    running = start()
    assert running.recovery.sentences == (
        "3 results and 1 change were durable and in no segment yet; they are in one now.",
    )
    assert running.recovery.harmless == frozenset(running.recovery.sentences), "any crash leaves that"
    assert [record.at for record in running.recovery.records] == [1, 2, 3, 4]
    assert (running.recovery.results, running.recovery.changes) == (3, 1)
    assert sequences(running) == [1, 2, 3]
    assert running.rows("chg")[0]["document"] == '{"n":1}'
    assert list((left / "journal").glob("wal-*")) == []
    running.journal.append(entry(3))
    running.until(lambda: running.high() == 3)
    assert running.records == []


@pytest.mark.adversary(52)
def test_a_torn_tail_at_every_byte(left: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A last record cut at any byte is a torn tail: the records before it are kept, and nothing is quarantined."""
    bounds = offsets(left)
    for end in range(bounds[3] + 1, bounds[4], 7):
        state = shutil.copytree(left, tmp_path_factory.mktemp("torn") / "state")
        with wal(state).open("r+b") as file:
            file.truncate(end)
        running = Running(state).open()
        running.journal.close()
        assert (running.recovery.results, running.recovery.changes) == (3, 0)
        assert (running.recovery.quarantined, running.recovery.cut_bytes) == (0, end - bounds[3])
        size = end - bounds[3]
        cut = "1 byte is" if size == 1 else f"{size} bytes are"
        assert running.recovery.sentences[0] == (
            f"wal-00000001.log: its last {cut} a write that was interrupted; cut. Nothing in them was acknowledged."
        )
        assert running.recovery.harmless == frozenset(running.recovery.sentences)
        assert check_history(state).problems == ()


@pytest.mark.adversary(52)
@pytest.mark.parametrize("zeros", [1, 5000])
def test_a_zero_filled_tail(left: Path, start: Callable[..., Running], zeros: int) -> None:
    """A tail of zeros, as some file systems leave after a power cut, is cut and not quarantined."""
    with wal(left).open("ab") as file:
        file.write(bytes(zeros))
    running = start()
    assert (running.recovery.results, running.recovery.cut_bytes, running.recovery.quarantined) == (3, zeros, 0)


@pytest.mark.adversary(52)
def test_a_flipped_bit_in_the_middle(left: Path, start: Callable[..., Running]) -> None:
    """A record with a flipped bit goes to quarantine under a name with its offset; all others are in the history."""
    bounds = offsets(left)
    data = bytearray(wal(left).read_bytes())
    data[bounds[1] + 40] ^= 1
    wal(left).write_bytes(data)
    running = start()
    kept = left / "journal" / "quarantine" / f"wal-00000001-at-{bounds[1]:08}.bin"
    assert running.recovery.sentences[0] == (
        f"wal-00000001.log: {bounds[2] - bounds[1]} bytes at offset {bounds[1]} are damaged; kept as {kept} and left"
        " out of the history. Look at the disk."
    )
    assert running.recovery.sentences[0] not in running.recovery.harmless
    assert kept.read_bytes() == bytes(data[bounds[1] : bounds[2]])
    assert running.recovery.quarantined == 1
    assert sequences(running) == [1, 3]
    assert mark_of(running.journal, "web1", "s1")[0] == 1
    assert check_history(left, [Ack("web1", "s1", 3)]).problems == ("web1 s1: sequence 2 is acknowledged and lost.",)


def test_after_a_lost_record_the_acks_go_on(left: Path, start: Callable[..., Running]) -> None:
    """Acks go on behind a lost record once the agent says in `loaded` that it forgot the acked ones."""
    data = bytearray(wal(left).read_bytes())
    data[offsets(left)[1] + 40] ^= 1
    wal(left).write_bytes(data)
    running = start()
    running.journal.forget_below("web1", "s1", 4)
    running.journal.append(entry(4))
    running.until(lambda: running.high() == 4)


def test_a_flipped_bit_in_the_last_record_is_kept(left: Path, start: Callable[..., Running]) -> None:
    """A flipped bit in the last record is quarantined and not cut as torn, since it may have been acknowledged."""
    data = bytearray(wal(left).read_bytes())
    data[-1] ^= 1
    wal(left).write_bytes(data)
    running = start()
    assert (running.recovery.changes, running.recovery.quarantined, running.recovery.cut_bytes) == (0, 1, 0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "wal-00000001.log: it ends within its header; it holds nothing."),
        (b"HELEN", "wal-00000001.log: it ends within its header; it holds nothing."),
        (bytes(4096), "wal-00000001.log: its header is damaged; it holds nothing."),
    ],
)
def test_a_wal_that_was_never_written(left: Path, start: Callable[..., Running], content: bytes, sentence: str) -> None:
    """A WAL without a sound header and without records makes no segment, and the numbers go on without a hole."""
    wal(left).write_bytes(content)
    running = start()
    assert running.recovery.sentences == (sentence,)
    assert running.names() == []
    running.journal.append(entry(1))
    running.until_records(1)
    running.journal.close()
    assert start().names() == ["seg-00000001.parquet"]


def test_a_damaged_header_quarantines_the_file(left: Path, start: Callable[..., Running]) -> None:
    """A WAL with a damaged header is quarantined whole: without its salt nothing in it can be told from an agent's
    bytes."""
    data = bytearray(wal(left).read_bytes())
    data[13] ^= 1
    wal(left).write_bytes(data)
    running = start()
    assert (running.recovery.results, running.recovery.quarantined) == (0, 1)
    assert (left / "journal" / "quarantine" / "wal-00000001-at-00000000.bin").read_bytes() == bytes(data)


@pytest.mark.adversary(52)
def test_a_missing_wal(start: Callable[..., Running]) -> None:
    """A missing WAL is named in a sentence, and the others become dense segments."""
    running = start(Limits(results_per_segment=1))
    (running.segments / "seg-00000001.parquet").mkdir()  # sealing ends here: the name is taken
    for number in (1, 2, 3):
        running.journal.append(entry(number))
    running.until_records(3)
    running.until(lambda: any(trouble.fatal for trouble in running.troubles))
    running.journal.close()
    (running.segments / "seg-00000001.parquet").rmdir()
    assert [wal(running.state, number).exists() for number in (1, 2, 3)] == [True] * 3
    wal(running.state, 2).unlink()
    again = start()
    assert again.recovery.sentences[0] == (
        "1 WAL before wal-00000003.log is missing (wal-00000002.log): what was acknowledged in them is lost. Restore"
        " them from a backup if they were removed by hand."
    )
    assert again.names() == ["seg-00000001.parquet", "seg-00000002.parquet"]
    assert sequences(again) == [1, 3]


def seal_and_keep_wal(left: Path, start: Callable[..., Running]) -> None:
    """Seal the segments and put the WAL back, as a crash between these two steps leaves them."""
    kept = wal(left).read_bytes()
    start().journal.close()
    wal(left).write_bytes(kept)


def test_a_wal_whose_segment_is_written(left: Path, start: Callable[..., Running]) -> None:
    """A WAL whose segments were written before a crash is sealed under the same numbers, with no row twice and no
    file changed."""
    seal_and_keep_wal(left, start)
    (left / "journal" / "marks.json").unlink()
    before = {path.name: path.stat().st_ino for path in (left / "history" / "segments").iterdir()}
    running = start()
    assert {path.name: path.stat().st_ino for path in running.segments.iterdir()} == before
    assert sequences(running) == [1, 2, 3]
    assert list((left / "journal").glob("wal-*")) == []
    assert mark_of(running.journal, "web1", "s1")[0] == 3
    assert check_history(left, [Ack("web1", "s1", 3)]).problems == ()


def test_a_wal_whose_marks_are_written(left: Path, start: Callable[..., Running]) -> None:
    """A WAL that a crash left after its marks were written is deleted, and nothing else happens."""
    seal_and_keep_wal(left, start)
    running = start()
    assert running.recovery.sentences == ()
    assert sequences(running) == [1, 2, 3]
    assert list((left / "journal").glob("wal-*")) == []


def test_only_one_of_two_segments_is_written(left: Path, start: Callable[..., Running]) -> None:
    """A crash between the two segments of a WAL has the missing one written at the next start."""
    seal_and_keep_wal(left, start)
    (left / "journal" / "marks.json").unlink()
    (left / "history" / "segments" / "chg-00000001.parquet").unlink()
    running = start()
    assert running.names() == ["chg-00000001.parquet", "seg-00000001.parquet"]
    assert check_history(left).problems == ()


def test_the_name_of_the_next_segment_is_taken(left: Path, start: Callable[..., Running]) -> None:
    """An unreadable file under the next segment's name is never overwritten: its number counts as taken, which is
    said."""
    taken = left / "history" / "segments" / "seg-00000001.parquet"
    taken.write_bytes(b"who wrote this?")
    running = start()
    assert running.recovery.sentences[1].startswith(f"{taken} can't be read (")
    assert running.names() == ["chg-00000001.parquet", "seg-00000001.parquet", "seg-00000002.parquet"]
    assert taken.read_bytes() == b"who wrote this?"


@pytest.mark.parametrize("damage", [b"", b"{}\n00000000\n", b"not at all"])
def test_damaged_marks(start: Callable[..., Running], damage: bytes) -> None:
    """Damaged marks are replaced by the previous ones and the segments since: acks, own numbers and `at` stay."""
    for number in (1, 2):
        running = start()
        running.journal.append(entry(number))
        running.journal.append_own("web1", "cpu", None, Origin.ASKED, 0.0, blob())
        running.journal.change("flap", {})
        running.until_records(3)
        running.journal.close()
    start().journal.close()
    for names in (["marks.json"], ["marks.json", "marks.previous.json"]):
        for name in names:
            (running.state / "journal" / name).write_bytes(damage)
        again = start()
        assert again.recovery.sentences[0].endswith("is read from the segments that it would have covered.")
        assert mark_of(again.journal, "web1", "s1")[0] == 2
        assert again.journal._own == {"web1": 2}
        again.journal.append(entry(2))
        again.until(lambda: again.high() == 2)  # noqa: B023
        assert again.records == []
        again.journal.close()
        assert (again.state / "journal" / "quarantine" / name).read_bytes() == damage
        assert check_history(again.state, [Ack("web1", "s1", 2), Ack("web1", "helen", 2)]).problems == ()
    last = start()
    last.journal.append(entry(3))
    last.until_records(1)
    assert last.records[0].at == 7


def test_marks_know_gaps_again(start: Callable[..., Running]) -> None:
    """A gap record read from segments still closes its hole."""
    running = start()
    running.journal.append(entry(1))
    running.journal.append(entry(5, check_id="equus:gap", content=blob(**{"from": 2, "to": 4})))
    running.until(lambda: running.high() == 5)
    running.journal.close()
    start().journal.close()
    (running.state / "journal" / "marks.json").unlink()
    again = start()
    assert again.recovery.sentences == ("There is no marks.json: what was acknowledged is read from the segments.",)
    assert mark_of(again.journal, "web1", "s1")[0] == 5


@pytest.mark.adversary(52)
def test_a_missing_segment(start: Callable[..., Running]) -> None:
    """A hole in the numbers of segments is named at the start, and the numbers stay as they are."""
    running = start(Limits(results_per_segment=1))
    for number in (1, 2, 3):
        running.journal.append(entry(number))
    running.until_segment(3)
    running.journal.close()
    (running.segments / "seg-00000002.parquet").unlink()
    again = start()
    assert again.recovery.sentences == (
        f"1 segment is missing in {running.segments} (seg-00000002): restore them from a backup; the pipeline stops"
        " there.",
    )
    problems = check_history(running.state).problems
    assert problems == (
        "seg-00000002 to seg-00000002 are missing.", "web1 s1: sequence 2 is acknowledged and lost.",
    )  # fmt: skip


def test_damaged_series_stop_the_start(left: Path, start: Callable[..., Running]) -> None:
    """A damaged file of series stops the start and releases the lock: without it every row loses its name."""
    start().journal.close()
    (left / "history" / "series.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(JournalDamaged, match="restore it from a backup or move the whole history folder away"):
        start()
    with pytest.raises(JournalDamaged):
        start()


def test_temporary_files_are_swept(left: Path, start: Callable[..., Running]) -> None:
    """A start deletes the journal's own temporary files, and no file of the pipeline."""
    journal, history = left / "journal", left / "history"
    ours = [journal / ".marks.json.1-1.tmp", history / ".series.parquet.1-1.tmp",
            history / "segments" / ".seg-00000001.parquet.1-1.tmp"]  # fmt: skip
    of_the_pipeline = history / ".committed.2-2.tmp"
    for path in (*ours, of_the_pipeline):
        path.write_bytes(b"half")
    start()
    assert [path.exists() for path in ours] == [False, False, False]
    assert of_the_pipeline.exists()


def test_records_handed_back_are_bounded(left: Path, start: Callable[..., Running]) -> None:
    """A start hands back only the newest recovered records, so that memory stays bounded after a long outage."""
    assert [record.at for record in start(Limits(recovered_records=2)).recovery.records] == [3, 4]


def test_numbers_never_go_back_behind_what_spark_has(start: Callable[..., Running]) -> None:
    """Without segments and marks the next number is above those that the pipeline has read."""
    running = start()
    running.journal.close()
    (running.history / "committed").write_text("41\n")
    (running.history / "committed-changes").write_text("7\n")
    again = start()
    again.journal.append(entry(1))
    again.journal.change("flap", {})
    again.until_records(2)
    again.journal.close()
    assert start().names() == ["chg-00000008.parquet", "seg-00000042.parquet"]


def test_the_header_is_all_there_is(left: Path, start: Callable[..., Running]) -> None:
    """A WAL cut right behind its header holds nothing and needs no sentence."""
    with wal(left).open("r+b") as file:
        file.truncate(HEADER_SIZE)
    assert start().recovery.sentences == ()


def test_marks_know_results_of_targets_again(start: Callable[..., Running]) -> None:
    """Marks read from segments count results of a target for the spool of the agent that has looked at it."""
    running = start()
    running.journal.append(entry(1))
    running.journal.append(replace(entry(2, check_id=wire_id("switch-1", "ping")), origin=Origin.TARGET))
    running.journal.append(entry(3))
    running.until_records(3)
    running.journal.close()
    start().journal.close()
    (running.state / "journal" / "marks.json").unlink()
    again = start()
    assert mark_of(again.journal, "web1", "s1") == (3, [])
    assert mark_of(again.journal, "switch-1", "web1 s1") == (0, [])
    again.journal.append(replace(entry(2, check_id=wire_id("switch-1", "ping")), origin=Origin.TARGET))
    again.until(lambda: again.high() == 3)
    assert again.records == [], "it is known"
