"""Shares assignments.toml, which says what runs where, between all Helens; the newest counts.

{"text": the whole of assignments.toml, "by": the Helen at which it was changed}
"""

from __future__ import annotations

from typing import Any

from helen.assignments.assignments_file import AssignmentsFile
from helen.assignments.schedule import AssignmentsError
from helen.cluster.shared_part import NotYet


class AssignmentsPart:
    """Publishes the file when it changes here, and rewrites it when it changed elsewhere."""

    names = ("assignments",)
    in_memory = False

    def __init__(self, file: AssignmentsFile, identity: str) -> None:
        self._file, self._identity = file, identity

    def wanted(self, name: str, value: Any) -> Any:
        """Return our text, if it is another one than the network's."""
        ours = self._file.taken
        if ours is None or ours == (value["text"] if value else ""):
            return None
        return {"text": ours, "by": self._identity}

    async def adopt(self, name: str, value: Any) -> None:
        """Rewrite the file. Raises NotYet if the text can't be used by this Helen."""
        if self._file.taken == value["text"]:
            return
        try:
            await self._file.rewrite(value["text"], f"the network, by {value['by']}")
        except AssignmentsError as error:
            raise NotYet(f"the assignments of {value['by']} can't be used here: {error}") from error
