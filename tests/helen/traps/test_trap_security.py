"""Tests traps and informs of version 3: proofs, ciphers, times, and what senders are told."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
import snmp_device as made
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from snmp_device import text, tlv
from trap_messages import INFORM, LINK_DOWN, OURS, REPORT, RESPONSE, SENDER, WATCH, Clock, pdu, plain, secure

from helen.cli.traps.security import NotTaken, Security
from helen.cli.traps.senders import MOST_ENGINES
from helen.cli.traps.users import User


def told(reply: bytes) -> tuple[int, int, bytes, str]:
    """Return kind, flags, engine and OID of an answer that is not encrypted."""
    _, (_, head), (_, fields), (_, scoped) = made.elements(made.elements(reply)[0][1])
    engine = made.elements(made.elements(fields)[0][1])[0][1]
    kind, inner = made.elements(scoped)[2]
    binding = made.elements(made.elements(inner)[3][1])[0][1]
    return kind, made.elements(head)[2][1][0], engine, ".".join(map(str, made.identifier(made.elements(binding)[0][1])))


def test_a_trap_that_is_encrypted(security: Security) -> None:
    """An encrypted trap of an engine that nobody has told before is opened."""
    assert security.open(secure(pdu())).notification.oid == LINK_DOWN


def test_a_user_without_passwords(security: Security) -> None:
    """A user that the file has without passwords is taken so."""
    assert security.open(secure(pdu(), flags=0, user=b"open")).notification.oid == LINK_DOWN


def test_an_inform_finds_the_receiver(security: Security, clock: Clock) -> None:
    """The sender of an inform is told engine and time, and gets an answer that it can prove and decrypt."""
    with pytest.raises(NotTaken, match="an unknown engine") as refused:
        security.open(secure(pdu(INFORM), b"", 0, 0, flags=4, user=b""))
    assert told(refused.value.reply) == (REPORT, 0, OURS, "1.3.6.1.6.3.15.1.1.4.0")
    clock.now += 77
    with pytest.raises(NotTaken, match="a time that is not now") as refused:
        security.open(secure(pdu(INFORM), OURS, 41, 77, flags=7))
    assert told(refused.value.reply) == (REPORT, 1, OURS, "1.3.6.1.6.3.15.1.1.2.0")
    confirmation = security.open(secure(pdu(INFORM), OURS, 42, 77, flags=7)).confirmation
    _, (_, head), (_, fields), (_, data) = made.elements(made.elements(confirmation)[0][1])
    engine, boots, time, user, proof, salt = (one for _, one in made.elements(made.elements(fields)[0][1]))
    assert (engine, made.whole(boots), made.whole(time), user) == (OURS, 42, 77, b"watch")
    key = made.localized("sha1", "encrypted", OURS)[:16]
    scoped = Cipher(AES(key), CFB(struct.pack(">II", 42, 77) + salt)).decryptor().update(data)
    assert scoped == tlv(0x30, text(SENDER), text("west"), pdu(RESPONSE))
    assert WATCH.proof(OURS, confirmation.replace(proof, bytes(12))) == proof
    assert made.elements(head)[2][1] == b"\x03"


@pytest.mark.parametrize(
    ("changed", "words", "report"),
    [
        ({"user": b"nobody"}, "an unknown user", 3),
        ({"flags": 1}, "another security level than its user has", 1),
        ({"flags": 0}, "another security level than its user has", 1),
        ({"auth": "another one"}, "a wrong proof", 5),
        ({"privacy": "another one"}, "data that can't be decrypted", 6),
        ({"salt": b"short"}, "data that can't be decrypted", 6),
        ({"model": 2}, "no SNMP: another security model", None),
        ({"time": 2**31}, "no SNMP: impossible security fields", None),
        ({"user": b"u" * 33}, "no SNMP: impossible security fields", None),
    ],
)
def test_what_is_refused(security: Security, changed: dict[str, Any], words: str, report: int | None) -> None:
    """A trap gets no answer, whatever is wrong; an inform is told."""
    with pytest.raises(NotTaken, match=words) as refused:
        security.open(secure(pdu(), **changed))
    assert refused.value.reply == b""
    known = {"engine": OURS, "boots": 42, "time": 0} | changed
    with pytest.raises(NotTaken, match=words) as refused:
        security.open(secure(pdu(INFORM), **known | {"flags": known.get("flags", 3) | 4}))
    if report is None:
        assert refused.value.reply == b""
    else:
        assert told(refused.value.reply) == (REPORT, 0, OURS, f"1.3.6.1.6.3.15.1.1.{report}.0")


def test_a_copy_of_an_old_trap(security: Security, clock: Clock) -> None:
    """A trap is old by its sender's time, which goes on; a new start of the sender counts from there."""
    security.open(secure(pdu(), time=500))
    security.open(secure(pdu(), time=360))
    with pytest.raises(NotTaken, match="a time that is not now"):
        security.open(secure(pdu(), time=349))
    clock.now += 100
    with pytest.raises(NotTaken, match="a time that is not now"):
        security.open(secure(pdu(), time=449))
    security.open(secure(pdu(), boots=4, time=1))
    with pytest.raises(NotTaken, match="a time that is not now"):
        security.open(secure(pdu(), boots=3, time=600))


