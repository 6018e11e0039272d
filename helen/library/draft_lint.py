"""Judges files that are being written: what `equus lint` says of a draft, and of the recorded tests beside it.

Nothing is published or kept in the folder, so this goes on during a rollout as well. Each caller has one draft judged
at a time, and a newer draft takes the place of one that waits. Answers are kept by what was judged.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.threads import deferToThread

from groundwork.one_by_one import OneByOne
from helen.library import check_folder, push_checks
from helen.library.lint_cache import libraries
from helen.library.linter import LintFailed, read_report

AT_ONCE = 2  # processes of lint, for all callers
MOST_KEPT = 100  # answers
MOST_BYTES = 65_536  # of an answer that is kept

Report = Callable[[Mapping[str, bytes]], "Deferred[bytes]"]
Answer = dict[str, Any]  # {"files": {NAME: {"table", "problems": [...]}}, "tests": [{"file", "name", ...}]}


class Superseded(Exception):
    """Reports that the same caller has sent a newer draft before this one was judged."""


@frozen
class _Draft:
    """Holds all that lint is to be given, the names that the answer is about, and the hash of both."""

    files: dict[str, bytes] = field(repr=False)
    named: frozenset[str]
    key: str


@define(eq=False)
class _Lane:
    """Holds the turns of one caller, and the number of its newest draft."""

    turns: OneByOne = field(factory=OneByOne)
    newest: int = 0
    inside: int = 0  # drafts that are judged or wait


class DraftLint:
    """Judges drafts with the libraries and tests of `folder` beside them. `report` runs `equus lint`."""

    def __init__(self, report: Report, folder: Path) -> None:
        self._report = report
        self._folder = folder
        self._room = DeferredSemaphore(AT_ONCE)
        self._lanes: dict[str, _Lane] = {}
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    async def judge(self, caller: str, files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> Answer:
        """Return what lint says of the files, and the outcomes of their recorded tests.

        A test that is not given is that of the folder. With a library among the files, checks of the folder that it
        breaks are in the answer, too. Raises PushRefused for a name that no file of a check has, Superseded, and
        LintFailed.
        """
        push_checks.check_names(files)
        push_checks.check_names(tests)
        lane = self._lanes.setdefault(caller, _Lane())
        lane.newest += 1
        lane.inside += 1
        number = lane.newest
        try:
            return await lane.turns.run(lambda: self._judged_as(number, lane, files, tests))
        finally:
            lane.inside -= 1
            if not lane.inside:
                del self._lanes[caller]

    async def _judged_as(
        self, number: int, lane: _Lane, files: Mapping[str, bytes], tests: Mapping[str, bytes]
    ) -> Answer:
        if number != lane.newest:
            raise Superseded("a newer draft came before this one was judged")
        return await self._judged(files, tests)

    async def _judged(self, files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> Answer:
        try:
            draft = await deferToThread(_gather, self._folder, files, tests)
        except OSError as error:
            raise LintFailed(f"the folder {self._folder} can't be read: {error.strerror}") from error
        if draft.key in self._kept:
            self._kept.move_to_end(draft.key)
            return self._kept[draft.key]
        printed = await self._room.run(self._report, draft.files)
        answer = await deferToThread(_read, printed, draft.named)
        if len(printed) <= MOST_BYTES:
            self._kept[draft.key] = answer
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return answer


def _gather(folder: Path, files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> _Draft:
    """Add what the folder has beside a draft. For a thread. Raises OSError if the folder can't be read."""
    there = check_folder.read(folder).files
    beside = there if libraries(files) else libraries(there)
    cases = {name: text for name, text in (check_folder.read_tests(folder) | dict(tests)).items() if name in files}
    whole = {**beside, **files, **push_checks.in_tests_folder({name: text for name, text in cases.items() if text})}
    total = hashlib.sha256()
    for name, text in sorted(whole.items()):
        total.update(f"{name} {len(text)} {name in files}\n".encode() + text)
    return _Draft(whole, frozenset((*files, *(f"tests/{name}" for name in cases))), total.hexdigest())


def _read(printed: bytes, named: frozenset[str]) -> Answer:
    """Return what is said of the named files, and of others that have an error. For a thread. Raises LintFailed."""
    try:
        report = read_report(printed)
        shown = {
            name: {"table": each["table"], "problems": each["problems"]}
            for name, each in report["files"].items()
            if name in named or any(problem["severity"] == "error" for problem in each["problems"])
        }
        return {"files": shown, "tests": report["tests"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LintFailed(f"`equus lint` printed what Helen can't read: {error!r}: {printed[:200]!r}") from error
