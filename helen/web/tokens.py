"""Knows the tokens of the API: that of STATE/web.token, which opens everything, and those that operators have made.

They are in memory by their hashes, so that a request is judged without the disk; helen/storage/web_token_rows.py keeps
them.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from groundwork.atomic_write import write_durably
from groundwork.presence import is_there
from helen.files.state_dir import read_private
from helen.storage import web_token_rows
from helen.storage.database import Store
from helen.storage.web_token_rows import MOST, WebToken, digest_of
from helen.web.access import MASTER, SCOPES, Caller
from helen.web.problems import Problem, bad_request, unauthorized

TOKEN_BYTES = 32
PREFIX = "helen_"  # by which scanners of repositories can know one
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
NOTE_SECONDS = 3_600.0  # between two notes of when a token was used last
LONGEST = 5 * 366 * 86_400.0  # seconds that a token with an end may live


def load_token(path: Path) -> str:
    """Return the token of STATE/web.token, made when it is missing. Blocking: at start only."""
    if not is_there(path):
        write_durably(path, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
    return read_private(path).decode().strip()


class WebTokens:
    """Finds the caller that a token belongs to.

    `on_revoked(name)` is called for each token that opens nothing any more, so that its streams can be ended.
    """

    log = Logger()

    def __init__(self, store: Store, known: Iterable[WebToken], master: str, on_revoked: Callable[[str], None]) -> None:
        self._store = store
        self._master = master.encode()
        self._master_digest = digest_of(master)
        self._by_digest = {token.digest: token for token in known}
        self._on_revoked = on_revoked

    def caller(self, shown: bytes, now: float) -> Caller:
        """Return the owner of a token. Raises Problem 401 for one that opens nothing. `now` is in unix seconds."""
        if hmac.compare_digest(shown, self._master):
            return MASTER
        token = self._by_digest.get(digest_of(shown.decode("utf-8", "surrogateescape")))
        if token is None:
            raise unauthorized("that token is not known here: `helen web-token list` has those that are")
        if token.expires is not None and token.expires <= now:
            ended = datetime.fromtimestamp(token.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise unauthorized(f"the token {token.name!r} has expired ({ended}): make a new one")
        if token.used_at is None or now - token.used_at >= NOTE_SECONDS:
            self._note(token, now)
        return Caller(f"token:{token.name}", token.scopes, token.name, on=token.on, identity=token.digest.hex())

    @property
    def master_digest(self) -> bytes:
        """Return the hash of the token of STATE/web.token."""
        return self._master_digest

    def is_good(self, digest: bytes, now: float) -> bool:
        """Return True if the token with this hash opens anything still. `now` is in unix seconds."""
        token = self._by_digest.get(digest)
        return digest == self._master_digest if token is None else not is_over(token, now)

    def _note(self, token: WebToken, now: float) -> None:
        self._by_digest[token.digest] = evolve(token, used_at=now)
        noted = self._store.call(web_token_rows.used, token.name, now)
        noted.addErrback(lambda failure: self.log.error("web tokens: {why}", why=failure.getErrorMessage()))

    def sweep(self, now: float) -> None:
        """End the streams of tokens that have expired meanwhile. `now` is in unix seconds."""
        for token in list(self._by_digest.values()):
            if token.expires is not None and token.expires <= now:
                self._on_revoked(token.name)

    def listed(self) -> list[WebToken]:
        """Return all tokens by name."""
        return sorted(self._by_digest.values(), key=lambda token: token.name)

    def get(self, name: str) -> WebToken:
        """Return a token by its name. Raises Problem 404 if there is none."""
        for token in self._by_digest.values():
            if token.name == name:
                return token
        raise no_token(name)

    def checked(
        self, name: str, scopes: Iterable[str], ttl: float | None, by: str, now: float,
        on: tuple[str, ...] | None = None,
    ) -> WebToken:  # fmt: skip
        """Return the token that would be made, without a secret; it ends `ttl` seconds after `now` (unix seconds).

        Raises Problem for a name, a scope or a time that can't be, and if the name is taken.
        """
        wanted = tuple(dict.fromkeys(scopes))
        unknown = [scope for scope in wanted if scope not in SCOPES]
        if not wanted or unknown:
            what = f"{unknown[0]!r} is no scope" if unknown else "`scopes` is empty"
            raise bad_request(f"{what}: {', '.join(SCOPES)}")
        if not NAME.fullmatch(name) or name == "web.token":
            raise bad_request(f"{name[:80]!r} is no name for a token: letters, digits and . _ -")
        if ttl is not None and not 0 < ttl <= LONGEST:
            raise bad_request(f"`expires` is a time to live of up to {LONGEST / 86_400:g} days")
        if any(token.name == name and not is_over(token, now) for token in self._by_digest.values()):
            raise Problem(409, "refused", f"there is a token {name!r} already: revoke it first, or take another name")
        if sum(not is_over(token, now) for token in self._by_digest.values()) >= MOST:
            raise Problem(409, "refused", f"there are {MOST} tokens: revoke some")
        return WebToken(name, b"", wanted, now, by, None if ttl is None else now + ttl, on=on)

    def add(self, checked: WebToken) -> Deferred[str]:
        """Keep a token that was checked; fires with its secret, which is shown once and kept nowhere."""
        secret = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        token = evolve(checked, digest=digest_of(secret))

        def added(_: object) -> str:
            self._by_digest = {
                digest: each for digest, each in self._by_digest.items() if not is_over(each, token.created)
            }
            self._by_digest[token.digest] = token
            return secret

        return self._store.call(web_token_rows.add, token).addCallback(added)

    def revoke(self, name: str, now: float, by: str) -> Deferred[bool]:
        """Revoke a token, at once in memory; fires when it is so on disk. `now` is in unix seconds."""
        self._by_digest = {digest: each for digest, each in self._by_digest.items() if each.name != name}
        self._on_revoked(name)
        return self._store.call(web_token_rows.remove, name, now, by)


def no_token(name: str) -> Problem:
    """Return the problem of a token that is not there, or that the caller may not see: status 404."""
    return Problem(404, "no such token", f"no token is called {name!r}: `helen web-token list` has them")


def is_over(token: WebToken, now: float) -> bool:
    """Return True if a token has expired. `now` is in unix seconds."""
    return token.expires is not None and token.expires <= now
