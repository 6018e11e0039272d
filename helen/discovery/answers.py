"""Reads the answer of discover.lua, which an agent has sent: a hostile one is bounded, and says nothing but findings.

Pure. Each value is held against a pattern of its own, and what does not fit is left out and counted. No name of an
agent is read here: which agent has answered is known from its certificate.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import field, frozen

from groundwork.safe_text import safe_line
from helen.discovery.known import DAEMONS, FACILITIES

MOST_TEXT = 65_536  # characters of an answer; an agent cuts the summary of a result there
MOST_OF_KIND = 300  # findings of one kind that are looked at, of one agent
MOST_NOTES, MOST_NOTE = 8, 400  # sentences that an agent may add, and characters of each
SPEAKS = frozenset({"ssh", "smtp", "imap", "pop3", "http", "tls", "redis", "memcached"})
NETWORK_TYPES = frozenset("nfs nfs4 cifs smb3 ceph glusterfs fuse.sshfs 9p afs".split())
_UNIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9:_.@\\-]{0,200}\.service")
_HOST = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_TYPE = re.compile(r"[a-z0-9][a-z0-9._-]{0,30}")
_WILDCARDS = ("0.0.0.0", "::")

Finding = TypeVar("Finding")


class NoAnswer(Exception):
    """Says that an agent's answer can't be read at all; the text says why."""


@frozen(order=True)
class Listener:
    """Holds a port of a host where a program waits for peers over TCP. `speaks`: one of SPEAKS, or "" if that is not
    known.

    `host` is what a check on that host connects to. `names` are those of its certificate, if it has a valid one.
    """

    port: int
    host: str
    speaks: str = ""
    is_fine: bool = False  # a page that is no error, a certificate that clients accept
    names: tuple[str, ...] = ()


@frozen(order=True)
class Mount:
    """Holds a mounted filesystem with data of users, by its path."""

    path: str
    is_network: bool = False


@frozen
class Findings:
    """Holds everything that one agent has found. `left_out` counts what could not be used."""

    listeners: tuple[Listener, ...] = ()
    mounts: tuple[Mount, ...] = ()
    services: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    facilities: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), repr=False)
    left_out: int = 0

    @property
    def count(self) -> int:
        """Return the number of things that were found."""
        listed: tuple[tuple[Any, ...], ...] = (self.listeners, self.mounts, self.services, self.processes)
        return sum(map(len, listed)) + len(self.facilities)


def read(text: Any) -> Findings:
    """Return the findings of an answer. Raises NoAnswer if it is no answer of discover.lua."""
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise NoAnswer("its answer is no text, or too long")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise NoAnswer("its answer is not JSON; it may have been cut") from None
    if not isinstance(document, dict) or document.get("discover") != 1:
        raise NoAnswer("its answer is none of discover.lua")
    left = _Left()
    return Findings(
        left.take(document, "listeners", _listener),
        left.take(document, "mounts", _mount),
        left.take(document, "services", _service),
        left.take(document, "processes", lambda name: name if isinstance(name, str) and name in DAEMONS else None),
        left.take(document, "facilities", lambda name: name if isinstance(name, str) and name in FACILITIES else None),
        left.take(document, "notes", _note)[:MOST_NOTES],
        left.count,
    )


class _Left:
    """Counts what is left out."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, document: dict[str, Any], name: str, reader: Callable[[Any], Finding | None]) -> tuple[Finding, ...]:
        """Return the usable items of a list, each once and in order; what is no list has none."""
        listed = document.get(name, [])
        if not isinstance(listed, list):
            # Lua has no empty list: an empty table arrives as one or the other.
            self.count += listed != {}
            return ()
        found: dict[Finding, None] = {}
        for item in listed[:MOST_OF_KIND]:
            value = reader(item)
            if value is None:
                self.count += 1
            else:
                found[value] = None
        self.count += len(listed) - min(len(listed), MOST_OF_KIND)
        return tuple(sorted(found))  # type: ignore[type-var]


def _listener(item: Any) -> Listener | None:
    if not isinstance(item, dict):
        return None
    port, host, speaks = item.get("port"), _host(item.get("address")), item.get("speaks", "")
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535 or host is None:
        return None
    names = item.get("names", [])
    names = names[:MOST_OF_KIND] if isinstance(names, list) else []
    good = tuple(name for name in names if isinstance(name, str) and _HOST.fullmatch(name))
    known = speaks if isinstance(speaks, str) and speaks in SPEAKS else ""
    return Listener(port, host, known, item.get("fine") is True, good)


def _host(address: Any) -> str | None:
    """Return what a check connects to; None for an address beyond this host, which few policies grant to checks."""
    try:
        found = ipaddress.ip_address(address) if isinstance(address, str) else None
    except ValueError:
        return None
    if found is None or not (str(found) in _WILDCARDS or found.is_loopback):
        return None
    return "localhost" if str(found) in (*_WILDCARDS, "127.0.0.1", "::1") else str(found)


def _mount(item: Any) -> Mount | None:
    if not isinstance(item, dict):
        return None
    path, kind = item.get("path"), item.get("type")
    if not isinstance(path, str) or not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        return None
    parts = path.split("/")
    if not path.startswith("/") or len(path) > 200 or not path.isprintable() or "." in parts or ".." in parts:
        return None
    return Mount(path, kind in NETWORK_TYPES)


def _service(item: Any) -> str | None:
    return item if isinstance(item, str) and _UNIT.fullmatch(item) else None


def _note(item: Any) -> str | None:
    return safe_line(item[:MOST_NOTE]) if isinstance(item, str) and item else None
