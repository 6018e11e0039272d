"""Describes a part of what all Helens of a network share; Replication keeps its documents in step.

A part owns one kind of documents (certificates, check sets, assignments, ...) and has two methods:

    await part.adopt(name, value)        puts the network's value into force here; raises NotYet with a sentence
    part.wanted(name, value)             returns the value that the network should have after that; None: it is right
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class NotYet(Exception):
    """Tells why a document can't be put into force as things are, and what to do."""


class Part(Protocol):
    """Owns one kind of what is shared. `names` are its documents; with `in_memory` a start forgets what was adopted."""

    @property
    def names(self) -> Sequence[str]:
        """Return the documents of this part."""

    @property
    def in_memory(self) -> bool:
        """Return True if a start forgets what was adopted."""

    async def adopt(self, name: str, value: Any) -> None: ...

    def wanted(self, name: str, value: Any) -> Any: ...
