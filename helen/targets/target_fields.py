"""Holds a target and reads the fields of targets.toml that declared and found targets share. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from helen.identity.given_labels import checked
from helen.keys.certificates import BadRequest, checked_name

MAX_VIA = 20  # patterns of one target
MAX_ADDRESS = 255  # characters
MAX_GIVEN = 2_048  # characters of a target as a source has it: a URL
_QUORUM = re.compile("([1-9]) of ([1-9])")


class TargetsError(Exception):
    """Says that the file can't be used; the text lists every fault, each with its place."""


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
    """Describes a device or service without an agent, which agents check. `via`: names, patterns or KEY=PATTERN of the
    agents that may look at it.
    """

    name: str
    address: str
    via: tuple[str, ...]
    labels: Mapping[str, str] = field(factory=dict)
    quorum: Quorum = ONE
    port: int | None = None
    given: str = ""  # the whole of it as a source has it, if that is more than its address

    @property
    def where(self) -> tuple[str, int | None, str]:
        """Return what it is beside its name: two sources that mean one place say it so."""
        return self.address.lower(), self.port, self.given


def read_name(value: Any, place: str, faults: list[str]) -> str:
    """Return the name of a target; a fault is added to `faults`, with its `place`."""
    try:
        return checked_name(value if isinstance(value, str) else "")
    except BadRequest as error:
        faults.append(f"{place}: name: {error}")
        return ""


def read_via(value: Any, place: str, faults: list[str]) -> tuple[str, ...]:
    """Return the agents that may look, by names and patterns; a fault is added to `faults`, with its `place`."""
    value = [value] if isinstance(value, str) else value
    is_list = isinstance(value, list) and 0 < len(value) <= MAX_VIA
    if is_list and all(isinstance(each, str) and each and each.isprintable() for each in value):
        return tuple(value)
    faults.append(f"{place}: via is {value!r:.80}: write an agent's name, a pattern, KEY=PATTERN, or some of them")
    return ()


def read_quorum(value: Any, place: str, faults: list[str]) -> Quorum:
    """Return the quorum; a fault is added to `faults`, with its `place`."""
    found = _QUORUM.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) > int(found[2]):
        faults.append(f'{place}: quorum is {value!r:.80}: write how many of how many agents, such as "2 of 3"')
        return ONE
    return Quorum(int(found[1]), int(found[2]))


def read_labels(value: Any, place: str, faults: list[str]) -> dict[str, str]:
    """Return the labels of a target; a fault is added to `faults`, with its `place`."""
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        try:
            return checked(value)
        except BadRequest as error:
            faults.append(f"{place}: labels: {error}")
            return {}
    faults.append(f'{place}: labels is {value!r:.80}: write {{ role = "switch" }}')
    return {}


def read_port(value: Any, place: str, faults: list[str]) -> int | None:
    """Return the port of a target; a fault is added to `faults`, with its `place`."""
    if value is None or (type(value) is int and 0 < value < 65_536):
        return value
    faults.append(f"{place}: port is {value!r:.80}: write a number from 1 to 65535")
    return None
