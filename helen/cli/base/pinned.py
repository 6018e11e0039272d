"""Hold files that are about to be published against the sets that they belong to (helen/sets/pins.py)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from helen.cli.base.failures import Failed
from helen.sets.pins import PINS, read_pins
from helen.sets.refused import SetRefused


def judge_pinned(folder: Path, names: Collection[str]) -> None:
    """Raise Failed if one of these files of a folder is of a set, and is not as it was when the set was added."""
    if not (folder / PINS).exists():
        return
    try:
        pins = read_pins(folder)
        for owner in sorted(filter(None, set(map(pins.owner_of, names)))):
            changed = [fault for fault in pins.faults(owner) if fault.partition(" ")[0] in names]
            if changed:
                raise Failed(
                    f"{', '.join(changed)} since the set {owner} was added to {folder}: delete it here and run "
                    f"`helen checks add` again, or take the set out and keep yours under another name"
                )
    except SetRefused as error:
        raise Failed(str(error)) from error
