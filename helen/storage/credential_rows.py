"""Reads and writes certificates; decisions that must be one step with their writing are here. Tokens: token_rows.py.

Each function takes the database first and runs in the store's thread, inside a transaction: one that raises has changed
nothing. Certificates are not built here: `Grant.sign` is called once everything else is in order. Times are unix
seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import attrs

from groundwork.counts import count
from helen.storage import given_rows
from helen.storage.agent_rows import AuditEntry, audit, put
from helen.storage.enrolled_keys import EnrolledCertificate, NotEnrolled, UnknownAgent

KEPT_AFTER_EXPIRY = 30 * 86_400.0  # seconds; long enough for questions about the past, and to refuse a key used again
# A certificate that something other than its date has ended. A grace may bring all others back, so they are kept for
# good, whatever a clock says. EnrolledKeys has the same rule, with its reasons.
HAS_ENDED = """(retires_at IS NOT NULL OR revoked_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM agents WHERE agents.name = certificates.name AND agents.revoked_at IS NOT NULL)
    OR EXISTS (
        SELECT 1 FROM certificates AS later WHERE later.name = certificates.name AND later.retires_at IS NULL
        AND later.issued_at > certificates.issued_at AND (later.used_at IS NOT NULL OR later.how != 'renewal')))"""


@attrs.frozen
class Grant:
    """Holds a request for a certificate, with a known key, by `actor` for the agent `name`."""

    name: str
    key_hash: str
    now: float
    actor: str
    sign: Callable[[], NewCertificate]
    address: str = ""
    kept: str = ""  # why a token without a name can't give this one; empty: nothing but the store says so
    is_connected: bool = False  # an agent of this name is here: no token without a name takes it over


@attrs.frozen
class NewCertificate:
    """Holds a certificate that was just signed."""

    serial: str
    not_after: float
    der: bytes = attrs.field(repr=False)


def live_certificates(db: sqlite3.Connection, now: float) -> tuple[EnrolledCertificate, ...]:
    """Return the certificates that have not expired at `now`, unix seconds, and those that a grace may bring back.

    Revoked ones are among the first, so that a refusal can say why.
    """
    rows = db.execute(
        "SELECT key_hash, name, issued_at, not_after, used_at, retires_at, revoked_at, how = 'learned', how = 'renewal'"
        f" FROM certificates WHERE not_after > ? OR NOT {HAS_ENDED} ORDER BY issued_at, key_hash",
        (now,),
    )
    return tuple(
        EnrolledCertificate(
            key_hash, name, issued_at, not_after, used_at, retires_at, revoked_at, bool(learned), bool(renewed)
        )
        for key_hash, name, issued_at, not_after, used_at, retires_at, revoked_at, learned, renewed in rows
    )


def renew(db: sqlite3.Connection, held: str, grant: Grant, grace: float = 0.0) -> bytes:
    """Return a new certificate (DER) for an agent that shows the one with key `held`.

    `grace`: seconds for which one that has expired, and ended in no other way, is good for that still. Raises
    NotEnrolled if that one is revoked, retired or expired, or if the new key has a certificate.
    """
    row = db.execute(
        "SELECT not_after FROM certificates WHERE key_hash = ?1 AND name = ?2 AND revoked_at IS NULL"
        f" AND (not_after > ?3 OR (not_after > ?3 - ?4 AND NOT {HAS_ENDED}))"
        " AND (retires_at IS NULL OR retires_at > ?3)"
        " AND NOT EXISTS (SELECT 1 FROM agents WHERE name = ?2 AND revoked_at IS NOT NULL)",
        (held, grant.name, grant.now, grace),
    ).fetchone()
    if row is None:
        raise NotEnrolled(f"the certificate that {grant.name} shows is revoked, retired or expired")
    late = grant.now - float(row[0])
    return give(db, grant, "renewal", f"renewal {late / 86_400:.1f} days after its end" if late >= 0 else "renewal")


def keep_grace(db: sqlite3.Connection, key: str, seconds: float, now: float, actor: str) -> None:
    """Keep the grace for expired certificates, in seconds, under `key`, and audit it at `now`, unix seconds."""
    put(db, key, repr(seconds))
    audit(db, AuditEntry(now, actor, "renewal-grace", "", detail=f"{seconds:.0f} s"))


def issue(db: sqlite3.Connection, grant: Grant) -> bytes:
    """Return a certificate (DER) that an operator asks for. Raises NotEnrolled if the key has a certificate."""
    return give(db, grant, "command", "certificate by command")


def admit(db: sqlite3.Connection, grant: Grant) -> bytes:
    """Keep a certificate that was signed elsewhere; once it is known, later calls change nothing.

    Raises NotEnrolled if its agent is revoked.
    """
    known = db.execute("SELECT certificate FROM certificates WHERE key_hash = ?", (grant.key_hash,)).fetchone()
    if known is not None:
        return bytes(known[0])
    revoked = db.execute("SELECT 1 FROM agents WHERE name = ? AND revoked_at IS NOT NULL", (grant.name,)).fetchone()
    if revoked is not None:
        raise NotEnrolled(f"{grant.name} is revoked; only a token for it or `helen certificate` brings it back")
    return give(db, grant, "admitted", "admitted")


def learn(
    db: sqlite3.Connection, known: Iterable[EnrolledCertificate], revoked: Mapping[str, float] = MappingProxyType({})
) -> None:
    """Keep certificates and revocations that another Helen of this network knows.

    A certificate that is known here stays, but for an end that comes sooner. `revoked` are names: a certificate that
    was given after that brings its name back, and tokens for it are spent.
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


