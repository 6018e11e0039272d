"""Is a device that answers SNMP: values by OID, versions 1, 2c and 3, and all that a test wants it to
say wrongly.

It shares no code with the checks: bytes are made and read here once more.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from attrs import define, field, frozen
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

GET, NEXT, RESPONSE, BULK, REPORT = 0xA0, 0xA1, 0xA2, 0xA5, 0xA8
NO_OBJECT, END = b"\x80\0", b"\x82\0"
ENGINE = bytes.fromhex("80001f8804") + b"switch"
STATS = "1.3.6.1.6.3.15.1.1"
Oid = tuple[int, ...]


def tlv(tag: int, *contents: bytes) -> bytes:
    """Return one element of BER with this tag."""
    whole = b"".join(contents)
    if len(whole) < 128:
        return bytes((tag, len(whole))) + whole
    length = len(whole).to_bytes((len(whole).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + whole


def number(value: int, tag: int = 2) -> bytes:
    """Return a whole number, with a sign as BER wants it: unsigned types get a zero in front if they need it."""
    return tlv(tag, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def text(value: bytes | str) -> bytes:
    return tlv(4, value.encode() if isinstance(value, str) else value)


def oid(value: str | Oid) -> bytes:
    parts = tuple(map(int, value.split("."))) if isinstance(value, str) else value
    pieces = []
    for part in (parts[0] * 40 + parts[1], *parts[2:]):
        piece = bytes((part & 127,))
        while part := part >> 7:
            piece = bytes((0x80 | part & 127,)) + piece
        pieces.append(piece)
    return tlv(6, *pieces)


def counter32(value: int) -> bytes:
    return number(value, 0x41)


def gauge(value: int) -> bytes:
    return number(value, 0x42)


def ticks(value: int) -> bytes:
    return number(value, 0x43)


def counter64(value: int) -> bytes:
    return number(value, 0x46)


def elements(data: bytes) -> list[tuple[int, bytes]]:
    """Return tag and contents of each element that stands in `data`."""
    found, at = [], 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            count, length = length & 127, int.from_bytes(data[at : at + (length & 127)], "big")
            at += count
        found.append((tag, data[at : at + length]))
        at += length
    return found


def whole(contents: bytes) -> int:
    return int.from_bytes(contents, "big", signed=True)


def identifier(contents: bytes) -> Oid:
    parts: list[int] = []
    part = 0
    for byte in contents:
        part = part << 7 | byte & 127
        if not byte & 128:
            parts.append(part)
            part = 0
    first = min(parts[0] // 40, 2)
    return (first, parts[0] - 40 * first, *parts[1:])


@frozen
class Asked:
    """Holds one request, as it was decoded."""

    kind: int
    id: int
    first: int
    second: int
    oids: tuple[Oid, ...]


def request_of(data: bytes) -> Asked:
    """Read a PDU."""
    ((kind, inner),) = elements(data)
    (_, number_of), (_, first), (_, second), (_, bindings) = elements(inner)
    oids = tuple(identifier(elements(pair)[0][1]) for _, pair in elements(bindings))
    return Asked(kind, whole(number_of), whole(first), whole(second), oids)


def answer_of(
    asked: Asked, bindings: list[tuple[Oid, bytes]], status: int = 0, index: int = 0, kind: int = RESPONSE
) -> bytes:
    """Write a PDU."""
    pairs = [tlv(0x30, oid(name), value) for name, value in bindings]
    return tlv(kind, number(asked.id), number(status), number(index), tlv(0x30, *pairs))


@cache
def localized(algorithm: str, password: str, engine: bytes) -> bytes:
    """Return the key of a password for one engine (RFC 3414, 2.6)."""
    data = password.encode()
    key = hashlib.new(algorithm, (data * (1_048_576 // len(data) + 1))[:1_048_576]).digest()
    return hashlib.new(algorithm, key + engine + key).digest()


@define
class Device:
    """Answers datagrams. `values` are encoded; `limit` is the largest number of values in an answer."""

    values: Mapping[Oid, bytes]
    community: bytes = b"public"
    limit: int = 10_000
    most_bytes: int = 65_000
    spoil: Callable[[bytes], bytes | None] = lambda data: data
    asked: list[Asked] = field(factory=list)
    sent: list[int] = field(factory=list)
    # Version 3: one user with SHA and AES-128.
    user: bytes = b"watch"
    passwords: tuple[str, str] = ("authentic", "encrypted")
    boots: int = 7
    time: int = 1000
    _order: list[Oid] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._order = sorted(self.values)

    def __call__(self, data: bytes) -> bytes | None:
        """Return the answer to a datagram; None: there is none."""
        ((_, inner),) = elements(data)
        version, *rest = elements(inner)
        answer = self._secure(rest) if whole(version[1]) == 3 else self._plain(whole(version[1]), rest)
        spoilt = None if answer is None else self.spoil(answer)
        self.sent.append(len(spoilt or b""))
        return spoilt

    def _plain(self, version: int, rest: list[tuple[int, bytes]]) -> bytes | None:
        (_, community), (tag, inner) = rest
        if community != self.community:
            return None
        return tlv(0x30, number(version), text(community), self.answer(tlv(tag, inner), version == 0))

    def answer(self, data: bytes, is_old: bool = False) -> bytes:
        """Answer one PDU."""
        asked = request_of(data)
        self.asked.append(asked)
        if asked.kind == GET:
            bindings = [(one, self.values.get(one, NO_OBJECT)) for one in asked.oids]
        elif asked.kind == NEXT:
            bindings = [self._next(one) for one in asked.oids]
        else:
            bindings = self._bulk(asked)
        if is_old:
            missing = [at for at, (_, value) in enumerate(bindings, 1) if value in (NO_OBJECT, END)]
            if missing:
                return answer_of(asked, [(one, b"\x05\0") for one in asked.oids], 2, missing[0])
        return answer_of(asked, bindings)

    def _next(self, after: Oid) -> tuple[Oid, bytes]:
        found = next((one for one in self._order if one > after), None)
        return (after, END) if found is None else (found, self.values[found])

    def _bulk(self, asked: Asked) -> list[tuple[Oid, bytes]]:
        bindings = [self._next(one) for one in asked.oids[: asked.first]]
        row = list(asked.oids[asked.first :])
        size = 60
        for _ in range(asked.second):
            found = [self._next(one) for one in row]
            for pair in found:
                size += len(oid(pair[0])) + len(pair[1]) + 4
                if size > self.most_bytes or len(bindings) == self.limit:
                    return bindings
                bindings.append(pair)
            row = [one for one, _ in found]
        return bindings

    # Version 3 -------------------------------------------------------------------------------------------------------

    def _secure(self, rest: list[tuple[int, bytes]]) -> bytes:
        (_, head), (_, security), (tag, data) = rest
        id_, _, flags, _ = (contents for _, contents in elements(head))
        engine, boots, time, user, proof, salt = (one for _, one in elements(elements(security)[0][1]))
        if engine != ENGINE:
            return self.report(id_, 4)
        if user != self.user:
            return self.report(id_, 3)
        if flags[0] & 3 != 3:
            return self.report(id_, 1)
        inner = [number(3), tlv(0x30, head), text(security.replace(proof, bytes(12))), tlv(tag, data)]
        if self.proof(tlv(0x30, *inner)) != proof:
            return self.report(id_, 5)
        if whole(boots) != self.boots or abs(whole(time) - self.time) > 150:
            return self.report(id_, 2, proved=True)
        scoped = self._cipher(salt, whole(boots), whole(time)).decryptor().update(data)
        try:
            kind, pdu = elements(elements(scoped)[0][1])[2]
        except (IndexError, ValueError):
            return self.report(id_, 6)
        return self.message(id_, self.answer(tlv(kind, pdu)), 3)

    def _cipher(self, salt: bytes, boots: int, time: int) -> Cipher[Any]:
        key = localized("sha1", self.passwords[1], ENGINE)[:16]
        return Cipher(AES(key), CFB(struct.pack(">II", boots, time) + salt))

    def proof(self, data: bytes) -> bytes:
        return hmac.new(localized("sha1", self.passwords[0], ENGINE), data, "sha1").digest()[:12]

    def report(self, id_: bytes, which: int, proved: bool = False) -> bytes:
        """Return a report: its counter of usmStats says what was wrong."""
        name = tuple(map(int, f"{STATS}.{which}.0".split(".")))
        return self.message(id_, answer_of(Asked(GET, 0, 0, 0, ()), [(name, counter32(5))], kind=REPORT), int(proved))

    def message(self, id_: bytes, pdu: bytes, flags: int, **changed: Any) -> bytes:
        """Return a message of this device; `changed` are fields that are to be others."""
        boots, time, salt = changed.get("boots", self.boots), changed.get("time", self.time), b"saltsalt"
        head = tlv(0x30, tlv(2, id_), number(65_507), text(bytes((flags,))), number(3))
        data = tlv(0x30, text(ENGINE), text(""), pdu)
        if flags & 2:
            data = text(self._cipher(salt, boots, time).encryptor().update(data))

        def made(proof: bytes) -> bytes:
            user, engine = self.user if flags else b"", changed.get("engine", ENGINE)
            fields = [
                text(engine),
                number(boots),
                number(time),
                text(user),
                text(proof),
                text(salt if flags & 2 else b""),
            ]
            security = tlv(0x30, *fields)
            return tlv(0x30, number(3), head, text(security), data)

        return made(self.proof(made(bytes(12)))) if flags & 1 else made(b"")
