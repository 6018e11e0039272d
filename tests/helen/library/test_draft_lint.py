"""Tests that drafts are judged one at a time for each caller, together with the folder, and that answers are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from helen.library import draft_lint
from helen.library.draft_lint import MOST_KEPT, DraftLint, Superseded
from helen.library.linter import LintFailed
from helen.library.published import PushRefused

GOOD = {"table": {"summary": "s"}, "problems": [], "sha256": "x", "requires": []}
BAD = GOOD | {"table": None, "problems": [{"line": 2, "severity": "error", "text": "no"}]}
WARNED = GOOD | {"problems": [{"line": 2, "severity": "warning", "text": "unused"}]}


class Told:
    """Collect the answers to callers, in order."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[BaseException] = []

    def watch(self, answer: Deferred[Any]) -> None:
        answer.addCallbacks(self.values.append, lambda failure: self.errors.append(failure.value))


@pytest.fixture
def told() -> Told:
    return Told()


class Lint:
    """Play `equus lint`: answer when told to, with a verdict by the beginning of a file."""

    def __init__(self) -> None:
        self.asked: list[dict[str, bytes]] = []
        self.waiting: list[Deferred[bytes]] = []

    def __call__(self, files: Mapping[str, bytes]) -> Deferred[bytes]:
        self.asked.append(dict(files))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def answer(self, number: int = -1) -> None:
        files = self.asked[number]
        listed = {
            name: BAD if text.startswith(b"bad") else WARNED if text.startswith(b"warn") else GOOD
            for name, text in files.items()
        }
        tests = [
            {"file": name, "name": "one", "line": 1, "ok": True, "said": ""}
            for name in files
            if name.startswith("tests/")
        ]
        self.waiting[number].callback(json.dumps({"files": listed, "tests": tests}).encode())


@pytest.fixture
def lint() -> Lint:
    return Lint()


@pytest.fixture
def drafts(tmp_path: Path, lint: Lint, monkeypatch: pytest.MonkeyPatch) -> Iterator[DraftLint]:
    monkeypatch.setattr(draft_lint, "deferToThread", maybeDeferred)
    for name, text in {"a.lua": "a", "b.lua": "bad b", "lib/x.lua": "x", "tests/a.lua": "cases"}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    yield DraftLint(lint, tmp_path)


def judge(drafts: DraftLint, told: Told, text: bytes = b"new", caller: str = "anna", **more: Any) -> None:
    files, tests = more.get("files", {"a.lua": text}), more.get("tests", {})
    told.watch(Deferred.fromCoroutine(drafts.judge(caller, files, tests)))


def test_the_folder_is_beside_a_draft(drafts: DraftLint, lint: Lint, told: Told) -> None:
    """A draft is judged with the libraries and its recorded test of the folder, and without the other checks."""
    judge(drafts, told)
    assert lint.asked == [{"a.lua": b"new", "lib/x.lua": b"x", "tests/a.lua": b"cases"}]
    lint.answer()
    (answer,) = told.values
    assert answer["files"].keys() == {"a.lua", "tests/a.lua"}
    assert answer["files"]["a.lua"] == {"table": {"summary": "s"}, "problems": []}
    assert [test["file"] for test in answer["tests"]] == ["tests/a.lua"]


def test_a_given_test_takes_the_place_of_that_of_the_folder(drafts: DraftLint, lint: Lint, told: Told) -> None:
    """A test given with a draft replaces that of the folder, and an empty one removes it."""
    judge(drafts, told, tests={"a.lua": b"others"})
    lint.answer()
    judge(drafts, told, tests={"a.lua": b""})
    assert lint.asked[0]["tests/a.lua"] == b"others"
    assert "tests/a.lua" not in lint.asked[1]
    lint.answer()


