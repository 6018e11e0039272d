"""Tests answers of agents: great ones are read in a thread, one after the other, and their query hears the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from helen_parts import FakeLink
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from equus_protocol.long_text import PIECE
from equus_protocol.results import parse
from helen.queries import answers
from helen.queries.answers import READ_AT_ONCE, TOO_MUCH, WAITING_MOST, Answers, json_in_pieces
from helen.queries.job_outcomes import ANSWER_MOST, fit
from helen.queries.live_queries import SPOILT, LiveQueries, PendingAnswer, Target, answered


class Stage:
    """Runs LiveQueries with one question to agents, and a thread whose work is done when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
        self.faults: list[str] = []
        self.cancelled: list[int] = []
        self.targets: list[Target] = []
        self.ended = 0
        self.work: list[tuple[Deferred[Any], Callable[[], Any]]] = []
        ids = iter(range(1, 10_000))
        self.queries = LiveQueries(
            lambda *_: next(ids), lambda _, number: self.cancelled.append(number), self.faults.append
        )
        self.links = {name: FakeLink(name) for name in names}
        asked = [(name, lambda link=link: link) for name, link in self.links.items()]  # type: ignore[misc]
        self.query = self.queries.start("cpu", asked, b"{}", 10.0, self.targets.append, self._end)
        self.answers = Answers(self.queries)
        monkeypatch.setattr(answers, "deferToThread", self._defer)

    def _end(self) -> None:
        self.ended += 1

    def _defer(self, call: Callable[..., Any], *given: Any) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self.work.append((done, lambda: call(*given)))
        return done

    def take(self, name: str) -> PendingAnswer:
        taken = self.queries.take_answer(self.links[name], list(self.links).index(name) + 1)
        assert taken is not None
        return taken

    def run(self) -> None:
        """Let the thread do the first of its work."""
        done, call = self.work.pop(0)
        try:
            made = call()
        except Exception:
            done.errback(Failure())
        else:
            done.callback(made)

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(target.agent, target.outcome) for target in self.targets]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch, "abc")


def blob(size: int, **more: Any) -> bytes:
    """Return the JSON of a result with just so many bytes."""
    document = {"status": "ok", "output": "", **more}
    return json.dumps(document | {"output": "x" * (size - len(json.dumps(document)))}).encode()


def test_small_answers_are_read_at_once(stage: Stage) -> None:
    """A small answer, as most are, is read in the reactor without a thread."""
    given = blob(READ_AT_ONCE)
    stage.answers.settle(stage.take("a"), given)
    assert (len(given), stage.work, stage.targets) == (READ_AT_ONCE, [], [answered("a", parse(given), given)])


def test_great_answers_are_read_in_a_thread_one_by_one(stage: Stage) -> None:
    """Great answers are read in the order in which they came; the end is told after the last of them."""
    for name in "cab":
        stage.answers.settle(stage.take(name), blob(READ_AT_ONCE + 1, summary=name))
    assert (stage.targets, len(stage.work)) == ([], 1)
    for told in (1, 2, 3):
        stage.run()
        assert (len(stage.targets), len(stage.work), stage.ended) == (told, told < 3, told == 3)
    assert [each.result["summary"] for each in stage.targets if each.result] == ["c", "a", "b"]
    assert stage.answers._waiting == 0


@pytest.mark.parametrize("given", [
    blob(100_000), blob(20_000, reason="denied", summary="é"), b"\xff" * 20_000,
    b"CRITICAL it is | a=1\n" + b"x" * 20_000,
], ids=["answered", "refused", "no UTF-8", "plugin text"])  # fmt: skip
def test_what_a_thread_has_made_is_what_the_reactor_would(given: bytes, stage: Stage) -> None:
    """A thread makes the same line, and the same short outcome for a job's file, as the reactor would."""
    stage.answers.settle(stage.take("a"), given)
    stage.run()
    [target] = stage.targets
    plain = answered("a", parse(given), given)
    assert (target.to_json(), target.blob, target.line) == (plain.to_json(), given, plain.to_line())
    assert json.loads(target.line) == plain.to_json() and target.line.endswith(b"}\n")
    assert target.short == fit(plain.to_json(), ANSWER_MOST) != plain.to_json()


def test_nobody_waits_any_more(stage: Stage) -> None:
    """An answer that has not begun is not read for an abandoned question; one that has begun is told to nobody."""
    for name in "ab":
        stage.answers.settle(stage.take(name), blob(20_000))
    stage.queries.abandon(stage.query)
    stage.run()
    assert (stage.work, stage.targets, stage.ended, stage.answers._waiting) == ([], [], 0, 0)


