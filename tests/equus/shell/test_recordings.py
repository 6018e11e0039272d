"""Test recordings by themselves: the file, the room that they may take, the list, and the time for which they
are kept.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from equus.shell.recording import About, Recorder, Recording, RecordingFailed
from equus.shell.recordings import LEAST, NAME, SHARE, NoRoom, forget_old, listed, path_of, prepare

WHEN = 1_700_000_000.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def begin(folder: Path, kind: str = "command", room: int = 1_000_000) -> tuple[Recording, Clock]:
    folder.mkdir(mode=0o700, exist_ok=True)
    clock = Clock()
    about = About("SHA256:abc", "ops", "token ops at 192.0.2.7", kind, "ls -l", "xterm", (100, 30))  # type: ignore[arg-type]
    return Recorder(folder, room, lambda: WHEN, clock).begin(about), clock


def lines(folder: Path) -> list[object]:
    [path] = folder.iterdir()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_recording_is_an_asciicast(tmp_path: Path) -> None:
    """A recording is an asciicast: a head with size, time, user and address, events with their times, and the end as
    the last line.
    """
    recording, clock = begin(tmp_path / "r")
    clock.now = 0.5
    recording.input(b"a\xff")
    recording.output("gr\u00fc".encode()[:3], False)  # half a letter
    recording.output("\u00fc\n".encode()[1:], False)
    recording.output(b"no\n", True)
    recording.resized(80, 25)
    clock.now = 2.0
    recording.end("exit status 0")
    recording.end("again")
    recording.output(b"late", False)
    said = {"who": "SHA256:abc", "user": "ops", "caller": "token ops at 192.0.2.7", "kind": "command"}
    head = {
        "version": 2,
        "width": 100,
        "height": 30,
        "timestamp": int(WHEN),
        "command": "ls -l",
        "env": {"TERM": "xterm"},
    }
    assert lines(tmp_path / "r") == [
        head | {"equus": said}, [0.5, "i", "a\\xff"], [0.5, "o", "gr"], [0.5, "o", "\u00fc\n"], [0.5, "o", "no\n"],
        [0.5, "r", "80x25"], [2.0, "m", "exit status 0"],
    ]  # fmt: skip
    [path] = (tmp_path / "r").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("kind", "codes"), [("terminal", "oom"), ("command", "ioom"), ("files", "om")])
def test_what_is_recorded(tmp_path: Path, kind: str, codes: str) -> None:
    """The recording of a terminal has what it showed, so no password, and that of SFTP the log of its server alone."""
    recording, _ = begin(tmp_path / "r", kind)
    recording.input(b"secret")
    recording.output(b"out", False)
    recording.output(b"err", True)
    recording.end("exit status 0")
    assert "".join(str(line[1]) for line in lines(tmp_path / "r")[1:]) == codes  # type: ignore[index]


def test_a_session_that_has_no_more_room_is_told(tmp_path: Path) -> None:
    """A recording without room refuses the event, keeps room for its end, and all sessions of a connection share it."""
    recording, _ = begin(tmp_path / "r", room=1_500)
    recording.output(b"x" * 500, False)
    with pytest.raises(RecordingFailed, match="no more room"):
        recording.output(b"x" * 900, False)
    recording.end("the connection has ended")
    assert lines(tmp_path / "r")[-1] == [0.0, "m", "the connection has ended"]
    with pytest.raises(RecordingFailed, match="no more room"):
        begin(tmp_path / "r", room=300)


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    """A session without a recording does not begin, as in a folder that cannot be written."""
    with pytest.raises(RecordingFailed, match="can't be recorded"):
        Recorder(tmp_path / "none", 1_000, lambda: WHEN, lambda: 0.0).begin(About("", "", "", "command"))


def test_the_list(tmp_path: Path) -> None:
    """The list has the newest recording first, with one that was cut off, and passes over other files and links."""
    folder = tmp_path / "r"
    recording, clock = begin(folder)
    clock.now = 3.25
    recording.end("exit status 7")
    begin(folder)  # which is cut off
    [first, second] = sorted(folder.iterdir(), key=lambda path: path.read_bytes().count(b'"m"'), reverse=True)
    first.rename(folder / "20231114T221320Z-00000000.cast")
    second.rename(folder / "20231114T221321Z-00000000.cast")
    (folder / "20231114T221322Z-00000000.cast").write_bytes(b"[]\n")
    (folder / "20231114T221323Z-00000000.cast").write_bytes(b"")
    (folder / "other.txt").write_text("x")
    os.symlink("/etc/passwd", folder / "20231114T221324Z-00000000.cast")
    newest, oldest = listed(folder)
    assert (newest["name"], newest["seconds"], newest["end"]) == ("20231114T221321Z-00000000", None, "")
    assert {**oldest, "bytes": 0} == {
        "name": "20231114T221320Z-00000000", "began": int(WHEN), "seconds": 3.25, "bytes": 0, "who": "SHA256:abc",
        "user": "ops", "caller": "token ops at 192.0.2.7", "kind": "command", "command": "ls -l",
        "end": "exit status 7",
    }  # fmt: skip
    assert path_of(folder, "20231114T221320Z-00000000") == folder / "20231114T221320Z-00000000.cast"
    for name in ("", "../r/20231114T221320Z-00000000", "20231114T221324Z-00000000", "20231114T221329Z-00000000"):
        assert path_of(folder, name) is None
    assert list(listed(tmp_path / "none")) == []


def test_the_room_of_all(tmp_path: Path) -> None:
    """One connection gets a share of the room for recordings, and none is opened when all is used."""
    folder, most = tmp_path / "r", 16 * 1_048_576
    assert prepare(folder, most) == prepare(folder, most, SHARE - 1) == most // SHARE
    assert folder.stat().st_mode & 0o777 == 0o700
    for number in range(16):
        with open(folder / f"20231114T221320Z-{number:08x}.cast", "wb") as file:
            file.truncate(1_048_576 - (2 * LEAST if number == 0 else 0))
    assert prepare(folder, most) == 2 * LEAST
    with pytest.raises(NoRoom, match="all of their 16 MiB, with the shares of 1 open session:"):
        prepare(folder, most, 1)
    with open(folder / "20231114T221320Z-000000ff.cast", "wb") as file:
        file.truncate(LEAST + 1)
    with pytest.raises(NoRoom, match="recordings take all of their 16 MiB"):
        prepare(folder, most)


def test_they_are_kept_for_their_time(tmp_path: Path) -> None:
    """Recordings are removed by the time of their last event, and no other file is touched."""
    names = ["20231114T221320Z-00000000.cast", "20231114T221320Z-00000001.cast", "other.txt"]
    for name in names:
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (WHEN, WHEN))
    os.utime(tmp_path / names[1], (WHEN + 100, WHEN + 100))
    assert forget_old(tmp_path, 50.0, WHEN + 51) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == names[1:]
    assert forget_old(tmp_path / "none", 50.0, WHEN) == 0
    assert NAME.fullmatch("20231114T221320Z-00000000")
