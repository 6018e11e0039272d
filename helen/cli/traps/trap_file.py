"""Read the file of `helen traps`: who may report, for which host, and what a trap means. docs/traps.rst shows it.

Text in, values out; secrets that it refers to are read from their files and the environment.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path
from typing import Any

from attrs import field, frozen
from cryptography.exceptions import UnsupportedAlgorithm

from equus_protocol.result_fields import STATUS_WORDS
from groundwork.safe_text import safe_line
from helen.cli.base.listener_tables import (
    MOST_NAME,
    PLACEHOLDER,
    Address,
    Network,
    read_endpoint,
    read_networks,
    read_tables,
    sound_name,
)
from helen.cli.base.listening import ListenerFileError
from helen.cli.traps.notification import Notification
from helen.cli.traps.users import CIPHERS, LEAST_PASSWORD, PROOFS, User
from helen.files.toml_table import Table, Text
from helen.notify.secrets import OpenedSecrets, SecretMissing

MOST_SUMMARY = 500  # characters
MOST_LISTED = 50  # values in the output of a result
NUMBERS = re.compile(r"[0-2](\.\d{1,10}){1,127}")
WORDS = ("host", "address", "agent", "trap")


@frozen
class Source:
    """Holds addresses that may report, and the host that their traps are about.

    It may hold `{address}` and `{agent}`.
    """

    networks: tuple[Network, ...]
    host: str


@frozen
class Meaning:
    """Says what a trap means: one whose OID fits, and whose values fit `where`, becomes a result of a check."""

    oids: tuple[str, ...]
    check: str
    status: str
    summary: str
    where: dict[str, str] = field(factory=dict)
    ttl: float = 0.0
    is_dropped: bool = False

    def fits(self, trap: Notification) -> bool:
        """Return True if the trap has one of the OIDs, and the values that are wanted."""
        return any(fnmatch.fnmatchcase(trap.oid, pattern) for pattern in self.oids) and all(
            fnmatch.fnmatchcase(trap.value(oid) or "", pattern) for oid, pattern in self.where.items()
        )


@frozen
class TrapFile:
    """Holds all that the file says."""

    listen: tuple[tuple[str, int], ...]
    communities: frozenset[bytes] = field(repr=False)
    users: dict[bytes, User] = field(repr=False)
    engine: bytes
    sources: tuple[Source, ...]
    meanings: tuple[Meaning, ...]
    a_minute: int
    at_once: int
    senders: Path | None = None

    def source_of(self, address: Address) -> Source | None:
        """Return the first entry with this address, or None for a stranger."""
        return next((one for one in self.sources if any(address in network for network in one.networks)), None)

    def meaning_of(self, trap: Notification) -> Meaning | None:
        """Return the first entry that fits, or None."""
        return next((one for one in self.meanings if one.fits(trap)), None)


def result_of(trap: Notification, meaning: Meaning, source: Source, address: str) -> dict[str, Any]:
    """Return a trap as the body of a passive result, without its id."""
    known = {"address": address, "agent": trap.agent or address, "trap": trap.oid}
    known["host"] = _filled(source.host, known, trap, is_name=True)
    listed = [f"{oid} = {value}" for oid, value in trap.bindings[:MOST_LISTED]]
    body = {
        "host": known["host"], "check": _filled(meaning.check, known, trap, is_name=True), "status": meaning.status,
        "summary": _filled(meaning.summary, known, trap)[:MOST_SUMMARY], "source": "helen traps",
        "output": "\n".join([f"trap {trap.oid} of {address}", *listed]),
    }  # fmt: skip
    return body | ({"ttl": meaning.ttl} if meaning.ttl else {})


def _filled(text: str, known: dict[str, str], trap: Notification, is_name: bool = False) -> str:
    """Return a text with its placeholders filled; in a name each value is made a sound part of one."""

    def value(found: re.Match[str]) -> str:
        given = known.get(found[1])
        shown = safe_line(given if given is not None else trap.value(found[1]) or "?")
        return sound_name(shown) if is_name else shown

    filled = PLACEHOLDER.sub(value, text)
    return filled[:MOST_NAME] if is_name else filled


def read(text: str) -> TrapFile:
    """Return what a text says. Raises ListenerFileError with all faults at once. Blocks: reads secrets, makes keys."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ListenerFileError(f"no TOML: {error}") from error
    faults: list[str] = []
    opened = OpenedSecrets()
    table = Table("the file", document, faults)
    listen = [
        read_endpoint(each, faults, "0.0.0.0:162 or [::]:162")
        for each in table.strings("listen", 'write "ADDRESS:PORT"', ("0.0.0.0:162",), 16)
    ]
    communities = [] if "communities" not in document else table.secrets("communities", _COMMUNITIES, 100)
    engine = _engine(table.text("engine", "write 5 to 32 bytes in hexadecimal digits", "00" * 5), faults)
    a_minute = table.number("a_minute", 60, 1, 100_000)
    at_once = table.number("at_once", 100, 1, 100_000)
    senders = table.text("senders", "write the path of a file from the root", "")
    if senders and not senders.startswith("/"):
        faults.append(f"the file: senders is {senders!r:.80}: write the path of a file from the root")
    users = [_user(each, opened) for each in read_tables(table, "user")]
    sources = [_source(each) for each in read_tables(table, "source")]
    meanings = [_meaning(each) for each in read_tables(table, "trap")]
    table.end()
    if not sources and not faults:
        faults.append("the file names no [[source]]: nobody could report")
    passed = frozenset(_opened(opened, each, "communities", faults) for each in communities)
    if faults:
        raise ListenerFileError("\n".join(faults))
    by_name = {user.name: user for user in users}
    return TrapFile(tuple(listen), passed, by_name, engine, tuple(sources), tuple(meanings), a_minute, at_once,
                    Path(senders) if senders else None)  # fmt: skip


