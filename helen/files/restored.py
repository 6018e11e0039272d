"""Keeps STATE/restored.json: this state came from a backup, so agents may hold newer checks than Helen has.

While the file is there Helen publishes nothing. `helen push --yes` removes it. All functions block and raise OSError.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from attrs import asdict, frozen

from groundwork.atomic_write import write_durably

NAME = "restored.json"


@frozen
class Restored:
    """Says when the backup was made and when it was restored, in unix seconds."""

    made: float
    restored: float

    @property
    def sentence(self) -> str:
        """Return the reason for which nothing is published, and what ends that."""
        made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.made))
        return (
            f"this Helen was restored from a backup of {made}, and agents may hold newer checks: nothing is published"
            " until `helen push --yes`"
        )


def read(state: Path) -> Restored | None:
    """Return what the file says; None if there is none. A file that can't be understood counts as one."""
    try:
        found = json.loads((state / NAME).read_bytes())
        return Restored(float(found["made"]), float(found["restored"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError):
        return Restored(0.0, 0.0)


def write(state: Path, restored: Restored) -> None:
    """Write the file."""
    write_durably(state / NAME, json.dumps(asdict(restored)).encode() + b"\n")


def remove(state: Path) -> None:
    """Remove the file, if it is there."""
    (state / NAME).unlink(missing_ok=True)
