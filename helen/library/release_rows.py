"""Writes a release, a verdict or a way back in one transaction of the store; `store_` runs in the store's thread.

It keeps what it is given; helen.library.publisher, ring_control and way_back decide. The rows themselves are
helen.storage.publication_rows' and helen.storage.agent_rows'.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping

from helen.library import withheld_files
from helen.library.published import Signed, all_files
from helen.library.withheld_files import Refusal
from helen.rollout.rollout import Rollout
from helen.rollout.set_aside import SetAside
from helen.storage import agent_rows, publication_rows
from helen.storage.agent_rows import AuditEntry
from helen.storage.publication_rows import SignedManifest

KEPT_VERSIONS = 20  # older ones are deleted, with the files that only they name
REFUSED = "library.refused"  # what the folder holds and was taken back: not to be published again
ASIDE = "rollouts.aside"  # versions that were taken back on the word of few agents, by agent
RING_KEY = "rollouts.key"  # hexadecimal: the key by which members of rings are chosen
CURRENT = "library.current"  # the version that all agents run, but for the members of an open rollout


def manifest_row(signed: Signed, undoes: int | None) -> SignedManifest:
    """Return the row of a manifest; `undoes`: the version that it takes back, if it is a way back."""
    document = signed.document
    files = {name: entry.sha256 for name, entry in all_files(document).items()}
    return SignedManifest(
        document.version, document.digest, document.created, document.expires, signed.envelope, files, undoes
    )


def rollout_row(rollout: Rollout) -> publication_rows.Rollout:
    """Return the row of a rollout."""
    return publication_rows.Rollout(
        rollout.version, rollout.state, rollout.author, rollout.started, rollout.changed, rollout.to_json()
    )  # fmt: skip


def read_rollout(row: publication_rows.Rollout, key: bytes, steady: float) -> Rollout | None:
    """Return the rollout of a row; None for one of a Helen that knew no rings: it is over.

    `key`: that of the choice of rings. `steady`: monotonic seconds, now.
    """
    if "limits" not in row.detail:
        return None
    read = Rollout.from_json(row.version, row.state, row.author, row.started, row.changed, row.detail, steady)
    read.key = key
    return read


def audit_row(at: float, author: str, action: str, version: int, detail: str) -> AuditEntry:
    """Return the row of the audit for a step of a version. `at`: unix seconds."""
    return AuditEntry(at, author, action, f"version {version}", "", detail)


def store_release(
    db: sqlite3.Connection,
    rows: Iterable[SignedManifest],
    contents: Mapping[str, bytes],
    rollout: publication_rows.Rollout,
    current: int | None,
    floor: int,
    refused: Iterable[Refusal],
    entry: AuditEntry,
) -> None:
    """Write the manifests of a release, their files, its rollout and its row of the audit.

    `current`: the version that all agents run from now on; None: no other one. `floor`: older versions are deleted.
    """
    for row in rows:
        publication_rows.publish(db, row, contents)
    store_verdict(db, rollout, current, refused, entry)
    publication_rows.forget_below(db, min(floor, rollout.version - KEPT_VERSIONS))


def store_verdict(
    db: sqlite3.Connection,
    rollout: publication_rows.Rollout | None,
    current: int | None,
    refused: Iterable[Refusal],
    entry: AuditEntry,
    aside: SetAside | None = None,
) -> None:
    """Write how far a rollout has come, the version that all agents run from now on, and a row of the audit.

    `aside`: the agents that undid versions, if that has changed.
    """
    if aside is not None:
        agent_rows.put(db, ASIDE, aside.to_json())
    if rollout is not None:
        publication_rows.put_rollout(db, rollout)
    agent_rows.put(db, REFUSED, withheld_files.write(refused))
    if current is not None:
        agent_rows.put(db, CURRENT, json.dumps(current))
    agent_rows.audit(db, entry)
