"""Write classes and functions as LuaLS reads them: comments that begin with `---`. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from equus.authoring.lua_meta.shapes import Field

WIDTH = 110


def remark(text: str) -> list[str]:
    """Return a description as lines of a comment; of reStructuredText the marks are turned into Markdown's."""
    plain = text.replace("``", "`")
    return [f"--- {line}" for line in textwrap.wrap(plain, WIDTH, break_long_words=False, break_on_hyphens=False)]


def classes(name: str, fields: Iterable[Field], base: str = "") -> list[str]:
    """Return a class of this name with its fields, and behind it the classes of shapes in it."""
    lines, further = [f"---@class {name}{f': {base}' if base else ''}"], []
    for each in fields:
        kind = each.type
        if each.shape:
            inner = f"{name}.{each.name}"
            kind = listed(inner, each.is_list)
            further += ["", *classes(inner, each.shape)]
        lines.append(f"---@field {each.name}{'?' * each.optional} {kind}")
    return lines + further


def listed(name: str, is_list: bool) -> str:
    """Return the type of one value, or of a list of them."""
    return f"{name}[]" if is_list else name


def alias(name: str, values: Iterable[str]) -> list[str]:
    """Return a type that has these texts as its values."""
    return [f"---@alias {name}", *(f'---| "{value}"' for value in values)]
