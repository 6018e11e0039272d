"""Reads STATE/targets.toml: things without an agent, and the agents that look at them. docs/targets.rst shows the file.

Pure: text in, values out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from helen.identity.given_labels import checked
from helen.keys.certificates import BadRequest, checked_name

MAX_TARGETS = 10_000
MAX_VIA = 20  # patterns of one target
MAX_GROUPS = 200  # different `via`: each agent is held against each of them whenever its schedule is decided
MAX_ADDRESS = 255  # characters
_KEYS = ("name", "address", "labels", "via", "quorum")
_QUORUM = re.compile("([1-9]) of ([1-9])")


class TargetsError(Exception):
    """The file can't be used; the text lists every fault, each with its place."""


@frozen
class Quorum:
    """Says how many agents look at a target, and how many of them have to see it bad."""

    needed: int = 1
    runners: int = 1

    def __str__(self) -> str:
        return f"{self.needed} of {self.runners}"


ONE = Quorum()


@frozen
class Target:
    """A thing without an agent. `via`: names, patterns or KEY=PATTERN of the agents that may look at it."""

    name: str
    address: str
    via: tuple[str, ...]
    labels: Mapping[str, str] = field(factory=dict)
    quorum: Quorum = ONE


Targets = dict[str, Target]


def read(text: str) -> Targets:
    """Return the targets of a text by name. Raises TargetsError with all faults at once."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TargetsError(f"no TOML: {error}") from error
    faults = [f"{key!r} is no setting: write [[target]]" for key in document.keys() - {"target"}]
    listed = document.get("target", [])
    if not isinstance(listed, list) or len(listed) > MAX_TARGETS:
        raise TargetsError(f"target: write [[target]] for each of at most {MAX_TARGETS:,}")
    found: Targets = {}
    for at, table in enumerate(listed, 1):
        target = _read_target(table, f"[[target]] number {at}", faults)
        if target is not None and target.name in found:
            faults.append(f"[[target]] number {at}: {target.name} is there twice")
        elif target is not None:
            found[target.name] = target
    groups = {target.via for target in found.values()}
    if len(groups) > MAX_GROUPS:
        faults.append(f"{len(groups):,} different via: {MAX_GROUPS} are the most; choose agents by a label")
    if faults:
        raise TargetsError("\n".join(faults))
    return found


def _read_target(table: Any, place: str, faults: list[str]) -> Target | None:
    if not isinstance(table, dict):
        faults.append(f"{place}: a table is expected")
        return None
    before = len(faults)
    faults += [f"{place}: {key!r} is no setting: {', '.join(_KEYS)}" for key in table.keys() - set(_KEYS)]
    name = _name(table.get("name"), place, faults)
    address = table.get("address", name)
    if not isinstance(address, str) or not 0 < len(address) <= MAX_ADDRESS or not address.isprintable():
        faults.append(f"{place}: address is {address!r:.80}: write a name or an address")
    via = _via(table.get("via"), place, faults)
    labels = _labels(table.get("labels", {}), place, faults)
    quorum = _quorum(table.get("quorum", "1 of 1"), place, faults)
    return Target(name, address, via, labels, quorum) if len(faults) == before else None


def _name(value: Any, place: str, faults: list[str]) -> str:
    try:
        return checked_name(value if isinstance(value, str) else "")
    except BadRequest as error:
        faults.append(f"{place}: name: {error}")
        return ""


def _via(value: Any, place: str, faults: list[str]) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    is_list = isinstance(value, list) and 0 < len(value) <= MAX_VIA
    if is_list and all(isinstance(each, str) and each and each.isprintable() for each in value):
        return tuple(value)
    faults.append(f"{place}: via is {value!r:.80}: write an agent's name, a pattern, KEY=PATTERN, or some of them")
    return ()


def _quorum(value: Any, place: str, faults: list[str]) -> Quorum:
    found = _QUORUM.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) > int(found[2]):
        faults.append(f'{place}: quorum is {value!r:.80}: write how many of how many agents, such as "2 of 3"')
        return ONE
    return Quorum(int(found[1]), int(found[2]))


def _labels(value: Any, place: str, faults: list[str]) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        try:
            return checked(value)
        except BadRequest as error:
            faults.append(f"{place}: labels: {error}")
            return {}
    faults.append(f'{place}: labels is {value!r:.80}: write {{ role = "switch" }}')
    return {}
