"""STATE/notifications.toml as values: the channels, and the tree of rules. Pure; docs/notifications.rst shows the file.

What is wrong with the file is found all at once. Secrets stay references here: helen/notify/secrets.py looks them up.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from helen.durations import seconds
from helen.notify.routing import Matcher, Rule, Timing, read_matcher
from helen.notify.tables import Secret, Table, Text

MAX_CHANNELS = 1_000
MAX_RULES = 10_000  # each is a few microseconds for each alert that gets so far
MAX_DEPTH = 20  # of rules below rules; the walk is recursive
MAX_ARGUMENTS = 100
MAX_URLS = 20  # of one channel of Apprise: they are told one after the other, within its timeout
DAY = 86_400.0
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")
_OUR_HEADERS = frozenset(("content-length", "content-type", "host", "transfer-encoding", "connection"))


class NotificationsError(Exception):
    """The file can't be used; the text lists every fault, each with the place where it stands."""


@frozen
class Web:
    """An HTTP receiver. `shape`: own, alertmanager-v4 (Alertmanager's webhook) or alertmanager-v2 (its API)."""

    url: Text
    shape: str = "own"
    headers: dict[str, Text] = field(factory=dict)
    bearer: Secret | None = None
    ca: str | None = None  # a PEM file: whom to trust instead of the system's authorities


@frozen
class Mail:
    host: str
    port: int
    tls: str  # starttls, tls or none
    sender: str
    to: tuple[str, ...]
    user: Text | None = None
    password: Secret | None = None
    ca: str | None = None


@frozen
class Program:
    """`argv` is run as it is, without a shell; JSON comes on standard input."""

    argv: tuple[str, ...]
    environment: dict[str, Text] = field(factory=dict)


@frozen
class Relay:
    """Services that Apprise knows, each by a URL that holds its secrets."""

    urls: tuple[Text, ...] = field(repr=False)


@frozen
class Channel:
    """`rate`: so many messages in so many seconds; None: no limit."""

    name: str
    via: Web | Mail | Program | Relay
    timeout: float = 10.0
    rate: tuple[int, float] | None = None

    @property
    def is_api(self) -> bool:
        """Alertmanager itself: it groups, waits and limits on its own, and wants to hear of each alert each minute."""
        return isinstance(self.via, Web) and self.via.shape == "alertmanager-v2"

    @property
    def knows_labels(self) -> bool:
        """To its receiver an alert is its labels, so one with other labels is another alert."""
        return isinstance(self.via, Web) and self.via.shape != "own"


@frozen
class Config:
    channels: dict[str, Channel]
    route: Rule
    external_url: str = ""


def read(text: str) -> Config:
    """Raises NotificationsError with all faults at once."""
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
    """By name; one with a fault is None, so that rules that name it aren't at fault as well."""
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
    kind = table.choice("type", tuple(_VIA))
    if len(faults) > before:
        return None
    timeout = table.duration("timeout", 30.0 if kind in ("command", "apprise") else 10.0, 0.1, 300.0)
    via = _VIA[kind](table)
    channel = Channel(name, via, timeout, None if kind == "alertmanager" else _rate(table))
    table.end()
    return channel if len(faults) == before else None


def _rate(table: Table) -> tuple[int, float] | None:
    text = table.text("rate", 'write "30/1h": at most 30 messages an hour', "")
    if not text:
        return None
    count, slash, span = text.partition("/")
    try:
        window = seconds(span.strip())
        if slash and 1 <= int(count) <= 100_000 and 1 <= window <= DAY:
            return int(count), window
    except ValueError:
        pass
    table.fault("rate", 'write "30/1h": at most 30 messages an hour; the span is 1 s to 1 d')
    return None


def _web(table: Table) -> Web:
    shape = table.choice("shape", ("own", "alertmanager-v4"), "own")
    return _read_web(table, shape)


def _alertmanager(table: Table) -> Web:
    return _read_web(table, "alertmanager-v2")


def _read_web(table: Table, shape: str) -> Web:
    url = table.secret("url", '"https://host/path", or { env = "NAME" }, { file = "/path" }', True, True)
    if isinstance(url, str) and not is_url(url):
        sound = "http://HOST[:PORT]/PATH or https://..., without user and password in it"
        table.faults.append(f"{table.place}: url can't be used: write {sound}")  # it may be a secret: not shown
    headers = table.texts("headers")
    for name in headers:
        if not _HEADER.fullmatch(name) or name.lower() in _OUR_HEADERS:
            table.faults.append(f"{table.place}: headers: {name!r} can't be set")
    bearer, ca = table.secret("bearer"), table.text("ca", "write the path of a PEM file", "")
    return Web(url or "", shape, headers, bearer if isinstance(bearer, Secret) else None, ca or None)


def is_url(url: str) -> bool:
    """Whether we can post to it."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        return sound and parts.username is None and url.isascii() and " " not in url
    except ValueError:
        return False


def _mail(table: Table) -> Mail:
    tls = table.choice("tls", ("starttls", "tls", "none"), "starttls")
    port = table.number("port", {"starttls": 587, "tls": 465, "none": 25}[tls], 1, 65_535)
    host = table.text("host", 'write the mail server, such as "mail.example"')
    sender, to = table.text("from", "write one address"), table.strings("to", "write addresses")
    user, password = table.secret("user", "a text", True), table.secret("password")
    ca = table.text("ca", "write the path of a PEM file", "")
    if "to" not in table.content:
        table.fault("to", "write addresses")
    for key, each in (("from", sender), *(("to", each) for each in to)):
        if each and not (_ADDRESS.fullmatch(each) and each.isascii()):
            table.faults.append(f"{table.place}: {key}: {each!r} is no address such as ops@example.org")
    if (user is None) != (password is None):
        table.faults.append(f"{table.place}: user and password go together")
    if password is not None and tls == "none" and host not in ("127.0.0.1", "::1", "localhost"):
        table.faults.append(f'{table.place}: a password would go over the network in the clear: tls = "starttls"')
    return Mail(host, port, tls, sender, to, user, password if isinstance(password, Secret) else None, ca or None)


def _program(table: Table) -> Program:
    argv = table.strings("argv", 'write a list, such as ["/usr/local/bin/page", "ops"]', most=MAX_ARGUMENTS)
    if not argv or not argv[0].startswith("/"):
        table.fault("argv", "write a list that begins with the path of a program, from / on")
    return Program(argv, table.texts("environment"))


def _relay(table: Table) -> Relay:
    urls = table.secrets(
        "urls", 'write a list of Apprise\'s URLs, or of { env = "NAME" } and { file = "/path" }', MAX_URLS
    )
    if any(isinstance(url, str) and "://" not in url for url in urls):
        table.faults.append(f"{table.place}: urls: one of them is no URL such as service://token")  # it may be a secret
    return Relay(urls)


_VIA: dict[str, Any] = {
    "webhook": _web, "alertmanager": _alertmanager, "smtp": _mail, "command": _program, "apprise": _relay,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ rules


def _rule(
    content: Any, place: str, above: Rule | None, channels: dict[str, Channel | None], faults: list[str],
    count: list[int],
) -> Rule:  # fmt: skip
    """One rule and those below it, with what it doesn't say taken from above."""
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
