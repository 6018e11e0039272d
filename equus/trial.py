"""Runs checks here, in the real sandbox and without a server: one for its result, or the recorded tests of many."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from equus.check_files import CheckFiles
from equus.lua.tokens import LuaSyntaxError
from equus.redaction import Redaction
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job
from equus.secret_runner import without
from equus.secrets import Resolved
from equus.trial_cases import BadCase, Case, Recording, differences, read_cases

# All recorded tests of a set together: thousands of them at some milliseconds each.
LONGEST_SECONDS = 600.0


@frozen
class Outcome:
    """One recorded test and how it went; a file of tests that cannot be read counts as one that failed."""

    check: str
    name: str
    line: int
    faults: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.faults


@frozen
class _Planned:
    case: Case
    job: Job = field(repr=False)
    recording: Recording = field(repr=False)


def job_of(files: CheckFiles, check: str, args: bytes) -> Job:
    """The job of one check of a folder; the code is the host owner's own, not pushed."""
    source = files.checks[check]
    code = hashlib.sha256(source).hexdigest()
    state_key = f"{check} {hashlib.sha256(args).hexdigest()[:16]}"
    return Job(check, source, files.libraries, args, None, code, state_key, pushed=False)


def run_once(files: CheckFiles, check: str, args: Resolved, policy: Path | None, state: Path | None, log: Any) -> bytes:
    """The result document of one run, with any secrets hidden in it. Raises PolicyError."""
    hide = Redaction(args.values)
    job = evolve(job_of(files, check, args.args), secrets=args.values)
    with Sandbox(policy, state, log=lambda name, text: log(name, hide.text(text))) as sandbox:
        return without(hide, check, sandbox.run(job))


def run_tests(files: CheckFiles, checks: Iterable[str]) -> list[Outcome]:
    """The outcomes of the recorded tests of these checks, in their order. Checks without tests have none."""
    planned: list[tuple[str, _Planned | Outcome]] = []
    for check in checks:
        source = files.tests(check)
        if source is not None:
            planned += [(check, one) for one in _plan(files, check, source)]
    results = _run_all([one for _, one in planned if isinstance(one, _Planned)])
    return [one if isinstance(one, Outcome) else _judge(check, one, results) for check, one in planned]


def _plan(files: CheckFiles, check: str, source: bytes) -> list[_Planned | Outcome]:
    try:
        cases = read_cases(source)
    except (BadCase, LuaSyntaxError) as fault:
        return [Outcome(check, "the file of tests", fault.line, (fault.text,))]
    if not cases:
        return [Outcome(check, "the file of tests", 1, ("it holds no case",))]
    jobs = (job_of(files, check, json.dumps(case.args).encode()) for case in cases)
    return [_Planned(case, job, Recording(case)) for case, job in zip(cases, jobs, strict=True)]


def _run_all(planned: list[_Planned]) -> dict[int, dict[str, Any]]:
    """Result documents by the identity of what was planned; as many at once as the sandbox allows."""
    results: dict[int, dict[str, Any]] = {}
    if not planned:
        return results
    with Sandbox(log=lambda _check, _text: None) as sandbox:
        for one in planned:

            def done(blob: bytes, key: int = id(one)) -> None:
                results[key] = json.loads(blob)

            sandbox.runner.run(one.job, done, one.recording.answer, one.case.now)
            # The sandbox's queue is bounded; a long list of tests waits here instead.
            if sandbox.runner.waiting >= 100:
                sandbox.loop.until(lambda: sandbox.runner.waiting < 50, LONGEST_SECONDS)
        sandbox.loop.until(lambda: len(results) == len(planned), LONGEST_SECONDS)
    return results


def _judge(check: str, one: _Planned, results: dict[int, dict[str, Any]]) -> Outcome:
    return Outcome(check, one.case.name, one.case.line, tuple(differences(one.case, results[id(one)], one.recording)))
