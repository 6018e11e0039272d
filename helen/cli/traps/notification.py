"""Read notifications of SNMP: traps, and informs, which want an answer (RFC 1157, RFC 3416). Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from attrs import field, frozen

from helen.cli.traps import ber
from helen.cli.traps.ber import BrokenBer, Reader

TRAP_1, RESPONSE, INFORM, TRAP_2 = 0xA4, 0xA2, 0xA6, 0xA7
MOST_BINDINGS = 100  # of one notification that are read
MOST_TEXT = 500  # characters of a value
UPTIME, TRAP_OID = "1.3.6.1.2.1.1.3.0", "1.3.6.1.6.3.1.1.4.1.0"
STANDARD_TRAPS, ENTERPRISE_SPECIFIC = "1.3.6.1.6.3.1.1.5", 6


@frozen
class Notification:
    """Holds a trap of a device: its OID, and values with their OIDs, as texts.

    `agent` is the address in a trap of version 1, of the device behind a relay; `response` is the PDU that an inform is
    answered with, empty for a trap.
    """

    oid: str
    bindings: tuple[tuple[str, str], ...]
    pdu: bytes = field(repr=False)
    agent: str = ""
    response: bytes = field(default=b"", repr=False)

    def value(self, oid: str) -> str | None:
        """Return the first value whose OID is this one, or below it."""
        return next((text for name, text in self.bindings if name == oid or name.startswith(f"{oid}.")), None)


def _text(contents: bytes) -> str:
    """Return bytes as a text; those that are none, such as an address of hardware, as hexadecimal digits."""
    try:
        shown = contents.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        shown = "\0"
    if all(letter.isprintable() or letter in "\r\n\t" for letter in shown):
        return " ".join(shown.split())[:MOST_TEXT]
    return contents[: MOST_TEXT // 3].hex(":")


def _address(contents: bytes) -> str:
    return str(ipaddress.IPv4Address(contents)) if len(contents) == 4 else contents.hex(":")


def _nothing(_contents: bytes) -> str:
    return ""


_SHOWN: dict[int, Callable[[bytes], str]] = {
    ber.INTEGER: lambda contents: str(ber.signed(contents)),
    ber.TEXT: _text,
    ber.NULL: _nothing,
    ber.OID: ber.identifier,
    0x40: _address,
    **dict.fromkeys((0x41, 0x42, 0x43, 0x46, 0x47), lambda contents: str(ber.unsigned(contents))),
    0x44: lambda contents: contents.hex(":"),
    **dict.fromkeys((0x80, 0x81, 0x82), _nothing),
}


def _bindings(reader: Reader) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    while not reader.is_done:
        pair = reader.inside()
        name = ber.identifier(pair.take(ber.OID))
        tag, begin, end = pair.element()
        show = _SHOWN.get(tag)
        if show is None:
            raise BrokenBer(f"a value has the unknown type {tag:02x}")
        if len(found) < MOST_BINDINGS:
            found.append((name, show(reader.data[begin:end])))
    return tuple(found)


def read_pdu(reader: Reader) -> Notification:
    """Return the notification that comes next. Raises BrokenBer for anything else."""
    start = reader.at
    tag, begin, end = reader.element()
    pdu, inner = reader.data[start:end], Reader(reader.data, begin, end)
    if tag == TRAP_1:
        return _of_version_1(pdu, inner)
    if tag not in (INFORM, TRAP_2):
        raise BrokenBer(f"a PDU of the kind {tag:02x} is no notification")
    request = inner.integer()
    inner.integer()
    inner.integer()
    list_at = inner.at
    bindings = _bindings(inner.inside())
    if len(bindings) < 2 or bindings[1][0] != TRAP_OID:
        raise BrokenBer("a notification without the OID of its trap")
    response = b""
    if tag == INFORM:
        listed = reader.data[list_at : inner.at]
        response = ber.element(RESPONSE, ber.integer(request), ber.integer(0), ber.integer(0), listed)
    return Notification(bindings[1][1], bindings[2:], pdu, response=response)


def _of_version_1(pdu: bytes, inner: Reader) -> Notification:
    """Return a trap of version 1 under the OID that version 2 has for it (RFC 3584, 3.1)."""
    enterprise, agent = ber.identifier(inner.take(ber.OID)), _address(inner.take(0x40))
    generic, specific = inner.integer(), inner.integer()
    ber.unsigned(inner.take(0x43))
    bindings = _bindings(inner.inside())
    is_standard = 0 <= generic < ENTERPRISE_SPECIFIC
    oid = f"{STANDARD_TRAPS}.{generic + 1}" if is_standard else f"{enterprise}.0.{specific}"
    return Notification(oid, bindings, pdu, agent)
