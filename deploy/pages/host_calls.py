"""Makes the lists of host calls out of docs/checks.rst: that of the author page, and that of `equus lua-meta`.

    python deploy/pages/host_calls.py

Tests compare the lists with the manual and with the calls that agents know.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from equus.capabilities.names import CAPABILITY_OF

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs" / "checks.rst"
LIST = ROOT / "helen" / "web" / "pages" / "static" / "host-calls.json"
DEFINITIONS = ROOT / "equus" / "authoring" / "lua_meta" / "manual.json"
CALL = re.compile(r"``(host\.([a-z_]+(?:\.[a-z_0-9]+)?)[({][^`]*)``")
ROW = re.compile(r"^``([^`]+)`` +(\S.*(?:\n +\S.*)*)$", re.MULTILINE)


def calls_of(manual: str) -> list[dict[str, str]]:
    """Return `name`, `call`, `needs` and `about` of each call that the manual describes, by name.

    `about` is the first paragraph of the description; of a call that has two forms, that of the first.
    """
    found: dict[str, dict[str, str]] = {}
    for call, name, rest in _described(manual):
        about = _plain(_first_paragraph(rest))
        entry = {"name": name, "call": call, "needs": CAPABILITY_OF.get(name, ""), "about": about}
        found.setdefault(name, entry)
    return [found[name] for name in sorted(found)]


def definitions_of(manual: str) -> dict[str, Any]:
    """Return `calls`, `fields` of a check's table, and names of `arguments` and of fields of `answers` by type.

    A call has all its `forms` and its whole `text` beside what calls_of returns of it.
    """
    forms: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for call, name, rest in _described(manual):
        forms.setdefault(name, []).append(call)
        texts.setdefault(name, _indented(rest))
    calls = [{**each, "forms": forms[each["name"]], "text": texts[each["name"]]} for each in calls_of(manual)]
    fields = {name: _plain(text.split(None, 1)[1]) for name, text in _rows(manual, "The table")}
    arguments, answers = (_types(manual, heading) for heading in ("arguments", "fields"))
    return {"calls": calls, "fields": fields, "arguments": arguments, "answers": answers}


def _described(manual: str) -> list[tuple[str, str, str]]:
    """Return each form of each call, its name, and the text behind it, in the manual's order."""
    blocks = (block.partition("\n") for block in re.split(r"\n(?=``host\.)", manual)[1:])
    return [(call, name, rest) for head, _, rest in blocks for call, name in CALL.findall(head)]


def _types(manual: str, heading: str) -> dict[str, list[str]]:
    """Return the names of a table of types, by the type."""
    rows = _rows(manual, "Calls that need a capability", f"type                 {heading}")
    return {kind: _plain(names).split() for kind, names in rows}


def _rows(manual: str, title: str, heading: str = "field ") -> list[tuple[str, str]]:
    """Return the rows of the table behind a title that has this heading: the first cell, and the others as a text."""
    section = manual.split(f"\n{title}\n", 1)[1]
    table = re.split(r"\n=[= ]+\n", section.split(f"\n{heading}", 1)[1])[1]
    return [(name, text) for name, text in ROW.findall(table)]


def _indented(text: str) -> str:
    """Return a description, which ends where the text stands at the margin again."""
    return " ".join(re.split(r"\n(?=\S)", text)[0].split())


def _first_paragraph(text: str) -> str:
    return text.lstrip("\n").partition("\n\n")[0].partition("\n``")[0]


def _plain(text: str) -> str:
    bare = re.sub(r":[a-z]+:`([^`<]+?)(?: <[^`]*>)?`", r"\1", text)
    return " ".join(re.sub(r"``|\*", "", bare).split())


def written(calls: list[dict[str, str]]) -> str:
    """Return the text of LIST: a call a line, so that changes can be read."""
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in calls) + "\n]\n"


def written_definitions(definitions: dict[str, Any]) -> str:
    """Return the text of DEFINITIONS, with the calls as in LIST."""
    rest = json.dumps(
        {name: definitions[name] for name in ("fields", "arguments", "answers")}, ensure_ascii=False, indent=1
    )
    return '{\n"calls": ' + written(definitions["calls"]).rstrip() + "," + rest.lstrip("{") + "\n"


if __name__ == "__main__":
    LIST.write_text(written(calls_of(MANUAL.read_text())))
    DEFINITIONS.write_text(written_definitions(definitions_of(MANUAL.read_text())))
