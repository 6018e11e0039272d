"""Ping URLs, as healthchecks.io has them: a job says that it began, ended or failed, with nothing but a GET.

    /ping/UUID            it is done          /ping/UUID/start   it begins
    /ping/UUID/fail       it failed           /ping/UUID/log     something to be read, no more
    /ping/UUID/3          its exit status     /ping/KEY/NAME...  the same by its name

The URL is the secret: nobody guesses it, and no token is needed. A body is kept as the output.
"""

from __future__ import annotations

import hmac
import math
import time
from collections import OrderedDict
from typing import Any
from uuid import UUID

from klein import Klein

from equus_protocol.results import CRITICAL, OK, STATUS_WORDS
from helen.changing import Changes, NotDurable
from helen.journal.values import JournalError
from helen.outside import Outside
from helen.passive import DEFAULT_HOST, Declared
from helen.quota import Quota
from helen.submissions import NotReported, NotTaken, Submission, TooOften
from helen.web.reporting import STATUS

MAX_OUTPUT = 100_000  # bytes of a body that are kept, as many as healthchecks.io keeps
PINGS_A_MINUTE, PINGS_AT_ONCE = 60.0, 30  # of one ping
MISSES_A_MINUTE, MISSES_AT_ONCE = 20.0, 20  # of one address that asks for what isn't there
MAX_BEGUN = 10_000  # runs that have begun, of all pings: only how long they took is known by them
SIGNALS = ("start", "fail", "log")


class Pings:
    """What is known of pings besides the results they make."""

    def __init__(self, outside: Outside, changes: Changes) -> None:
        self.outside = outside
        self._changes = changes
        self.quota = Quota(PINGS_A_MINUTE, PINGS_AT_ONCE)
        self.misses = Quota(MISSES_A_MINUTE, MISSES_AT_ONCE)
        self._begun: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def find(self, code: str) -> Declared | None:
        """By the UUID of its URL, however it is written."""
        try:
            return self.outside.ping(str(UUID(code)))
        except ValueError:
            return None

    def find_named(self, key: str, name: str) -> Declared | None:
        """By its name, for whoever has the key: NAME of the host `pings`, or HOST.NAME."""
        config = self.outside.config
        if not hmac.compare_digest(key.encode(), self.outside.keys.ping_key(config).encode()):
            return None
        host, dot, check = name.partition(":")
        declared = config.named.get(host if dot else DEFAULT_HOST, {}).get(check if dot else name)
        return declared if declared is not None and declared.is_ping else None

    async def take(self, ping: Declared, signal: str, body: bytes, run: str) -> None:
        """Raises NotReported."""
        wait = self.quota.take(f"{ping.host}/{ping.id}", time.monotonic())
        if wait:
            raise TooOften(f"more than {PINGS_A_MINUTE:g} pings a minute", wait)
        key = ping.host, ping.id, run
        if signal == "start":
            self.outside.find(ping.host, ping.id)
            await self._expect(ping)
            self._begun[key] = time.time()
            if len(self._begun) > MAX_BEGUN:
                self._begun.popitem(last=False)
            return
        document = _document(signal, body) | ({"run": run} if run else {})
        if signal == "log":
            await self.outside.note(ping, document, "ping")
            return
        begun = self._begun.pop(key, None)
        if begun is not None:
            document |= {"started": begun, "took_ms": round((time.time() - begun) * 1_000, 3)}
        await self.outside.submit(Submission(ping.host, ping.id, document, "ping"))

    async def _expect(self, ping: Declared) -> None:
        try:
            await self._changes.write("expect", {"within": ping.grace, "why": "it has begun"}, ping.host, ping.id)
        except (NotDurable, JournalError) as error:
            raise NotTaken(str(error)) from error


def _document(signal: str, body: bytes) -> dict[str, Any]:
    status = OK if signal in ("", "0", "log") else CRITICAL
    output = body[:MAX_OUTPUT].decode("utf-8", "replace").strip()
    said = {"": "done", "fail": "failed", "log": "said something"}.get(signal, f"exit status {signal}")
    first = output.partition("\n")[0][:200]
    document: dict[str, Any] = {"status": STATUS_WORDS[status], "summary": f"{said}: {first}" if first else said}
    if output:
        document["output"] = output
    if len(body) > MAX_OUTPUT:
        document["truncated"] = {"output": len(body)}
    return document


def is_signal(text: str) -> bool:
    """start, fail, log, or an exit status."""
    return text in SIGNALS or (text.isascii() and text.isdigit() and int(text) <= 255)


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument."""
    methods = ["GET", "HEAD", "POST"]

    @app.route("/ping/<code>", methods=methods)
    async def ping(api: Any, request: Any, code: str) -> bytes:
        found = api._helen.pings.find(code)
        if found is None and request.caller.may("operate"):  # a token is as good as a key: then the name will do
            outside = api._helen.outside
            found = api._helen.pings.find_named(outside.keys.ping_key(outside.config), code)
        return await _answer(api, request, found, "")

    @app.route("/ping/<code>/<rest>", methods=methods)
    async def ping_with(api: Any, request: Any, code: str, rest: str) -> bytes:
        """/ping/UUID/start, or /ping/KEY/NAME."""
        found = api._helen.pings.find(code)
        if found is not None and is_signal(rest):
            return await _answer(api, request, found, rest)
        return await _answer(api, request, api._helen.pings.find_named(code, rest), "")

    @app.route("/ping/<code>/<name>/<signal>", methods=methods)
    async def ping_named(api: Any, request: Any, code: str, name: str, signal: str) -> bytes:
        found = api._helen.pings.find_named(code, name)
        return await _answer(api, request, found if is_signal(signal) else None, signal)


async def _answer(api: Any, request: Any, found: Declared | None, signal: str) -> bytes:
    """One word, as the tools that were written for such URLs expect."""
    pings: Pings = api._helen.pings
    if found is None:
        address = getattr(request.getClientAddress(), "host", "control.sock")
        wait = pings.misses.take(address, time.monotonic())
        return _word(request, 429 if wait else 404, "rate limited" if wait else "not found", wait)
    run = request.args.get(b"rid", [b""])[0].decode("utf-8", "replace")[:100]
    body = b"" if request.method != b"POST" else request.content.read(-1)
    try:
        await pings.take(found, signal if signal in SIGNALS or not signal else str(int(signal)), body, run)
    except NotReported as error:
        return _word(request, STATUS[type(error)][0], str(error), getattr(error, "wait", 0.0))
    return _word(request, 200, "OK")


def _word(request: Any, status: int, word: str, wait: float = 0.0) -> bytes:
    request.setResponseCode(status)
    request.setHeader("content-type", "text/plain; charset=utf-8")
    if wait:
        request.setHeader("retry-after", str(math.ceil(wait)))
    return word.encode() + b"\n"
