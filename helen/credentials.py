"""Certificates and one-time tokens as rows of the store; what must be decided and written in one step is here.

Each function takes the database first and runs in the store's thread, inside a transaction: what raises has changed
nothing. It does not build certificates; `sign` is called once everything else is in order.
"""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import attrs

from helen.known_keys import KnownCertificate, NotEnrolled, UnknownAgent
from helen.records import AuditEntry, audit

KEPT_AFTER_EXPIRY = 30 * 86_400.0  # seconds; long enough to see who had what, and to refuse a key that comes again
TOKEN_ID = 12  # letters of the secret that find its row: 72 bits, no two alike


@attrs.frozen
class Grant:
    """A certificate that is to be given to somebody, its key known."""

    name: str
    key_hash: str
    now: float
    actor: str
    sign: Callable[[], NewCertificate]
    address: str = ""


@attrs.frozen
class NewCertificate:
    """A certificate just signed."""

    serial: str
    not_after: float
    der: bytes = attrs.field(repr=False)


def live_certificates(db: sqlite3.Connection, now: float) -> tuple[KnownCertificate, ...]:
    """Those that have not expired; revoked ones are among them, so that a refusal can say why."""
    rows = db.execute(
        "SELECT key_hash, name, issued_at, not_after, used_at, retires_at, revoked_at, how = 'learned'"
        " FROM certificates WHERE not_after > ? ORDER BY issued_at, key_hash",
        (now,),
    )
    return tuple(KnownCertificate(*row, bool(learned)) for *row, learned in rows)


def token_id(token: str) -> str:
    return token.partition(".")[2][:TOKEN_ID]


def token_digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def add_token(db: sqlite3.Connection, token: str, name: str | None, now: float, expires: float, actor: str) -> None:
    """Keep what recognises the token, not the token."""
    row = (token_id(token), token_digest(token), name, now, expires)
    db.execute("INSERT INTO tokens (id, digest, name, created, expires) VALUES (?, ?, ?, ?, ?)", row)
    detail = f"token {token_id(token)} for {expires - now:.0f} s"
    audit(db, AuditEntry(now, actor, "token", name or "", detail=detail))


def redeem(db: sqlite3.Connection, token: str, grant: Grant) -> bytes:
    """A certificate (DER) for a token.

    The transaction holds the database's only write lock from before the first look at the token, so it is used once.
    The holder of the same key may ask again while the token lives: an answer that was lost with the connection, or
    with Helen herself, is given once more and nothing new is made.
    """
    row = db.execute(
        "SELECT digest, name, expires, used_at, key_hash FROM tokens WHERE id = ?", (token_id(token),)
    ).fetchone()
    digest, bound_to, expires, used_at, made = row or (bytes(32), None, 0.0, None, None)
    if not hmac.compare_digest(digest, token_digest(token)) or row is None:
        raise NotEnrolled("nobody made this token", guess=True)
    shown = f"token {token_id(token)}"
    if grant.now >= expires:
        raise NotEnrolled(f"{shown} has expired")
    if bound_to not in (None, grant.name):
        raise NotEnrolled(f"{shown} is for {bound_to}")
    if used_at is not None:
        return _once_more(db, shown, made, grant)
    if bound_to is None and _is_taken(db, grant.name, grant.now):
        raise NotEnrolled(f"{grant.name} is taken or revoked: make a token for it (helen token --agent {grant.name})")
    row = (grant.now, grant.key_hash, token_id(token))
    db.execute("UPDATE tokens SET used_at = ?, key_hash = ? WHERE id = ?", row)
    return _give(db, grant, "token", f"enrol by {shown}")


def _once_more(db: sqlite3.Connection, shown: str, made: str | None, grant: Grant) -> bytes:
    row = db.execute(
        "SELECT certificate FROM certificates WHERE key_hash = ? AND key_hash = ? AND name = ? AND revoked_at IS NULL",
        (made, grant.key_hash, grant.name),
    ).fetchone()
    if row is None:
        raise NotEnrolled(f"{shown} was used before")
    return bytes(row[0])


