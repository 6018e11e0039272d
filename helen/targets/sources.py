"""Reads where targets are found: files in Prometheus's format, and SRV records. Pure: values in, values out.

A source gives targets only as a whole: what is wrong with its text or its records is said in one sentence, and the last
good ones stay in force (helen/targets/source_watch.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from attrs import field, frozen

from groundwork.durations import parse_duration
from helen.identity.given_labels import checked
from helen.keys.certificates import BadRequest, checked_name
from helen.targets.target_fields import (
    MAX_ADDRESS,
    MAX_GIVEN,
    ONE,
    Quorum,
    Target,
    read_labels,
    read_quorum,
    read_via,
)

MAX_SOURCES = 50
MAX_PATTERNS = 20  # of one source
MAX_FOUND = 10_000  # targets of one source
SHORTEST, LONGEST, USUAL = 10.0, 86_400.0, 60.0  # seconds between two questions for SRV records
_KEYS = ("file_sd", "srv", "server", "every", "via", "labels", "quorum")
_OTHER = re.compile("[^a-z0-9.-]+")
_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_PLACE = re.compile(  # scheme://user@host:port/path, of which all but the host may be left out
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:[^/?#@]*@)?)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:/?#@\[\]]+))"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>[/?#].*)?"
)
_SERVER = re.compile(r"\[?([0-9A-Fa-f.:]+?)\]?(?::([0-9]{1,5}))?")
_SRV = re.compile(r"(?=.{1,254}\Z)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")


class SourceFault(Exception):
    """Says that a source of targets can't be used now; the text has the fault."""


@frozen
class Source:
    """Describes a place where targets are found: patterns of `files`, or the name of `srv` records, `server` to be
    asked.
    """

    via: tuple[str, ...]
    files: tuple[str, ...] = ()
    srv: str = ""
    server: tuple[str, int] | None = None
    every: float = USUAL  # seconds
    labels: Mapping[str, str] = field(factory=dict)
    quorum: Quorum = ONE

    @property
    def key(self) -> str:
        """Return what tells one source from another: where it looks."""
        return msgspec.json.encode([self.files, self.srv, self.server]).decode()

    @property
    def place(self) -> str:
        """Return where it looks, for a sentence."""
        return f"SRV {self.srv}" if self.srv else ", ".join(self.files)


class Group(msgspec.Struct):
    """Holds one group of a file_sd file."""

    targets: list[str]
    labels: dict[str, str] = {}


_DECODER = msgspec.json.Decoder(list[Group])


# ------------------------------------------------------------------------------------------------ targets.toml


def read_source(table: Mapping[str, Any], place: str, faults: list[str]) -> Source | None:
    """Return the source of a table; None if it has faults, which are added to `faults` with the `place`."""
    before = len(faults)
    faults += [f"{place}: {key!r} is no setting: {', '.join(_KEYS)}" for key in table.keys() - set(_KEYS)]
    if ("file_sd" in table) == ("srv" in table):
        faults.append(f"{place}: write file_sd, the files, or srv, the name of the records")
    made = Source(
        read_via(table.get("via"), place, faults),
        _read_files(table["file_sd"], place, faults) if "file_sd" in table else (),
        _read_srv(table["srv"], place, faults) if "srv" in table else "",
        _read_server(table["server"], place, faults) if "server" in table else None,
        _read_every(table.get("every", USUAL), place, faults),
        read_labels(table.get("labels", {}), place, faults),
        read_quorum(table.get("quorum", "1 of 1"), place, faults),
    )
    if "srv" not in table:
        faults += [f"{place}: {key} is for srv: files are watched" for key in ("server", "every") if key in table]
    return made if len(faults) == before else None


def _read_files(value: Any, place: str, faults: list[str]) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if isinstance(value, list) and 0 < len(value) <= MAX_PATTERNS and all(_is_path(each) for each in value):
        return tuple(value)
    faults.append(
        f"{place}: file_sd is {value!r:.80}: write a path from the root such as /etc/targets/*.json, or a list"
    )
    return ()


