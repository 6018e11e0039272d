"""Types of JSON values with which answers and bodies are declared, beside Python's own.

An answer may get further fields in a later version; those that are declared stay.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from equus_protocol.results import STATUS_WORDS
from helen.journal.values import CHANGE_KINDS
from helen.web.access import SCOPES


def words(*allowed: str) -> Meta:
    """Return the mark of a text that is one of these words."""
    return Meta(extra_json_schema={"enum": list(allowed)})


Status = Annotated[str, words(*STATUS_WORDS)]
Scope = Annotated[str, words(*SCOPES)]
WindowKind = Annotated[str, words("downtime", "silence")]
EventKind = Annotated[str, words(*CHANGE_KINDS)]
Object = dict[str, Any]
Counts = dict[str, int]  # by outcome or status


At = Annotated[float, Meta(ge=0, lt=4e9)]  # unix seconds; milliseconds are refused
