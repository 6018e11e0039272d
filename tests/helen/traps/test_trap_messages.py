"""Tests traps and informs of versions 1 and 2 as bytes: what is read of them, and what is refused."""

from __future__ import annotations

import pytest
from snmp_device import counter32, gauge, number, oid, text, ticks, tlv
from trap_messages import INDEX, INFORM, LINK, LINK_DOWN, NAME, RESPONSE, TRAP, named, pair, pdu, plain

from helen.cli.traps import ber
from helen.cli.traps.notification import read_pdu
from helen.cli.traps.security import NotTaken, Security


def test_a_trap_of_version_2(security: Security) -> None:
    """A trap has its OID and the values behind it; the uptime is none of them."""
    opened = security.open(plain(pdu()))
    assert (opened.notification.oid, opened.confirmation) == (LINK_DOWN, b"")
    assert opened.notification.bindings == ((INDEX, "7"), (NAME, "Gi1/0/7"))
    assert opened.notification.value("1.3.6.1.2.1.2.2.1.1") == "7"
    assert opened.notification.value("1.3.6.1.2.1.2.2.1") == "7"
    assert opened.notification.value("1.3.6.1.2.1.2.2.1.11") is None


@pytest.mark.parametrize(
    ("generic", "specific", "expected"),
    [(0, 0, "1.3.6.1.6.3.1.1.5.1"), (2, 0, LINK_DOWN), (6, 17, "1.3.6.1.4.1.318.0.17"), (7, 1, "1.3.6.1.4.1.318.0.1")],
)
def test_a_trap_of_version_1(security: Security, generic: int, specific: int, expected: str) -> None:
    """A trap of version 1 has the OID that version 2 has for it, and the address of the device."""
    fields = [oid("1.3.6.1.4.1.318"), tlv(0x40, b"\xc0\0\x02\x09"), number(generic), number(specific), ticks(5)]
    found = security.open(plain(tlv(0xA4, *fields, tlv(0x30, pair(INDEX, number(3)))), 0)).notification
    assert (found.oid, found.agent, found.bindings) == (expected, "192.0.2.9", ((INDEX, "3"),))


def test_an_inform(security: Security) -> None:
    """An inform is confirmed with its own id, values and community."""
    opened = security.open(plain(pdu(INFORM, id_=2**31 - 1)))
    assert opened.confirmation == plain(pdu(RESPONSE, id_=2**31 - 1))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (number(-129), "-129"), (counter32(2**32 - 1), "4294967295"), (gauge(7), "7"),
        (tlv(0x46, b"\xff" * 8), str(2**64 - 1)), (text("two\r\n lines \0"), "two lines"),
        (text(b"\x00\x1a\xff"), "00:1a:ff"), (text(b"a\x1b[2J"), "61:1b:5b:32:4a"), (text("é" * 600), "é" * 500),
        (tlv(0x40, b"\x0a\0\0\1"), "10.0.0.1"), (tlv(0x40, b"\x0a\0"), "0a:00"), (oid("1.3.6.1"), "1.3.6.1"),
        (oid("2.999.4294967295"), "2.999.4294967295"), (tlv(5), ""), (tlv(0x82), ""), (tlv(6), "0.0"),
        (tlv(0x44, b"\x9f\x78"), "9f:78"),
    ],
)  # fmt: skip
def test_values(value: bytes, shown: str) -> None:
    """A value is shown as a text without a character that a terminal obeys."""
    found = read_pdu(ber.Reader.of(pdu(TRAP, *LINK[:2], pair(INDEX, value))))
    assert found.bindings == ((INDEX, shown),)


def test_values_without_end() -> None:
    """A hundred values are read, and the rest is only looked over."""
    found = read_pdu(ber.Reader.of(pdu(TRAP, *LINK[:2], *[pair(INDEX, number(7))] * 3000)))
    assert len(found.bindings) == 98


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no SNMP: an element ends too early"),
        (b"\x30", "no SNMP: an element ends too early"),
        (b"\x30\x80\0\0", "no SNMP: a length is not given"),
        (b"\x30\x05\x02\x01\x01", "no SNMP: an element is longer than what is around it"),
        (b"\x3f\x01\0", "no SNMP: a tag has more than one byte"),
        (plain(pdu())[:-1], "no SNMP: an element is longer than what is around it"),
        (plain(pdu(), 2), "version 2 of SNMP, which is unknown"),
        (tlv(0x30, tlv(2, b"\x7f" * 9), text("public")), "of SNMP, which is unknown"),
        (tlv(0x30, tlv(2, b"\x7f" * 10)), "no SNMP: a number has 10 bytes"),
        (plain(pdu(), community="private"), "an unknown community"),
        (plain(pdu(0xA0)), "no SNMP: a PDU of the kind a0 is no notification"),
        (plain(pdu(TRAP, pair(INDEX, number(1)))), "no SNMP: a notification without the OID of its trap"),
        (plain(pdu(TRAP, *LINK[:2], pair(INDEX, tlv(0x4F, b"x")))), "no SNMP: a value has the unknown type 4f"),
        (named(b"\x2b\x80\x01"), "an empty part"),
        (named(b"\x2b\x81"), "an object identifier ends too early"),
        (named(b"\x01" * 200), "an object identifier is too long"),
        (named(b"\xff" * 9 + b"\x01"), "an object identifier is too long"),
    ],
)  # fmt: skip
def test_what_is_none(security: Security, data: bytes, words: str) -> None:
    """A message that is none is refused with the reason, and without an answer."""
    with pytest.raises(NotTaken, match=words) as refused:
        security.open(data)
    assert refused.value.reply == b""