def test_a_library_is_judged_with_all_checks(drafts: DraftLint, lint: Lint, told: Told) -> None:
    """A draft of a library is judged with all checks, and the answer holds the checks that it breaks and no others."""
    judge(drafts, told, files={"lib/x.lua": b"warn"})
    assert lint.asked[0].keys() == {"a.lua", "b.lua", "lib/x.lua"}
    lint.answer()
    assert told.values[0]["files"].keys() == {"lib/x.lua", "b.lua"}


def test_what_was_judged_is_not_judged_again(drafts: DraftLint, lint: Lint, told: Told, tmp_path: Path) -> None:
    """An answer is kept for all callers, until the draft or a library of the folder changes."""
    judge(drafts, told)
    lint.answer()
    judge(drafts, told, caller="bert")
    assert len(lint.asked) == 1 and told.values[1] == told.values[0]
    (tmp_path / "lib" / "x.lua").write_text("changed")
    judge(drafts, told)
    assert len(lint.asked) == 2
    lint.answer()


def test_answers_take_bounded_memory(drafts: DraftLint, lint: Lint, told: Told) -> None:
    """At most MOST_KEPT answers are kept, and nothing is kept of callers without a draft under way."""
    for number in range(MOST_KEPT + 5):
        judge(drafts, told, b"%d" % number, caller=f"c{number}")
        lint.answer()
    assert len(drafts._kept) == MOST_KEPT and drafts._lanes == {}


def test_a_newer_draft_takes_the_place_of_one_that_waits(drafts: DraftLint, lint: Lint, told: Told) -> None:
    """A newer draft of a caller replaces the one that waits, which ends with Superseded; the one that runs goes on
    to its end."""
    for text in (b"1", b"2", b"3"):
        judge(drafts, told, text)
    assert [asked["a.lua"] for asked in lint.asked] == [b"1"]
    lint.answer()
    assert [asked["a.lua"] for asked in lint.asked] == [b"1", b"3"]
    assert [type(each) for each in told.errors] == [Superseded]
    lint.answer()
    assert len(told.values) == 2


def test_hundreds_of_drafts_that_wait(drafts: DraftLint, lint: Lint, told: Told) -> None:
    """Hundreds of drafts of one caller end with Superseded, except the first and the newest, which are judged."""
    for number in range(300):
        judge(drafts, told, b"%d" % number)
    lint.answer()
    assert [asked["a.lua"] for asked in lint.asked] == [b"0", b"299"]
    assert [type(each) for each in told.errors] == [Superseded] * 298
    lint.answer()
    assert len(told.values) == 2 and drafts._lanes == {}


def test_two_callers_do_not_wait_for_each_other_and_a_third_does(
    drafts: DraftLint, lint: Lint, told: Told
) -> None:  # fmt: skip
    """Two callers' drafts are judged at the same time; the draft of a third waits, since two processes are the most."""
    for caller in ("anna", "bert", "cora"):
        judge(drafts, told, caller.encode(), caller)
    assert [asked["a.lua"] for asked in lint.asked] == [b"anna", b"bert"]
    lint.answer(0)
    assert lint.asked[2]["a.lua"] == b"cora"
    lint.answer(1)
    lint.answer(2)


def test_a_failure_ends_the_turn(drafts: DraftLint, lint: Lint, told: Told, tmp_path: Path) -> None:
    """A linter that fails, an unreadable answer, a refused name or a missing folder ends a turn: the next draft has
    its own."""
    judge(drafts, told)
    lint.waiting[-1].errback(LintFailed("no process"))
    judge(drafts, told)
    lint.waiting[-1].callback(b"[]")
    judge(drafts, told)
    lint.waiting[-1].callback(b'{"files": {}, "error": "too much"}')
    judge(drafts, told, files={"../x.lua": b""})
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    tmp_path.rmdir()
    judge(drafts, told)
    kinds = [type(each) for each in told.errors]
    assert kinds == [LintFailed, LintFailed, LintFailed, PushRefused, LintFailed]
    assert drafts._lanes == {}