def _is_taken(db: sqlite3.Connection, name: str, now: float) -> bool:
    """A token for anybody must not take over somebody who is there, nor bring back somebody who was sent away."""
    row = db.execute(
        "SELECT 1 FROM agents WHERE name = ?1 AND (revoked_at IS NOT NULL"
        " OR EXISTS (SELECT 1 FROM certificates WHERE name = ?1 AND not_after > ?2))",
        (name, now),
    ).fetchone()
    return row is not None


def renew(db: sqlite3.Connection, held: str, grant: Grant) -> bytes:
    """A certificate (DER) for an agent that shows the one with key `held`."""
    row = db.execute(
        "SELECT 1 FROM certificates WHERE key_hash = ? AND name = ? AND revoked_at IS NULL AND not_after > ?"
        " AND (retires_at IS NULL OR retires_at > ?)",
        (held, grant.name, grant.now, grant.now),
    ).fetchone()
    if row is None:
        raise NotEnrolled(f"the certificate that {grant.name} shows is revoked, retired or expired")
    return _give(db, grant, "renewal", "renewal")


def issue(db: sqlite3.Connection, grant: Grant) -> bytes:
    """A certificate (DER) because the operator says so."""
    return _give(db, grant, "command", "certificate by command")


def admit(db: sqlite3.Connection, grant: Grant) -> bytes:
    """Remember a certificate that was signed elsewhere; once known, later calls change nothing."""
    known = db.execute("SELECT certificate FROM certificates WHERE key_hash = ?", (grant.key_hash,)).fetchone()
    if known is not None:
        return bytes(known[0])
    revoked = db.execute("SELECT 1 FROM agents WHERE name = ? AND revoked_at IS NOT NULL", (grant.name,)).fetchone()
    if revoked is not None:
        raise NotEnrolled(f"{grant.name} is revoked; only a token for it or `helen certificate` brings it back")
    return _give(db, grant, "admitted", "admitted")


def learn(
    db: sqlite3.Connection, known: Iterable[KnownCertificate], revoked: Mapping[str, float] = MappingProxyType({})
) -> None:
    """What another Helen of this network knows of its agents; what is known here stays, but for ends that come sooner.

    `revoked` are names: a certificate that was given after that brings its name back, and tokens for it are spent.
    """
    for one in known:
        db.execute("INSERT INTO agents (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING", (one.name, one.issued_at))
        db.execute(
            "INSERT INTO certificates"
            " (key_hash, name, serial, how, issued_at, not_after, certificate, retires_at, revoked_at)"
            " VALUES (?, ?, '', 'learned', ?, ?, x'', ?, ?) ON CONFLICT (key_hash) DO UPDATE"
            " SET revoked_at = coalesce(revoked_at, excluded.revoked_at),"
            " retires_at = coalesce(min(retires_at, excluded.retires_at), retires_at, excluded.retires_at)",
            (one.key_hash, one.name, one.issued_at, one.not_after, one.retires_at, one.revoked_at),
        )
        back = "UPDATE agents SET revoked_at = NULL WHERE name = ? AND revoked_at < ?"
        db.execute(back, (one.name, one.issued_at))
    for name, at in revoked.items():
        _learn_revoked(db, name, at)


