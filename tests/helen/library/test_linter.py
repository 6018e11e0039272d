"""Tests how Helen runs `equus lint`: answers that it reads, faults, and limits of time and size, with played
processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inbox import Inbox
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from helen.assignments.schedule import CheckTable
from helen.library import linter as lint_module
from helen.library.linter import LINT_SECONDS, MAX_ANSWER, Linter, LintFailed, Problem, Verdict, clear

FILES = {"cpu.lua": b"return {}", "lib/x.lua": b"x", "tests/cpu.lua": b"{}"}
TABLE = {"summary": "s", "needs": ["cpu"], "every": 60, "timeout": "5s", "args": {"a": {}}}
ANSWER = {
    "files": {
        "cpu.lua": {"table": TABLE, "problems": [{"line": 3, "severity": "warning", "text": "unused"}]},
        "lib/x.lua": {"table": None, "problems": []},
    }
}


class Reactor(Clock):
    """Start processes that do only the acts of the test."""

    started: list[tuple[Any, list[str], dict[str, bytes]]]
    refuses: OSError | None = None

    def spawnProcess(self, process: Any, path: str, words: list[str], env: Any) -> None:
        if self.refuses is not None:
            raise self.refuses
        folder = Path(words[-1])
        found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        self.started.append((process, words, found))
        process.transport = self
        self.signals: list[str] = []

    def signalProcess(self, name: str) -> None:
        self.signals.append(name)
        if len(self.signals) > 1:
            raise ProcessExitedAlready


@pytest.fixture
def reactor(no_threads: None) -> Iterator[Reactor]:
    made = Reactor()
    made.started = []
    yield made
    for process, _, _ in made.started:
        if not process.done.called:
            process.processEnded(Failure(ProcessTerminated(9)))


@pytest.fixture
def linter(reactor: Reactor, tmp_path: Path) -> Linter:
    return Linter(reactor, tmp_path / "lint", "python-of-ours")


def end(reactor: Reactor, status: int = 0, out: bytes = b"", err: bytes = b"") -> None:
    process = reactor.started[-1][0]
    process.outReceived(out)
    process.errReceived(err)
    process.processEnded(Failure(ProcessDone(0) if status == 0 else ProcessTerminated(status)))


def test_what_is_judged(reactor: Reactor, linter: Linter, inbox: Inbox, tmp_path: Path) -> None:
    """Lint gets exactly the given files, in a folder that is removed afterwards, and runs tests only if there are
    any."""
    asked = linter(FILES)
    (_, words, found) = reactor.started[0]
    assert words[:-1] == ["python-of-ours", "-m", "equus.main", "lint", "--output", "json"]
    assert found == FILES
    end(reactor, 0, json.dumps(ANSWER).encode())
    assert inbox.wait(asked) == {
        "cpu.lua": Verdict(CheckTable("cpu", 60.0, 5.0, "s", ("cpu",), {"a": {}}), (Problem("unused", 3, "warning"),)),
        "lib/x.lua": Verdict(None),
    }
    assert list((tmp_path / "lint").iterdir()) == []
    assert reactor.getDelayedCalls() == []
    linter({"cpu.lua": b""})
    assert "--no-tests" in reactor.started[-1][1]


def test_status_1_says_that_there_are_problems(reactor: Reactor, linter: Linter, inbox: Inbox) -> None:
    """An exit status of 1 with an answer is a verdict, since problems were found."""
    asked = linter({"cpu.lua": b""})
    bad = {"files": {"cpu.lua": {"table": None, "problems": [{"line": 1, "severity": "error", "text": "no"}]}}}
    end(reactor, 1, json.dumps(bad).encode())
    assert inbox.wait(asked)["cpu.lua"].usable is False


@pytest.mark.parametrize(
    ("status", "out", "err", "sentence"),
    [
        (1, b"", b"Trace\nNo module named 'equus'", "ended with .* No module named 'equus'"),
        (2, b'{"files": {}}', b"usage", "ended with"),
        (0, b"", b"", "ended with"),
        (0, b"{", b"", "printed what Helen can't read"),
        (0, b"[]", b"", "printed what Helen can't read"),
        (0, b'{"files": {}}', b"", "printed what Helen can't read"),
        (0, b'{"files": {}, "error": "no such folder"}', b"", "`equus lint`: no such folder"),
    ],
)
def test_nothing_is_known_of_the_files(
    reactor: Reactor, linter: Linter, inbox: Inbox, status: int, out: bytes, err: bytes, sentence: str
) -> None:
    """Lint without a usable answer raises LintFailed with its last words."""
    asked = linter({"cpu.lua": b""})
    end(reactor, status, out, err)
    with pytest.raises(LintFailed, match=sentence):
        inbox.wait(asked)


def test_it_takes_too_long(reactor: Reactor, linter: Linter, inbox: Inbox) -> None:
    """Lint is killed after LINT_SECONDS; a second kill of a process that ended does no harm."""
    asked = linter({"cpu.lua": b""})
    reactor.advance(LINT_SECONDS - 0.1)
    assert reactor.signals == []
    reactor.advance(0.1)
    linter.stop()
    assert reactor.signals == ["KILL", "KILL"]
    end(reactor, 9)
    with pytest.raises(LintFailed):
        inbox.wait(asked)


@pytest.mark.parametrize(("size", "signals"), [(MAX_ANSWER, []), (MAX_ANSWER + 1, ["KILL"])])
def test_it_prints_too_much(reactor: Reactor, linter: Linter, size: int, signals: list[str]) -> None:
    """Lint is killed once it has printed more than MAX_ANSWER bytes, and its words on standard error are cut at
    4,096."""
    linter({"cpu.lua": b""})
    process = reactor.started[-1][0]
    process.outReceived(b"x" * size)
    process.errReceived(b"e" * 100_000)
    assert (reactor.signals, len(process._err)) == (signals, 4_096)


def test_it_cannot_be_started(reactor: Reactor, linter: Linter, inbox: Inbox, tmp_path: Path) -> None:
    """A process that cannot be started, or files that cannot be written, raise LintFailed and leave nothing behind."""
    reactor.refuses = OSError(11, "Resource temporarily unavailable")
    with pytest.raises(LintFailed, match="can't be started: Resource temporarily unavailable"):
        inbox.wait(linter({"cpu.lua": b""}))
    assert list((tmp_path / "lint").iterdir()) == []
    clear(tmp_path / "lint")
    (tmp_path / "lint").touch()
    with pytest.raises(LintFailed, match="can't be written: File exists"):
        inbox.wait(linter({"cpu.lua": b""}))


def test_helen_stops(reactor: Reactor, linter: Linter) -> None:
    """A stop of the linter kills the process that runs."""
    linter({"cpu.lua": b""})
    linter.stop()
    assert reactor.signals == ["KILL"]


def test_a_table_that_cannot_be_used() -> None:
    """A table with a duration that is none makes the check unusable, as a problem of that file."""
    found = lint_module.verdict("cpu.lua", {"table": TABLE | {"every": "soon"}, "problems": []})
    assert (found.table, found.usable) == (None, False)


def test_a_problem_in_words() -> None:
    """A problem in words has file, line and, for a warning, the severity, as `equus lint` writes it."""
    assert Problem("unused", 3, "warning").at("cpu.lua") == "cpu.lua:3: warning: unused"
    assert Problem("'=' expected", 3).at("cpu.lua") == "cpu.lua:3: '=' expected"
    assert Problem("too large").at("cpu.lua") == "cpu.lua: too large"
