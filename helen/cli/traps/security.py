"""Open and answer messages of SNMP, versions 1, 2c and 3 (RFC 3412, RFC 3414). No socket: bytes in, bytes out.

A trap of version 3 is proved for the engine of its sender, whose time is remembered, so that a copy of an old one is
known. An inform is proved for the engine of the receiver, which is this one: senders ask for it and its time.
"""

from __future__ import annotations

import hmac
import itertools
import os
from collections.abc import Callable, Mapping

from attrs import define, field, frozen

from helen.cli.traps import ber
from helen.cli.traps.ber import BrokenBer, Reader
from helen.cli.traps.notification import Notification, read_pdu
from helen.cli.traps.senders import LARGEST, WINDOW, Senders
from helen.cli.traps.users import ENCRYPTED, PROVED, User

REPORTABLE, USER_SECURITY = 4, 3
MOST_MESSAGE = 65_507
REPORT = 0xA8
STATS = "1.3.6.1.6.3.15.1.1"  # below it: what a report says is wrong
LEVEL, NOT_IN_TIME, UNKNOWN_USER, UNKNOWN_ENGINE, WRONG_PROOF, UNREADABLE = range(1, 7)
WORDS = {
    LEVEL: "another security level than its user has", NOT_IN_TIME: "a time that is not now",
    UNKNOWN_USER: "an unknown user", UNKNOWN_ENGINE: "an unknown engine", WRONG_PROOF: "a wrong proof",
    UNREADABLE: "data that can't be decrypted",
}  # fmt: skip


class NotTaken(Exception):
    """Says that a message is no notification that can be trusted.

    `reply` is what its sender is told, empty for nothing.
    """

    def __init__(self, why: str, reply: bytes = b"") -> None:
        super().__init__(why)
        self.reply = reply


@frozen
class Opened:
    """Describes a notification, and the message that confirms it: empty where none is wanted."""

    notification: Notification
    confirmation: bytes = field(default=b"", repr=False)


@frozen
class _Head:
    """Holds the fields of a message of version 3, and the places of its proof and data."""

    id: bytes
    flags: int
    engine: bytes
    clock: tuple[int, int]
    user: bytes
    proof: tuple[int, int]
    salt: bytes
    reader: Reader

    @property
    def is_reportable(self) -> bool:
        return bool(self.flags & REPORTABLE)


