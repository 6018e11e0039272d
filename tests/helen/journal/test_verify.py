"""Tests that the history check finds every kind of loss."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from journal_running import Running, blob, entry

from helen.journal import verify
from helen.journal.limits import Limits
from helen.journal.values import Ack
from helen.journal.verify import check_history, main, read_acked


@pytest.fixture
def sealed(start: Callable[..., Running]) -> Running:
    """Provide a closed journal with sequences 1 to 6 in two segments and nothing in a WAL."""
    running = start(Limits(results_per_segment=3))
    for number in range(1, 7):
        running.journal.append(entry(number))
    running.until_segment(2)
    running.journal.close()
    return running


def edit(path: Path, change: Callable[[list[dict]], list[dict]]) -> None:
    """Rewrite the rows of a segment, with its metadata."""
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path)


def test_a_whole_history(sealed: Running) -> None:
    """The check finds no problem in a whole history."""
    report = check_history(sealed.state, [Ack("web1", "s1", 6)])
    assert (report.results, report.segments, report.wals, report.problems) == (6, 2, 0, ())


@pytest.mark.parametrize(
    ("segment", "change", "problem"),
    [
        (1, lambda rows: rows[:1] + rows[2:], "web1 s1: sequence 2 is acknowledged and lost."),
        (1, lambda rows: [], "web1 s1: sequences 1 to 3 are acknowledged and lost."),
        (2, lambda rows: rows[:-1], "web1 s1: sequence 6 is acknowledged and lost."),
        (2, lambda rows: [{**row, "sequence": row["sequence"] - 1} for row in rows],
         "seg-00000002.parquet: web1 s1 3 is there twice."),
        (2, lambda rows: [{**row, "series_id": 7} for row in rows],
         "seg-00000002.parquet: series 7 is not in series.parquet."),
        (2, lambda rows: [{**row, "at": 3} for row in rows], "seg-00000002.parquet: `at` does not rise."),
        (1, lambda rows: rows[::-1], "seg-00000001.parquet: `at` does not rise."),
    ],
)  # fmt: skip
def test_altered_rows(sealed: Running, segment: int, change: Callable, problem: str) -> None:
    """The check finds each lost or altered row by Helen's own marks, without a list of acks."""
    edit(sealed.segments / f"seg-{segment:08}.parquet", change)
    assert problem in check_history(sealed.state).problems


def test_acks_beyond_the_history(sealed: Running) -> None:
    """Acks beyond the history are problems, also those of a spool that is not there at all."""
    acked = [Ack("web1", "s1", 8), Ack("web9", "s1", 1)]
    assert check_history(sealed.state, acked).problems == (
        "web1 s1: sequences 7 to 8 are acknowledged and lost.",
        "web9 s1: sequence 1 is acknowledged and lost.",
    )


def test_holes_need_a_gap_record(start: Callable[..., Running]) -> None:
    """A hole without a gap record is a problem even if nothing behind it was acked, and one with a gap record is
    none."""
    running = start()
    for number in (1, 5):
        running.journal.append(entry(number))
    running.until_records(2)
    assert check_history(running.state).problems == ("web1 s1: sequences 2 to 4 are missing without a gap record.",)
    running.journal.append(entry(6, check_id="equus:gap", content=blob(**{"from": 2, "to": 3})))
    running.until_records(3)
    assert check_history(running.state).problems == ("web1 s1: sequence 4 is missing without a gap record.",)


def test_unreadable_files(sealed: Running) -> None:
    """An unreadable segment is named, and its results count as lost."""
    (sealed.segments / "seg-00000001.parquet").write_bytes(b"PAR1")
    problems = check_history(sealed.state).problems
    assert problems[0].startswith("seg-00000001.parquet can't be read:")
    assert problems[1:] == ("web1 s1: sequences 1 to 3 are acknowledged and lost.",)


def test_a_damaged_wal(start: Callable[..., Running]) -> None:
    """Damaged bytes of a WAL are a problem; a torn tail is none, since it was never acked."""
    running = start()
    for number in (1, 2, 3):
        running.journal.append(entry(number))
    running.until_records(3)
    running.journal.close()
    path = running.state / "journal" / "wal-00000001.log"
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    assert check_history(running.state, [Ack("web1", "s1", 2)]).problems == ()
    path.write_bytes(data[:60] + b"x" + data[61:])
    assert check_history(running.state).problems[0].startswith("wal-00000001.log: ")
    path.write_bytes(b"no WAL at all, but long enough to have a header")
    assert check_history(running.state).problems == ("wal-00000001.log: its header is damaged.",)


@pytest.mark.parametrize("content", [b"", b"HELENWAL", bytes(4096)])
def test_a_wal_that_was_made_and_not_written(sealed: Running, content: bytes) -> None:
    """A WAL that a kill left without a written header is no problem."""
    (sealed.state / "journal" / "wal-00000003.log").write_bytes(content)
    assert check_history(sealed.state, [Ack("web1", "s1", 6)]).problems == ()


def test_a_list_of_acks(tmp_path: Path) -> None:
    """A list of acks has one per line; an unfinished last line does not count, and a malformed one raises
    ValueError."""
    path = tmp_path / "acked"
    path.write_text("web1 s1 3\n\nweb1 helen 1\nweb1 s1 40")
    assert list(read_acked(path)) == [Ack("web1", "s1", 3), Ack("web1", "helen", 1)]
    path.write_text("web1 s1 3 4\n")
    with pytest.raises(ValueError, match="line 1: expected `agent spool sequence`"):
        list(read_acked(path))


def test_the_command(sealed: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with 0, 1 or 2 and a line for a whole history, a lost result and a missing folder."""
    acked = tmp_path / "acked"
    acked.write_text("web1 s1 6\n")
    assert main([str(sealed.state), "--acked", str(acked)]) == 0
    assert capsys.readouterr().out == (
        "6 results and 0 changes in 2 segments and 0 open WALs: nothing lost, nothing twice.\n"
    )
    acked.write_text("web1 s1 7\n")
    assert main([str(sealed.state), "--acked", str(acked)]) == 1
    assert capsys.readouterr().out == (
        "web1 s1: sequence 7 is acknowledged and lost.\n"
        "6 results and 0 changes in 2 segments and 0 open WALs: 1 problem.\n"
    )
    assert main([str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.startswith("error: [Errno 2] No such file or directory")


def test_as_a_module(sealed: Running) -> None:
    """`python -m helen.journal.verify` ends with 0 for a whole history and prints nothing on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "helen.journal.verify", sealed.state], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_help_says_for_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's help has the first line of its module."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert " ".join(str(verify.__doc__).partition("\n")[0].split()) in " ".join(capsys.readouterr().out.split())
