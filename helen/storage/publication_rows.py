"""Reads and writes assignments, files, signed manifests and their rollouts: rows of the store as frozen values.

Each function takes the database first and runs in the store's thread. Nothing is checked here: a manifest's content is
checked by equus_protocol/manifest.py, a rollout's steps by helen/rollout/rollout.py. Times are unix seconds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen
class Revision:
    """Holds the text of assignments.toml after one change."""

    number: int
    at: float
    author: str
    text: str


@attrs.frozen
class SignedManifest:
    """Holds one version of the check set, as it goes to agents."""

    version: int
    digest: str
    created: float
    expires: float
    envelope: bytes = attrs.field(repr=False)
    files: Mapping[str, str]  # name: sha256
    undoes: int | None = None


@attrs.frozen
class FileVersion:
    """Names a version that has a file, and its author. `at`: when it was published, unix seconds."""

    name: str
    version: int
    author: str
    at: float


@attrs.frozen
class Rollout:
    """Holds the state of the rollout of one version."""

    version: int
    state: str
    author: str
    started: float
    changed: float
    detail: dict[str, Any]


def add_revision(db: sqlite3.Connection, at: float, author: str, text: str) -> int:
    """Keep a text as a revision of `at`, unix seconds; return its number, or that of the newest if nothing changed."""
    newest = newest_revision(db)
    if newest is not None and newest.text == text:
        return newest.number
    row = db.execute("INSERT INTO assignments (at, author, text) VALUES (?, ?, ?)", (at, author, text))
    assert row.lastrowid is not None
    return row.lastrowid


def newest_revision(db: sqlite3.Connection) -> Revision | None:
    """Return the newest revision."""
    row = db.execute("SELECT revision, at, author, text FROM assignments ORDER BY revision DESC LIMIT 1").fetchone()
    return None if row is None else Revision(*row)


def publish(db: sqlite3.Connection, manifest: SignedManifest, contents: Mapping[str, bytes]) -> None:
    """Keep a version and its files; `contents` by sha256, without those that are kept already.

    A version that exists is never replaced. Raises IntegrityError if a file that it names is missing.
    """
    db.executemany("INSERT INTO files VALUES (?, ?) ON CONFLICT DO NOTHING", contents.items())
    db.execute(
        "INSERT INTO manifests (version, digest, created, expires, undoes, envelope) VALUES (?, ?, ?, ?, ?, ?)",
        (manifest.version, manifest.digest, manifest.created, manifest.expires, manifest.undoes, manifest.envelope),
    )
    rows = [(manifest.version, name, sha256) for name, sha256 in manifest.files.items()]
    db.executemany("INSERT INTO manifest_files VALUES (?, ?, ?)", rows)


def manifests(db: sqlite3.Connection) -> tuple[SignedManifest, ...]:
    """Return every version that is kept, the oldest first."""
    files: dict[int, dict[str, str]] = {}
    for version, name, sha256 in db.execute("SELECT version, name, sha256 FROM manifest_files ORDER BY version, name"):
        files.setdefault(version, {})[name] = sha256
    rows = db.execute("SELECT version, digest, created, expires, envelope, undoes FROM manifests ORDER BY version")
    return tuple(
        SignedManifest(version, digest, created, expires, envelope, files.get(version, {}), undoes)
        for version, digest, created, expires, envelope, undoes in rows
    )


def file(db: sqlite3.Connection, sha256: str) -> bytes | None:
    """Return the content of a file."""
    row = db.execute("SELECT content FROM files WHERE sha256 = ?", (sha256,)).fetchone()
    return None if row is None else bytes(row[0])


def versions_of(db: sqlite3.Connection, sha256: str) -> tuple[FileVersion, ...]:
    """Return the published versions that have a file of this hash, the newest first.

    The way back of a version was published if that version was undone.
    """
    rows = db.execute(
        "SELECT f.name, m.version, m.created, m.undoes, r.author, r.changed, r.detail FROM manifest_files f"
        " JOIN manifests m ON m.version = f.version"
        " JOIN rollouts r ON r.version = m.version OR (r.version = m.undoes AND r.state = 'undone')"
        " WHERE f.sha256 = ? ORDER BY m.version DESC",
        (sha256,),
    )
    return tuple(
        FileVersion(name, version, author, created)
        if undoes is None
        else FileVersion(name, version, str(json.loads(detail)["why"]), changed)
        for name, version, created, undoes, author, changed, detail in rows
    )


def put_rollout(db: sqlite3.Connection, rollout: Rollout) -> None:
    """Keep the state of a version's rollout, in place of the one before."""
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
    """Return the rollouts of all versions that are kept, the oldest first."""
    rows = db.execute("SELECT version, state, author, started, changed, detail FROM rollouts ORDER BY version")
    return tuple(
        Rollout(version, state, author, started, changed, json.loads(detail))
        for version, state, author, started, changed, detail in rows
    )


def forget_below(db: sqlite3.Connection, version: int) -> None:
    """Delete older versions, their rollouts, and the files that no version names any more."""
    db.execute("DELETE FROM manifests WHERE version < ?", (version,))
    db.execute("DELETE FROM files WHERE sha256 NOT IN (SELECT sha256 FROM manifest_files)")