_COMMUNITIES = 'write texts, { env = "NAME" } or { file = "/path" }'


def _opened(opened: OpenedSecrets, given: Text | None, place: str, faults: list[str]) -> bytes:
    try:
        return b"" if given is None else opened.text(given).encode()
    except SecretMissing as error:
        faults.append(f"{place}: {error}")
        return b""


def _engine(digits: str, faults: list[str]) -> bytes:
    try:
        engine = bytes.fromhex(digits)
    except ValueError:
        engine = b""
    if not 5 <= len(engine) <= 32:
        faults.append("the file: engine is no engine id: write 5 to 32 bytes in hexadecimal digits")
    return engine if any(engine) else b""


def _user(table: Table, opened: OpenedSecrets) -> User:
    before = len(table.faults)
    name = table.text("name", "write the user's name")
    auth, privacy = table.choice("auth", tuple(PROOFS), "sha"), table.choice("privacy", tuple(CIPHERS), "aes")
    passwords = [_opened(opened, table.secret(key, is_open=True), f"{table.place}: {key}", table.faults)
                 for key in ("auth_password", "privacy_password")]  # fmt: skip
    if any(0 < len(each) < LEAST_PASSWORD for each in passwords):
        table.faults.append(f"{table.place}: a password must have at least {LEAST_PASSWORD} bytes")
    if passwords[1] and not passwords[0]:
        table.faults.append(f"{table.place}: privacy_password needs an auth_password")
    user = User(name.encode(), auth, passwords[0], privacy, passwords[1])
    if len(table.faults) == before and user.privacy_password:
        try:
            user.encrypt(b"", b"", bytes(8), (0, 0))
        except UnsupportedAlgorithm:
            table.faults.append(f"{table.place}: the OpenSSL of this machine does not have the cipher {privacy}")
    return user


def _source(table: Table) -> Source:
    networks = read_networks(table)
    host = table.text("host", "write the host that the traps are about", "{address}")
    _demand_placeholders(table, "host", host, ("address", "agent"), with_oids=False)
    return Source(networks, host)


def _meaning(table: Table) -> Meaning:
    wanted = "write an OID in numbers, or a pattern such as 1.3.6.1.4.1.9.*"
    oids = table.strings("oid", wanted)
    if not oids:
        table.faults.append(f"{table.place}: oid is missing: {wanted}")
    where = {oid: str(value) for oid, value in table.texts("where").items()}
    bad = [oid for oid in where if not NUMBERS.fullmatch(oid)]
    table.faults.extend(f"{table.place}: where: {oid} is no OID in numbers" for oid in bad)
    if table.flag("drop"):
        return Meaning(oids, "", "ok", "", where, is_dropped=True)
    check = table.text("check", 'write the name of a check, such as "link-{1.3.6.1.2.1.2.2.1.1}"')
    summary = table.text("summary", "write what the result says", "trap {trap}")
    for key, value in (("check", check), ("summary", summary)):
        _demand_placeholders(table, key, value, WORDS, with_oids=True)
    status = table.choice("status", STATUS_WORDS)
    ttl = table.duration("ttl", 0.0, 1.0, 31_536_000.0)
    return Meaning(oids, check, status, summary, where, ttl)


def _demand_placeholders(table: Table, key: str, text: str, words: tuple[str, ...], with_oids: bool) -> None:
    for found in PLACEHOLDER.findall(text):
        if found not in words and not (with_oids and NUMBERS.fullmatch(found)):
            known = f"{', '.join(words)}{' and OIDs in numbers' if with_oids else ''}"
            table.faults.append(f"{table.place}: {key} has {{{found}}}, which is nothing: there are {known}")
