"""Run checks in the real sandbox, without a server: one check for its result, or the recorded tests of many."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from equus.authoring.lint import LONGEST_TEXT, printable
from equus.authoring.test_cases import BadCase, Case, Recording, differences, read_cases
from equus.code.check_files import CheckFiles
from equus.lua.tokens import LuaSyntaxError
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job
from equus.schedule.secret_runner import redact_result
from equus.secrets.redaction import Redaction
from equus.secrets.references import Resolved

# Seconds for all recorded tests of a set: thousands of them at some milliseconds each.
LONGEST_SECONDS = 600.0


@frozen
class Outcome:
    """Holds the outcome of one recorded test; an unreadable test file counts as one test that failed."""

    check: str
    name: str
    line: int
    faults: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.faults

    def document(self) -> dict[str, Any]:
        """Return {"file", "name", "line", "ok", "said"}; `file` is that of the test, `said` has what differs."""
        said = printable("; ".join(self.faults)[:LONGEST_TEXT])
        name = printable(self.name[:LONGEST_TEXT])
        return {"file": f"tests/{self.check}.lua", "name": name, "line": self.line, "ok": self.passed, "said": said}


@frozen
class _TestRun:
    case: Case
    job: Job = field(repr=False)
    recording: Recording = field(repr=False)


def job_of(files: CheckFiles, check: str, args: bytes) -> Job:
    """Return the job of one check of a folder. The code is local, so that it needs no strong isolation."""
    source = files.checks[check]
    code = hashlib.sha256(source).hexdigest()
    state_key = f"{check} {hashlib.sha256(args).hexdigest()[:16]}"
    return Job(check, source, files.libraries, args, None, code, state_key, pushed=False)


def run_once(files: CheckFiles, check: str, args: Resolved, policy: Path | None, state: Path | None, log: Any) -> bytes:
    """Run one check; return its result document with secrets hidden. Raises PolicyError if the policy is invalid."""
    hide = Redaction(args.values)
    job = evolve(job_of(files, check, args.args), secrets=args.values, bound=args.bound)
    with Sandbox(policy, state, log=lambda name, text: log(name, hide.text(text)), warm=False) as sandbox:
        return redact_result(hide, check, sandbox.run(job))


def run_tests(files: CheckFiles, checks: Iterable[str]) -> list[Outcome]:
    """Run the recorded tests of these checks; return the outcomes in their order. Checks without tests have none."""
    test_runs: list[tuple[str, _TestRun | Outcome]] = []
    for check in checks:
        source = files.tests(check)
        if source is not None:
            test_runs += [(check, one) for one in _test_runs(files, check, source)]
    results = _run_all([one for _, one in test_runs if isinstance(one, _TestRun)])
    return [one if isinstance(one, Outcome) else _outcome(check, one, results) for check, one in test_runs]


def _test_runs(files: CheckFiles, check: str, source: bytes) -> list[_TestRun | Outcome]:
    try:
        cases = read_cases(source)
    except (BadCase, LuaSyntaxError) as fault:
        return [Outcome(check, "the file of tests", fault.line, (fault.text,))]
    if not cases:
        return [Outcome(check, "the file of tests", 1, ("it has no test case",))]
    jobs = (job_of(files, check, json.dumps(case.args).encode()) for case in cases)
    return [_TestRun(case, job, Recording(case)) for case, job in zip(cases, jobs, strict=True)]


def _run_all(test_runs: list[_TestRun]) -> dict[int, dict[str, Any]]:
    """Run as many at once as the sandbox allows. Return the result documents by the id() of each _TestRun."""
    results: dict[int, dict[str, Any]] = {}
    if not test_runs:
        return results
    with Sandbox(log=lambda _check, _text: None, warm=False) as sandbox:
        for one in test_runs:

            def done(blob: bytes, key: int = id(one)) -> None:
                results[key] = json.loads(blob)

            sandbox.runner.run(one.job, done, one.recording.answer, one.case.now)
            # The sandbox's queue is bounded; a long list of tests waits here instead.
            if sandbox.runner.waiting >= 100:
                sandbox.loop.until(lambda: sandbox.runner.waiting < 50, LONGEST_SECONDS)
        sandbox.loop.until(lambda: len(results) == len(test_runs), LONGEST_SECONDS)
    return results


def _outcome(check: str, one: _TestRun, results: dict[int, dict[str, Any]]) -> Outcome:
    return Outcome(check, one.case.name, one.case.line, tuple(differences(one.case, results[id(one)], one.recording)))
