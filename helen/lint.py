"""Reads the tables of check files in a process of its own: `equus lint`. No Lua ever runs inside Helen.

The files go into a temporary folder, so that what is judged is exactly what will be published, whatever happens to the
folder meanwhile.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from helen.durations import seconds
from helen.policy import DEFAULT_TIMEOUT, CheckTable

LINT_SECONDS = 60.0  # for all files; each of them has a budget of its own inside
MAX_ANSWER = 16 * 1024 * 1024  # bytes of JSON


@frozen
class Problem:
    """What is wrong with a file: `error` keeps it from being published, `warning` doesn't."""

    text: str
    line: int | None = None
    severity: str = "error"

    def at(self, name: str) -> str:
        return f"{name}:{self.line}: {self.text}" if self.line else f"{name}: {self.text}"


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


def lint(reactor: Any, files: Mapping[str, bytes]) -> Deferred[dict[str, Verdict]]:
    """Judge these files; the tests among them (`tests/x.lua`) are run as well. Fails with LintFailed."""
    return Deferred.fromCoroutine(_lint(reactor, dict(files)))


async def _lint(reactor: Any, files: dict[str, bytes]) -> dict[str, Verdict]:
    folder = await deferToThread(_write_down, files)
    try:
        words = [sys.executable, "-m", "equus.main", "lint", "--output", "json"]
        words += [] if any(name.startswith("tests/") for name in files) else ["--no-tests"]
        answer = await _run(reactor, [*words, str(folder)])
    finally:
        await deferToThread(shutil.rmtree, folder, True)
    return _read(answer, files)


def _write_down(files: dict[str, bytes]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="helen-lint-"))
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder


class _Lint(ProcessProtocol):
    """Collects what the process prints, up to a cap, and ends it when it takes too long."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done = done
        self._out = bytearray()
        self._err = bytearray()

    def outReceived(self, data: bytes) -> None:
        self._out += data
        if len(self._out) > MAX_ANSWER:
            self.transport.signalProcess("KILL")

    def errReceived(self, data: bytes) -> None:
        if len(self._err) < 4_096:
            self._err += data

    def kill(self) -> None:
        self.transport.signalProcess("KILL")

    def processEnded(self, reason: Failure) -> None:
        code = getattr(reason.value, "exitCode", None)
        if self._out and (reason.check(ProcessDone) or code == 1):
            self._done.callback(bytes(self._out))
            return
        said = self._err.decode("utf-8", "replace").strip()
        self._done.errback(LintFailed(f"`equus lint` ended with {reason.getErrorMessage()} {said}"))


def _run(reactor: Any, words: list[str]) -> Deferred[bytes]:
    done: Deferred[bytes] = Deferred()
    process = _Lint(done)
    reactor.spawnProcess(process, words[0], words, env=None)
    too_long = reactor.callLater(LINT_SECONDS, process.kill)

    def settle(result: Any) -> Any:
        if too_long.active():
            too_long.cancel()
        return result

    return done.addBoth(settle)


def _read(answer: bytes, files: Mapping[str, bytes]) -> dict[str, Verdict]:
    try:
        listed = json.loads(answer)["files"]
        return {name: verdict(name, listed[name]) for name in files if not name.startswith("tests/")}
    except (ValueError, KeyError, TypeError) as error:
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
