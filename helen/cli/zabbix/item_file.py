"""Read the file of `helen zabbix`: who may report, for which hosts, and what values mean. docs/zabbix.rst has it."""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from typing import Any

from attrs import field, frozen

from equus_protocol.ranges import Range
from equus_protocol.result_fields import STATUS_WORDS
from groundwork.globs import fits_glob
from groundwork.safe_text import safe_line
from helen.cli.base.listener_tables import (
    PLACEHOLDER,
    Address,
    Network,
    read_endpoint,
    read_networks,
    read_tables,
    sound_name,
)
from helen.cli.base.listening import ListenerFileError
from helen.cli.zabbix.keys import MOST_PARAMETERS, parts_of
from helen.cli.zabbix.packets import Value
from helen.files.toml_table import Table

MOST_SUMMARY, MOST_OUTPUT = 500, 10_000  # characters
WORDS = ("host", "key", "value", *map(str, range(MOST_PARAMETERS + 1)))  # {0} is the key without its parameters
NUMBER = re.compile(r"\s*[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?\s*")


@frozen
class Source:
    """Holds addresses that may report, and patterns of the hosts for which they may."""

    networks: tuple[Network, ...]
    hosts: tuple[str, ...]

    def speaks_for(self, host: str) -> bool:
        return any(fits_glob(host, pattern) for pattern in self.hosts)


@frozen
class Item:
    """Says what values of a key mean: a result of a check, with a status by `states`, or by the ranges."""

    keys: tuple[str, ...]
    check: str
    summary: str = ""
    states: dict[str, str] = field(factory=dict)
    warning: str = ""
    critical: str = ""
    metric: str = ""
    unit: str = ""
    ttl: float = 0.0
    is_dropped: bool = False

    def fits(self, key: str) -> bool:
        """Return True if a key is one of these, with any parameters or with those that are written.

        A `[` begins parameters and never a choice of letters: `raid.state[md0]` does not take `raid.statem`.
        """
        name = key.partition("[")[0]
        return any(each == key if "[" in each else fits_glob(name, each) for each in self.keys)


@frozen
class ItemFile:
    """Holds all that the file says."""

    listen: tuple[tuple[str, int], ...]
    sources: tuple[Source, ...]
    items: tuple[Item, ...]
    a_minute: int
    at_once: int

    def sources_of(self, address: Address) -> list[Source]:
        """Return the entries with this address, none for a stranger."""
        return [one for one in self.sources if any(address in network for network in one.networks)]

    def item_of(self, key: str) -> Item | None:
        """Return the first entry that fits, or None."""
        return next((one for one in self.items if one.fits(key)), None)


def result_of(value: Value, item: Item) -> dict[str, Any]:
    """Return a value as the body of a passive result; one with a time of its own is the same if it comes again."""
    parts = parts_of(value.key)
    known = {"host": value.host, "key": value.key, "value": value.value, **dict(enumerate_texts(parts))}
    number = number_of(value.value)
    body: dict[str, Any] = {
        "host": sound_name(value.host), "check": sound_name(_filled(item.check, known, is_name=True)),
        "status": status_of(item, value.value, number), "source": "helen zabbix",
        "summary": _filled(item.summary or "{key} = {value}", known)[:MOST_SUMMARY],
        "output": value.value[:MOST_OUTPUT],
    }  # fmt: skip
    if number is not None:
        limits = {name: text for name, text in (("warn", item.warning), ("crit", item.critical)) if text}
        unit = {"unit": item.unit} if item.unit else {}
        body["metrics"] = [{"name": item.metric or parts[0], "value": number, **unit, **limits}]
    if value.clock is not None:
        told = "\0".join((value.host, value.key, value.value, repr(value.clock)))
        body |= {"started": value.clock, "id": hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:32]}
    return body | ({"ttl": item.ttl} if item.ttl else {})


def enumerate_texts(parts: list[str]) -> list[tuple[str, str]]:
    """Return texts with their places, as a file names them."""
    return [(str(at), part) for at, part in enumerate(parts)]


