"""Reads STATE/forwards.toml into values. docs/forwards.rst shows it.

All faults of the file are found at once. Secrets stay references here: they are looked up when something is sent. Pure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from helen.files.toml_table import Table
from helen.forwards.formats import kinds
from helen.forwards.formats.kinds import Kind
from helen.forwards.formats.values import Signal
from helen.forwards.records import METRICS, STATES
from helen.forwards.sending import Way, takes_path

MOST = 10  # forwards: each reads the whole history by itself
MOST_PATTERNS = 100
DAY = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class ForwardsError(Exception):
    """Says that the file can't be used; the text lists every fault, each with the place where it stands."""


@frozen
class Forward:
    """Holds one [forwards.NAME]. `on` are patterns of agents, `checks` of ids of checks; times are in seconds."""

    name: str
    type_name: str
    way: Way
    signals: tuple[Signal, ...] = field(eq=False)  # they follow from the rest
    on: tuple[str, ...]
    checks: tuple[str, ...]
    sends: frozenset[str]
    options: Mapping[str, str]
    timeout: float
    trouble_after: float
    is_from_oldest: bool

    def show(self) -> dict[str, Any]:
        """Return the settings by their names, with every secret masked."""
        return {
            "name": self.name, "type": self.type_name, "on": list(self.on), "checks": list(self.checks),
            "send": sorted(self.sends), "timeout": self.timeout, "trouble_after": self.trouble_after,
            **self.options, **self.way.show(),
        }  # fmt: skip


Forwards = dict[str, Forward]


def read(text: str) -> Forwards:
    """Read the text of a forwards.toml. Raises ForwardsError with all faults at once."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ForwardsError(f"no TOML: {error}") from error
    faults: list[str] = []
    top = Table("top level", document, faults)
    top.expect("forwards")
    top.end()
    given = document.get("forwards", {})
    if not isinstance(given, dict) or len(given) > MOST:
        faults.append(f"forwards: write [forwards.NAME] and its settings below, at most {MOST} of them")
        given = {}
    found = [_forward(name, content, faults) for name, content in given.items()]
    if faults:
        raise ForwardsError("\n".join(faults))
    return {each.name: each for each in found if each is not None}


def _forward(name: str, content: Any, faults: list[str]) -> Forward | None:
    place, before = f"forwards.{name}", len(faults)
    if not isinstance(content, dict) or not _NAME.fullmatch(name):
        faults.append(f"{place}: write [forwards.NAME], the name of letters, digits, '.', '_' and '-', at most 63")
        return None
    table = Table(place, content, faults)
    type_name = table.choice("type", tuple(kinds.KINDS))
    if len(faults) > before:
        return None
    made = _read(name, kinds.KINDS[type_name], table)
    table.end()
    return made if len(faults) == before else None


def _read(name: str, kind: Kind, table: Table) -> Forward:
    if kind.missing is not None:
        table.faults.append(f"{table.place}: {kind.missing}")
    way, options = kind.way.read(table), kind.options(table)
    prefix = table.text("prefix", "write letters, digits, '_', '.', ':' and '-', at most 100", "")
    if prefix and not _PREFIX.fullmatch(prefix):
        table.fault("prefix", "write letters, digits, '_', '.', ':' and '-', at most 100")
    sends = table.strings("send", f'write ["{METRICS}", "{STATES}"], or one of them', (METRICS, STATES))
    if not sends or set(sends) - {METRICS, STATES}:
        table.fault("send", f'write ["{METRICS}", "{STATES}"], or one of them')
    signals = kind.signals(frozenset(sends), prefix, options)
    url = table.content.get("url")
    if isinstance(url, str) and any(each.path for each in signals) and not takes_path(url):
        table.faults.append(
            f"{table.place}: url has a query, which {signals[0].path} can't be added to: write it without"
        )
    if sends and not signals:
        table.faults.append(f"{table.place}: signals and send leave nothing to send: logs are of states")
    return Forward(
        name, kind.type_name, way, signals,
        _patterns(table, "on", 'write patterns of agents, such as ["web-*", "role=db"]'),
        _patterns(table, "checks", 'write patterns of checks, such as ["disk*"]'),
        frozenset(sends), options | ({"prefix": prefix} if prefix else {}),
        table.duration("timeout", 30.0, 1.0, 300.0), table.duration("trouble_after", 600.0, 30.0, 30 * DAY),
        table.choice("begin", ("now", "oldest"), "now") == "oldest",
    )  # fmt: skip


def _patterns(table: Table, key: str, wanted: str) -> tuple[str, ...]:
    found = table.strings(key, wanted, ("*",), MOST_PATTERNS)
    if not found or not all(found):
        table.fault(key, wanted)
    return found
