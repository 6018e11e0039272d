"""Test the join token: it comes by file, environment, standard input or argument, and is in no list of processes."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from equus import settings
from equus.settings import SettingsError

EQUUS = [sys.executable, "-m", "equus.main"]
PATIENCE = 60.0  # seconds for a start on a busy machine
TOKEN = "ab" * 32 + ".s3cret"


def gathered(flags, environment, tmp_path):
    environment = {"EQUUS_STATE": str(tmp_path / "state"), **environment}
    return settings.gather({"server": ["h:1"], **flags}, environment, tmp_path, root=False)


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        ({"join-file": "FILE"}, {}, "from file"),
        ({"join-file": "FILE"}, {"EQUUS_JOIN": "from environment"}, "from file"),
        ({}, {"EQUUS_JOIN_FILE": "FILE"}, "from file"),
        ({}, {"EQUUS_JOIN": "from environment", "EQUUS_JOIN_FILE": "FILE"}, "from environment"),
        ({"join": "from flag"}, {"EQUUS_JOIN_FILE": "FILE"}, "from flag"),
        ({"join": "-"}, {"EQUUS_JOIN": "from environment"}, "from input"),
        ({}, {"EQUUS_JOIN": "-"}, "from input"),
        ({}, {}, None),
    ],
)
def test_where_the_token_comes_from(flags, environment, expected, tmp_path, monkeypatch):
    """A token from flags counts before one from the environment, in either form (F46)."""
    (tmp_path / "token").write_text("from file\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("from input\nmore"))
    flags, environment = (
        {name: value.replace("FILE", str(tmp_path / "token")) for name, value in each.items()}
        for each in (flags, environment)
    )
    assert gathered(flags, environment, tmp_path).join == expected


def test_a_file_that_is_gone(tmp_path):
    """A missing file of the token is a fault before there is an identity, and none after it (F46)."""
    with pytest.raises(SettingsError, match=r"--join-file \(or EQUUS_JOIN_FILE\): cannot read .*/none"):
        gathered({"join-file": str(tmp_path / "none")}, {}, tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "agent.pem").write_text("")
    assert gathered({"join-file": str(tmp_path / "none")}, {}, tmp_path).join is None


def test_standard_input_without_a_token(tmp_path, monkeypatch):
    """Standard input without a token is refused with a sentence, instead of a wait."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SettingsError, match="standard input has no token"):
        gathered({"join": "-"}, {}, tmp_path)


@pytest.mark.parametrize("words", [["--join", TOKEN], [f"--join={TOKEN}"]])
def test_no_list_of_processes_shows_it(words, tmp_path):
    """The command lines of a real agent and its children have no part of the token (F46)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EQUUS_")}
    words = [*EQUUS, "--server", "127.0.0.1:9", "--state", str(tmp_path / "state"), *words]
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as agent:
        try:
            first = agent.stderr.readline()  # it has tried to connect, so it has started all of its processes
            lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (agent.pid, *children(agent.pid))}
        finally:
            agent.kill()
    assert first and len(lines) == 3
    assert b"equus.main" in lines[agent.pid] and b"xxxxxxxx" in lines[agent.pid]
    assert not [line for line in lines.values() if b"s3cret" in line or b"abab" in line]


def children(pid):
    """Return the process ids of the zygote and the broker, once both are there."""
    until = time.monotonic() + PATIENCE
    while len(found := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) < 2:
        assert time.monotonic() < until
    return [int(each) for each in found]