def _learn_revoked(db: sqlite3.Connection, name: str, at: float) -> None:
    later = db.execute("SELECT 1 FROM certificates WHERE name = ? AND issued_at > ?", (name, at)).fetchone()
    if later is not None:
        return
    db.execute("INSERT INTO agents (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, at))
    db.execute("UPDATE agents SET revoked_at = max(coalesce(revoked_at, 0), ?) WHERE name = ?", (at, name))
    spent = "UPDATE tokens SET expires = ?1 WHERE name = ?2 AND used_at IS NULL AND created <= ?1 AND expires > ?1"
    db.execute(spent, (at, name))


def _give(db: sqlite3.Connection, grant: Grant, how: str, detail: str) -> bytes:
    check_issue(db, grant)
    new = grant.sign()
    db.execute(
        "INSERT INTO agents (name, created) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET revoked_at = NULL",
        (grant.name, grant.now),
    )
    db.execute("DELETE FROM kv WHERE key = ?", (f"{FORGOTTEN}{grant.name}",))
    db.execute(
        "INSERT INTO certificates (key_hash, name, serial, how, issued_at, not_after, certificate)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (grant.key_hash, grant.name, new.serial, how, grant.now, new.not_after, new.der),
    )
    audit(db, AuditEntry(grant.now, grant.actor, "enrol", grant.name, grant.address, f"{detail}, serial {new.serial}"))
    return new.der


def check_issue(db: sqlite3.Connection, grant: Grant) -> None:
    """Raises NotEnrolled for a key that has a certificate."""
    if db.execute("SELECT 1 FROM certificates WHERE key_hash = ?", (grant.key_hash,)).fetchone() is not None:
        raise NotEnrolled(f"{grant.name} asks with a key that has a certificate already; each one needs a new key")


def used(db: sqlite3.Connection, key_hash: str, now: float, older: Iterable[str], retires_at: float) -> None:
    """The first hello with a certificate; the older ones of its name end at `retires_at`."""
    db.execute("UPDATE certificates SET used_at = ? WHERE key_hash = ? AND used_at IS NULL", (now, key_hash))
    db.executemany("UPDATE certificates SET retires_at = ? WHERE key_hash = ?", [(retires_at, key) for key in older])


def revoke(db: sqlite3.Connection, name: str, now: float, actor: str) -> tuple[str, ...]:
    """Every certificate of a name and every token that waits for it; the key hashes."""
    if not db.execute("UPDATE agents SET revoked_at = ? WHERE name = ?", (now, name)).rowcount:
        raise UnknownAgent(f"No agent is called {name}.")
    db.execute("UPDATE tokens SET expires = ? WHERE name = ? AND used_at IS NULL AND expires > ?", (now, name, now))
    rows = db.execute(
        "UPDATE certificates SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL AND not_after > ?"
        " RETURNING key_hash",
        (now, name, now),
    ).fetchall()
    audit(db, AuditEntry(now, actor, "revoke", name, detail=f"{len(rows)} certificates"))
    return tuple(sorted(row[0] for row in rows))


FORGOTTEN = "forgotten/"  # and a name: a row of kv that keeps its agent out of lists


def forget(db: sqlite3.Connection, name: str, now: float, actor: str) -> None:
    """A name that nobody has any more: revoked, and in no list. Its row goes with its last certificate.

    Till then the row keeps others from coming in under the name by a token that is for anybody.
    """
    known = db.execute("SELECT revoked_at FROM agents WHERE name = ?", (name,)).fetchone()
    if known is None:
        raise UnknownAgent(f"No agent is called {name}.")
    if known[0] is None:
        revoke(db, name, now, actor)
    row = (f"{FORGOTTEN}{name}", str(now))
    db.execute("INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", row)
    audit(db, AuditEntry(now, actor, "forget", name))
    _drop_forgotten(db)


def forgotten(kv: Mapping[str, str]) -> list[str]:
    """The names among the small things that the store keeps."""
    return [key.removeprefix(FORGOTTEN) for key in kv if key.startswith(FORGOTTEN)]


def _drop_forgotten(db: sqlite3.Connection) -> None:
    db.execute(
        "DELETE FROM agents WHERE ?1 || name IN (SELECT key FROM kv)"
        " AND NOT EXISTS (SELECT 1 FROM certificates WHERE certificates.name = agents.name)",
        (FORGOTTEN,),
    )
    db.execute(
        "DELETE FROM kv WHERE substr(key, 1, ?2) = ?1 AND substr(key, ?2 + 1) NOT IN (SELECT name FROM agents)",
        (FORGOTTEN, len(FORGOTTEN)),
    )


def check_revoke(db: sqlite3.Connection, name: str, now: float) -> int:
    """How many certificates `revoke` would take. Raises UnknownAgent."""
    if db.execute("SELECT 1 FROM agents WHERE name = ?", (name,)).fetchone() is None:
        raise UnknownAgent(f"No agent is called {name}.")
    asked = "SELECT count(*) FROM certificates WHERE name = ? AND revoked_at IS NULL AND not_after > ?"
    return int(db.execute(asked, (name, now)).fetchone()[0])


def forget_expired(db: sqlite3.Connection, now: float) -> None:
    """Rows that can open nothing any more and are too old to explain anything."""
    db.execute("DELETE FROM certificates WHERE not_after < ?", (now - KEPT_AFTER_EXPIRY,))
    db.execute("DELETE FROM tokens WHERE expires < ?", (now - KEPT_AFTER_EXPIRY,))
    _drop_forgotten(db)
