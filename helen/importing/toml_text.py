"""Write values as TOML. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def quoted(value: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def value_text(value: Any) -> str:
    """Return a text, number, flag, list or table as TOML writes it on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {value_text(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return f"{value:.15g}" if isinstance(value, float) else str(value)  # all of its digits: a size has many


def table_text(heading: str, table: Mapping[str, Any]) -> str:
    """Return a table with its heading, such as `[[assign]]`, and an empty line before it."""
    return f"\n{heading}\n" + "".join(f"{_key(key)} = {value_text(value)}\n" for key, value in table.items())


def _key(text: str) -> str:
    return text if text.isascii() and text.replace("-", "").replace("_", "").isalnum() else quoted(text)
