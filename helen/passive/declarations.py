"""Reads STATE/passive.toml: the hosts, checks and pings that may report from outside. Pure; docs/passive.rst shows it.

Nothing is taken that is not declared here: a result for another name is refused from any client. A passive check under
an agent's name is a check of its own beside those that the agent runs; only with `override` it takes the place of one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import Any

from attrs import evolve, field, frozen

from equus_protocol.results import CRITICAL, STATUS_WORDS, UNKNOWN
from helen.assignments.state_rules import NO_SETTINGS, RuleSettings, read_settings, rule_for
from helen.files.toml_table import Table
from helen.keys.certificates import BadRequest, checked_name
from helen.states.model import Rule

MAX_HOSTS = 20_000
MAX_DECLARED = 20_000  # checks and pings
MAX_OF_HOST = 1_000  # checks: their rules are one record of the journal, of some 100 bytes each
DEFAULT_HOST = "pings"  # of pings that name no host
LONGEST = 366 * 86_400.0  # seconds: a yearly job, and a day
SHORTEST = 1.0  # seconds of an interval or a deadline
RESERVED = "equus:"
PATTERN = frozenset("*?[")
MAX_ID = 200  # characters
_JUDGED = ("attempts", "recover", "flap", "depends")


class PassiveError(Exception):
    """Says that the file can't be used; the text lists every fault, each with the place where it stands."""


@frozen
class Host:
    """Holds a name under which programs report results. `serial`: of its submission key; another number makes another
    key.
    """

    name: str
    labels: dict[str, str] = field(factory=dict)
    serial: int = 1


@frozen
class Declared:
    """Holds the declaration of a passive check or, with `every`, of a ping. `stale` is in seconds, None: it may be
    silent for ever.
    """

    host: str
    id: str
    stale: float | None = None
    missing: int = UNKNOWN
    override: bool = False
    judged: RuleSettings = NO_SETTINGS
    every: float | None = None
    grace: float = 0.0
    serial: int = 1
    _compiled: re.Pattern[str] = field(init=False, repr=False, eq=False)

    @_compiled.default
    def _compile(self) -> re.Pattern[str]:
        return re.compile(translate(self.id) if self.is_pattern else re.escape(self.id) + r"\Z")

    @property
    def is_pattern(self) -> bool:
        """Return True if it declares all checks whose names fit a pattern."""
        return bool(set(self.id) & PATTERN)

    @property
    def is_ping(self) -> bool:
        """Return True for a ping."""
        return self.every is not None

    def covers(self, check_id: str) -> bool:
        """Return True if this check is declared by it."""
        return self._compiled.match(check_id) is not None

    def rule(self) -> Rule:
        """Return the rule of its states: one result is enough for a hard state, unless the file says otherwise."""
        wanted = evolve(self.judged, attempts=self.judged.attempts or 1)
        made = rule_for(self.host, wanted, NO_SETTINGS, 0.0, 0.0)
        return evolve(made, stale=self.stale, passive=True, missing=self.missing)


@frozen
class Passive:
    """Holds the contents of passive.toml: the declarations of each host, by name and by patterns."""

    hosts: dict[str, Host] = field(factory=dict)
    named: dict[str, dict[str, Declared]] = field(factory=dict)
    patterns: dict[str, tuple[Declared, ...]] = field(factory=dict)
    serial: int = 1  # of the key that is good for all hosts

    def of(self, host: str, check_id: str) -> Declared | None:
        """Return the declaration of a check: by its name, or else by the first pattern of the file that covers it."""
        found = self.named.get(host, {}).get(check_id)
        return found or next((each for each in self.patterns.get(host, ()) if each.covers(check_id)), None)

    def pings(self) -> list[Declared]:
        """Return all pings."""
        return [each for listed in self.named.values() for each in listed.values() if each.is_ping]

    def rules(self, host: str, known: Iterable[str]) -> dict[str, Rule]:
        """Return the rules of the checks that are declared by name, and of the `known` ones that a pattern covers."""
        found = {check_id: self.of(host, check_id) for check_id in sorted({*self.named.get(host, ()), *known})}
        return {check_id: each.rule() for check_id, each in found.items() if each is not None}


NOTHING = Passive()