def number_of(text: str) -> float | None:
    """Return a value as a number, None if it is none that can be drawn."""
    found = float(text) if NUMBER.fullmatch(text) else math.inf
    return found if math.isfinite(found) else None


def status_of(item: Item, text: str, number: float | None) -> str:
    """Return the status of a value. One that no pattern has, or that is no number where a range waits, is unknown."""
    if item.states:
        return next((status for pattern, status in item.states.items() if fits_glob(text, pattern)), "unknown")
    ranges = [(status, each) for status, each in (("critical", item.critical), ("warning", item.warning)) if each]
    if ranges and number is None:
        return "unknown"
    return next((status for status, each in ranges if Range.parse(each).alerts(number or 0.0)), "ok")


def _filled(text: str, known: dict[str, str], is_name: bool = False) -> str:
    def value(found: re.Match[str]) -> str:
        shown = safe_line(known.get(found[1]) or "?")
        return sound_name(shown) if is_name else shown

    return PLACEHOLDER.sub(value, text)


def read(text: str) -> ItemFile:
    """Return what a text says. Raises ListenerFileError with all faults at once."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ListenerFileError(f"no TOML: {error}") from error
    faults: list[str] = []
    table = Table("the file", document, faults)
    listed = table.strings("listen", 'write "ADDRESS:PORT"', ("0.0.0.0:10051",), 16)
    listen = tuple(read_endpoint(each, faults, "0.0.0.0:10051") for each in listed)
    a_minute, at_once = table.number("a_minute", 60, 1, 1_000_000), table.number("at_once", 100, 1, 1_000_000)
    sources = tuple(_source(each) for each in read_tables(table, "source"))
    items = tuple(_item(each) for each in read_tables(table, "item"))
    table.end()
    if not sources and not faults:
        faults.append("the file names no [[source]]: nobody could report")
    if faults:
        raise ListenerFileError("\n".join(faults))
    return ItemFile(listen, sources, items, a_minute, at_once)


def _source(table: Table) -> Source:
    networks = read_networks(table)
    hosts = table.strings("hosts", 'write the hosts that are reported from there, such as "nas-*", or "*"')
    if not hosts:
        table.faults.append(f'{table.place}: hosts is missing: write names or patterns, such as "nas-*", or "*"')
    return Source(networks, hosts)


def _item(table: Table) -> Item:
    wanted = 'write a key such as "raid.state", a pattern such as "raid.*", or a key with its parameters'
    keys = table.strings("key", wanted)
    if not keys:
        table.faults.append(f"{table.place}: key is missing: {wanted}")
    if table.flag("drop"):
        return Item(keys, "", is_dropped=True)
    check = table.text("check", 'write the name of a check, such as "raid-{1}"')
    summary = table.text("summary", "write what the result says", "{key} = {value}")
    for key, text in (("check", check), ("summary", summary)):
        for found in PLACEHOLDER.findall(text):
            if found not in WORDS:
                table.faults.append(
                    f"{table.place}: {key} has {{{found}}}, which is nothing: there are host, key, value, and 0 to"
                    f" {MOST_PARAMETERS}: the key's name and its parameters"
                )
    warning, critical = (_range(table, key) for key in ("warning", "critical"))
    states = {pattern: str(status) for pattern, status in table.texts("states").items()}
    bad = [status for status in states.values() if status not in STATUS_WORDS]
    table.faults.extend(f"{table.place}: states: {status!r:.40} is none of {', '.join(STATUS_WORDS)}" for status in bad)
    if states and (warning or critical):
        table.faults.append(f"{table.place}: states are for texts, warning and critical for numbers: write one of both")
    metric, unit = (table.text(key, f"write the {key}", " ").strip() for key in ("metric", "unit"))
    ttl = table.duration("ttl", 0.0, 1.0, 31_536_000.0)
    return Item(keys, check, summary, states, warning, critical, metric, unit, ttl)


def _range(table: Table, key: str) -> str:
    wanted = "write a range as plugins have it: 80, 10:, 10:20"
    text = table.text(key, wanted, " ").strip()
    if text:
        try:
            Range.parse(text)
        except ValueError as error:
            table.faults.append(f"{table.place}: {key}: {error}")
    return text
