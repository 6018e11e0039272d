"""What runs where, the same at all Helens: assignments.toml, of which the newest counts.

{"text": the whole of assignments.toml, "by": the Helen at which it was changed}
"""

from __future__ import annotations

from typing import Any

from helen.assigning import AssignmentBook
from helen.policy import AssignmentsError
from helen.shared.commons import NotYet


class AssignmentsPart:
    names = ("assignments",)
    in_memory = False

    def __init__(self, book: AssignmentBook, identity: str) -> None:
        self._book, self._identity = book, identity

    def wanted(self, name: str, value: Any) -> Any:
        ours = self._book.taken
        if ours is None or ours == (value["text"] if value else ""):
            return None
        return {"text": ours, "by": self._identity}

    async def adopt(self, name: str, value: Any) -> None:
        if self._book.taken == value["text"]:
            return
        try:
            await self._book.rewrite(value["text"], f"the network, by {value['by']}")
        except AssignmentsError as error:
            raise NotYet(f"the assignments of {value['by']} can't be used here: {error}") from error
