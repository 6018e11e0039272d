"""Hold what was found in another monitoring system, before it becomes a folder for `helen apply`. Pure.

The readers of each system fill a `Found`; `folder.py` turns one into files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

MAX_SERVICES = 10_000  # as many entries as assignments.toml may have
MAX_MACROS = 2_000  # of one command line
MAX_REMARKS = 20_000  # lines of the report


class SourceError(Exception):
    """Says that a source can't be read at all; the text is a sentence that names the file and what to do."""


class NotUnderstood(Exception):
    """Says that one object can't be imported; the text says why, and continues a sentence about it."""


@define
class Budget:
    """Count the macros of one command line. Macros hold macros, so those of a short file could take ages."""

    left: int = MAX_MACROS

    def spend(self) -> None:
        """Count one macro. Raises NotUnderstood if it is one too many."""
        self.left -= 1
        if self.left < 0:
            raise NotUnderstood(f"its command line holds more than {MAX_MACROS:,} macros, counting those within macros")


@frozen
class Command:
    """Holds a command line that a policy shall name. `{address}` stands in `argv` for the address of a host, if any."""

    name: str
    argv: tuple[str, ...]


@frozen
class Host:
    """Holds a host of the other monitoring system. `address` is a name or an address; `labels` have legal keys and
    values.

    `via` are the agents that may look at it; empty: the agent beside the old core.
    """

    name: str
    address: str
    labels: Mapping[str, str] = field(factory=dict)
    via: tuple[str, ...] = ()


@frozen
class Service:
    """Holds a check of a host of the other monitoring system: `command` for one by a plugin, or `check` and `args` for
    a shipped one. Times are seconds.

    `runner` is the agent that runs it: its host itself, or None for the agent beside the old core.
    """

    host: str
    id: str
    check: str
    every: float
    command: Command | None = None
    args: Mapping[str, Any] = field(factory=dict)
    retry: float | None = None
    attempts: int | None = None
    timeout: float | None = None
    flap: tuple[float, float] | bool | None = None
    depends: tuple[str, ...] = ()
    runner: str | None = None


@frozen
class Reported:
    """Holds a check whose results come from outside. `stale` and `every` are seconds; a ping has `every`."""

    host: str
    id: str
    stale: float | None = None
    every: float | None = None
    attempts: int | None = None


@define
class Found:
    """Holds all hosts, services and passive checks that an import has found. `total` counts the services of the source;
    `omitted` names those that don't run, and why.
    """

    source: str
    total: int = 0
    hosts: dict[str, Host] = field(factory=dict)
    services: list[Service] = field(factory=list)
    reported: list[Reported] = field(factory=list)
    omitted: list[tuple[str, str]] = field(factory=list)
    remarks: dict[str, list[str]] = field(factory=dict)  # a sentence -> the names that it holds for

    def omit(self, name: str, why: object) -> None:
        """Note that a service will not run."""
        self.omitted.append((name, str(why)))

    def remark(self, sentence: str, name: str = "") -> None:
        """Note what differs, or was left out, of an object that is taken all the same."""
        names = self.remarks.setdefault(sentence, [])
        if name and name not in names and sum(map(len, self.remarks.values())) < MAX_REMARKS:
            names.append(name)
