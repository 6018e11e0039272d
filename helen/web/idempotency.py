"""Does a POST once that is sent twice with one Idempotency-Key, over broken connections and restarts, for a day.

The answer is kept before it is sent. A request that failed without doing anything frees its key; where it is unknown
whether it was done (Helen was killed in the middle, or failed), the second try is told so rather than done again.
"""

from __future__ import annotations

import re
import time
from hashlib import sha256
from typing import Any, cast

from klein.resource import KleinResource
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from twisted.web.server import NOT_DONE_YET

from helen.storage import idempotency_rows
from helen.storage.database import Store, StoreFailed
from helen.storage.idempotency_rows import Reply, TooManyKeys
from helen.web.answers import refuse, refuse_error
from helen.web.bodies import AT_ONCE
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import Route

KEY = re.compile(r'"?([\x21-\x7e]{1,200}?)"?')


async def _hash_of(request: ApiRequest) -> bytes:
    """Return a hash of what is asked with a key."""
    asked, body = sha256(request.method + b" " + request.uri + b"\0"), request.body()
    if len(body) <= AT_ONCE:
        asked.update(body)
    else:
        await deferToThread(asked.update, body)  # 8 MiB take some 20 ms
    return asked.digest()


class IdempotencyKeys:
    """Renders requests with a key: at most one of them reaches `inner`, the others get its answer."""

    log = Logger()

    def __init__(self, store: Store, inner: KleinResource) -> None:
        self._store = store
        self._inner = inner
        self._open: set[bytes] = set()  # keys whose requests are being done

    def render(self, request: ApiRequest, route: Route) -> Any:
        """Answer a request with an Idempotency-Key, instead of the inner resource."""
        Deferred.fromCoroutine(self._render(request, route)).addErrback(self._failed, request)
        return NOT_DONE_YET

    async def _render(self, request: ApiRequest, route: Route) -> None:
        try:
            key = self._read(request, route)
        except Problem as problem:
            self._end(request, refuse(request, problem))
            return
        self._open.add(key)
        try:
            asked = await _hash_of(request)
            reply = await self._store.call(idempotency_rows.begin, key, asked, time.time(), request.caller.share)
        except TooManyKeys as error:
            self._open.discard(key)
            self._end(request, refuse(request, Problem(429, "too many keys", str(error), {"retry-after": "60"})))
            return
        except BaseException:
            self._open.discard(key)
            raise
        if reply is not None:
            self._open.discard(key)
            self._end(request, self._again(request, reply, asked))
            return
        request.hold(lambda body: self._settle(request, route, key, body))
        self._inner.render(cast(IRequest, request))

    def _read(self, request: ApiRequest, route: Route) -> bytes:
        """Return the key among all callers'. Raises Problem."""
        given = (request.getHeader(b"idempotency-key") or b"").decode("latin-1")
        match = KEY.fullmatch(given)
        if match is None:
            raise bad_request("Idempotency-Key has 1 to 200 printable characters: a UUID will do")
        if route.streams:
            raise bad_request(
                "an answer that comes in lines can't be kept, so Idempotency-Key is of no use here: see POST /jobs"
            )
        key = sha256(f"{request.caller.actor}\0{request.caller.identity}\0{match[1]}".encode()).digest()
        if key in self._open:
            said = "a request with this Idempotency-Key is being done: wait for its answer"
            raise Problem(409, "in progress", said, {"retry-after": "1"})
        return key

    def _again(self, request: ApiRequest, reply: Reply, asked: bytes) -> bytes:
        """Return the answer to a request that was sent before."""
        if reply.request != asked:
            said = "this Idempotency-Key was used for another request: take a new one for each"
            return refuse(request, Problem(422, "key used otherwise", said))
        if reply.status is None:
            said = "a request with this Idempotency-Key was begun, and nobody knows whether it was done: look first"
            return refuse(request, Problem(409, "outcome unknown", said))
        if reply.body is None:
            said = f"it was done, with status {reply.status}; the answer is a secret or too long, and was not kept"
            return refuse(request, Problem(409, "done already", said))
        request.setResponseCode(reply.status)
        request.setHeader("content-type", reply.kind or "application/json")
        request.setHeader("idempotency-replayed", "true")
        request.is_dry_run = True  # for the audit: nothing is done
        return reply.body

    def _settle(self, request: ApiRequest, route: Route, key: bytes, body: bytes) -> Deferred[Any]:
        """Keep or free the key. Fires when the answer may be sent."""
        kind = (request.responseHeaders.getRawHeaders("content-type") or ["application/json"])[0]
        if request.code < 300 and not request.is_dry_run:
            kept = None if route.secret else body
            done = self._store.call(idempotency_rows.finish, key, request.code, kind, kept)
        elif request.code == 500 or request.is_uncertain:
            done = self._store.call(lambda db: None)  # it stays begun
        else:
            done = self._store.call(idempotency_rows.forget, key)
        done.addErrback(lambda failure: self.log.error("an answer is not kept: {why}", why=failure.getErrorMessage()))
        return done.addBoth(lambda _: self._open.discard(key))

    def _end(self, request: ApiRequest, body: bytes) -> None:
        request.write(body)
        request.finish()

    def _failed(self, failure: Failure, request: ApiRequest) -> None:
        if not failure.check(StoreFailed):
            self.log.failure("an Idempotency-Key", failure)
        self._end(request, refuse_error(request, failure))
