"""What makes a release, a verdict or a way back one transaction of the store. Each function runs in the store's thread.

It keeps what it is given; helen.releases decides. The rows themselves are helen.publications' and helen.records'.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping

from equus_protocol.manifest import FileEntry, ManifestDocument
from helen import publications, records, refusals
from helen.publications import SignedManifest
from helen.records import AuditEntry
from helen.refusals import Refusal
from helen.rollout import Rollout

KEPT_VERSIONS = 20  # older ones, and files that only they name, are let go
REFUSED = "library.refused"  # what the folder holds and was taken back: not to be published again
CURRENT = "library.current"  # the version that all agents run, but for the members of an open rollout


def all_files(document: ManifestDocument) -> dict[str, FileEntry]:
    """Whatever agents may fetch of a set: its checks, and the wheels of an Equus, as `agent/NAME`."""
    wheels = document.agent["files"] if document.agent is not None else {}
    return document.files | {f"agent/{name}": FileEntry(e["sha256"], e["size"]) for name, e in wheels.items()}


def manifest_row(document: ManifestDocument, envelope: bytes, undoes: int | None) -> SignedManifest:
    files = {name: entry.sha256 for name, entry in all_files(document).items()}
    return SignedManifest(
        document.version, document.digest, document.created, document.expires, envelope, files, undoes
    )


def rollout_row(rollout: Rollout) -> publications.Rollout:
    return publications.Rollout(
        rollout.version, rollout.state, rollout.author, rollout.started, rollout.changed, rollout.to_json()
    )  # fmt: skip


def store_release(
    db: sqlite3.Connection,
    rows: Iterable[SignedManifest],
    contents: Mapping[str, bytes],
    rollout: publications.Rollout,
    current: int | None,
    floor: int,
    refused: Iterable[Refusal],
    entry: AuditEntry,
) -> None:
    """In the store's thread: all that makes a release one, in one transaction."""
    for row in rows:
        publications.publish(db, row, contents)
    store_verdict(db, rollout, current, refused, entry)
    publications.forget_below(db, min(floor, rollout.version - KEPT_VERSIONS))


def store_verdict(
    db: sqlite3.Connection,
    rollout: publications.Rollout | None,
    current: int | None,
    refused: Iterable[Refusal],
    entry: AuditEntry,
) -> None:
    """In the store's thread: how far it has come, which version is everybody's from now on, and who has decided it."""
    if rollout is not None:
        publications.put_rollout(db, rollout)
    records.put(db, REFUSED, refusals.write(refused))
    if current is not None:
        records.put(db, CURRENT, json.dumps(current))
    records.audit(db, entry)
