"""What Helen has told agents to run: assignments, files, signed manifests and their rollouts, as rows of the store.

Each function takes the database first and runs in the store's thread. It keeps what it is given and judges nothing:
what a manifest may hold is equus_protocol.manifest's, how a rollout goes is the rollout's.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen
class Revision:
    """assignments.toml as it was after one change."""

    number: int
    at: float
    author: str
    text: str


@attrs.frozen
class SignedManifest:
    """One version of the set of checks, as it goes to agents."""

    version: int
    digest: str
    created: float
    expires: float
    envelope: bytes = attrs.field(repr=False)
    files: Mapping[str, str]  # name: sha256
    undoes: int | None = None


@attrs.frozen
class Rollout:
    """How far one version has come."""

    version: int
    state: str
    author: str
    started: float
    changed: float
    detail: dict[str, Any]


def add_revision(db: sqlite3.Connection, at: float, author: str, text: str) -> int:
    """The number of the new revision; the newest's when nothing changed."""
    newest = newest_revision(db)
    if newest is not None and newest.text == text:
        return newest.number
    row = db.execute("INSERT INTO assignments (at, author, text) VALUES (?, ?, ?)", (at, author, text))
    assert row.lastrowid is not None
    return row.lastrowid


def newest_revision(db: sqlite3.Connection) -> Revision | None:
    row = db.execute("SELECT revision, at, author, text FROM assignments ORDER BY revision DESC LIMIT 1").fetchone()
    return None if row is None else Revision(*row)


def revisions(db: sqlite3.Connection, limit: int = 100) -> list[Revision]:
    """The newest first."""
    rows = db.execute("SELECT revision, at, author, text FROM assignments ORDER BY revision DESC LIMIT ?", (limit,))
    return [Revision(*row) for row in rows]


def publish(db: sqlite3.Connection, manifest: SignedManifest, contents: Mapping[str, bytes]) -> None:
    """Keep a version with the files that it names; `contents` by sha256, those that are here already may be left out.

    A version that exists is never replaced, and a file that is nowhere is refused (IntegrityError, nothing kept).
    """
    db.executemany("INSERT INTO files VALUES (?, ?) ON CONFLICT DO NOTHING", contents.items())
    db.execute(
        "INSERT INTO manifests (version, digest, created, expires, undoes, envelope) VALUES (?, ?, ?, ?, ?, ?)",
        (manifest.version, manifest.digest, manifest.created, manifest.expires, manifest.undoes, manifest.envelope),
    )
    rows = [(manifest.version, name, sha256) for name, sha256 in manifest.files.items()]
    db.executemany("INSERT INTO manifest_files VALUES (?, ?, ?)", rows)


def manifests(db: sqlite3.Connection) -> tuple[SignedManifest, ...]:
    """Every version that is kept, the oldest first."""
    files: dict[int, dict[str, str]] = {}
    for version, name, sha256 in db.execute("SELECT version, name, sha256 FROM manifest_files ORDER BY version, name"):
        files.setdefault(version, {})[name] = sha256
    rows = db.execute("SELECT version, digest, created, expires, envelope, undoes FROM manifests ORDER BY version")
    return tuple(SignedManifest(*row, files.get(row[0], {}), undoes) for *row, undoes in rows)


def file(db: sqlite3.Connection, sha256: str) -> bytes | None:
    row = db.execute("SELECT content FROM files WHERE sha256 = ?", (sha256,)).fetchone()
    return None if row is None else bytes(row[0])


def put_rollout(db: sqlite3.Connection, rollout: Rollout) -> None:
    """The newest word on a version's rollout."""
    db.execute(
        "INSERT INTO rollouts (version, state, author, started, changed, detail) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (version) DO UPDATE"
        " SET state = excluded.state, changed = excluded.changed, detail = excluded.detail",
        (
            rollout.version,
            rollout.state,
            rollout.author,
            rollout.started,
            rollout.changed,
            json.dumps(rollout.detail),
        ),
    )


def rollouts(db: sqlite3.Connection) -> tuple[Rollout, ...]:
    """The oldest first."""
    rows = db.execute("SELECT version, state, author, started, changed, detail FROM rollouts ORDER BY version")
    return tuple(Rollout(*row, json.loads(detail)) for *row, detail in rows)


def forget_below(db: sqlite3.Connection, version: int) -> None:
    """Let go of older versions, their rollouts, and the files that no version names any more."""
    db.execute("DELETE FROM manifests WHERE version < ?", (version,))
    db.execute("DELETE FROM files WHERE sha256 NOT IN (SELECT sha256 FROM manifest_files)")
