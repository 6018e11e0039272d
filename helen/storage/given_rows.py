"""Reads and writes the labels that operators have given to agents: facts, unlike those that an agent says of itself.

Each function takes the database first and runs in the store's thread. Times are unix seconds. They stay with the name
through renewals and new certificates, until an operator changes them or forgets the agent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping

import attrs

from helen.storage.agent_rows import AuditEntry, audit
from helen.storage.enrolled_keys import UnknownAgent

STEP = 0.001  # seconds by which a change is dated after the one before it, if the clock was set back meanwhile


@attrs.frozen
class Given:
    """Holds the labels that an operator has given to a name, and since when (unix seconds).

    `ephemeral`: seconds after which the agent is forgotten if it stays away; None for one that is expected back.
    """

    labels: dict[str, str]
    at: float
    ephemeral: float | None = None

    def is_newer(self, other: Given | None) -> bool:
        """Return True if this counts, and not the other one: all Helens of a network decide alike."""
        if other is None:
            return True
        return self._place() > other._place()

    def _place(self) -> tuple[float, list[tuple[str, str]], float]:
        return self.at, sorted(self.labels.items()), self.ephemeral or 0.0


def changed(held: Mapping[str, str], put: Mapping[str, str], drop: Collection[str]) -> dict[str, str]:
    """Return labels as they are after a change; those of `drop` go first."""
    return {key: value for key, value in held.items() if key not in drop} | dict(put)


def in_words(labels: Mapping[str, str]) -> str:
    """Return labels as `env=prod,role=web`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "none"


def read(db: sqlite3.Connection, name: str) -> Given | None:
    """Return what was given to a name; None if no agent is called so."""
    row = db.execute("SELECT given, given_at, ephemeral FROM agents WHERE name = ?", (name,)).fetchone()
    return None if row is None else Given(json.loads(row[0]), row[1], row[2])


def put(
    db: sqlite3.Connection, name: str, labels: Mapping[str, str], now: float, ephemeral: float | None = None
) -> Given:
    """Give a name these labels at `now`, unix seconds, and no others; return what counts now. Raises UnknownAgent.

    `ephemeral`: seconds, as in Given.
    """
    held = read(db, name)
    if held is None:
        raise UnknownAgent(f"No agent is called {name}.")
    made = Given(dict(labels), max(now, held.at + STEP), ephemeral)
    _write(db, name, made)
    return made


def _write(db: sqlite3.Connection, name: str, given: Given) -> None:
    row = (json.dumps(given.labels), given.at, given.ephemeral, name)
    db.execute("UPDATE agents SET given = ?, given_at = ?, ephemeral = ? WHERE name = ?", row)


def change(
    db: sqlite3.Connection, name: str, labels: Mapping[str, str], drop: Collection[str], now: float, actor: str
) -> Given:
    """Give a name these labels at `now`, unix seconds, take those of `drop` from it, and audit that.

    A name without a row is that of an agent without a certificate, which `--insecure-plaintext` lets in.
    """
    db.execute("INSERT INTO agents (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, now))
    held = read(db, name)
    before, ephemeral = ({}, None) if held is None else (held.labels, held.ephemeral)
    made = put(db, name, changed(before, labels, drop), now, ephemeral)
    detail = f"{in_words(before)} -> {in_words(made.labels)}"
    audit(db, AuditEntry(now, actor, "label", name, detail=detail))
    return made


def learn(db: sqlite3.Connection, others: Mapping[str, Given]) -> dict[str, Given]:
    """Keep what other Helens of the network know, where it is newer; return that, by name."""
    newer = {}
    for name, given in others.items():
        if given.labels:  # a name without labels was forgotten: it stays so where it was never known
            db.execute("INSERT INTO agents (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, given.at))
        if given.is_newer(read(db, name)):
            _write(db, name, given)
            newer[name] = given
    return newer
