"""Reads STATE/notifications.toml into values: the channels, and the tree of rules. docs/notifications.rst shows it.

All faults of the file are found at once. Secrets stay references here: helen/notify/secrets.py looks them up. Pure.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from attrs import frozen

from groundwork.durations import parse_duration
from helen.files.toml_table import Table
from helen.notify.channels import registry
from helen.notify.channels.channel import Channel
from helen.notify.routing import Matcher, Rule, Timing, read_matcher

MAX_CHANNELS = 1_000
MAX_RULES = 10_000  # each is a few microseconds for each alert that gets so far
MAX_DEPTH = 20  # of rules below rules; the walk is recursive
DAY = 86_400.0
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class NotificationsError(Exception):
    """Says that the file can't be used; the text lists every fault, each with the place where it stands."""


@frozen
class Config:
    """Holds the file's content. `external_url`: where links in messages lead; "" for no links."""

    channels: dict[str, Channel]
    route: Rule
    external_url: str = ""


def read(text: str) -> Config:
    """Read the text of a notifications.toml. Raises NotificationsError with all faults at once."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotificationsError(f"no TOML: {error}") from error
    faults: list[str] = []
    top = Table("top level", document, faults)
    top.expect("channels", "route")
    external = top.text("external_url", 'write "http://helen.example:4167"', "")
    channels = _channels(document.get("channels", {}), faults)
    root = _rule(document.get("route", {}), "route", None, channels, faults, [0])
    top.end()
    if faults:
        raise NotificationsError("\n".join(faults))
    return Config({name: channel for name, channel in channels.items() if channel}, root, external.rstrip("/"))


# ------------------------------------------------------------------------------------------------ channels


def _channels(given: Any, faults: list[str]) -> dict[str, Channel | None]:
    """Read the channels by name; one with a fault is None, so that rules that name it aren't at fault as well."""
    if not isinstance(given, dict) or len(given) > MAX_CHANNELS:
        faults.append(f"channels: write [channels.NAME] and its settings below, at most {MAX_CHANNELS} of them")
        return {}
    return {name: _channel(name, content, faults) for name, content in given.items()}


def _channel(name: str, content: Any, faults: list[str]) -> Channel | None:
    place, before = f"channels.{name}", len(faults)
    if not isinstance(content, dict) or not _CHANNEL.fullmatch(name):
        faults.append(f"{place}: write [channels.NAME], the name of letters, digits, '.', '_' and '-', at most 63")
        return None
    table = Table(place, content, faults)
    type_name = table.choice("type", registry.type_names())
    if len(faults) > before:
        return None
    kind = registry.kind_of(type_name)
    timeout = table.duration("timeout", kind.default_timeout, 0.1, 300.0)
    settings = kind.read(table)
    channel = Channel(name, settings, timeout, None if kind.groups_itself else _rate(table))
    table.end()
    return channel if len(faults) == before else None


def _rate(table: Table) -> tuple[int, float] | None:
    text = table.text("rate", 'write "30/1h": at most 30 messages an hour', "")
    if not text:
        return None
    count, slash, span = text.partition("/")
    try:
        window = parse_duration(span.strip())
        if slash and 1 <= int(count) <= 100_000 and 1 <= window <= DAY:
            return int(count), window
    except ValueError:
        pass
    table.fault("rate", 'write "30/1h": at most 30 messages an hour; the span is 1 s to 1 d')
    return None


# ------------------------------------------------------------------------------------------------ rules


def _rule(
    content: Any, place: str, above: Rule | None, channels: dict[str, Channel | None], faults: list[str],
    count: list[int],
) -> Rule:  # fmt: skip
    """Read one rule and those below it; each setting that it doesn't have is taken from the rule above.

    `count` holds the number of rules so far.
    """
    count[0] += 1
    usual = above or Rule(place)
    if not isinstance(content, dict) or count[0] > MAX_RULES or place.count(".") > MAX_DEPTH:
        faults.append(f"{place}: write rules as tables, at most {MAX_RULES}, at most {MAX_DEPTH} deep")
        return usual
    table = Table(place, content, faults)
    name = table.text("name", "write a text", place)
    matchers = _matchers(table)
    named = table.strings("channels", "write names of channels", usual.channels)
    unknown = [each for each in named if each not in channels] if "channels" in content else []
    if unknown:
        table.faults.append(f"{place}: there is no [channels.{unknown[0]}]; there are: {', '.join(channels) or 'none'}")
    timing = Timing(
        table.duration("group_wait", usual.timing.wait, 0, 3_600.0),
        table.duration("group_interval", usual.timing.interval, 1.0, DAY),
        table.duration("repeat_interval", usual.timing.repeat, 60.0, 30 * DAY),
    )
    group_by, go_on = table.strings("group_by", "write labels", usual.group_by, 20), table.flag("continue")
    if above is None and (matchers or go_on):
        faults.append(f"{place}: match and continue are for the rules below it: everything gets here")
    own = Rule(name, matchers, named, group_by, timing, go_on)
    below = content.get("routes", [])
    table.expect("routes")
    if not isinstance(below, list):
        table.fault("routes", f"write [[{place}.routes]]")
        below = []
    table.end()
    rules = (_rule(each, f"{place}.{at}", own, channels, faults, count) for at, each in enumerate(below, 1))
    return Rule(name, matchers, named, group_by, timing, go_on, tuple(rules))


def _matchers(table: Table) -> tuple[Matcher, ...]:
    found = []
    for text in table.strings("match", 'write matchers, such as ["severity=critical", "role!=test*"]'):
        try:
            found.append(read_matcher(text))
        except ValueError as error:
            table.faults.append(f"{table.place}: match: {error}")
    return tuple(found)
