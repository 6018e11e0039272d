"""Makes, lists and revokes the tokens by which machines become agents, in front of the store.

helen/storage/token_rows.py says who gets a certificate for one. A token itself is kept nowhere: the store has its hash,
and the operator the text. `now` is unix seconds.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable

import attrs
from twisted.internet.defer import Deferred, fail

from helen.identity.given_labels import checked
from helen.keys import certificates
from helen.keys.certificates import BadRequest
from helen.storage import token_rows
from helen.storage.database import Store
from helen.storage.token_rows import Terms, Token

TOKEN = re.compile(r"[0-9a-f]{64}\.[A-Za-z0-9_-]{43,128}")
SECRET_BYTES = 40  # 320 bits: 72 find the token's row, 248 are only in the operator's hands
USUAL_SECONDS = 3_600.0  # that a token is good for
MOST_SECONDS = 30 * 86_400.0  # a token that is kept for longer is more likely stolen than used
MOST_USES = 10_000  # of one token: its uses are counted at each one, which then takes the store a millisecond
SHORTEST_STAY = 10.0  # seconds that an ephemeral agent may be away: a reconnect takes some
LONGEST_STAY = 30 * 86_400.0  # seconds; one that may be away for longer is no ephemeral one
_PATTERN = re.compile(r"[a-z0-9._\-*?\[\]!]{1,255}")


class JoinTokens:
    """Makes tokens that begin with the hash of a CA's certificate, which `ca_sha256()` returns in hexadecimal."""

    def __init__(self, store: Store, ca_sha256: Callable[[], str]) -> None:
        self._store, self._ca_sha256 = store, ca_sha256

    def make(self, terms: Terms, now: float, ttl: float = USUAL_SECONDS, by: str = "operator") -> Deferred[str]:
        """Make a token that lives `ttl` seconds from `now`, unix seconds; it is kept nowhere.

        The agents that it makes have the labels of its terms, in place of those that their names had; without any they
        keep those. Fails with BadRequest for terms that can't be, or a bad ttl.
        """
        try:
            terms = self.checked(terms, ttl)
        except BadRequest:
            return fail()
        token = self._new()
        made = self._store.call(token_rows.add, token, terms, now, now + ttl, by)
        return made.addCallback(lambda _: token)

    def make_for_each(
        self, names: Iterable[str], now: float, ttl: float = USUAL_SECONDS, by: str = "operator"
    ) -> Deferred[dict[str, str]]:
        """Make a token for each of these names, for `ttl` seconds from `now`, unix seconds; fires with tokens by name.

        Fails with BadRequest for a bad name or ttl, and makes none then.
        """
        try:
            tokens = {name: self._new() for name in names if self.checked(Terms(name), ttl)}
        except BadRequest:
            return fail()
        made = self._store.call(token_rows.add_for_each, tokens, now, now + ttl, by)
        return made.addCallback(lambda _: tokens)

    def _new(self) -> str:
        """Return a new token. Its id is the begin of its secret, and no command takes one that begins with a dash."""
        secret = "-"
        while secret.startswith("-"):
            secret = secrets.token_urlsafe(SECRET_BYTES)
        return f"{self._ca_sha256()}.{secret}"

    def checked(self, terms: Terms, ttl: float) -> Terms:
        """Return the terms as they will be written. `ttl`: seconds. Raises BadRequest if no such token can be made."""
        checked(terms.labels)
        if not 0 < ttl <= MOST_SECONDS:
            raise BadRequest(f"a token may live for up to {MOST_SECONDS / 86_400:g} days, not {ttl / 86_400:.4g}")
        if not 1 <= terms.uses <= MOST_USES:
            raise BadRequest(f"a token may be good for 1 to {MOST_USES:,} agents, not {terms.uses:,}")
        _check_names(terms)
        stay = terms.ephemeral
        if stay is not None and not SHORTEST_STAY <= stay <= LONGEST_STAY:
            most = f"{SHORTEST_STAY:g} s to {LONGEST_STAY / 86_400:g} days"
            raise BadRequest(f"an ephemeral agent may be away for {most}, not {stay:g} s")
        return attrs.evolve(terms, name=terms.name and certificates.checked_name(terms.name))

    def usable(self, now: float) -> Deferred[list[Token]]:
        """Fire with the tokens that may be used still at `now`, unix seconds, the newest first."""
        return self._store.call(token_rows.usable, now)

    def get(self, token: str) -> Deferred[Token | None]:
        """Fire with the token of this id; None if there is none."""
        return self._store.call(token_rows.get, token)

    def revoke(self, token: str, now: float, by: str = "operator") -> Deferred[Token]:
        """Let the token of this id make no agent any more from `now`, unix seconds, on; those that it made stay.

        Fails with UnknownToken.
        """
        return self._store.call(token_rows.revoke, token, now, by)


def _check_names(terms: Terms) -> None:
    """Raise BadRequest for a pattern that no name fits, and for one beside a name."""
    if terms.names is None:
        return
    if terms.name is not None:
        raise BadRequest(f"the token is for {terms.name}: a pattern of names beside it says nothing")
    if not _PATTERN.fullmatch(terms.names):
        raise BadRequest(f"{terms.names[:80]!r} fits no name: a pattern has a-z 0-9 . _ - and * ? [abc]")
