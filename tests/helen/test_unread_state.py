"""Tests files of the state directory that can't be opened: a start forgets and replaces none, and tells
which it is.

A symbolic link to itself stands for such a file: neither Python, SQLite nor Arrow can open it, as root neither, and
whatever is written in its place by a rename is seen.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helen_running import Running, environment, pulse, wait_until

from helen.cli.base.client import Failed

ASSIGNED = '[[assign]]\ncheck = "pulse"\n'
LOOP = "Too many levels of symbolic links"
# Refused in one sentence that names the file. The last three are met by a thread that has to stop Helen.
REFUSED = [
    "ca/ca.key", "ca/ca.pem", "ca/server.pem", "helen.db", "history/series.parquet", "journal/marks.json",
    "journal/wal-N.log", "online.key", "passive.key", "roots.json", "signing.key", "states.json.gz", "web.token",
]  # fmt: skip
STOPPED = ["history/segments/chg-N.parquet", "history/segments/seg-N.parquet"]
# An operator's file, which is told and looked at again; and the marks of the last segment but one, which are replaced
# by those of the last one with each segment.
STARTED = ["assignments.toml", "journal/marks.previous.json"]


# The journal closes a segment each 10 s; the tests need two of them, and no second of waiting.
SOON = """
from functools import partial
from helen import wiring
wiring.Limits = partial(wiring.Limits, segment_seconds=0.2)
from twisted.scripts.twistd import run
run()
"""


def name_of(path: Path) -> str:
    return re.sub(r"\d{8}", "N", path.as_posix())


def files_of(state: Path) -> list[Path]:
    """Return the files of a state directory that hold something, by their names in it."""
    found = (path.relative_to(state) for path in sorted(state.rglob("*")) if path.is_file())
    return [path for path in found if path.name not in ("lock", "control.sock")]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a Helen that has ended, with results of an agent."""
    folder = tmp_path_factory.mktemp("left")
    for place in ("checks", "state"):
        (folder / place).mkdir()
    (folder / "checks" / "pulse.lua").write_text(pulse())
    (folder / "state" / "assignments.toml").write_text(ASSIGNED)
    helen = Running(folder, runner=[sys.executable, "-c", SOON, "-n", "--pidfile="]).up()
    agent = helen.agent("web-1")
    try:
        wait_until(lambda: list((folder / "state/history/segments").glob("seg-*")), "segment")
        wait_until(lambda: (folder / "state/journal/marks.previous.json").exists(), "marks of two segments")
        agent.end()
        helen.signal(signal.SIGTERM)
        assert helen.program.wait() == 0, helen.program.said
    finally:
        agent.end()
        helen.end()
    return folder


def closed(left: Path, folder: Path, name: str) -> tuple[Path, bytes]:
    """Copy the folder of a Helen, and put a link to itself in place of the first file of this name."""
    shutil.copytree(left, folder, ignore=shutil.ignore_patterns("*.sock", "helen.log"), dirs_exist_ok=True)
    path = folder / "state" / next(each for each in files_of(folder / "state") if name_of(each) == name)
    content = path.read_bytes()
    path.unlink()
    path.symlink_to(path.name)
    return path, content


@pytest.mark.integration
@pytest.mark.parametrize("name", REFUSED)
def test_a_start_is_refused(left: Path, tmp_path: Path, name: str) -> None:
    """A start is refused with status 1 and one sentence: the file, the reason, what to do. The file is as it was."""
    path, _ = closed(left, tmp_path, name)
    helen = Running(tmp_path)
    assert helen.program.wait() == 1
    said = [line for line in helen.program.said.splitlines() if line.startswith("helen: ")]
    assert len(said) == 1, helen.program.said
    assert str(path) in said[0]
    assert LOOP in said[0]
    assert re.search(r"Look at `dmesg`|restore it from a backup|[Bb]ring it back from a backup", said[0])
    assert "Traceback" not in helen.program.said
    assert path.is_symlink()


@pytest.mark.integration
@pytest.mark.parametrize("name", STOPPED)
def test_a_start_is_broken_off(left: Path, tmp_path: Path, name: str) -> None:
    """A start is broken off by the thread that lists segments, which tells the file, and nothing
    acknowledged is lost.
    """
    path, _ = closed(left, tmp_path, name)
    helen = Running(tmp_path)
    assert helen.program.wait() == 1
    assert f"Writing the history failed ([Errno 40] {LOOP}: '{path}')" in helen.program.said
    assert path.is_symlink()


@pytest.mark.integration
def test_all_of_it_is_there_once_the_file_can_be_opened(left: Path, tmp_path: Path) -> None:
    """The states are read from the mended file; a start would have made them from the segments that are
    left otherwise.
    """
    path, content = closed(left, tmp_path, "states.json.gz")
    assert Running(tmp_path).program.wait() == 1
    path.unlink()
    path.write_bytes(content)
    again = Running(tmp_path).up()
    try:
        states = again.client.get("/api/v1/states?all=true")["states"]
        assert {each["check_id"]: each["status"] for each in states} == {"equus:link": "ok", "pulse": "ok"}
    finally:
        again.end()


@pytest.mark.integration
def test_an_operators_file_is_told(left: Path, tmp_path: Path) -> None:
    """Helen runs with the assignments that it had, and both log and status have the sentence."""
    path, _ = closed(left, tmp_path, "assignments.toml")
    helen = Running(tmp_path).up()
    try:
        words = [sys.executable, "-c", "from helen.cli.main import main; main()", "status", "--state", str(helen.state)]
        said = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
        assert f"{path} can't be read: {LOOP}" in said.stdout + said.stderr
        with pytest.raises(Failed, match=f"can't be read: {LOOP}"):
            helen.client.get("/api/v1/assignments")
        assert {each["check_id"] for each in helen.client.get("/api/v1/states?all=true")["states"]} >= {"pulse"}
    finally:
        helen.end()
    assert path.is_symlink()


@pytest.mark.integration
def test_every_file_is_tried(left: Path) -> None:
    """Every file is tried: a new one of the state directory belongs into one of the lists above."""
    assert {name_of(path) for path in files_of(left / "state")} == {*REFUSED, *STOPPED, *STARTED}
