"""Load the list of host calls, of a check's fields, and of types, which is made of docs/checks.rst.

`python deploy/pages/host_calls.py` makes it, together with the completions of the author page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen

LIST = Path(__file__).parent / "manual.json"


@frozen
class HostCall:
    """Describes a host call: its forms as the manual writes them, the capability that it needs or "", and its text."""

    name: str
    forms: tuple[str, ...]
    needs: str
    about: str
    text: str


@frozen
class Manual:
    """Holds the calls by name, the fields of a check's table with their meaning, and types by name."""

    calls: tuple[HostCall, ...]
    fields: Mapping[str, str]
    arguments: Mapping[str, str]
    answers: Mapping[str, str]


@cache
def manual() -> Manual:
    """Return the list. Reads 40 kB at the first call."""
    document = json.loads(LIST.read_text())
    calls = tuple(
        HostCall(each["name"], tuple(each["forms"]), each["needs"], each["about"], each["text"])
        for each in document["calls"]
    )
    return Manual(calls, document["fields"], _by_name(document["arguments"]), _by_name(document["answers"]))


def _by_name(types: dict[str, Any]) -> dict[str, str]:
    return {name: kind for kind, names in types.items() for name in names}
