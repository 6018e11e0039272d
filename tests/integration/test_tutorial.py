"""Run docs/tutorial.rst: every command of it, in order, against a real Helen on loopback, and compare the output.

Files are written where the page says so (`:caption:`); blocks named `terminal-N` run in terminals of their own. Shown
and real output are compared after figures, hashes and blanks have been made equal; a line `...`, or `...` at the end
of a line, stands for anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field, frozen
from patience import Patience
from ports import free_port

from helen.cli.local.quickstart import agent_name

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.rst"
PATIENCE = 60.0  # seconds that one command may take, on a machine that does other things
# Another Helen may have the usual port, one of a test that runs beside this one: then quickstart says so first.
PORT_TAKEN = r"(?:Port 0 is taken here, so this Helen has another one\.\n)?"
END = "the command is over, with status"

pytestmark = pytest.mark.integration


@frozen
class Block:
    """Hold one code block of the page."""

    language: str
    options: dict[str, str]
    lines: list[str]

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Return each command with the lines that are shown as its output."""
        found: list[tuple[str, list[str]]] = []
        for line in self.lines:
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def blocks(text: str) -> Iterator[Block]:
    """Yield the code blocks of a page."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        head = re.fullmatch(r"\.\. code-block:: (\S+)", line)
        if head is None:
            continue
        body: list[str] = []
        for each in lines[at + 1 :]:
            if each and not each.startswith("   "):
                break
            body.append(each[3:])
        options = {}
        while match := re.fullmatch(r":(\w+): (.+)", body[0]):
            options[match[1]] = match[2]
            del body[0]
        yield Block(head[1], options, "\n".join(body).strip("\n").splitlines())


def equal_text(line: str) -> str:
    """Return a line without what differs from run to run: figures with their units, hashes, tokens, widths."""
    line = re.sub(r"\b[0-9a-f]{8,}\b", "HASH", line)
    line = re.sub(r"\d+(\.\d+)?(e-\d+)?", "0", line)
    line = re.sub(r"\b0[mhd]\b", "0s", line)
    # A run that takes more memory or time than the page's is shown in the next unit.
    line = re.sub(r"\b0\s+([KMG]i)?B\b", "0 B", line)
    line = re.sub(r"\b0\s+[mµ]?s\b", "0 s", line)
    return " ".join(line.split())


def pattern(shown: list[str]) -> re.Pattern[str]:
    """Return the regular expression for output that is shown so."""
    parts = []
    for line in shown:
        text = equal_text(line)
        if text == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(re.escape(text).replace(r"\ \.\.\.", "(?: .*)?").replace(r"\.\.\.", ".*") + r"\n")
    return re.compile("".join(parts))


@define
class Terminal:
    """Run commands in one shell, and read what they print."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["bash", "--norc"], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder,
                env=self.environment, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / "terminal.log"

    def write(self, command: str) -> int:
        """Send a command to the shell, and return where its output begins."""
        begin = self.log.stat().st_size
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()
        return begin

    def wait_for(self, begin: int, wanted: re.Pattern[str], command: str) -> re.Match[str]:
        """Wait until the output from `begin` on matches; fail with all of it."""
        bound = Patience(PATIENCE)
        while True:
            text = self.log.read_bytes()[begin:].decode("utf-8", "replace")
            found = wanted.fullmatch("".join(f"{equal_text(line)}\n" for line in text.splitlines()))
            if found is not None:
                return found
            if not bound.lasts():
                pytest.fail(f"{command}\nprinted within {PATIENCE:g} s\n{text}\nand not\n{wanted.pattern}")
            time.sleep(0.1)

    def run(self, command: str, shown: list[str]) -> None:
        """Run a command to its end. One without output shown must succeed; `echo $?` shows the status of others."""
        begin = self.write(f"{command}\n(exit_status=$?; echo {END} $exit_status; exit $exit_status)")
        last = self.wait_for(begin, re.compile(rf"(?P<text>(?:.*\n)*?){END} (?P<status>\d+)\n"), command)
        text = self.log.read_bytes()[begin:].decode("utf-8", "replace")
        if shown:
            assert pattern(shown).fullmatch(last["text"]), f"{command}\nprinted\n{text}\nand not\n" + "\n".join(shown)
        else:
            assert text.endswith(f"{END} 0\n"), f"{command}\nprinted\n{text}"

    def stay(self, command: str, shown: list[str]) -> None:
        """Start a command that goes on, and wait until it has printed the shown lines."""
        begin = self.write(command)
        self.wait_for(begin, re.compile(f"{PORT_TAKEN}(?:{pattern(shown).pattern})(?:.*\n)*"), command)

    def close(self) -> None:
        """End the shell and everything that it has started."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sent)
                self.process.wait(60)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        assert self.process.stdin is not None
        self.process.stdin.close()


def test_the_tutorial(tmp_path: Path) -> None:
    """Each command of the tutorial runs in order with the output that the page shows."""
    work, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    text = PAGE.read_text().replace("/tmp/tutorial", str(work))
    text = text.replace("myhost", agent_name()).replace("8099", str(free_port()))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HELEN_", "EQUUS_", "XDG_"))}
    environment |= {"HOME": str(home), "PIP_NO_INDEX": "1", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    terminals = {"": Terminal(tmp_path / "terminal", environment)}
    try:
        for block in blocks(text):
            if "caption" in block.options:
                path = work / block.options["caption"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join([*block.lines, ""]))
                continue
            assert block.language == "console"
            name = block.options.get("name", "")
            if name and name not in terminals:
                terminals[name] = Terminal(tmp_path / name, environment)
            for command, shown in block.commands:
                if name and (command, shown) == block.commands[-1]:
                    terminals[name].stay(command, shown)
                else:
                    terminals[name].run(command, shown)
    finally:
        for terminal in reversed(terminals.values()):
            terminal.close()


def test_every_command_of_the_page_is_in_a_block_that_is_run() -> None:
    """Each command of the tutorial is in a block of console lines, which the test above runs."""
    text = PAGE.read_text()
    found = list(blocks(text))
    assert not re.search(r"::\n\n +\$? ?(helen|equus) ", text)
    assert {block.language for block in found if "caption" not in block.options} == {"console"}
    assert sum(len(block.commands) for block in found if block.language == "console") >= 25
