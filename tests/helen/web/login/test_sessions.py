"""Tests sessions by the clock: idle, at their end, with their token; and both sides of their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed

from helen.storage import schema, web_session_rows
from helen.storage.database import StoreFailed
from helen.storage.web_session_rows import SessionRefused, WebSession
from helen.web.login import sessions as module
from helen.web.login.links import Link
from helen.web.login.sessions import IDLE_SECONDS, NOTE_SECONDS, Sessions, caller_of
from helen.web.problems import Problem

DAY = 86_400.0
ANNA = Link("anna", "operator", None, ("operate",), 7 * DAY, False)


class Disk:
    """Play a store whose calls are done at once, or fail."""

    def __init__(self, path: Path) -> None:
        self.db = schema.connect(path / "helen.db")
        self.is_broken = False

    def call(self, work: Callable[..., Any], *given: Any) -> Deferred[Any]:
        return fail(StoreFailed("full")) if self.is_broken else succeed(work(self.db, *given))


class Stage:
    """Hold sessions on a disk, with one good token."""

    def __init__(self, path: Path) -> None:
        self.disk, self.good, self.ended = Disk(path), {b"good"}, []  # type: ignore[var-annotated]
        self.again()

    def again(self) -> None:
        """Read the sessions again, as after a restart."""
        stored = web_session_rows.sessions(self.disk.db)
        self.sessions = Sessions(self.disk, stored, lambda digest, now: digest in self.good, self.ended.append)  # type: ignore[arg-type]

    def begin(self, link: Link = ANNA, now: float = 0.0) -> tuple[WebSession, str]:
        got: list[tuple[WebSession, str]] = []
        self.sessions.begin(link, now, "192.0.2.7").addCallback(got.append)
        return got[0]

    def is_open(self, cookie: str, now: float) -> bool:
        try:
            self.sessions.find(cookie, now)
        except Problem as problem:
            assert (problem.status, str(problem)) == (401, module.SAID_OVER)
            return False
        return True


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.disk.db.close()


@pytest.mark.parametrize(
    ("link", "uses", "open_at", "over_at"),
    [
        (ANNA, [], IDLE_SECONDS - 1.0, IDLE_SECONDS),
        (ANNA, [IDLE_SECONDS - 1.0], 2 * IDLE_SECONDS - 2.0, 2 * IDLE_SECONDS - 1.0),
        (ANNA, [hours * 3_600.0 for hours in range(10, 168, 10)], 7 * DAY - 1.0, 7 * DAY),
        (evolve(ANNA, seconds=600.0), [599.0], 599.5, 600.0),
        (evolve(ANNA, kiosk=True, seconds=365 * DAY), [], 365 * DAY - 1.0, 365 * DAY),
    ],
    ids=["idle", "used", "a week", "short", "kiosk"],
)
def test_when_a_session_is_over(stage: Stage, link: Link, uses: list[float], open_at: float, over_at: float) -> None:
    """A session is over after twelve idle hours or at its end, also over a restart."""
    _, cookie = stage.begin(link)
    for use in uses:
        assert stage.is_open(cookie, use)
    stage.again()
    assert [each.name for each in stage.sessions.listed(open_at)] == ["anna"]
    assert stage.sessions.listed(over_at) == []
    assert not stage.is_open(cookie, over_at)
    assert stage.is_open(cookie, open_at)


def test_a_token_has_a_share_of_the_sessions(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token has a share of the sessions; above it a login is refused, and others have room still."""
    monkeypatch.setattr(module, "OF_TOKEN", 2)
    stage.good |= {b"1", b"2"}
    own = evolve(ANNA, parent="token:wall", parent_digest=b"1")
    for _ in range(2):
        stage.begin(own)
    with pytest.raises(Problem, match="token:wall has 2 sessions: end some"):
        stage.begin(own)
    for link in (ANNA, ANNA, ANNA, evolve(own, parent_digest=b"2")):
        stage.begin(link)
    assert len(stage.sessions.listed(1.0)) == 6


def test_uses_are_noted_now_and_then(stage: Stage) -> None:
    """A use of a session is written at most once in NOTE_SECONDS, and not at each request."""
    session, cookie = stage.begin()
    noted = []
    for second in range(0, int(2 * NOTE_SECONDS) + 1, 60):
        stage.sessions.find(cookie, float(second))
        noted.append(web_session_rows.sessions(stage.disk.db)[0].used_at)
    assert noted == [0.0] * 5 + [300.0] * 5 + [600.0]
    assert web_session_rows.sessions(stage.disk.db)[0] == evolve(session, used_at=600.0)


def test_with_its_token(stage: Stage) -> None:
    """A session opens nothing once its token is over, and the sweep removes it with the reason in the audit."""
    link = evolve(ANNA, parent="token:t", parent_digest=b"good")
    session, cookie = stage.begin(link)
    assert caller_of(session).token == "t"
    stage.good.clear()
    assert not stage.is_open(cookie, 1.0)
    stage.sessions.sweep(2.0)
    assert (stage.ended, web_session_rows.sessions(stage.disk.db)) == ([session.id], ())
    audit = stage.disk.db.execute("SELECT actor, action, subject, detail FROM audit ORDER BY id").fetchall()
    assert audit == [
        ("token:t/anna", "session", session.id, "scopes operate, for 604800 s at most"),
        ("helen", "session-end", session.id, "its token is over"),
    ]
    with pytest.raises(Problem, match="opens nothing any more"):
        stage.begin(link)


def test_one_session_too_many(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session above the limit is refused in memory and in the database, and one that is over makes room."""
    monkeypatch.setattr(module, "MOST", 2)
    monkeypatch.setattr(web_session_rows, "MOST", 2)
    first, _ = stage.begin(evolve(ANNA, seconds=50.0))
    stage.begin()
    with pytest.raises(Problem, match="there are 2 sessions") as refused:
        stage.begin(now=49.0)
    assert refused.value.status == 409
    with pytest.raises(SessionRefused, match="there are 2 sessions"):
        web_session_rows.begin(stage.disk.db, evolve(first, id="x", digest=b"x", created=49.0))
    stage.begin(now=50.0)
    assert len(stage.sessions.listed(50.0)) == 2


def test_a_broken_disk(stage: Stage) -> None:
    """A session that could not be written does not begin, and one that could not be removed is over all the same."""
    session, cookie = stage.begin()
    stage.disk.is_broken = True
    failures: list[Any] = []
    stage.sessions.begin(ANNA, 0.0, "").addErrback(failures.append)
    stage.sessions.end(session, 1.0, "operator").addErrback(failures.append)
    assert [each.type for each in failures] == [StoreFailed, StoreFailed]
    assert stage.sessions.listed(1.0) == []
    assert not stage.is_open(cookie, 1.0)


def test_a_copy_of_the_database_opens_nothing(stage: Stage) -> None:
    """The id and hash of a session in a copy of the database open nothing."""
    session, cookie = stage.begin()
    for shown in (session.id, session.digest.hex(), ""):
        assert not stage.is_open(shown, 1.0)
    assert cookie not in "\n".join(map(str, sqlite3.Connection.iterdump(stage.disk.db)))
