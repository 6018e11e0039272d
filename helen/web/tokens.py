"""Who shows which token over TCP: that of STATE/web.token, which opens everything, and those that people have made.

In memory by their hashes, so that a request is judged without the disk; helen/web_tokens.py keeps them.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from helen import web_tokens
from helen.statedir import read_private, write_whole
from helen.store import Store
from helen.web.access import KEEPER, SCOPES, Caller
from helen.web.problems import Problem
from helen.web_tokens import MOST, WebToken, digest_of

TOKEN_BYTES = 32
PREFIX = "helen_"  # by which scanners of repositories can know one
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
NOTE_SECONDS = 3_600.0  # between two notes of when a token was used last
LONGEST = 5 * 366 * 86_400.0  # seconds that a token with an end may live


def load_token(path: Path) -> str:
    """The token of STATE/web.token, made when it is missing. Blocks: at start only."""
    if not path.exists():
        write_whole(path, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
    return read_private(path).decode().strip()


class WebTokens:
    """`on_revoked(name)` is called for each that is worth nothing any more, so that what it opened can be ended."""

    log = Logger()

    def __init__(self, store: Store, known: Iterable[WebToken], master: str, on_revoked: Callable[[str], None]) -> None:
        self._store = store
        self._master = master.encode()
        self._by_digest = {token.digest: token for token in known}
        self._on_revoked = on_revoked

    def caller(self, shown: bytes, now: float) -> Caller:
        """Raises Problem for a token that opens nothing."""
        if hmac.compare_digest(shown, self._master):
            return KEEPER
        token = self._by_digest.get(digest_of(shown.decode("utf-8", "surrogateescape")))
        if token is None:
            raise Problem(401, "refused", "that token is not known here: `helen web-token list` has those that are")
        if token.expires is not None and token.expires <= now:
            ended = datetime.fromtimestamp(token.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise Problem(401, "refused", f"the token {token.name!r} has expired ({ended}): make a new one")
        if token.used_at is None or now - token.used_at >= NOTE_SECONDS:
            self._note(token, now)
        return Caller(f"token:{token.name}", token.scopes, token.name)

    def _note(self, token: WebToken, now: float) -> None:
        self._by_digest[token.digest] = evolve(token, used_at=now)
        noted = self._store.call(web_tokens.used, token.name, now)
        noted.addErrback(lambda failure: self.log.error("web tokens: {why}", why=failure.getErrorMessage()))

    def sweep(self, now: float) -> None:
        """Streams that were opened with a token that has expired meanwhile end."""
        for token in list(self._by_digest.values()):
            if token.expires is not None and token.expires <= now:
                self._on_revoked(token.name)

    def listed(self) -> list[WebToken]:
        return sorted(self._by_digest.values(), key=lambda token: token.name)

    def get(self, name: str) -> WebToken:
        """Raises Problem if there is none."""
        for token in self._by_digest.values():
            if token.name == name:
                return token
        raise Problem(404, "no such token", f"no token is called {name!r}: `helen web-token list` has them")

    def checked(self, name: str, scopes: Iterable[str], ttl: float | None, by: str, now: float) -> WebToken:
        """What would be made, without a secret. Raises Problem."""
        wanted = tuple(dict.fromkeys(scopes))
        unknown = [scope for scope in wanted if scope not in SCOPES]
        if not wanted or unknown:
            what = f"{unknown[0]!r} is no scope" if unknown else "`scopes` is empty"
            raise Problem(400, "bad request", f"{what}: {', '.join(SCOPES)}")
        if not NAME.fullmatch(name) or name == "web.token":
            raise Problem(400, "bad request", f"{name[:80]!r} is no name for a token: letters, digits and . _ -")
        if ttl is not None and not 0 < ttl <= LONGEST:
            raise Problem(400, "bad request", f"`expires` is a time to live of up to {LONGEST / 86_400:g} days")
        if any(token.name == name and not _is_over(token, now) for token in self._by_digest.values()):
            raise Problem(409, "refused", f"there is a token {name!r} already: revoke it first, or take another name")
        if sum(not _is_over(token, now) for token in self._by_digest.values()) >= MOST:
            raise Problem(409, "refused", f"there are {MOST} tokens: revoke some")
        return WebToken(name, b"", wanted, now, by, None if ttl is None else now + ttl)

    def add(self, checked: WebToken) -> Deferred[str]:
        """The secret, which is shown once and kept nowhere."""
        secret = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        token = evolve(checked, digest=digest_of(secret))

        def added(_: Any) -> str:
            self._by_digest = {
                digest: each for digest, each in self._by_digest.items() if not _is_over(each, token.created)
            }
            self._by_digest[token.digest] = token
            return secret

        return self._store.call(web_tokens.add, token).addCallback(added)

    def revoke(self, name: str, now: float, by: str) -> Deferred[bool]:
        """At once in memory; fires when it is so on disk."""
        self._by_digest = {digest: each for digest, each in self._by_digest.items() if each.name != name}
        self._on_revoked(name)
        return self._store.call(web_tokens.remove, name, now, by)


def _is_over(token: WebToken, now: float) -> bool:
    return token.expires is not None and token.expires <= now


def show_token(token: WebToken, now: float) -> dict[str, Any]:
    """Without what would open anything."""
    return {
        "name": token.name, "scopes": list(token.scopes), "created": token.created, "created_by": token.created_by,
        "expires": token.expires, "used_at": token.used_at, "expired": _is_over(token, now),
    }  # fmt: skip
