"""Knows the sessions of browsers: they are children of a token or of the operator, and end with their parent.

They are in memory by the hashes of their cookies, so that a request is judged without the disk;
helen/storage/web_session_rows.py keeps them, so that a restart of Helen logs no browser out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from helen.storage import web_session_rows
from helen.storage.database import Store
from helen.storage.web_session_rows import MOST, WebSession
from helen.storage.web_token_rows import digest_of
from helen.web.access import Caller
from helen.web.login.links import Link
from helen.web.problems import Problem, unauthorized

SECRET_BYTES, ID_BYTES = 32, 6
IDLE_SECONDS = 12 * 3_600.0  # after the last use of a session that is no kiosk
NOTE_SECONDS = 300.0  # between two notes of when a session was used last
OF_TOKEN = 200  # sessions of one token: no token takes the room of others
SAID_OVER = "this session is over: `helen open` prints a link that begins another one"


class Sessions:
    """Finds the session that a cookie belongs to.

    `is_good(digest, now)` tells whether a token opens anything still. `on_ended(id)` is called for each session that
    has ended, so that its streams can be cut.
    """

    log = Logger()

    def __init__(
        self, store: Store, known: Iterable[WebSession], is_good: Callable[[bytes, float], bool],
        on_ended: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._store = store
        self._by_digest = {session.digest: session for session in known}
        self._is_good = is_good
        self._on_ended = on_ended

    def find(self, cookie: str, now: float) -> WebSession:
        """Return the session of a cookie. `now` is in unix seconds. Raises Problem 401 if it is over, or is none."""
        session = self._by_digest.get(digest_of(cookie))
        if session is None or self._why_over(session, now) is not None:
            raise unauthorized(SAID_OVER)
        if now - session.used_at >= NOTE_SECONDS:
            session = self._note(session, now)
        return session

    def _why_over(self, session: WebSession, now: float) -> str | None:
        if session.parent_digest is not None and not self._is_good(session.parent_digest, now):
            return "its token is over"
        if now >= session.expires:
            return "its time is over"
        is_idle = not session.kiosk and now - session.used_at >= IDLE_SECONDS
        return "it was idle" if is_idle else None

    def _note(self, session: WebSession, now: float) -> WebSession:
        noted = self._by_digest[session.digest] = evolve(session, used_at=now)
        self._store.call(web_session_rows.used, session.id, now).addErrback(self._not_kept)
        return noted

    def listed(self, now: float) -> list[WebSession]:
        """Return the sessions that are not over, the oldest first. `now` is in unix seconds."""
        alive = [each for each in self._by_digest.values() if self._why_over(each, now) is None]
        return sorted(alive, key=lambda session: (session.created, session.id))

    def begin(self, link: Link, now: float, address: str) -> Deferred[tuple[WebSession, str]]:
        """Begin the session that a link is for; fires with it and its cookie's value, once it is on disk.

        `now` is in unix seconds. Raises Problem if there are too many sessions, or the link's token is over.
        """
        self.sweep(now)
        if len(self._by_digest) >= MOST:
            raise Problem(409, "refused", f"there are {MOST} sessions: end some, GET /api/v1/sessions lists them")
        own = sum(each.parent_digest == link.parent_digest for each in self._by_digest.values())
        if link.parent_digest is not None and own >= OF_TOKEN:
            raise Problem(409, "refused", f"{link.parent} has {OF_TOKEN} sessions: end some, or take another token")
        if link.parent_digest is not None and not self._is_good(link.parent_digest, now):
            raise unauthorized("the token that this link was made with opens nothing any more")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        session = WebSession(
            id=secrets.token_hex(ID_BYTES), digest=digest_of(secret), name=link.name, parent=link.parent,
            parent_digest=link.parent_digest, scopes=link.scopes, created=now, expires=now + link.seconds,
            used_at=now, address=address, kiosk=link.kiosk, on=link.on,
        )  # fmt: skip

        def kept(_: object) -> tuple[WebSession, str]:
            self._by_digest[session.digest] = session
            return session, secret

        return self._store.call(web_session_rows.begin, session).addCallback(kept)

    def end(self, session: WebSession, now: float, by: str) -> Deferred[None]:
        """End a session, at once in memory; fires when it is so on disk. `now` is in unix seconds."""
        return self._drop([session], now, by)

    async def end_cookie(self, cookie: str, now: float, by: str) -> None:
        """End the session of a cookie, if it is one still. `now` is in unix seconds."""
        session = self._by_digest.get(digest_of(cookie))
        if session is not None:
            await self.end(session, now, by)

    def sweep(self, now: float) -> None:
        """End all sessions that are over, and those whose token has ended. `now` is in unix seconds."""
        over: dict[str, list[WebSession]] = {}
        for session in self._by_digest.values():
            why = self._why_over(session, now)
            if why is not None:
                over.setdefault(why, []).append(session)
        for why, ended in over.items():
            self._drop(ended, now, "helen", why).addErrback(self._not_kept)

    def _drop(self, ended: list[WebSession], now: float, by: str, why: str = "") -> Deferred[None]:
        for session in ended:
            self._by_digest.pop(session.digest, None)
            self._on_ended(session.id)
        return self._store.call(web_session_rows.end, tuple(each.id for each in ended), now, by, why)

    def _not_kept(self, failure: object) -> None:
        self.log.error("sessions of browsers: {why}", why=str(getattr(failure, "value", failure)))


def caller_of(session: WebSession) -> Caller:
    """Return the caller that the browser of a session is."""
    token = session.parent.removeprefix("token:") if session.parent_digest is not None else None
    return Caller(session.actor, session.scopes, token, on=session.on, identity=session.id, session=session)
