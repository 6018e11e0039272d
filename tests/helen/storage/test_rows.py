"""Tests helen.storage.agent_rows and helen.storage.publication_rows: values go in and come out as they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from helen.storage import agent_rows, publication_rows, schema
from helen.storage.agent_rows import Agent, AuditEntry
from helen.storage.publication_rows import Revision, Rollout, SignedManifest


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = schema.connect(tmp_path / "helen.db")
    yield db
    db.close()


def manifest(version: int, undoes: int | None = None, **files: str) -> SignedManifest:
    return SignedManifest(version, f"digest-{version}", 10.0, 20.0, b"{envelope}", files, undoes)


def test_audit_pages(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have the newest first, of one subject or of all; hostile text stays text."""
    monkeypatch.setattr("helen.storage.agent_rows.AUDIT_PAGE", 2)
    hostile = "'; DROP TABLE audit; --\n\x00\u202e"
    for number in range(5):
        agent_rows.audit(db, AuditEntry(float(number), "operator", "push", f"s{number % 2}", detail=hostile))
    pages = [agent_rows.audit_page(db), agent_rows.audit_page(db, before=4), agent_rows.audit_page(db, before=2)]
    assert [[entry.id for entry in page] for page in pages] == [[5, 4], [3, 2], [1]]
    assert [entry.id for entry in agent_rows.audit_page(db, subject="s1")] == [4, 2]
    assert pages[2] == [AuditEntry(0.0, "operator", "push", "s0", "", hostile, 1)]


def test_agents(db: sqlite3.Connection) -> None:
    """The words of hello and loaded about an agent are kept; an unknown name makes no agent."""
    db.execute("INSERT INTO agents (name, created) VALUES ('web-1', 5.0)")
    for name in ("web-1", "nobody"):
        agent_rows.agent_seen(db, name, 9.5, "10.0.0.7")
        agent_rows.agent_facts(db, name, {"labels": {"role": "wéb"}})
    assert agent_rows.agents(db) == (Agent("web-1", 5.0, None, 9.5, "10.0.0.7", {"labels": {"role": "wéb"}}),)


def test_small_things(db: sqlite3.Connection) -> None:
    """The last value of a key counts."""
    assert agent_rows.get(db, "k") is None
    agent_rows.put(db, "k", "1")
    agent_rows.put(db, "k", "2")
    assert (agent_rows.get(db, "k"), agent_rows.everything(db)) == ("2", {"k": "2"})


def test_assignment_revisions(db: sqlite3.Connection) -> None:
    """Each change is a revision; writing the same again is none."""
    assert publication_rows.newest_revision(db) is None
    numbers = [
        publication_rows.add_revision(db, float(at), "ann", text) for at, text in enumerate(["a", "a", "b", "a"])
    ]
    assert numbers == [1, 1, 2, 3]
    assert publication_rows.newest_revision(db) == Revision(3, 3.0, "ann", "a")


def test_manifests_and_their_files(db: sqlite3.Connection) -> None:
    """A version comes back whole; files are kept once, by hash."""
    first, undo = manifest(1, disk="aa", lib="bb"), manifest(2, undoes=1, disk="aa")
    publication_rows.publish(db, first, {"aa": b"return 1", "bb": b"\x00\xff"})
    publication_rows.publish(db, undo, {"aa": b"return 1"})
    assert publication_rows.manifests(db) == (first, undo)
    assert [publication_rows.file(db, name) for name in ("aa", "bb", "cc")] == [b"return 1", b"\x00\xff", None]


def test_a_version_is_never_replaced(db: sqlite3.Connection) -> None:
    """Two signed documents with one version would split the fleet."""
    publication_rows.publish(db, manifest(1), {})
    with pytest.raises(sqlite3.IntegrityError):
        publication_rows.publish(db, attrs.evolve(manifest(1), digest="other"), {})


def test_a_manifest_without_its_files(db: sqlite3.Connection) -> None:
    """A manifest without its files is refused: no agent could fetch it."""
    with pytest.raises(sqlite3.IntegrityError):
        publication_rows.publish(db, manifest(1, disk="aa"), {})


def test_rollouts(db: sqlite3.Connection) -> None:
    """The newest word replaces the older one; who began the rollout and when stays."""
    publication_rows.publish(db, manifest(1), {})
    publication_rows.put_rollout(db, Rollout(1, "canary", "ann", 5.0, 5.0, {"ring": 0}))
    publication_rows.put_rollout(db, Rollout(1, "done", "bob", 9.0, 9.0, {"ring": 2}))
    assert publication_rows.rollouts(db) == (Rollout(1, "done", "ann", 5.0, 9.0, {"ring": 2}),)


def test_old_versions_are_let_go(db: sqlite3.Connection) -> None:
    """Old versions go with their rollouts, and with the files that nobody names any more."""
    publication_rows.publish(db, manifest(1, disk="aa", lib="bb"), {"aa": b"1", "bb": b"2"})
    publication_rows.put_rollout(db, Rollout(1, "done", "ann", 5.0, 5.0, {}))
    publication_rows.publish(db, manifest(2, disk="aa"), {})
    publication_rows.forget_below(db, 2)
    assert publication_rows.manifests(db) == (manifest(2, disk="aa"),)
    assert publication_rows.rollouts(db) == ()
    assert [publication_rows.file(db, name) for name in ("aa", "bb")] == [b"1", None]