def test_an_inform_for_another_receiver(security: Security) -> None:
    """An inform for another receiver is refused in silence, as it does not ask for a report."""
    with pytest.raises(NotTaken, match="an inform for another receiver") as refused:
        security.open(secure(pdu(INFORM)))
    assert refused.value.reply == b""


def test_senders_without_end(security: Security) -> None:
    """The time of those seen last is kept, and their keys."""
    security.senders._seen.update({number.to_bytes(5, "big"): (1, 1, 0.0, 150) for number in range(MOST_ENGINES)})
    security.open(secure(pdu()))
    assert len(security.senders._seen) == MOST_ENGINES
    assert SENDER in security.senders._seen


def test_bytes_that_are_changed(security: Security) -> None:
    """Changed bytes are a notification, or are refused: nothing else is ever raised."""
    chance, taken = random.Random(7), 0
    good = [
        plain(pdu()),
        plain(pdu(INFORM)),
        secure(pdu()),
        secure(pdu(INFORM), OURS, 42, 0, flags=7),
        secure(pdu(), flags=0, user=b"open"),
    ]
    for turn in range(3000):
        data = bytearray(good[turn % len(good)])
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = chance.choice([b"", b"\0", b"\x80", b"\xff", chance.randbytes(1)])
        try:
            security.open(bytes(data))
            taken += 1
        except NotTaken:
            pass
    assert 0 < taken < 1500


@pytest.mark.parametrize("auth", ["md5", "sha", "sha224", "sha256", "sha384", "sha512"])
@pytest.mark.parametrize("privacy", ["des", "aes", "aes192", "aes256", "aes192c", "aes256c"])
def test_every_cipher_there_and_back(auth: str, privacy: str) -> None:
    """A user decrypts its own text, and no other user does."""
    user, other = (User(b"u", auth, b"authentic", privacy, word) for word in (b"encrypted", b"forgotten"))
    secret = user.encrypt(SENDER, b"some sixteen of ", b"saltsalt", (1, 2))
    assert user.decrypt(SENDER, secret, b"saltsalt", (1, 2)) == b"some sixteen of "
    assert other.decrypt(SENDER, secret, b"saltsalt", (1, 2)) != b"some sixteen of "


def test_keys_of_the_standards() -> None:
    """A key is that of RFC 3414, A.3: "maplesyrup" for the engine 00..02; those of SHA-2 are tried with snmptrap."""
    engine = bytes(11) + b"\x02"
    for auth, digits in (
        ("md5", "526f5eed9fcce26f8964c2930787d82b"),
        ("sha", "6695febc9288e36282235fc7151f128497b38f3f"),
    ):
        assert User(b"u", auth, b"maplesyrup").keys(engine)[0].hex() == digits