@define
class Security:
    """Opens messages for the communities and users of the file.

    `engine`, `boots`: who this receiver is; boots must grow with each start. `steady`: monotonic seconds.
    """

    communities: frozenset[bytes]
    users: Mapping[bytes, User]
    engine: bytes
    boots: int
    steady: Callable[[], float]
    _began: float = field(init=False)
    senders: Senders = field(init=False)
    _salts: itertools.count[int] = field(init=False)
    _reports: int = 0

    def __attrs_post_init__(self) -> None:
        self._began, self.senders = self.steady(), Senders(self.steady)
        self._salts = itertools.count(int.from_bytes(os.urandom(7), "big"))

    def follow(self, before: Security) -> None:
        """Take over what another one knows: the times of senders, and its own start unless it was another engine."""
        self.senders = before.senders
        if self.engine == before.engine:
            self.boots, self._began, self._reports = before.boots, before._began, before._reports

    def open(self, data: bytes) -> Opened:
        """Return the notification of a datagram. Raises NotTaken for anything else, and nothing else."""
        try:
            message = Reader.of(data).inside()
            version = message.integer()
            if version == 3:
                return self._secure(data, message)
            return self._plain(version, message)
        except BrokenBer as fault:
            raise NotTaken(f"no SNMP: {fault}") from fault

    def _plain(self, version: int, message: Reader) -> Opened:
        if version not in (0, 1):
            raise NotTaken(f"version {version:.9g} of SNMP, which is unknown")
        community = message.take(ber.TEXT)
        if community not in self.communities:
            raise NotTaken("an unknown community")
        found = read_pdu(message)
        if not found.response:
            return Opened(found)
        head = ber.integer(version), ber.text(community)
        return Opened(found, ber.element(ber.SEQUENCE, *head, found.response))

    # ---------------------------------------------------------------------------------------------- version 3

    def _secure(self, data: bytes, message: Reader) -> Opened:
        head = _head(message)
        is_ours = head.engine == self.engine
        if head.is_reportable and not is_ours:
            raise self._report(head, UNKNOWN_ENGINE)
        user = self.users.get(head.user)
        if user is None:
            raise self._report(head, UNKNOWN_USER)
        if head.flags & (PROVED | ENCRYPTED) != user.flags:
            raise self._report(head, LEVEL)
        if user.auth_password:
            self._demand_proof(head, user, data)
            self._demand_time(head, user, is_ours)
        found, context = self._notification(head, user)
        if not found.response:
            return Opened(found)
        if not is_ours:
            raise NotTaken("an inform for another receiver")
        return Opened(found, self._message(head.id, user.flags, found.response, user, context))

    def _demand_proof(self, head: _Head, user: User, data: bytes) -> None:
        begin, end = head.proof
        bare = data[:begin] + bytes(end - begin) + data[end:]
        if not hmac.compare_digest(user.proof(head.engine, bare), data[begin:end]):
            raise self._report(head, WRONG_PROOF)

    def _demand_time(self, head: _Head, user: User, is_ours: bool) -> None:
        boots, time = head.clock
        if is_ours:
            if boots != self.boots or abs(time - self._now()) > WINDOW:
                raise self._report(head, NOT_IN_TIME, user)
            return
        if self.senders.is_old(head.engine, boots, time):
            raise NotTaken(WORDS[NOT_IN_TIME])

    def _notification(self, head: _Head, user: User) -> tuple[Notification, bytes]:
        """Return the notification, and the names of its context, which its answer must have as well."""
        reader = head.reader
        if user.privacy_password:
            try:
                plain = user.decrypt(head.engine, reader.take(ber.TEXT), head.salt, head.clock)
                reader = Reader.of(plain)
                scoped = reader.inside()
            except ValueError as fault:
                raise self._report(head, UNREADABLE) from fault
        else:
            scoped = reader.inside()
        context = ber.text(scoped.take(ber.TEXT)) + ber.text(scoped.take(ber.TEXT))
        return read_pdu(scoped), context

    def _now(self) -> int:
        """Return the time of this receiver: seconds since its start."""
        return min(LARGEST, int(self.steady() - self._began))

    def _report(self, head: _Head, which: int, user: User | None = None) -> NotTaken:
        """Return the refusal of a message, with what its sender is told, if it asks for that."""
        if not head.is_reportable:
            return NotTaken(WORDS[which])
        self._reports += 1
        counter = ber.integer(self._reports & 0x7FFFFFFF, 0x41)
        binding = ber.element(ber.SEQUENCE, ber.oid(f"{STATS}.{which}.0"), counter)
        zeros = (ber.integer(0),) * 3
        pdu = ber.element(REPORT, *zeros, ber.element(ber.SEQUENCE, binding))
        return NotTaken(WORDS[which], self._message(head.id, PROVED if user else 0, pdu, user))

    def _message(self, id_: bytes, flags: int, pdu: bytes, user: User | None, context: bytes = b"") -> bytes:
        clock = self.boots, self._now()
        own = ber.text(self.engine) + ber.text(b"")
        data, salt = ber.element(ber.SEQUENCE, context or own, pdu), b""
        if user is not None and flags & ENCRYPTED:
            salt = next(self._salts).to_bytes(8, "big")
            if user.privacy == "des":
                salt = self.boots.to_bytes(4, "big") + salt[4:]
            data = ber.text(user.encrypt(self.engine, data, salt, clock))
        head = ber.element(
            ber.SEQUENCE, ber.element(ber.INTEGER, id_), ber.integer(MOST_MESSAGE), ber.text(bytes((flags,))),
            ber.integer(USER_SECURITY),
        )  # fmt: skip

        def made(proof: bytes) -> bytes:
            name = user.name if user is not None else b""
            fields = ber.text(self.engine), *map(ber.integer, clock), ber.text(name), ber.text(proof), ber.text(salt)
            security = ber.text(ber.element(ber.SEQUENCE, *fields))
            return ber.element(ber.SEQUENCE, ber.integer(3), head, security, data)

        if user is None or not flags & PROVED:
            return made(b"")
        return made(user.proof(self.engine, made(bytes(user.proof_size))))


def _head(message: Reader) -> _Head:
    """Read the fields before the data. Raises BrokenBer."""
    head = message.inside()
    id_ = head.take(ber.INTEGER)
    head.integer()
    flags = head.take(ber.TEXT)
    if len(flags) != 1 or head.integer() != USER_SECURITY or not 0 < len(id_) <= 4:
        raise BrokenBer("another security model than that of users")
    inner = message.inside(ber.TEXT).inside()
    engine, clock = inner.take(ber.TEXT), (inner.integer(), inner.integer())
    user, proof, salt = inner.take(ber.TEXT), inner.place(ber.TEXT), inner.take(ber.TEXT)
    if len(engine) > 32 or len(user) > 32 or not all(0 <= number <= LARGEST for number in clock):
        raise BrokenBer("impossible security fields")
    return _Head(id_, flags[0], engine, clock, user, proof, salt, message)
