"""Makes the list of host calls that the author page completes from, out of docs/checks.rst.

    python deploy/pages/host_calls.py

A test compares the list with the manual and with the calls that agents know.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from equus.capabilities.names import CAPABILITY_OF

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs" / "checks.rst"
LIST = ROOT / "helen" / "web" / "pages" / "static" / "host-calls.json"
CALL = re.compile(r"``(host\.([a-z_]+(?:\.[a-z_0-9]+)?)[({][^`]*)``")


def calls_of(manual: str) -> list[dict[str, str]]:
    """Return `name`, `call`, `needs` and `about` of each call that the manual describes, by name.

    `about` is the first paragraph of the description; of a call that has two forms, that of the first.
    """
    found: dict[str, dict[str, str]] = {}
    for block in re.split(r"\n(?=``host\.)", manual)[1:]:
        head, _, rest = block.partition("\n")
        about = _plain(_first_paragraph(rest))
        for call, name in CALL.findall(head):
            entry = {"name": name, "call": call, "needs": CAPABILITY_OF.get(name, ""), "about": about}
            found.setdefault(name, entry)
    return [found[name] for name in sorted(found)]


def _first_paragraph(text: str) -> str:
    return text.lstrip("\n").partition("\n\n")[0].partition("\n``")[0]


def _plain(text: str) -> str:
    bare = re.sub(r":[a-z]+:`([^`<]+?)(?: <[^`]*>)?`", r"\1", text)
    return " ".join(re.sub(r"``|\*", "", bare).split())


def written(calls: list[dict[str, str]]) -> str:
    """Return the text of LIST: a call a line, so that changes can be read."""
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in calls) + "\n]\n"


if __name__ == "__main__":
    LIST.write_text(written(calls_of(MANUAL.read_text())))
