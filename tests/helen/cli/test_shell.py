"""Tests `helen shell` with a real Helen and a real agent that records, and with hosts that send no recording."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import openssh
import pytest
from helen_running import environment, wait_until
from openssh import keygen
from ssh_fleet import HELEN, Fleet

from helen.cli.shell import MOST_LINE, event_of, lines_of, log, play, read_row, show

RECORDS = 'record = true\nkeep = "1d"\nauditors = "{keys}"\n'


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("shell")
    auditor = keygen(folder / "auditor")
    made = Fleet(folder, RECORDS.format(keys=f"{auditor}.pub"))
    try:
        yield made
    finally:
        made.end()


def shell(fleet: Fleet, word: str, *words: str, key: str = "auditor") -> Any:
    at = ["--state", str(fleet.helen.state), "--known-hosts", str(fleet.known)]
    return openssh.run([*HELEN, "shell", word, *at, *words, *openssh.options(fleet.folder / key)], b"", environment())


@pytest.mark.integration
def test_recordings_are_listed_and_played(fleet: Fleet, tmp_path: Path) -> None:
    """A recording is listed with its user, command and caller, saved as it is, and played with colours but no other
    controls."""
    trick = "printf 'a\\033[31mb\\033]52;c;YQ==\\007c\\n'; exit 4"
    assert fleet.ssh("root@web-1", *fleet.options(), trick).returncode == 4
    listed = shell(fleet, "log", "web-1", "--output", "json")
    assert listed.returncode == 0, listed.stderr
    [row] = json.loads(listed.stdout)["recordings"]
    assert (row["user"], row["command"], row["end"]) == ("root", trick, "exit status 4")
    assert row["caller"] == "operator at control.sock"
    assert row["id"].startswith("web-1/")
    assert row["id"].encode() in shell(fleet, "log", "web-1").stdout
    played = shell(fleet, "play", row["id"])
    assert (played.returncode, played.stdout) == (0, b"a\x1b[31mbc\n")
    assert b"helen: exit status 4" in played.stderr
    assert shell(fleet, "play", "--save", str(tmp_path / "cast"), row["id"]).returncode == 0
    [file] = (fleet.folder / "web-1" / "recordings").iterdir()
    assert (tmp_path / "cast").read_bytes() == file.read_bytes()
    again = shell(fleet, "play", "--save", str(tmp_path / "cast"), row["id"])
    assert (again.returncode, b"can't be written" in again.stderr) == (1, True)


@pytest.mark.integration
def test_who_and_what_is_refused(fleet: Fleet) -> None:
    """Listing with a key that is not the auditor's, an unknown recording and a bad ID are refused, each with its own
    status."""
    refused = shell(fleet, "log", "web-1", key="id")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"its policy names the keys that may read them" in refused.stderr
    missing = shell(fleet, "play", "web-1/20231114T221320Z-00000000")
    assert missing.returncode == 3
    assert b"web-1 has no such recording" in missing.stderr
    for wrong in ("web-1", "web-1/x", "20231114T221320Z-00000000", "web-1/../x"):
        assert shell(fleet, "play", wrong).returncode == 2


@pytest.mark.integration
def test_people_are_told(fleet: Fleet) -> None:
    """Helen's history has a decision to notify about each tunnel that is opened to an SSH server."""
    fleet.ssh("root@web-1", *fleet.options(), "true")

    at = [
        "--state",
        str(fleet.helen.state),
        "--once",
        "--kind",
        "decision",
        "--check",
        "equus:shell",
        "--output",
        "json",
    ]

    def told() -> bytes:
        return openssh.run([*HELEN, "events", *at], b"", environment()).stdout

    first = wait_until(told, "decision in the history").splitlines()[0]
    assert b"operator at control.sock has opened a tunnel to the SSH server of web-1" in first


# ------------------------------------------------------------------------------------------------ hosts that lie


