"""Describe the arguments of a tool, as JSON Schema for those who call it, and read them by the same table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from groundwork.safe_text import safe_line
from helen.cli.base.failures import Unusable

TYPES: dict[str, Any] = {
    "string": str, "integer": int, "boolean": bool, "object": dict, "array": list,
}  # fmt: skip
LONGEST = 2_000  # characters of a text
MOST_LISTED = 100  # elements of a list


@frozen
class Field:
    """Describes one argument. `most`: characters of a text, or the greatest number.

    A list that is given has an element: an empty one reads as "none", and means "all" where it is left out.
    """

    help: str
    kind: str = "string"
    needed: bool = False
    choices: tuple[str, ...] = ()
    most: int = LONGEST

    def schema(self) -> dict[str, Any]:
        """Return what JSON Schema has for it; a list is one of texts."""
        found: dict[str, Any] = {"type": self.kind, "description": self.help}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.kind == "string":
            found["maxLength"] = self.most
        if self.kind == "integer":
            found |= {"minimum": 1, "maximum": self.most}
        if self.kind == "array":
            element = {"type": "string", "minLength": 1, "maxLength": self.most}
            found |= {"items": element, "minItems": 1, "maxItems": MOST_LISTED}
        return found

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value, nothing if it can be used."""
        if not isinstance(value, TYPES[self.kind]) or (self.kind == "integer" and isinstance(value, bool)):
            return f"is no {self.kind}"
        if self.choices and value not in self.choices:
            return f"is one of {', '.join(self.choices)}"
        if self.kind == "string" and not 0 < len(value) <= self.most:
            return f"has 1 to {self.most} characters"
        if self.kind == "integer" and not 1 <= value <= self.most:
            return f"is 1 to {self.most}"
        if self.kind == "array":
            good = 0 < len(value) <= MOST_LISTED and all(
                isinstance(each, str) and 0 < len(each) <= self.most for each in value
            )
            return "" if good else f"is a list of 1 to {MOST_LISTED} texts of 1 to {self.most} characters"
        return ""


Fields = Mapping[str, Field]


def schema_of(fields: Fields) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    return {
        "type": "object", "properties": {name: field.schema() for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.needed], "additionalProperties": False,
    }  # fmt: skip


def read(fields: Fields, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that were given. Raises Unusable with all that is wrong; null is as good as nothing."""
    found = {name: value for name, value in given.items() if value is not None}
    faults = [f"there is no argument {safe_line(name)[:80]!r}" for name in found if name not in fields]
    faults += [f"{name} is missing" for name, field in fields.items() if field.needed and name not in found]
    faults += [
        f"{name} {fault}" for name, value in found.items() if name in fields and (fault := fields[name].fault(value))
    ]
    if faults:
        raise Unusable(f"{'; '.join(faults[:10])}. It takes {', '.join(fields) or 'no argument'}")
    return found
