"""Runs programs of an older tree, by tests/fixtures/releases, and of this one, on the same state directories.

An older tree has an interpreter of its own, which knows the packages of others that the tests run with and nothing of
this tree. The archives are `git archive COMMIT` of the program's folders, less what only a browser reads.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from typing import Any

from helen_running import Program, Running, environment, pulse, wait_until

from equus.spool.spool import Spool
from helen.journal.values import Ack

RELEASES = Path(__file__).parents[1] / "fixtures" / "releases"
HELEN = "from helen.cli.main import main; main(prog_name='helen')"
EQUUS = "from equus.main import main; main(prog_name='equus')"
TWISTD = "from twisted.scripts.twistd import run; run()"
NOW = sys.executable  # the interpreter of this tree


def interpreter_of(release: str, folder: Path) -> str:
    """Unpack a release into a folder and return the interpreter that runs it."""
    with tarfile.open(RELEASES / f"{release}.tar.xz") as archive:
        archive.extractall(folder / "tree", filter="data")
    venv.create(folder / "venv", with_pip=False)
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "release.pth").write_text(f"{folder / 'tree'}\n{sysconfig.get_path('purelib')}\n")
    return str(folder / "venv" / "bin" / "python")


class Lives:
    """Holds one state of Helen's and one of an agent's, on which several releases run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "checks").mkdir()
        (folder / "checks" / "pulse.lua").write_text(pulse(every="1s"))
        self.python = NOW
        self.running: Running | None = None
        self.agent: Program | None = None

    def start(self, python: str) -> Running:
        """Start Helen by an interpreter; the caller waits for it."""
        self.python = python
        self.running = Running(self.folder, runner=[python, "-c", TWISTD, "-n", "--pidfile="], cwd="/")
        return self.running

    def dial(self, *more: str) -> Program:
        """Start the agent web-1 by the same interpreter, at the Helen that runs."""
        assert self.running is not None
        words = ["--server", self.running.run["agents"], "--state", str(self.folder / "web-1"), "--name", "web-1"]
        self.agent = Program([self.python, "-c", EQUUS, *words, *more], self.folder / "web-1.log", cwd="/")
        return self.agent

    def helen(self, *words: str) -> str:
        """Return the output of a command of the release that runs, which must succeed."""
        command = [self.python, "-c", HELEN, *words, "--state", str(self.folder / "state")]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment(), timeout=300)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def results(self) -> list[dict[str, Any]]:
        assert self.running is not None
        found: list[dict[str, Any]] = self.running.client.get("/api/v1/results")["results"]
        return found

    def reports(self) -> None:
        """Wait for a result that came in since this was called."""
        assert self.running is not None
        newest = max((each["received"] for each in self.results()), default=0.0)
        wait_until(lambda: any(each["received"] > newest for each in self.results()), "new result", 180)

    def acked(self) -> Ack:
        """Return the last result that the agent, which has ended, holds to be acknowledged."""
        copy = self.folder / "spool-copy"
        shutil.copytree(self.folder / "web-1" / "spool", copy)  # opening a spool repairs it
        spool = Spool(copy)
        found = Ack("web-1", spool.id, spool.first - 1)
        spool.close()
        shutil.rmtree(copy)
        return found

    def stop(self) -> None:
        """End both, in order."""
        for program in (self.agent, self.running and self.running.program):
            if program is not None:
                program.end()
        self.agent = self.running = None
