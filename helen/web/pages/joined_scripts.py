"""Joins scripts that pages load together into one file each, when Helen starts.

    scripts = joined({"time.js": "...", ...})    # those that were given, and those of JOINED

A browser spends milliseconds of CPU on each module, also on one that it has kept, and a board had eleven of them before
its rows were ready. The sources stay modules of their own, which people read and tests load. A joined file holds each
of them as a block, in the order of JOINED: its names are its own, and what it exports is exported once more.

Imports of a member lead to the joined file wherever a page may load it, so that no page has a module twice, with two
lists of keys or two clocks. A worker shares nothing with a page: WORKERS import members as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

JOINED = MappingProxyType(
    {
        "pages.js": ("theme.js", "time.js", "stream.js", "live.js", "keys.js", "api.js", "dom.js"),
        "board-page.js": ("filters.js", "board-rows.js", "board-table.js", "board.js"),
    }
)
WORKERS = frozenset({"stream-worker.js"})
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w./-]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class NotJoinable(ValueError):
    """Says which script has an import or an export that can't be joined: a fault of this installation."""


def joined(scripts: Mapping[str, str], groups: Mapping[str, tuple[str, ...]] = JOINED) -> dict[str, str]:
    """Return the scripts by name, and the joined ones; imports of members lead to those.

    Raises NotJoinable for a member that is not there, is imported before its block, exports a name that another one
    of its group exports, or has an import or export of another form than IMPORT and EXPORT.
    """
    homes = {member: group for group, members in groups.items() for member in members}
    found = {
        name: text if name in homes or name in WORKERS else _led_to_joined(text, homes)
        for name, text in scripts.items()
    }
    for group, members in groups.items():
        found[group] = _group(scripts, members, homes)
    return found


def _led_to_joined(text: str, homes: Mapping[str, str]) -> str:
    return IMPORT.sub(lambda found: f'import {{{found[1]}}} from "./{homes.get(found[2], found[2])}";', text)


def _group(scripts: Mapping[str, str], members: tuple[str, ...], homes: Mapping[str, str]) -> str:
    """Return a joined file: what its blocks import from outside, a block for each member, and all exports."""
    exporters, foreign, blocks = dict[str, str](), set[str](), list[str]()
    for at, name in enumerate(members):
        if name not in scripts:
            raise NotJoinable(f"{name}: there is no such script to be joined with others; install Helen anew")
        block, exports, needed = _block(name, scripts[name])
        blocks.append(block)
        for each in exports:
            if each in exporters:
                raise NotJoinable(f"{name} exports {each}, as {exporters[each]} does: give one of them another name")
            exporters[each] = name
        if late := needed & set(members[at:]):
            raise NotJoinable(f"{name} imports {min(late)}, which comes behind it: change the order of JOINED")
        foreign |= needed - set(members)
    heads = [f'import * as {_value(name)} from "./{homes.get(name, name)}";' for name in sorted(foreign)]
    tails = [f"export const {{ {', '.join(_exports_of(name, exporters))} }} = {_value(name)};" for name in members]
    return "\n".join([*heads, *blocks, *tails]) + "\n"


def _exports_of(name: str, exporters: Mapping[str, str]) -> list[str]:
    return [each for each, exporter in exporters.items() if exporter == name]


def _block(name: str, text: str) -> tuple[str, list[str], set[str]]:
    """Return a member as a block, the names that it exports, and the scripts that it imports from."""
    exports, needed = EXPORT.findall(text), {found[2] for found in IMPORT.finditer(text)}
    body = EXPORT.sub("", IMPORT.sub(_taken, text))
    if left := LEFT.search(body):
        raise NotJoinable(
            f"{name} can't be joined with others for the line {left[0][:80]!r}: write it in the usual form"
        )
    value = _value(name)
    return (
        f"const {value} = {{}};\n{{\n{body}\nObject.assign({value}, {{ {', '.join(exports)} }});\n}}",
        exports,
        needed,
    )


def _taken(found: re.Match[str]) -> str:
    """Return an import as a block has it: `a as b` of an import is `a: b` here."""
    return f"const {{{found[1].replace(' as ', ': ')}}} = {_value(found[2])};"


def _value(name: str) -> str:
    """Return the name of the object that holds what a script exports."""
    return "$" + re.sub(r"\W", "_", name)
