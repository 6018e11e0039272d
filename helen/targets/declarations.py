"""Reads STATE/targets.toml: things without an agent, and the agents that look at them. docs/targets.rst shows the file.

Pure: text in, values out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from helen.targets.sources import MAX_SOURCES, Source, read_source
from helen.targets.target_fields import (
    MAX_ADDRESS,
    Target,
    TargetsError,
    read_labels,
    read_name,
    read_port,
    read_quorum,
    read_via,
)

MAX_TARGETS = 10_000
MAX_GROUPS = 200  # different `via`: each agent is held against each of them whenever its schedule is decided
_KEYS = ("name", "address", "port", "labels", "via", "quorum")


@frozen
class Declared:
    """Holds the contents of targets.toml: targets by name, and where more of them are found."""

    targets: dict[str, Target] = field(factory=dict)
    sources: tuple[Source, ...] = ()


def read(text: str) -> Declared:
    """Return what a text declares. Raises TargetsError with all faults at once."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TargetsError(f"no TOML: {error}") from error
    faults = [
        f"{key!r} is no setting: write [[target]] or [[source]]" for key in document.keys() - {"target", "source"}
    ]
    found: dict[str, Target] = {}
    for place, table in _tables(document, "target", MAX_TARGETS, faults):
        target = _read_target(table, place, faults)
        if target is not None and target.name in found:
            faults.append(f"{place}: {target.name} is there twice")
        elif target is not None:
            found[target.name] = target
    tables = _tables(document, "source", MAX_SOURCES, faults)
    sources = [source for place, table in tables if (source := read_source(table, place, faults)) is not None]
    groups = {each.via for each in found.values()} | {each.via for each in sources}
    if len(groups) > MAX_GROUPS:
        faults.append(f"{len(groups):,} different via: {MAX_GROUPS} are the most; choose agents by a label")
    if len({source.key for source in sources}) < len(sources):
        faults.append("source: two of them read the same: write it once")
    if faults:
        raise TargetsError("\n".join(faults))
    return Declared(found, tuple(sources))


def _tables(document: dict[str, Any], key: str, most: int, faults: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of one kind, each with its place."""
    listed = document.get(key, [])
    if not isinstance(listed, list) or len(listed) > most:
        faults.append(f"{key}: write [[{key}]] for each of at most {most:,}")
        return
    for number, table in enumerate(listed, 1):
        place = f"[[{key}]] number {number}"
        if isinstance(table, dict):
            yield place, table
        else:
            faults.append(f"{place}: a table is expected")


def _read_target(table: dict[str, Any], place: str, faults: list[str]) -> Target | None:
    before = len(faults)
    faults += [f"{place}: {key!r} is no setting: {', '.join(_KEYS)}" for key in table.keys() - set(_KEYS)]
    name = read_name(table.get("name"), place, faults)
    address = table.get("address", name)
    if not isinstance(address, str) or not 0 < len(address) <= MAX_ADDRESS or not address.isprintable():
        faults.append(f"{place}: address is {address!r:.80}: write a name or an address")
    via = read_via(table.get("via"), place, faults)
    labels = read_labels(table.get("labels", {}), place, faults)
    quorum = read_quorum(table.get("quorum", "1 of 1"), place, faults)
    port = read_port(table.get("port"), place, faults)
    return Target(name, address, via, labels, quorum, port) if len(faults) == before else None