def give(db: sqlite3.Connection, grant: Grant, how: str, detail: str) -> bytes:
    """Sign a certificate and keep it; return it (DER). A name that was revoked or forgotten is back.

    Raises NotEnrolled if the key has a certificate.
    """
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
    """Raise NotEnrolled if the key has a certificate."""
    if db.execute("SELECT 1 FROM certificates WHERE key_hash = ?", (grant.key_hash,)).fetchone() is not None:
        raise NotEnrolled(f"{grant.name} asks with a key that has a certificate already; each one needs a new key")


def used(db: sqlite3.Connection, key_hash: str, now: float, older: Iterable[str], retires_at: float) -> None:
    """Record the first hello with a certificate; the older ones of its name end at `retires_at`. Unix seconds."""
    db.execute("UPDATE certificates SET used_at = ? WHERE key_hash = ? AND used_at IS NULL", (now, key_hash))
    db.executemany("UPDATE certificates SET retires_at = ? WHERE key_hash = ?", [(retires_at, key) for key in older])


def revoke(db: sqlite3.Connection, name: str, now: float, actor: str) -> tuple[str, ...]:
    """Revoke every certificate of a name, and every token for it, at `now`, unix seconds.

    Return the key hashes of those that had not expired. Raises UnknownAgent.
    """
    if not db.execute("UPDATE agents SET revoked_at = ? WHERE name = ?", (now, name)).rowcount:
        raise UnknownAgent(f"No agent is called {name}.")
    db.execute("UPDATE tokens SET expires = ? WHERE name = ? AND used_at IS NULL AND expires > ?", (now, name, now))
    rows = db.execute(  # expired ones too, because a grace would bring them back
        "UPDATE certificates SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL RETURNING key_hash, not_after",
        (now, name),
    ).fetchall()
    keys = tuple(sorted(key for key, not_after in rows if not_after > now))
    audit(db, AuditEntry(now, actor, "revoke", name, detail=count(len(keys), "certificate")))
    return keys


FORGOTTEN = "forgotten/"  # with a name behind it: the key in kv that keeps an agent out of lists
FREE = " free"  # the end of its value, if any token may give the name again


def forget(db: sqlite3.Connection, name: str, now: float, actor: str, is_free: bool = False) -> None:
    """Revoke a name at `now`, unix seconds, and keep it out of lists. Its row goes with its last certificate.

    Until then the row keeps other agents from taking the name with a token that has none, unless `is_free`. Raises
    UnknownAgent.
    """
    known = db.execute("SELECT revoked_at FROM agents WHERE name = ?", (name,)).fetchone()
    if known is None:
        raise UnknownAgent(f"No agent is called {name}.")
    if known[0] is None:
        revoke(db, name, now, actor)
    row = (f"{FORGOTTEN}{name}", f"{now}{FREE if is_free else ''}")
    db.execute("INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", row)
    given_rows.put(db, name, {}, now)
    audit(db, AuditEntry(now, actor, "forget", name))
    _drop_forgotten(db)


def is_free(db: sqlite3.Connection, name: str) -> bool:
    """Return True if no agent has or had this name, or if the one that had it left it free as it was forgotten.

    States, history and given labels of any other name are still those of the agent that had it.
    """
    if db.execute("SELECT 1 FROM agents WHERE name = ?", (name,)).fetchone() is None:
        return True
    row = db.execute("SELECT value FROM kv WHERE key = ?", (f"{FORGOTTEN}{name}",)).fetchone()
    return row is not None and str(row[0]).endswith(FREE)


def forgotten(kv: Mapping[str, str]) -> list[str]:
    """Return the names of forgotten agents, from the small values of the store."""
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
    """Return how many certificates `revoke` would revoke at `now`, unix seconds. Raises UnknownAgent."""
    if db.execute("SELECT 1 FROM agents WHERE name = ?", (name,)).fetchone() is None:
        raise UnknownAgent(f"No agent is called {name}.")
    asked = "SELECT count(*) FROM certificates WHERE name = ? AND revoked_at IS NULL AND not_after > ?"
    return int(db.execute(asked, (name, now)).fetchone()[0])


def forget_expired(db: sqlite3.Connection, now: float) -> None:
    """Delete certificates and tokens that expired KEPT_AFTER_EXPIRY before `now`, unix seconds.

    A certificate that nothing else has ended stays: a grace may bring it back, or a clock that was ahead is set right.
    """
    db.execute(f"DELETE FROM certificates WHERE not_after < ? AND {HAS_ENDED}", (now - KEPT_AFTER_EXPIRY,))
    db.execute("DELETE FROM tokens WHERE expires < ?", (now - KEPT_AFTER_EXPIRY,))
    db.execute("DELETE FROM token_uses WHERE id NOT IN (SELECT id FROM tokens)")
    _drop_forgotten(db)
