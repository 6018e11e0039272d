"""Answers requests of ZAP (RFC 27), by which libzmq asks at each handshake if a connection is admitted. Pure.

One ZAP handler serves the whole process, because libzmq has a single ZAP address per context. Server sockets are told
apart by their domain (`frontend`, `backend`, `peer`, `config`, `zerotask`); each domain brings its own rule. A domain
without a rule is refused, so that a socket whose protection was forgotten stays shut.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import attrs

VERSION = b"1.0"
OK, REFUSED, BROKEN = b"200", b"400", b"500"
IPC_PEER = re.compile(r"localhost:([0-9]{1,10}):[0-9]{1,10}:[0-9]{1,10}")  # uid, gid and pid, in place of an address
Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@attrs.frozen
class Caller:
    """Describes a connection that asks to be admitted."""

    domain: str
    address: str
    mechanism: str  # NULL or CURVE; PLAIN is never offered by our sockets
    key: str  # the client's CURVE key in Z85 text; empty under NULL


Rule = Callable[[Caller], bool]


@attrs.frozen
class Origin:
    """Tells where a message comes from."""

    address: str
    key: str  # the peer's CURVE key in Z85 text, as the ZAP handler saw it; empty under NULL

    @property
    def name(self) -> str:
        """Return the name for counting failures and for bans: the key, or the address where there is none."""
        return self.key or self.address

    @property
    def is_trusted(self) -> bool:
        """Return True if no third party can have read or changed the message: by CURVE, or within this machine."""
        return bool(self.key) or is_local(self.address)

    @property
    def is_known(self) -> bool:
        """Return True for one particular peer: a holder of a key, or a user that may open the socket's file.

        An IP address is shared by all programs of its machine.
        """
        return bool(self.key) or self.address == "" or self.address.startswith("localhost:")

    @property
    def user(self) -> int | None:
        """Return the user id of a peer on ipc, as the kernel tells it; None for every other peer."""
        found = IPC_PEER.fullmatch(self.address)
        return None if found is None else int(found[1])


NO_ORIGIN = Origin("", "")
AS_CLIENT = ":client"  # behind the identity of a backend that is a frontend as well, under the same key


def may_use(bound: str | None, identity: str) -> bool:
    """Return True if a key that is bound to the identity `bound` (None: to none) may use `identity`."""
    return bound is None or identity in (bound, bound + AS_CLIENT)


def plain_address(address: str) -> str:
    """Return an IPv4 address without the prefix that a dual-stack socket gives it."""
    return address.removeprefix("::ffff:")


def is_local(address: str) -> bool:
    """Return True for loopback, all of 127.0.0.0/8, and for a peer on ipc, which has `localhost:UID:GID:PID`."""
    address = plain_address(address)
    return address.startswith(("127.", "localhost:")) or address in ("::1", "localhost", "")


def z85(raw: bytes) -> str:
    """Return bytes as Z85 text (RFC 32); their length must be a multiple of four, as that of a key is."""
    text = bytearray()
    for (number,) in struct.iter_unpack(">I", raw):
        text += bytes(Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text.decode("ascii")


def answer(frames: list[bytes], rules: dict[str, Rule]) -> list[bytes]:
    """Return the reply to one ZAP request, both without their envelope; `rules` are those of the domains."""
    if len(frames) < 6 or frames[0] != VERSION:
        request_id = frames[1] if len(frames) > 1 else b""
        return _reply(request_id, BROKEN, b"not a request of ZAP 1.0", b"")
    _, request_id, domain, address, _, mechanism, *credentials = frames
    caller = Caller(_text(domain), plain_address(_text(address)), _text(mechanism), _key(mechanism, credentials))
    rule = rules.get(caller.domain)
    if rule is None or not rule(caller):
        return _reply(request_id, REFUSED, b"refused", b"")
    return _reply(request_id, OK, b"", caller.key.encode("ascii"))


def _reply(request_id: bytes, status: bytes, text: bytes, user: bytes) -> list[bytes]:
    return [VERSION, request_id, status, text, user, b""]


def _key(mechanism: bytes, credentials: list[bytes]) -> str:
    if mechanism == b"CURVE" and credentials and len(credentials[0]) == 32:
        return z85(credentials[0])
    return ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
