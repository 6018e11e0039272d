"""Traps and informs as bytes: what is read of them, what is refused, and what their senders are told."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
import snmp_device as made
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from snmp_device import counter32, gauge, number, oid, text, ticks, tlv

from helen.cli.traps import ber
from helen.cli.traps.notification import UPTIME, read_pdu
from helen.cli.traps.security import MOST_ENGINES, NotTaken, Security
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
    """A trap with a value whose OID has these bytes."""
    return plain(pdu(TRAP, *LINK[:2], tlv(0x30, tlv(6, contents), tlv(5))))


class Clock:
    """Monotonic seconds that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def security(clock: Clock) -> Security:
    users = {user.name: user for user in (WATCH, User(b"open"), User(b"proved", "sha256", b"authentic"))}
    return Security(frozenset([b"public"]), users, OURS, 42, clock)


def secure(
    body: bytes, engine: bytes = SENDER, boots: int = 3, time: int = 500, flags: int = 3, **changed: Any
) -> bytes:
    """A message of version 3, as the test's own code makes it: SHA and AES-128."""
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


# ---------------------------------------------------------------------------------------------- what is read


def test_a_trap_of_version_2(security: Security) -> None:
    """The trap's OID, and the values behind it; the uptime is none of them."""
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
    """It has the OID that version 2 has for it, and the address of the device."""
    fields = [oid("1.3.6.1.4.1.318"), tlv(0x40, b"\xc0\0\x02\x09"), number(generic), number(specific), ticks(5)]
    found = security.open(plain(tlv(0xA4, *fields, tlv(0x30, pair(INDEX, number(3)))), 0)).notification
    assert (found.oid, found.agent, found.bindings) == (expected, "192.0.2.9", ((INDEX, "3"),))


def test_an_inform(security: Security) -> None:
    """It is confirmed with its own id, values and community."""
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
    """Each as a text without a character that a terminal obeys."""
    found = read_pdu(ber.Reader.of(pdu(TRAP, *LINK[:2], pair(INDEX, value))))
    assert found.bindings == ((INDEX, shown),)


def test_values_without_end() -> None:
    """A hundred are read, and the rest is only looked over."""
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
    """Each is refused with the reason, and without an answer."""
    with pytest.raises(NotTaken, match=words) as refused:
        security.open(data)
    assert refused.value.reply == b""


# ---------------------------------------------------------------------------------------------- version 3


def told(reply: bytes) -> tuple[int, int, bytes, str]:
    """Kind, flags, engine and OID of an answer that is not encrypted."""
    _, (_, head), (_, fields), (_, scoped) = made.elements(made.elements(reply)[0][1])
    engine = made.elements(made.elements(fields)[0][1])[0][1]
    kind, inner = made.elements(scoped)[2]
    binding = made.elements(made.elements(inner)[3][1])[0][1]
    return kind, made.elements(head)[2][1][0], engine, ".".join(map(str, made.identifier(made.elements(binding)[0][1])))


def test_a_trap_that_is_encrypted(security: Security) -> None:
    """Of an engine that nobody has told before."""
    assert security.open(secure(pdu())).notification.oid == LINK_DOWN


def test_a_user_without_passwords(security: Security) -> None:
    """Whom the file has so."""
    assert security.open(secure(pdu(), flags=0, user=b"open")).notification.oid == LINK_DOWN


def test_an_inform_finds_the_receiver(security: Security, clock: Clock) -> None:
    """Its sender learns engine and time, and gets an answer that it can prove and decrypt."""
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
    """By the time of its sender, which goes on; a new start of the sender counts from there."""
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
    """It does not ask for a report, so nothing is said."""
    with pytest.raises(NotTaken, match="an inform for another receiver") as refused:
        security.open(secure(pdu(INFORM)))
    assert refused.value.reply == b""


def test_senders_without_end(security: Security) -> None:
    """The time of those seen last is kept, and their keys."""
    security._seen.update({number.to_bytes(5, "big"): (1, 1, 0.0) for number in range(MOST_ENGINES)})
    security.open(secure(pdu()))
    assert len(security._seen) == MOST_ENGINES
    assert SENDER in security._seen


def test_bytes_that_are_changed(security: Security) -> None:
    """Whatever comes is a notification, or is refused: nothing else is ever raised."""
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
    """What one user encrypts the same user decrypts, and no other one."""
    user, other = (User(b"u", auth, b"authentic", privacy, word) for word in (b"encrypted", b"forgotten"))
    secret = user.encrypt(SENDER, b"some sixteen of ", b"saltsalt", (1, 2))
    assert user.decrypt(SENDER, secret, b"saltsalt", (1, 2)) == b"some sixteen of "
    assert other.decrypt(SENDER, secret, b"saltsalt", (1, 2)) != b"some sixteen of "


def test_keys_of_the_standards() -> None:
    """RFC 3414, A.3: "maplesyrup" for the engine 00..02; those of SHA-2 are tried with snmptrap."""
    engine = bytes(11) + b"\x02"
    for auth, digits in (
        ("md5", "526f5eed9fcce26f8964c2930787d82b"),
        ("sha", "6695febc9288e36282235fc7151f128497b38f3f"),
    ):
        assert User(b"u", auth, b"maplesyrup").keys(engine)[0].hex() == digits
