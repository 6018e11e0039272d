"""Judge what adding a set to a folder would do, before anything is written. Reads the folder; writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

import helen_checks
from helen.sets.check_set import CheckSet, judge_api, version_order
from helen.sets.pins import Pin, Pins, held
from helen.sets.refused import SetRefused


@frozen
class Agreed:
    """Holds what the operator has said beforehand: the id of the author's key, and that an older version is meant."""

    author: str | None = None
    older: bool = False


@frozen
class Change:
    """Holds the files that adding a set brings, changes and takes away."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.new or self.changed or self.gone)


def change_of(found: CheckSet, pins: Pins, agreed: Agreed) -> Change:
    """Return what adding this set would change. Raises SetRefused if it must not be added."""
    judge_api(found)
    before = pins.sets.get(found.name)
    _judge_key(found, before, agreed)
    if before is not None:
        _judge_version(found, before, agreed)
        _judge_ours(found, pins)
    _judge_names(found, pins)
    there = before.files if before is not None else {}
    held_now = {name: content for name in found.files if (content := held(pins.folder, name)) is not None}
    return Change(
        tuple(sorted(found.files.keys() - held_now.keys())),
        tuple(sorted(name for name, content in held_now.items() if content != found.files[name])),
        tuple(sorted({*there, *pins.left(found.name)} - found.files.keys())),
    )


def _judge_key(found: CheckSet, before: Pin | None, agreed: Agreed) -> None:
    """Raise SetRefused if another person than before, or than the operator named, has signed."""
    if agreed.author is not None and agreed.author != found.key_id:
        raise SetRefused(f"{found.name} is signed by the key {found.key_id}, not by {agreed.author}")
    if before is not None and before.key != found.key and agreed.author is None:
        raise SetRefused(
            f"{found.name} {found.version} is signed by the key {found.key_id}, and {before.version} was by "
            f"{before.key_id}: ask its author, by another way than the set's, and if it is right "
            f"give --author {found.key_id}"
        )


def _judge_version(found: CheckSet, before: Pin, agreed: Agreed) -> None:
    """Raise SetRefused for a version that was changed after it was pinned, or is older than the pinned one."""
    if found.order == version_order(before.version) and found.digest != before.digest:
        raise SetRefused(
            f"{found.name} {found.version} is not what was added as {before.version} (hash {found.digest[:16]}, pinned "
            f"{before.digest[:16]}): a version does not change; ask its author for a new one"
        )
    if found.order < version_order(before.version) and not agreed.older:
        raise SetRefused(
            f"{found.name} {before.version} is there, which is newer than {found.version}; else give --older"
        )


def _judge_ours(found: CheckSet, pins: Pins) -> None:
    """Raise SetRefused if a file of the set was changed here since it was added: that work would be lost.

    A file that is as this set has it, or as a stopped addition of it has left it, is no work of theirs.
    """
    changed = [each for each in pins.worked_on(found.name) if not _is_as_in(found, each, pins.folder)]
    if changed:
        faults = ", ".join(f"{each} was changed" for each in changed)
        raise SetRefused(f"{faults} since {found.name} was added: keep yours under another name, and delete it here")


def _judge_names(found: CheckSet, pins: Pins) -> None:
    """Raise SetRefused if a file would take the place of the operator's, of another set's, or of a shipped one.

    One that is the same byte for byte takes no place, nor does one that a stopped addition of this set has left.
    """
    left = set(pins.left(found.name))
    folded = {name.casefold(): name for name in _names(pins.folder)}
    shipped = {name.casefold() for name in _names(helen_checks.FOLDER)}
    for name in sorted(found.files):
        there = folded.get(name.casefold())
        owner = None if there is None else pins.owner_of(there)
        is_left = owner is None and there == name and (name in left or _is_as_in(found, name, pins.folder))
        if there is not None and owner != found.name and not is_left:
            whose = "yours" if owner is None else f"of the set {owner}"
            raise SetRefused(f"{name} is there already, and is {whose}: a set takes the place of no other file")
        if name.casefold() in shipped:
            raise SetRefused(f"{name} has the name of a file that Helen ships: its author has to rename it")


def _is_as_in(found: CheckSet, name: str, folder: Path) -> bool:
    """Return whether the folder has, byte for byte, the file of this name of the set."""
    return name in found.files and held(folder, name) == found.files[name]


def _names(folder: Path) -> Iterable[str]:
    for place in ("", "lib/", "tests/"):
        for path in sorted((folder / place).glob("*.lua")):
            yield f"{place}{path.name}"
