"""Reads the tables of check files in a process of its own: `equus lint`. No Lua ever runs inside Helen.

The files go into a temporary folder, so that what is judged is exactly what will be published, whatever happens to the
folder meanwhile.
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

from helen.durations import seconds
from helen.policy import DEFAULT_TIMEOUT, CheckTable

LINT_SECONDS = 60.0  # for all files; each of them has a budget of its own inside
MAX_ANSWER = 16 * 1024 * 1024  # bytes of JSON
MAX_WORDS = 4_096  # bytes of what it says when it fails


@frozen
class Problem:
    """What is wrong with a file: `error` keeps it from being published, `warning` doesn't."""

    text: str
    line: int | None = None
    severity: str = "error"

    def at(self, name: str) -> str:
        text = self.text if self.severity == "error" else f"{self.severity}: {self.text}"
        return f"{name}:{self.line}: {text}" if self.line else f"{name}: {text}"


@frozen
class Verdict:
    """One file: its table (None for a library, or if it can't be used) and its problems."""

    table: CheckTable | None
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)


class LintFailed(Exception):
    """`equus lint` itself could not be run; nothing is known of the files."""


class Linter:
    """Call it with files: a Deferred of verdicts, or of LintFailed. It writes them down in `folder` for a while."""

    def __init__(self, reactor: Any, folder: Path, python: str = sys.executable) -> None:
        self._reactor = reactor
        self._folder = folder
        self._python = python
        self._running: set[_Lint] = set()

    def __call__(self, files: Mapping[str, bytes]) -> Deferred[dict[str, Verdict]]:
        """Judge these files; the tests among them (`tests/x.lua`) are run as well."""
        return Deferred.fromCoroutine(self._judge(dict(files)))

    def stop(self) -> None:
        """End what is running; whoever waits gets LintFailed."""
        for process in list(self._running):
            process.kill()

    async def _judge(self, files: dict[str, bytes]) -> dict[str, Verdict]:
        try:
            folder = await deferToThread(_write_down, self._folder, files)
        except OSError as error:
            raise LintFailed(f"{self._folder} can't be written: {error.strerror}") from error
        try:
            words = [self._python, "-m", "equus.main", "lint", "--output", "json"]
            words += [] if any(name.startswith("tests/") for name in files) else ["--no-tests"]
            answer = await self._run([*words, str(folder)])
        finally:
            await deferToThread(shutil.rmtree, folder, True)
        return await deferToThread(_read, answer, files)

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
    """Blocking, at start: what a Helen that was killed has left behind."""
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
        if len(self._out) + len(data) > MAX_ANSWER:
            self.kill()
        else:
            self._out += data

    def errReceived(self, data: bytes) -> None:
        self._err += data[: MAX_WORDS - len(self._err)]

    def kill(self) -> None:
        with contextlib.suppress(ProcessExitedAlready):
            self.transport.signalProcess("KILL")

    def processEnded(self, reason: Failure) -> None:
        code = getattr(reason.value, "exitCode", None)
        if self._out and code in (0, 1):
            self.done.callback(bytes(self._out))
            return
        said = self._err.decode("utf-8", "replace").strip().splitlines()[-3:]
        self.done.errback(LintFailed(f"`equus lint` ended with {reason.getErrorMessage()} {' '.join(said)}".strip()))


def _read(answer: bytes, files: Mapping[str, bytes]) -> dict[str, Verdict]:
    """In a thread: it may be megabytes."""
    try:
        document = json.loads(answer)
        if document.get("error"):
            raise LintFailed(f"`equus lint`: {document['error']}")
        listed = document["files"]
        return {name: verdict(name, listed[name]) for name in files if not name.startswith("tests/")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LintFailed(f"`equus lint` printed what Helen can't read: {error!r}: {answer[:200]!r}") from error


def verdict(name: str, listed: dict[str, Any]) -> Verdict:
    """One file of `equus lint --output json`: {"table": {...} or null, "problems": [{"line", "severity", "text"}]}."""
    problems = [Problem(p["text"], p.get("line"), p.get("severity", "error")) for p in listed.get("problems", ())]
    table = listed.get("table")
    if table is None:
        return Verdict(None, tuple(problems))
    try:
        every = seconds(table["every"]) if table.get("every") is not None else None
        timeout = seconds(table["timeout"]) if table.get("timeout") is not None else DEFAULT_TIMEOUT
    except ValueError as error:
        return Verdict(None, (*problems, Problem(str(error))))
    read = CheckTable(
        Path(name).stem, every, timeout, table.get("summary") or "", tuple(table.get("needs") or ()),
        dict(table.get("args") or {}),
    )  # fmt: skip
    return Verdict(read, tuple(problems))
