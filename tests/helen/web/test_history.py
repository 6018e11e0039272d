"""Tests refusals of the history over HTTP: wrong parameters, no lake, too many callers at once."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from helen.web import lake_reads
from helen.web.lake_reads import MOST_WAITING, LakeReads
from helen.web.problems import Problem
from helen.web.routes.history import read_fields

NOW = 1_790_000_000.0
WHOSE = {b"agent": [b"web1"], b"check": [b"disk"]}


def test_times_are_unix_seconds_or_how_long_ago() -> None:
    """Times are unix seconds or a span ago, and the last day by default."""
    usual = {"agent": "web1", "check_id": "disk", "metrics": [], "resolution": None, "limit": None, "cursor": None}
    end = round(NOW * 1e6)
    assert read_fields(WHOSE, NOW) == usual | {"begin": end - 86_400_000_000, "end": end}
    assert read_fields({**WHOSE, b"from": [b"6h"], b"to": [b"30m"]}, NOW) == usual | {
        "begin": end - 21_600_000_000, "end": end - 1_800_000_000,
    }  # fmt: skip
    given = {b"from": [b"1789999000.5"], b"to": [b"1789999999"], b"metric": ["é".encode(), b"x"], b"limit": [b"7"]}
    assert read_fields(WHOSE | given | {b"resolution": [b"raw"], b"cursor": [b"raw.1.2.3"]}, NOW) == usual | {
        "begin": 1_789_999_000_500_000, "end": 1_789_999_999_000_000, "metrics": ["é", "x"], "limit": 7,
        "resolution": "raw", "cursor": "raw.1.2.3",
    }  # fmt: skip


REFUSED: dict[str, tuple[dict[bytes, list[bytes]], str]] = {
    "nobody": ({}, "`agent` and `check` say whose history"),
    "an agent alone": ({b"agent": [b"web1"]}, "`agent` and `check` say whose history"),
    "two agents": ({b"agent": [b"a", b"b"], b"check": [b"c"]}, "`agent` is given more than once"),
    "backwards": ({**WHOSE, b"from": [b"1h"], b"to": [b"2h"]}, "`from` is before `to`"),
    "no time": ({**WHOSE, b"from": [b"yesterday"]}, "`from` is unix seconds, or how long ago"),
    "no number": ({**WHOSE, b"to": [b"nan"]}, "`to` is unix seconds, or how long ago"),
    "infinity": ({**WHOSE, b"to": [b"1e999"]}, "`to` is a time from 1970 to 9999"),
    "before 1970": ({**WHOSE, b"from": [b"-5"]}, "`from` is a time from 1970 to 9999"),
    "no limit": ({**WHOSE, b"limit": [b"0"]}, "`limit` is a number of points or results, 1 or more"),
    "another limit": ({**WHOSE, b"limit": ["²".encode()]}, "`limit` is a number of points or results"),
    "no text": ({**WHOSE, b"metric": [b"\xff"]}, "`metric` is no UTF-8"),
    "too many metrics": ({**WHOSE, b"metric": [b"x"] * 51}, "at most 50 times `metric`"),
    "a typing mistake": ({**WHOSE, b"form": [b"1h"]}, "there is no parameter 'form'"),
}


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(given: dict[bytes, list[bytes]], said: str) -> None:
    """Wrong parameters of the history are refused with 400 and the right form."""
    with pytest.raises(Problem, match=said) as caught:
        read_fields(given, NOW)
    assert caught.value.status == 400


def test_few_at_once_and_few_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reads of the lake run, sixteen wait, and the next is refused; each waiting one is answered."""
    started: list[Deferred[Any]] = []

    def begin(*_: Any) -> Deferred[Any]:
        started.append(Deferred())
        return started[-1]

    monkeypatch.setattr(lake_reads, "deferToThread", begin)
    reads, answers = LakeReads(), list[Any]()
    for _ in range(2 + MOST_WAITING):
        Deferred.fromCoroutine(reads.ask(bytes)).addCallback(answers.append)
    assert len(started) == 2
    refused: list[Any] = []
    Deferred.fromCoroutine(reads.ask(bytes)).addErrback(lambda failure: refused.append(failure.value))
    assert (refused[0].status, str(refused[0])) == (503, "16 others wait for the lake already; ask again soon")
    for at in range(2 + MOST_WAITING):
        started[at].callback(at)
    assert answers == list(range(2 + MOST_WAITING))
