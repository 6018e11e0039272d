"""Reads and writes the tokens by which machines become agents; what must be one step with their writing is here.

Each function takes the database first and runs in the store's thread, inside a transaction: one that raises has changed
nothing. A token is good for as many certificates as its terms say, and the table `token_uses` has each of them. Times
are unix seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import attrs

from groundwork.counts import count
from groundwork.durations import words_of
from helen.storage import credential_rows, given_rows
from helen.storage.agent_rows import AuditEntry, audit
from helen.storage.credential_rows import Grant
from helen.storage.enrolled_keys import NotEnrolled

TOKEN_ID = 12  # letters of the secret that find its row: 72 bits, no two alike


class UnknownToken(Exception):
    """Says that there is no token of this id."""


@attrs.frozen
class Terms:
    """Says whom a token lets in, how often, and what the agents that it makes are given.

    `name` is that of the one agent that may use it, `names` a pattern of such names; without both any free name will
    do. `ephemeral`: seconds away after which such an agent is forgotten; None: it is expected back.
    """

    name: str | None = None
    names: str | None = None
    uses: int = 1
    labels: Mapping[str, str] = attrs.field(factory=dict)
    ephemeral: float | None = None

    def in_words(self) -> str:
        """Return what is unusual about them, for the audit; empty for a token that is good once and gives nothing."""
        return ", ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.uses != 1:
            yield f"good {count(self.uses, 'time')}"
        if self.names is not None:
            yield f"for {self.names}"
        if self.labels:
            yield f"labels {given_rows.in_words(self.labels)}"
        if self.ephemeral is not None:
            yield f"forgotten after {words_of(self.ephemeral)}"


@attrs.frozen
class Token:
    """Describes a token without its secret. `used` counts the certificates that it has made."""

    id: str
    terms: Terms
    created: float
    created_by: str
    expires: float
    used: int


def token_id(token: str) -> str:
    """Return the letters by which a token is known in lists and in the audit; they open nothing."""
    return token.partition(".")[2][:TOKEN_ID]


def token_digest(token: str) -> bytes:
    """Return the hash of a token, which is all that is kept of its secret."""
    return hashlib.sha256(token.encode()).digest()


def add(db: sqlite3.Connection, token: str, terms: Terms, now: float, expires: float, actor: str) -> None:
    """Keep the id, the hash and the terms of a token, not the token. Times are unix seconds."""
    labels = json.dumps(dict(terms.labels)) if terms.labels else None
    db.execute(
        "INSERT INTO tokens (id, digest, name, created, expires, labels, uses, names, ephemeral, created_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (token_id(token), token_digest(token), terms.name, now, expires, labels, terms.uses, terms.names,
         terms.ephemeral, actor),
    )  # fmt: skip
    words = terms.in_words()
    detail = f"token {token_id(token)} for {expires - now:.0f} s" + (f", {words}" if words else "")
    audit(db, AuditEntry(now, actor, "token", terms.name or "", detail=detail))


def add_for_each(db: sqlite3.Connection, tokens: Mapping[str, str], now: float, expires: float, actor: str) -> None:
    """Keep one token for each name, good once. `now`, `expires`: unix seconds."""
    for name, token in tokens.items():
        add(db, token, Terms(name), now, expires, actor)


def redeem(db: sqlite3.Connection, token: str, grant: Grant) -> bytes:
    """Use a token; return the certificate (DER) that it is good for.

    The transaction holds the database's only write lock from before the first look at the token, so it is used no more
    often than it may be. The holder of the same key may ask again while the token lives: an answer that was lost with
    the connection, or in a crash of Helen, is given once more and nothing new is made. Raises NotEnrolled, with a
    reason for the audit.
    """
    found = _find(db, token)
    if found is None:
        raise NotEnrolled("nobody made this token", guess=True)
    terms, shown = found.terms, f"token {found.id}"
    _check(found, shown, grant)
    made = _once_more(db, found.id, grant)
    if made is not None:
        return made
    if found.used >= terms.uses:
        how = "before" if terms.uses == 1 else f"{count(terms.uses, 'time')}, as often as it may be"
        raise NotEnrolled(f"{shown} was used {how}")
    why = "" if terms.name is not None else grant.kept or _why_held(db, found, grant)
    if why:
        raise NotEnrolled(f"{grant.name} is {why}: make a token for it (helen token --agent {grant.name})")
    certificate = credential_rows.give(db, grant, "token", f"enrol by {shown}")
    row = (found.id, grant.key_hash, grant.name, grant.now)
    db.execute("INSERT INTO token_uses (id, key_hash, name, at) VALUES (?, ?, ?, ?)", row)
    db.execute("UPDATE tokens SET used_at = ?, key_hash = ? WHERE id = ?", (grant.now, grant.key_hash, found.id))
    _give_labels(db, terms, grant)
    return certificate


def _find(db: sqlite3.Connection, token: str) -> Token | None:
    """Return the token of a secret; None if there is none, in a time that tells nothing about the hash."""
    row = db.execute("SELECT digest FROM tokens WHERE id = ?", (token_id(token),)).fetchone()
    if not hmac.compare_digest(row[0] if row else bytes(32), token_digest(token)) or row is None:
        return None
    return get(db, token_id(token))


def _check(found: Token, shown: str, grant: Grant) -> None:
    """Raise NotEnrolled if the time of a token is over, or if it is for other names."""
    if grant.now >= found.expires:
        raise NotEnrolled(f"{shown} has expired")
    if found.terms.name not in (None, grant.name):
        raise NotEnrolled(f"{shown} is for {found.terms.name}")
    if found.terms.names is not None and not fnmatchcase(grant.name, found.terms.names):
        raise NotEnrolled(f"{shown} is for names like {found.terms.names}")


def _once_more(db: sqlite3.Connection, token: str, grant: Grant) -> bytes | None:
    """Return the certificate that this token has made for this key; None if it has made none that is in force."""
    row = db.execute(
        "SELECT certificate FROM certificates WHERE key_hash = ?2 AND name = ?3 AND revoked_at IS NULL"
        " AND EXISTS (SELECT 1 FROM token_uses WHERE id = ?1 AND key_hash = ?2)",
        (token, grant.key_hash, grant.name),
    ).fetchone()
    return None if row is None else bytes(row[0])


def _why_held(db: sqlite3.Connection, found: Token, grant: Grant) -> str:
    """Return why a token without a name can't give this one; empty if it can.

    It gives a name again that it gave to an ephemeral agent which is gone: a container that is started anew comes with
    its old name and a new key.
    """
    if credential_rows.is_free(db, grant.name):
        return ""
    again = db.execute(
        "SELECT 1 FROM agents JOIN token_uses ON token_uses.name = agents.name AND token_uses.id = ?"
        " WHERE agents.name = ? AND agents.revoked_at IS NULL AND agents.ephemeral IS NOT NULL",
        (found.id, grant.name),
    ).fetchone()
    if again is None or found.terms.ephemeral is None:
        return "taken or revoked"
    return "connected" if grant.is_connected else ""


def _give_labels(db: sqlite3.Connection, terms: Terms, grant: Grant) -> None:
    """Give what a token gives: its labels in place of all others, if it has some, and whether it is ephemeral."""
    held = given_rows.read(db, grant.name)
    labels, ephemeral = ({}, None) if held is None else (held.labels, held.ephemeral)
    if terms.labels or terms.ephemeral != ephemeral:
        given_rows.put(db, grant.name, terms.labels or labels, grant.now, terms.ephemeral)


# ---------------------------------------------------------------------------------------------------- lists


_COLUMNS = "id, name, names, uses, labels, ephemeral, created, created_by, expires"
_USED = "(SELECT count(*) FROM token_uses WHERE token_uses.id = tokens.id)"


def get(db: sqlite3.Connection, token: str) -> Token | None:
    """Return the token of this id; None if there is none."""
    row = db.execute(f"SELECT {_COLUMNS}, {_USED} FROM tokens WHERE id = ?", (token,)).fetchone()
    return None if row is None else _read(row)


def usable(db: sqlite3.Connection, now: float) -> list[Token]:
    """Return the tokens that may be used still at `now`, unix seconds, the newest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS}, {_USED} FROM tokens WHERE expires > ? AND {_USED} < uses ORDER BY created DESC, id", (now,)
    )
    return [_read(row) for row in rows]


def _read(row: tuple[Any, ...]) -> Token:
    token, name, names, uses, labels, ephemeral, created, created_by, expires, used = row
    terms = Terms(name, names, uses, json.loads(labels) if labels else {}, ephemeral)
    return Token(token, terms, created, created_by, expires, used)


def revoke(db: sqlite3.Connection, token: str, now: float, actor: str) -> Token:
    """Let a token make no agent any more from `now`, unix seconds, on; return what it was. Raises UnknownToken.

    The agents that it made stay.
    """
    found = get(db, token)
    if found is None:
        raise UnknownToken(f"no token has the id {token}")
    if found.expires > now:
        db.execute("UPDATE tokens SET expires = ? WHERE id = ?", (now, token))
        detail = f"token {token}, used {count(found.used, 'time')} of {found.terms.uses}"
        audit(db, AuditEntry(now, actor, "token-revoke", found.terms.name or "", detail=detail))
    return found