def _is_path(value: Any) -> bool:
    is_text = isinstance(value, str) and len(value) <= 4_096 and value.isprintable()
    return is_text and value.startswith("/") and "**" not in value


def _read_srv(value: Any, place: str, faults: list[str]) -> str:
    if isinstance(value, str) and _SRV.fullmatch(value):
        return value
    faults.append(
        f"{place}: srv is {value!r:.80}: write a name such as _http._tcp.example.org, with 63 characters at most"
        " between two dots"
    )
    return ""


def _read_server(value: Any, place: str, faults: list[str]) -> tuple[str, int] | None:
    found = _SERVER.fullmatch(value) if isinstance(value, str) else None
    port = 53 if found is None or found[2] is None else int(found[2])
    if found is not None and 0 < port < 65_536 and (found[1].count(":") != 1):
        return found[1], port
    faults.append(f"{place}: server is {value!r:.80}: write the address of a name server, such as 10.0.0.2:53")
    return None


def _read_every(value: Any, place: str, faults: list[str]) -> float:
    try:
        every = value if type(value) is float else parse_duration(value)
    except (ValueError, TypeError):
        every = 0.0
    if SHORTEST <= every <= LONGEST:
        return every
    faults.append(f"{place}: every is {value!r:.80}: write a duration from 10s to 1d")
    return USUAL


# ------------------------------------------------------------------------------------------------ what is found


def targets_of_file(source: Source, raw: bytes) -> list[Target]:
    """Return the targets of a file in Prometheus's format, in its order. Raises SourceFault."""
    try:
        groups = _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceFault(f'no list of {{"targets": [...], "labels": {{...}}}}: {str(error)[:200]}') from error
    found: list[Target] = []
    for group in groups:
        labels = _labels(source, group.labels)
        if len(found) + len(group.targets) > MAX_FOUND:
            raise SourceFault(f"more than {MAX_FOUND:,} targets")
        found += [_target(source, each, labels) for each in group.targets]
    return found


def targets_of_records(source: Source, records: Iterable[tuple[str, int]]) -> list[Target]:
    """Return the targets of SRV records, each a host and a port, by their names. Raises SourceFault."""
    records = sorted({(host.rstrip("."), port) for host, port in records})
    if not records or records == [("", 0)]:
        raise SourceFault("there are no such records")
    if len(records) > MAX_FOUND:
        raise SourceFault(f"more than {MAX_FOUND:,} targets")
    return [_of_place(source, host, port, "", source.labels) for host, port in records]


def _labels(source: Source, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels of a group over those of the source, without the ones that are Prometheus's own."""
    labels = {key: value for key, value in given.items() if not key.startswith("__") and value}
    try:
        return checked({**source.labels, **labels})
    except BadRequest as error:
        raise SourceFault(f"labels: {error}") from error


def _target(source: Source, given: str, labels: Mapping[str, str]) -> Target:
    """Return the target of a text: HOST, HOST:PORT, [ADDRESS]:PORT, or a URL."""
    is_bare = given.count(":") > 1 and "://" not in given and not given.startswith("[")  # an IPv6 address
    found = _PLACE.fullmatch(f"[{given}]" if is_bare else given)
    if found is None or not given.isprintable() or len(given) > MAX_GIVEN or (found["path"] and not found["scheme"]):
        raise SourceFault(f"{given!r:.80} is no HOST:PORT and no URL")
    port = None if found["port"] is None else int(found["port"])
    return _of_place(source, found["v6"] or found["host"], port, given if found["scheme"] else "", labels)


def _of_place(source: Source, host: str, port: int | None, given: str, labels: Mapping[str, str]) -> Target:
    if not _HOST.fullmatch(host) or len(host) > MAX_ADDRESS or not (port is None or 0 < port < 65_536):
        raise SourceFault(f"{host!r:.80} with port {port} is no place that can be looked at")
    name = _OTHER.sub("-", host.lower()).strip(".-") + ("" if port is None else f"-{port}")
    try:
        return Target(checked_name(name), host, source.via, labels, source.quorum, port, given)
    except BadRequest as error:
        raise SourceFault(f"{given or host!r:.80}: {error}") from error
