"""Withholds files that were taken back and lie in the folder still, until they change or a push names them. Pure.

Files that were taken back together are tried again together: it is not known which of them was at fault.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import asdict, frozen

from equus_protocol.manifest import FileEntry

Files = Mapping[str, FileEntry]


@frozen
class Refusal:
    """Describes one push that was taken back.

    `files`: sha256 by name as it had them; None for one that it took away.
    """

    version: int
    at: float
    why: str
    files: dict[str, str | None]

    def is_as_it_was(self, folder: Files) -> bool:
        """Return True if the folder holds just what was taken back."""
        return all((None if name not in folder else folder[name].sha256) == was for name, was in self.files.items())


def refuse(version: int, at: float, why: str, taken_back: Files, instead: Files) -> Refusal | None:
    """Return the refusal of a set that was taken back, or None if both sets have the same files. `at`: unix seconds."""
    differing = {name for name in {*taken_back, *instead} if taken_back.get(name) != instead.get(name)}
    files = {name: taken_back[name].sha256 if name in taken_back else None for name in sorted(differing)}
    return Refusal(version, at, why, files) if files else None


def still_refused(
    refusals: Iterable[Refusal], folder: Files, asked_for: Collection[str] = ()
) -> tuple[Refusal, ...]:  # fmt: skip
    """Return the refusals that count: none of their files has changed since, and none of them is asked for."""
    return tuple(
        each for each in refusals if each.is_as_it_was(folder) and not any(name in each.files for name in asked_for)
    )


def keep_old(chosen: Files, before: Files, refusals: Iterable[Refusal]) -> dict[str, FileEntry]:
    """Return the chosen set with each refused file as it is in the set before."""
    kept = dict(chosen)
    for name in {name for each in refusals for name in each.files}:
        if name in before:
            kept[name] = before[name]
        else:
            kept.pop(name, None)
    return dict(sorted(kept.items()))


def write(refusals: Iterable[Refusal]) -> str:
    """Return refusals as JSON, for the store."""
    return json.dumps([asdict(each) for each in refusals])


def read(text: str) -> tuple[Refusal, ...]:
    """Return the refusals that `write` has written."""
    return tuple(Refusal(**each) for each in json.loads(text or "[]"))


def show(refusals: Iterable[Refusal]) -> list[dict[str, Any]]:
    """Return a row for each file: `file`, `version`, `at` (unix seconds), `why` and `removed`."""
    return [
        {"file": name, "version": each.version, "at": each.at, "why": each.why, "removed": was is None}
        for each in refusals for name, was in each.files.items()
    ]  # fmt: skip
