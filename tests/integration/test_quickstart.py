"""Test `helen quickstart` as a new user starts it: real processes, and real checks of this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HELEN = "from helen.cli.main import main; main(prog_name='helen')"
RESULT = re.compile(r" +\d+\.\d s  (ok|warning|critical) +\S+/(load|memory|uptime) +[0-9a-f]{8}  \S")


def quickstart(state: Path, *words: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", HELEN, "quickstart", "--state", str(state), *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
    )  # fmt: skip


def pids(state: Path) -> list[int]:
    """Return the ids of processes with this state directory in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(state).encode() in line:
                found.append(int(entry.name))
    return found


def test_first_results_a_second_start_and_the_end(tmp_path: Path) -> None:
    """The first results of three checks are shown, a second start is refused with a sentence, and no process stays
    behind.
    """
    state = tmp_path / "state"
    with quickstart(state, "--seconds", "300", "--listen", "localhost") as first:
        assert first.stdout is not None
        shown, said = [], ""
        for line in first.stdout:
            said += line
            found = RESULT.match(line)
            if found:
                shown.append(found[2])
            if set(shown) == {"load", "memory", "uptime"}:
                break
        assert shown[:3] == ["load", "memory", "uptime"], said
        assert "Helen listens on localhost:" in said  # as it was asked to be called, and as its certificate says
        second = quickstart(state)
        said, _ = second.communicate(timeout=60)
        assert second.returncode == 1
        assert said.startswith(f"Error: The state directory {state / 'helen'} is in use by process ")
        assert len(said.splitlines()) == 1
        first.send_signal(signal.SIGINT)
        rest = first.stdout.read()
    assert rest.endswith("\nstopping; `helen quickstart` goes on from here\n"), rest
    assert first.returncode == 0
    assert (state / "helen" / "checks" / "disk.lua").exists()
    assert pids(state) == []
