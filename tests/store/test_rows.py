"""helen.records and helen.publications: values go in and come out as they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from helen import publications, records, schema
from helen.publications import Revision, Rollout, SignedManifest
from helen.records import Agent, AuditEntry


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = schema.connect(tmp_path / "helen.db")
    yield db
    db.close()


def manifest(version: int, undoes: int | None = None, **files: str) -> SignedManifest:
    return SignedManifest(version, f"digest-{version}", 10.0, 20.0, b"{envelope}", files, undoes)


def test_audit_pages(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, a page at a time, of one subject or of all; hostile text stays text."""
    monkeypatch.setattr("helen.records.AUDIT_PAGE", 2)
    hostile = "'; DROP TABLE audit; --\n\x00\u202e"
    for number in range(5):
        records.audit(db, AuditEntry(float(number), "operator", "push", f"s{number % 2}", detail=hostile))
    pages = [records.audit_page(db), records.audit_page(db, before=4), records.audit_page(db, before=2)]
    assert [[entry.id for entry in page] for page in pages] == [[5, 4], [3, 2], [1]]
    assert [entry.id for entry in records.audit_page(db, subject="s1")] == [4, 2]
    assert pages[2] == [AuditEntry(0.0, "operator", "push", "s0", "", hostile, 1)]


def test_agents(db: sqlite3.Connection) -> None:
    """What hello and loaded say of an agent is kept; an unknown name makes no agent."""
    db.execute("INSERT INTO agents (name, created) VALUES ('web-1', 5.0)")
    for name in ("web-1", "nobody"):
        records.agent_seen(db, name, 9.5, "10.0.0.7")
        records.agent_facts(db, name, {"labels": {"role": "wéb"}})
    assert records.agents(db) == (Agent("web-1", 5.0, None, 9.5, "10.0.0.7", {"labels": {"role": "wéb"}}),)


def test_small_things(db: sqlite3.Connection) -> None:
    """The last word counts."""
    assert records.get(db, "k") is None
    records.put(db, "k", "1")
    records.put(db, "k", "2")
    assert (records.get(db, "k"), records.everything(db)) == ("2", {"k": "2"})


def test_assignment_revisions(db: sqlite3.Connection) -> None:
    """Each change is a revision; writing the same again is none."""
    assert publications.newest_revision(db) is None
    numbers = [publications.add_revision(db, float(at), "ann", text) for at, text in enumerate(["a", "a", "b", "a"])]
    assert numbers == [1, 1, 2, 3]
    assert publications.newest_revision(db) == Revision(3, 3.0, "ann", "a")
    assert publications.revisions(db, limit=2) == [Revision(3, 3.0, "ann", "a"), Revision(2, 2.0, "ann", "b")]


def test_manifests_and_their_files(db: sqlite3.Connection) -> None:
    """A version comes back whole; files are kept once, by hash."""
    first, undo = manifest(1, disk="aa", lib="bb"), manifest(2, undoes=1, disk="aa")
    publications.publish(db, first, {"aa": b"return 1", "bb": b"\x00\xff"})
    publications.publish(db, undo, {"aa": b"return 1"})
    assert publications.manifests(db) == (first, undo)
    assert [publications.file(db, name) for name in ("aa", "bb", "cc")] == [b"return 1", b"\x00\xff", None]


def test_a_version_is_never_replaced(db: sqlite3.Connection) -> None:
    """Two signed documents with one version would split the fleet."""
    publications.publish(db, manifest(1), {})
    with pytest.raises(sqlite3.IntegrityError):
        publications.publish(db, attrs.evolve(manifest(1), digest="other"), {})


def test_a_manifest_without_its_files(db: sqlite3.Connection) -> None:
    """It is refused: no agent could fetch it."""
    with pytest.raises(sqlite3.IntegrityError):
        publications.publish(db, manifest(1, disk="aa"), {})


def test_rollouts(db: sqlite3.Connection) -> None:
    """The newest word replaces the older one, who began it and when stays."""
    publications.publish(db, manifest(1), {})
    publications.put_rollout(db, Rollout(1, "canary", "ann", 5.0, 5.0, {"ring": 0}))
    publications.put_rollout(db, Rollout(1, "done", "bob", 9.0, 9.0, {"ring": 2}))
    assert publications.rollouts(db) == (Rollout(1, "done", "ann", 5.0, 9.0, {"ring": 2}),)


def test_old_versions_are_let_go(db: sqlite3.Connection) -> None:
    """With their rollouts, and the files that nobody names any more."""
    publications.publish(db, manifest(1, disk="aa", lib="bb"), {"aa": b"1", "bb": b"2"})
    publications.put_rollout(db, Rollout(1, "done", "ann", 5.0, 5.0, {}))
    publications.publish(db, manifest(2, disk="aa"), {})
    publications.forget_below(db, 2)
    assert publications.manifests(db) == (manifest(2, disk="aa"),)
    assert publications.rollouts(db) == ()
    assert [publications.file(db, name) for name in ("aa", "bb")] == [b"1", None]
