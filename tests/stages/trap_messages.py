"""Makes traps and informs as bytes, plain and secure, as a test wants them; and receivers with their clock."""

from __future__ import annotations

import struct
from typing import Any

import snmp_device as made
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from snmp_device import number, oid, text, ticks, tlv

from helen.cli.traps.notification import UPTIME
from helen.cli.traps.users import User

LINK_DOWN, INDEX, NAME = "1.3.6.1.6.3.1.1.5.3", "1.3.6.1.2.1.2.2.1.1.7", "1.3.6.1.2.1.31.1.1.1.1.7"
TRAP_OID = "1.3.6.1.6.3.1.1.4.1.0"
OURS, SENDER = bytes.fromhex("800000000501"), bytes.fromhex("80001f8801")
TRAP, INFORM, RESPONSE, REPORT = 0xA7, 0xA6, 0xA2, 0xA8
WATCH = User(b"watch", "sha", b"authentic", "aes", b"encrypted")


def pair(name: str, value: bytes) -> bytes:
    return tlv(0x30, oid(name), value)


LINK = [pair(UPTIME, ticks(99)), pair(TRAP_OID, oid(LINK_DOWN)), pair(INDEX, number(7)), pair(NAME, text("Gi1/0/7"))]


def pdu(kind: int = TRAP, *pairs: bytes, id_: int = 5) -> bytes:
    return tlv(kind, number(id_), number(0), number(0), tlv(0x30, *(pairs or LINK)))


def plain(body: bytes, version: int = 1, community: str = "public") -> bytes:
    return tlv(0x30, number(version), text(community), body)


def named(contents: bytes) -> bytes:
    """Return a trap with a value whose OID has these bytes."""
    return plain(pdu(TRAP, *LINK[:2], tlv(0x30, tlv(6, contents), tlv(5))))


class Clock:
    """Holds monotonic seconds that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def secure(
    body: bytes, engine: bytes = SENDER, boots: int = 3, time: int = 500, flags: int = 3, **changed: Any
) -> bytes:
    """Return a message of version 3, as the test's own code makes it: SHA and AES-128."""
    salt, user = changed.get("salt", b"saltsalt"), changed.get("user", b"watch")
    proof_key = made.localized("sha1", changed.get("auth", "authentic"), engine)
    data = tlv(0x30, text(SENDER), text("west"), body)
    if flags & 2:
        key = made.localized("sha1", changed.get("privacy", "encrypted"), engine)[:16]
        data = text(Cipher(AES(key), CFB(struct.pack(">II", boots, time) + b"saltsalt")).encryptor().update(data))
    head = tlv(0x30, number(9), number(65_507), text(bytes((flags,))), number(changed.get("model", 3)))

    def whole(proof: bytes) -> bytes:
        fields = [text(engine), number(boots), number(time), text(user), text(proof), text(salt if flags & 2 else b"")]
        return tlv(0x30, number(3), head, text(tlv(0x30, *fields)), data)

    if not flags & 1:
        return whole(b"")
    return whole(made.hmac.new(proof_key, whole(bytes(12)), "sha1").digest()[:12])
