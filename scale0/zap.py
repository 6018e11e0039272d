"""ZAP (RFC 27): who may connect. Frames in, frames out; no socket here.

One gatekeeper serves the whole process, because libzmq knows a single ZAP address per context. The server sockets are
told apart by their domain (`frontend`, `backend`, `peer`, `config`, `zerotask`); each domain brings its own rule. A
domain without a rule is refused: a socket that somebody forgot to protect must stay shut, not open.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import attrs

VERSION = b"1.0"
OK, REFUSED, BROKEN = b"200", b"400", b"500"
Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@attrs.frozen
class Caller:
    """Who asks to be let in."""

    domain: str
    address: str
    mechanism: str  # NULL or CURVE; PLAIN is never offered by our sockets
    key: str  # the client's CURVE key in Z85 text; empty under NULL


Rule = Callable[[Caller], bool]


@attrs.frozen
class Origin:
    """Where a message comes from."""

    address: str
    key: str  # the peer's CURVE key in Z85 text, as the gatekeeper saw it; empty under NULL

    @property
    def name(self) -> str:
        """What failures are counted against and bans are laid on: the key, or the address where there is none."""
        return self.key or self.address

    @property
    def is_trusted(self) -> bool:
        """What it says cannot have been read or changed on its way: CURVE, or it never left this machine."""
        return bool(self.key) or is_local(self.address)

    @property
    def is_known(self) -> bool:
        """Somebody in particular: the holder of a key, or whoever may open a socket's file. An address is anybody's."""
        return bool(self.key) or self.address == "" or self.address.startswith("localhost:")


NOBODY = Origin("", "")
AS_CLIENT = ":client"  # behind the identity of a backend that is a frontend as well, under the same key


def may_use(bound: str | None, identity: str) -> bool:
    """Whether a key that is bound to an identity (None: to no one) may use this one."""
    return bound is None or identity in (bound, bound + AS_CLIENT)


def plain_address(address: str) -> str:
    """The address as one spells it: an IPv4 peer of a dual-stack socket is an IPv4 peer."""
    return address.removeprefix("::ffff:")


def is_local(address: str) -> bool:
    """Loopback, all of 127.0.0.0/8, or a peer on ipc, whose address is `localhost:UID:GID:PID`."""
    address = plain_address(address)
    return address.startswith(("127.", "localhost:")) or address in ("::1", "localhost", "")


def z85(raw: bytes) -> str:
    """RFC 32; the length must be a multiple of four, as that of a key is."""
    text = bytearray()
    for (number,) in struct.iter_unpack(">I", raw):
        text += bytes(Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text.decode("ascii")


def answer(frames: list[bytes], rules: dict[str, Rule]) -> list[bytes]:
    """The reply to one ZAP request, both without their envelope."""
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
