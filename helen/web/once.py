"""Idempotency-Key: a POST that is sent twice is done once, over broken connections and restarts, for a day.

The answer is kept before it is sent. What failed without doing anything frees its key; where nobody knows whether it
was done (Helen was killed in the middle, or a fault of hers), the second try is told so rather than done again.
"""

from __future__ import annotations

import re
import time
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.web.server import NOT_DONE_YET

from helen import replies
from helen.replies import Reply, TooManyKeys
from helen.store import Store, StoreFailed
from helen.web.problems import Problem, answer_error, refuse_problem
from helen.web.table import Route

KEY = re.compile(r'"?([\x21-\x7e]{1,200}?)"?')


class Once:
    """`inner.render(request)` does what is asked."""

    log = Logger()

    def __init__(self, store: Store, inner: Any) -> None:
        self._store = store
        self._inner = inner
        self._open: set[bytes] = set()  # keys whose requests are being done

    def render(self, request: Any, route: Route) -> Any:
        """Instead of the inner one's."""
        Deferred.fromCoroutine(self._render(request, route)).addErrback(self._broke, request)
        return NOT_DONE_YET

    async def _render(self, request: Any, route: Route) -> None:
        given = (request.getHeader(b"idempotency-key") or b"").decode("latin-1")
        try:
            key, asked = self._read(request, route, given)
        except Problem as problem:
            self._end(request, refuse_problem(request, problem))
            return
        self._open.add(key)
        try:
            reply = await self._store.call(replies.begin, key, asked, time.time())
        except TooManyKeys as error:
            self._open.discard(key)
            request.setHeader("retry-after", "60")
            self._end(request, refuse_problem(request, Problem(429, "too many keys", str(error))))
            return
        except BaseException:
            self._open.discard(key)
            raise
        if reply is not None:
            self._open.discard(key)
            self._end(request, self._again(request, reply, asked))
            return
        request.hold(lambda body: self._settle(request, route, key, body))
        self._inner.render(request)

    def _read(self, request: Any, route: Route, given: str) -> tuple[bytes, bytes]:
        """The key among all callers', and what is asked with it. Raises Problem."""
        match = KEY.fullmatch(given)
        if match is None:
            raise Problem(400, "bad request", "Idempotency-Key has 1 to 200 printable characters: a UUID will do")
        if route.streams:
            said = "an answer that comes in lines can't be kept, so Idempotency-Key is of no use here: see POST /jobs"
            raise Problem(400, "bad request", said)
        key = sha256(f"{request.caller.actor}\0{match[1]}".encode()).digest()
        if key in self._open:
            request.setHeader("retry-after", "1")
            raise Problem(409, "in progress", "a request with this Idempotency-Key is being done: wait for its answer")
        asked = sha256(request.method + b" " + request.uri + b"\0")
        asked.update(request.content.getvalue())
        return key, asked.digest()

    def _again(self, request: Any, reply: Reply, asked: bytes) -> bytes:
        if reply.request != asked:
            said = "this Idempotency-Key was used for another request: take a new one for each"
            return refuse_problem(request, Problem(422, "key used otherwise", said))
        if reply.status is None:
            said = "a request with this Idempotency-Key was begun, and nobody knows whether it was done: look first"
            return refuse_problem(request, Problem(409, "outcome unknown", said))
        if reply.body is None:
            said = f"it was done, with status {reply.status}; the answer is a secret or too long, and was not kept"
            return refuse_problem(request, Problem(409, "done already", said))
        request.setResponseCode(reply.status)
        request.setHeader("content-type", reply.kind or "application/json")
        request.setHeader("idempotency-replayed", "true")
        request.is_dry_run = True  # for the audit: nothing is done
        return reply.body

    def _settle(self, request: Any, route: Route, key: bytes, body: bytes) -> Deferred[Any]:
        """Fires when the answer may be sent."""
        kind = (request.responseHeaders.getRawHeaders("content-type") or ["application/json"])[0]
        if request.code < 300 and not request.is_dry_run:
            kept = None if route.secret else body
            done = self._store.call(replies.finish, key, request.code, kind, kept)
        elif request.code == 500 or getattr(request, "is_unsure", False):
            done = self._store.call(lambda db: None)  # it stays begun
        else:
            done = self._store.call(replies.forget, key)
        done.addErrback(lambda failure: self.log.error("an answer is not kept: {why}", why=failure.getErrorMessage()))
        return done.addBoth(lambda _: self._open.discard(key))

    def _end(self, request: Any, body: bytes) -> None:
        request.write(body)
        request.finish()

    def _broke(self, failure: Any, request: Any) -> None:
        if not failure.check(StoreFailed):
            self.log.failure("an Idempotency-Key", failure)
        self._end(request, answer_error(request, failure))