def read(text: str) -> Passive:
    """Read the text of a passive.toml. Raises PassiveError with all faults at once."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PassiveError(f"no TOML: {error}") from error
    faults: list[str] = []
    top = Table("top level", document, faults)
    serial = top.number("serial", 1, 1, 1_000_000)
    top.expect("hosts", "check", "ping")
    top.end()
    hosts = _hosts(document.get("hosts", {}), faults)
    declared = _listed(document, "check", _check, faults) + _listed(document, "ping", _ping, faults)
    if len(hosts) > MAX_HOSTS or len(declared) > MAX_DECLARED:
        faults.append(f"at most {MAX_HOSTS} hosts, and {MAX_DECLARED} checks and pings")
    named, patterns = _by_host(declared, faults)
    for host in [*named, *patterns]:
        hosts.setdefault(host, Host(host))
    if faults:
        raise PassiveError("\n".join(faults))
    return Passive(hosts, named, patterns, serial)


def _by_host(
    declared: list[Declared], faults: list[str]
) -> tuple[dict[str, dict[str, Declared]], dict[str, tuple[Declared, ...]]]:
    named: dict[str, dict[str, Declared]] = {}
    patterns: dict[str, dict[str, Declared]] = {}
    for each in declared:
        place = (patterns if each.is_pattern else named).setdefault(each.host, {})
        if each.id in place:
            faults.append(f"{each.host}/{each.id} is there twice")
        place[each.id] = each
    for host, listed in (*named.items(), *patterns.items()):
        if len(listed) > MAX_OF_HOST:
            faults.append(f"{host} has {len(listed)} checks; {MAX_OF_HOST} is the most: spread them over several hosts")
    return named, {host: tuple(listed.values()) for host, listed in patterns.items()}


def checked_id(check_id: str) -> str:
    """Return the id, if a passive check may be called so. Raises ValueError with a sentence otherwise."""
    sound = 0 < len(check_id) <= MAX_ID and check_id.isprintable() and check_id == check_id.strip()
    if not sound or check_id.startswith(RESERVED):
        raise ValueError(
            f"{check_id[:80]!r} is no name for a check: 1 to {MAX_ID} printable characters, no space at an end, and not"
            f" {RESERVED} at the begin"
        )
    return check_id


def _hosts(given: Any, faults: list[str]) -> dict[str, Host]:
    if not isinstance(given, dict) or not all(isinstance(content, dict) for content in given.values()):
        faults.append('hosts: write [hosts.NAME] and its settings below: labels = { site = "north" }')
        return {}
    found = {}
    for name, content in given.items():
        table = Table(f"hosts.{name}", content, faults)
        labels = {key: value for key, value in table.texts("labels").items() if isinstance(value, str)}
        found[name] = Host(_host_name(name, table), labels, table.number("serial", 1, 1, 1_000_000))
        table.end()
    return found


def _host_name(name: str, table: Table) -> str:
    try:
        return checked_name(name) if name else name
    except BadRequest as error:
        table.faults.append(f"{table.place}: {str(error).replace('an agent', 'a host')}")
        return name


def _listed(document: Mapping[str, Any], key: str, read_one: Any, faults: list[str]) -> list[Declared]:
    listed = document.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(content, dict) for content in listed):
        faults.append(f"{key}: write [[{key}]] for each")
        return []
    found = []
    for at, content in enumerate(listed, 1):
        table, before = Table(f"[[{key}]] number {at}", content, faults), len(faults)
        declared = read_one(table)
        table.end()
        if len(faults) == before:
            found.append(declared)
    return found


def _check(table: Table) -> Declared:
    host = _host_name(table.text("host", "write the name that reports"), table)
    check_id = _id(table)
    stale = table.duration("stale", 0.0, SHORTEST, LONGEST) or None
    return Declared(host, check_id, stale, _missing(table, UNKNOWN), table.flag("override"), _judged(table))


def _ping(table: Table) -> Declared:
    host = _host_name(table.text("host", "write the name that reports", DEFAULT_HOST), table)
    check_id = _id(table)
    if set(check_id) & (PATTERN | {"/"}):
        table.fault("id", "a ping has one name, without * ? [ and /: it is in its URL")
    if "every" not in table.content:
        table.fault("every", 'how often it pings, such as "1d"')
    every = table.duration("every", 60.0, SHORTEST, LONGEST)
    grace = table.duration("grace", every, SHORTEST, LONGEST)
    missing, serial = _missing(table, CRITICAL), table.number("serial", 1, 1, 1_000_000)
    return Declared(host, check_id, every + grace, missing, False, _judged(table), every, grace, serial)


def _id(table: Table) -> str:
    text = table.text("id", "write the name of the check")
    if text:
        try:
            return checked_id(text)
        except ValueError as error:
            table.faults.append(f"{table.place}: id: {error}")
    return text


def _missing(table: Table, default: int) -> int:
    return STATUS_WORDS.index(table.choice("missing", ("unknown", "warning", "critical"), STATUS_WORDS[default]))


def _judged(table: Table) -> RuleSettings:
    table.expect(*_JUDGED)
    given = {key: table.content[key] for key in _JUDGED if key in table.content}
    return read_settings(given, _JUDGED, table.place, table.faults)
