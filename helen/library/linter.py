"""Reads the tables of check files in a process of its own: `equus lint`. No Lua ever runs inside Helen.

The files go into a temporary folder, so that exactly those are judged that will be published, even if the folder of
checks changes meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from groundwork.check_notes import read_all
from groundwork.durations import parse_duration
from helen.assignments.schedule import DEFAULT_TIMEOUT, CheckTable

LINT_SECONDS = 60.0  # for all files; each of them has a budget of its own inside
MAX_ANSWER = 16 * 1024 * 1024  # bytes of JSON
MAX_ERRORS = 4_096  # bytes of its standard error


@frozen
class Problem:
    """Describes one fault of a file. `severity`: error keeps it from being published, warning doesn't."""

    text: str
    line: int | None = None
    severity: str = "error"

    def at(self, name: str) -> str:
        """Return it as a line with the name of its file in front."""
        text = self.text if self.severity == "error" else f"{self.severity}: {self.text}"
        return f"{name}:{self.line}: {text}" if self.line else f"{name}: {text}"


@frozen
class Verdict:
    """Describes one file: its table (None for a library, or if it can't be used) and its problems."""

    table: CheckTable | None
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> bool:
        """Return True if the file can be published."""
        return all(problem.severity != "error" for problem in self.problems)


class LintFailed(Exception):
    """Says that `equus lint` itself could not be run; nothing is known of the files."""


class Linter:
    """Judges files when it is called: the Deferred fires with their verdicts, or fails with LintFailed.

    The files lie in `folder` while they are judged.
    """

    def __init__(self, reactor: Any, folder: Path, python: str = sys.executable) -> None:
        self._reactor = reactor
        self._folder = folder
        self._python = python
        self._running: set[_Lint] = set()

    def __call__(self, files: Mapping[str, bytes]) -> Deferred[dict[str, Verdict]]:
        """Judge these files; the tests among them (`tests/x.lua`) are run as well."""
        return Deferred.fromCoroutine(self._judge(dict(files)))

    def report(self, files: Mapping[str, bytes]) -> Deferred[bytes]:
        """Judge these files, and fire with what `equus lint` has printed: {"files": {...}, "tests": [...]}."""
        return Deferred.fromCoroutine(self._ask(dict(files)))

    def stop(self) -> None:
        """End what is running; callers that wait get LintFailed."""
        for process in list(self._running):
            process.kill()

    async def _judge(self, files: dict[str, bytes]) -> dict[str, Verdict]:
        return await deferToThread(_read, await self._ask(files), files)

    async def _ask(self, files: dict[str, bytes]) -> bytes:
        try:
            folder = await deferToThread(_write_down, self._folder, files)
        except OSError as error:
            raise LintFailed(f"{self._folder} can't be written: {error.strerror}") from error
        try:
            words = [self._python, "-m", "equus.main", "lint", "--output", "json"]
            words += [] if any(name.startswith("tests/") for name in files) else ["--no-tests"]
            return await self._run([*words, str(folder)])
        finally:
            await deferToThread(shutil.rmtree, folder, True)

    def _run(self, words: list[str]) -> Deferred[bytes]:
        process = _Lint()
        try:
            self._reactor.spawnProcess(process, words[0], words, env=None)
        except OSError as error:
            raise LintFailed(f"`equus lint` can't be started: {error.strerror}") from error
        self._running.add(process)
        too_long = self._reactor.callLater(LINT_SECONDS, process.kill)

        def settle(result: Any) -> Any:
            self._running.discard(process)
            if too_long.active():
                too_long.cancel()
            return result

        return process.done.addBoth(settle)


def clear(folder: Path) -> None:
    """Delete what a Helen that was killed has left behind. Blocks; call it at start."""
    shutil.rmtree(folder, ignore_errors=True)


def _write_down(where: Path, files: dict[str, bytes]) -> Path:
    where.mkdir(mode=0o700, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=where))
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


class _Lint(ProcessProtocol):
    """Collects what the process prints, up to a cap, and ends it when it takes too long."""

    def __init__(self) -> None:
        self.done: Deferred[bytes] = Deferred()
        self._out = bytearray()
        self._err = bytearray()

    def outReceived(self, data: bytes) -> None:
        """Keep its output, or kill it if that is too much."""
        if len(self._out) + len(data) > MAX_ANSWER:
            self.kill()
        else:
            self._out += data

    def errReceived(self, data: bytes) -> None:
        """Keep the beginning of its standard error."""
        self._err += data[: MAX_ERRORS - len(self._err)]

    def kill(self) -> None:
        """Kill it; `done` fires when it has ended."""
        process: Any = self.transport
        with contextlib.suppress(ProcessExitedAlready):
            process.signalProcess("KILL")

    def processEnded(self, reason: Failure) -> None:
        """Fire `done` with the output, or with LintFailed."""
        code = getattr(reason.value, "exitCode", None)
        if self._out and code in (0, 1):
            self.done.callback(bytes(self._out))
            return
        said = self._err.decode("utf-8", "replace").strip().splitlines()[-3:]
        self.done.errback(LintFailed(f"`equus lint` ended with {reason.getErrorMessage()} {' '.join(said)}".strip()))


def _read(answer: bytes, files: Mapping[str, bytes]) -> dict[str, Verdict]:
    """Read the answer; for a thread, since it may be megabytes. Raises LintFailed if it is no answer of lint."""
    try:
        listed = read_report(answer)["files"]
        return {name: verdict(name, listed[name]) for name in files if not name.startswith("tests/")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LintFailed(f"`equus lint` printed what Helen can't read: {error!r}: {answer[:200]!r}") from error


def read_report(answer: bytes) -> dict[str, Any]:
    """Return the JSON object that `equus lint` has printed. Raises LintFailed if it could not read the files.

    Raises ValueError or AttributeError if the answer is no JSON object.
    """
    document: dict[str, Any] = json.loads(answer)
    if document.get("error"):
        raise LintFailed(f"`equus lint`: {document['error']}")
    return document


def verdict(name: str, listed: dict[str, Any]) -> Verdict:
    """Read one file of `equus lint --output json`: {"table": {...}, "problems": [{"line", "severity", "text"}]}."""
    problems = [Problem(p["text"], p.get("line"), p.get("severity", "error")) for p in listed.get("problems", ())]
    table = listed.get("table")
    if table is None:
        return Verdict(None, tuple(problems))
    try:
        every = parse_duration(table["every"]) if table.get("every") is not None else None
        timeout = parse_duration(table["timeout"]) if table.get("timeout") is not None else DEFAULT_TIMEOUT
        attempts = int(table["attempts"]) if table.get("attempts") is not None else None
    except ValueError as error:
        return Verdict(None, (*problems, Problem(str(error))))
    read = CheckTable(
        Path(name).stem, every, timeout, table.get("summary") or "", tuple(table.get("needs") or ()),
        dict(table.get("args") or {}), attempts, read_all(table, lambda name, sentence: None),
    )  # fmt: skip
    return Verdict(read, tuple(problems))