@pytest.mark.parametrize("line", [
    b"", b"[]", b"{", b'{"name": "x"}', b"[" * 100_000,
    b'{"name": "../x", "who": "", "user": "", "caller": "", "kind": "", "end": "", "began": 1}',
    b'{"name": "20231114T221320Z-00000000", "who": "", "user": "", "caller": "", "kind": "", "end": "", "began": 1e99}',
    b'{"name": "20231114T221320Z-00000000", "who": "", "user": "", "caller": "", "kind": 1, "end": "", "began": 1}',
])  # fmt: skip
def test_a_list_that_can_not_be_read(line: bytes) -> None:
    """A row of a list that cannot be read raises an error with a sentence."""
    with pytest.raises(click.ClickException, match="a list that can't be read"):
        read_row("web-1", line)


@pytest.mark.parametrize(
    "line", [
        b"", b"{}", b"[1]", b'[1, 2, "x"]', b'["1", "o", "x"]', b'[1, "o", {}]', b"[" * 100_000,
        b"[1" + b"0" * 400 + b', "o", "x"]', b'[1e9, "o", "x"]', b'[Infinity, "o", "x"]', b'[NaN, "o", "x"]',
        b'[-0.5, "o", "x"]', b'[true, "o", "x"]',
    ],
)  # fmt: skip
def test_an_event_that_can_not_be_read(line: bytes) -> None:
    """An event of a recording that cannot be read raises an error with a sentence."""
    with pytest.raises(click.ClickException, match="can't be read from here on"):
        event_of(line)


LIES = """#!/bin/sh
printf 'a\\033]52;c;YQ==\\007b\\n' >&2
head -c 100000 /dev/zero | tr '\\0' x >&2
while [ "$1" ]; do last=$1; shift; done
[ "$last" != list ] || yes '{row}'
exit 1
"""
ROW = {
    "name": "20231114T221320Z-00000000", "who": "", "user": "", "caller": "", "kind": "", "end": "", "began": 1,
    "command": None, "seconds": 1.0, "bytes": 1,
}  # fmt: skip


def test_what_a_host_says_beside_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors of a host are printed as plain lines of bounded length, and a list without an end is refused."""
    (tmp_path / "ssh").write_text(LIES.format(row=json.dumps(ROW)))
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "known").write_text("web-1.helen ssh-ed25519 AAAA\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    at = ["web-1", "--url", "http://127.0.0.1:1", "--token", "x", "--known-hosts", str(tmp_path / "known")]
    with pytest.raises(click.ClickException, match="list of more than 10000 recordings"):
        log.main(at, standalone_mode=False)
    with pytest.raises(click.ClickException, match="has not given its recordings"):
        play.main(["web-1/20231114T221320Z-00000000", *at[1:]], standalone_mode=False)
    said = capsys.readouterr().err
    assert said.count("YQ==") >= 1
    assert "\033" not in said and "\007" not in said
    assert max(map(len, said.splitlines())) <= 4_096


def test_a_line_without_an_end() -> None:
    """A line is read up to MOST_LINE bytes, and a longer one is refused."""
    assert list(lines_of(io.BytesIO(b"a\nb"))) == [b"a\n", b"b"]
    with pytest.raises(click.ClickException, match="too long for a recording"):
        list(lines_of(io.BytesIO(b"x" * (MOST_LINE + 1))))


def test_the_time_of_a_recording(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording is played at the speed that is asked for with pauses cut, and without a wait for times that go
    back."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    events = [
        [0.5, "o", "a"],
        [1.5, "i", "no"],
        [4.5, "o", "b"],
        [900, "o", "c"],
        [1, "o", "d"],
        [1, "o", "e"],
    ]
    lines = [json.dumps({"version": 2}), *map(json.dumps, events)]
    show((line.encode() for line in lines), ("o",), 2.0, 3.0)
    assert slept[:4] == [0.25, 2.0, 3.0, 0.0]
    assert slept[4] == 0.0
    assert capsys.readouterr().out == "abcde"
