"""Make the definitions of a shipped library out of its source: its functions, their comments, its values. Pure.

An editor so knows the libraries of Helen's folder in a folder that has none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from equus.lua.parser import parse
from equus.lua.tree import Assignment, Chunk, Constant, Expression, Function, Local, Name, Return, Table, dotted


def library_file(name: str, source: str) -> str:
    """Return the definitions of `require "NAME"`. Raises LuaSyntaxError if the source is no Lua."""
    chunk, lines = parse(source), source.split("\n")
    variable = _returned(chunk)
    members = dict(_members(chunk, variable))
    head = [f"---@meta {name}", "", *_comment_at(lines, 0), f"---@class equus.lib.{name}"]
    head += [f"---@field {key} any" for key, value in members.items() if not isinstance(value, Function)]
    body = [
        line for key, value in members.items() if isinstance(value, Function) for line in _function(key, value, lines)
    ]
    return "\n".join([*head, "local library = {}", "", *body, "return library", ""])


def _returned(chunk: Chunk) -> str:
    """Return the name of the local that the library returns; "" if it returns something else."""
    last = chunk.statements[-1] if chunk.statements else None
    if isinstance(last, Return) and len(last.values) == 1 and isinstance(last.values[0], Name):
        return last.values[0].name
    return ""


def _members(chunk: Chunk, variable: str) -> Iterator[tuple[str, Expression]]:
    """Yield the names and values of the library's table, in the order of the source."""
    for each in chunk.statements:
        if isinstance(each, Local):
            for local, value in zip(each.variables, each.values, strict=False):
                if local.name == variable and isinstance(value, Table):
                    yield from _items(value)
        elif isinstance(each, Assignment):
            for target, value in zip(each.targets, each.values, strict=False):
                path = dotted(target)
                if path is not None and path[0].name == variable and len(path[1]) == 1:
                    yield path[1][0], value


def _items(table: Table) -> Iterator[tuple[str, Expression]]:
    for key, value in table.items:
        if isinstance(key, Constant) and isinstance(key.value, str):
            yield key.value, value


def _function(name: str, function: Function, lines: list[str]) -> list[str]:
    above = function.line - 2
    while above >= 0 and lines[above].startswith("--"):
        above -= 1
    written = f"function library.{name}({', '.join(function.parameters)}) end"
    return [*_comment_at(lines, above + 1), written, ""]


def _comment_at(lines: list[str], start: int) -> list[str]:
    """Return the comment that begins at this line, as a description."""
    found = []
    for line in lines[start:]:
        if not line.startswith("--"):
            break
        found.append(f"--- {line.lstrip('-').strip()}")
    return found
