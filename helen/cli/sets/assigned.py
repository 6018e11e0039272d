"""Find the assignments that name checks of a set: those of a Helen, and those of a declared folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from helen.assignments.assignments_text import read
from helen.assignments.schedule import Assignment, AssignmentsError
from helen.cli.base.client import Client
from helen.cli.base.failures import Failed

FILE = "assignments.toml"


def assigned(names: Collection[str], folder: Path, client: Client | None) -> list[str]:
    """Return a sentence for each entry that names one of these checks. Raises Failed if assignments can't be read."""
    found = []
    if client is not None:
        found += _entries(names, str(client.get("/api/v1/assignments")["text"]), "at Helen")
    beside = folder.absolute().parent / FILE
    if beside.exists():
        try:
            text = beside.read_text("utf-8", "replace")
        except OSError as error:
            raise Failed(f"{beside} can't be read: {error.strerror}") from error
        found += _entries(names, text, f"in {beside}")
    return found


def _entries(names: Collection[str], text: str, where: str) -> list[str]:
    try:
        entries = read(text).entries
    except AssignmentsError as error:
        raise Failed(f"the assignments {where} can't be read: {error}") from error
    used = [each for each in entries if each.check in names]
    return [f"{each.check} is run on {_on(each)} (entry {each.place} {where})" for each in used]


def _on(entry: Assignment) -> str:
    return ", ".join(entry.targets or entry.mesh or entry.agents)