def test_many_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to a question that was left are not read, nothing fails, and the next question is answered."""
    stage = Stage(monkeypatch, "".join(map(chr, range(0x4E00, 0x4E00 + 2_000))))
    given = blob(READ_AT_ONCE + 1)
    for name in stage.links:
        stage.answers.settle(stage.take(name), given)
    stage.queries.abandon(stage.query)
    stage.run()
    assert (stage.work, stage.faults, stage.answers._waiting) == ([], [], 0)
    link, targets = FakeLink("next"), list[Target]()
    stage.queries.start("cpu", [("next", lambda: link)], b"{}", 10.0, targets.append, lambda: None)
    taken = stage.queries.take_answer(link, 2_001)
    assert taken is not None
    stage.answers.settle(taken, given)
    stage.run()
    assert [(each.agent, each.outcome) for each in targets] == [("next", "answered")]


def test_the_time_is_over_while_a_thread_reads(stage: Stage) -> None:
    """A target whose answer a thread reads expires once; its agent isn't told to give up what it has done."""
    stage.answers.settle(stage.take("a"), blob(20_000))
    stage.queries.sweep(10.0)
    assert sorted(stage.outcomes) == [(name, "expired") for name in "abc"]
    stage.run()
    assert (len(stage.targets), stage.ended, stage.cancelled) == (3, 1, [2, 3])


def test_an_agent_that_goes_while_a_thread_reads(stage: Stage) -> None:
    """The answer of an agent that goes while a thread reads it is here, and counts."""
    stage.answers.settle(stage.take("a"), blob(20_000))
    stage.queries.gone(stage.links["a"], "it went away")
    stage.run()
    assert stage.outcomes == [("a", "answered")]


def test_a_fault_takes_that_answer_alone(stage: Stage) -> None:
    """A fault is told as the outcome of that answer, logged, and the next answer is read."""

    def fail(_: bytes) -> Any:
        raise ZeroDivisionError

    stage.answers.settle(stage.take("a"), blob(20_000), fail)
    stage.answers.settle(stage.take("b"), blob(20_000))
    stage.run()
    stage.run()
    assert [(each.agent, each.outcome, each.why) for each in stage.targets] == [
        ("a", "failed", SPOILT), ("b", "answered", None),
    ]  # fmt: skip
    assert (stage.faults, stage.answers._waiting) == (["the answer of a to cpu could not be read"], 0)


@pytest.mark.parametrize("over", [0, 1])
def test_how_much_may_wait(over: int, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer beyond the bytes that may wait fails with a reason, so that memory does not grow."""
    assert WAITING_MOST == 64 * 1024 * 1024
    monkeypatch.setattr(answers, "WAITING_MOST", 40_000)
    stage.answers.settle(stage.take("a"), blob(20_000))
    stage.answers.settle(stage.take("b"), blob(20_000 + over))
    assert stage.outcomes == [("b", "failed")] * over
    while stage.work:
        stage.run()
    stage.answers.settle(stage.take("c"), blob(40_000))
    stage.run()
    assert stage.outcomes[-1] == ("c", "answered")
    assert [each.why for each in stage.targets if each.outcome == "failed"] == [TOO_MUCH] * over


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=9,
)


@settings(deadline=None, max_examples=200)
@given(value=values, size=st.integers(1, 4))
def test_json_in_pieces_is_that_of_one_call(value: Any, size: int) -> None:
    """JSON in pieces is that of one call for any value, wherever a piece of a text ends."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(answers, "PIECE", size)
        assert json_in_pieces(value) == json.dumps(value, ensure_ascii=False)
        compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        assert json_in_pieces(value, (",", ":")) == compact


def test_no_call_writes_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call writes more than a piece: neither of a mebibyte that is no UTF-8, nor of as many labels as
    there may be.
    """
    written = list[Any]()
    real = answers._encode
    monkeypatch.setattr(answers, "_encode", lambda value: (written.append(value), real(value))[1])
    labels = {"status": "ok", "metrics": [{"name": "m", "labels": {f"{n:x}": "" for n in range(24_000)}}]}
    for blob in (b"\xff" * 2**20, json.dumps(labels).encode()):
        target = answers._made("a", blob, parse)
        assert target.short is not None and len(json.dumps(target.short)) < ANSWER_MOST
    assert len(written) > 48_000 and not [each for each in written if isinstance(each, dict | list)]
    assert max(len(each) for each in written if isinstance(each, str)) == PIECE
