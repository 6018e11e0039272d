"""Makes text safe to show: agents, checks and peers choose it, and a terminal obeys what is in it. Pure.

Characters that are not printable become escapes: control characters (C0, C1), marks that turn the direction of writing,
line and paragraph separators, halves of a surrogate pair, and other letters without a shape of their own.
"""

from __future__ import annotations

import json
import re
from typing import Any

_NOT_ASCII = re.compile(r"[^\n\x20-\x7e]")


def safe_line(text: object) -> str:
    """Return a text as one line that no terminal obeys: what is not printable becomes an escape such as `\\x1b`."""
    return _escaped(str(text), "")


def safe_text(text: object, keep: str = "\n\t") -> str:
    """Return a text of several lines that no terminal obeys; the characters of `keep` stay as they are."""
    return _escaped(str(text), keep)


def _escaped(text: str, keep: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def json_text(document: Any, only_ascii: bool = False, **options: Any) -> str:
    """Return a document as JSON in which each letter is printable; `only_ascii`: for a terminal.

    The escapes are those of JSON, so that programs read the same. `options` are those of json.dumps.
    """
    text = json.dumps(document, ensure_ascii=only_ascii, **options)
    return text if only_ascii else _NOT_ASCII.sub(_as_json, text)


def _as_json(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
