"""Who calls, and what they may: scopes, what each includes, and the caller of a request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

# What a token may be given. `read`: look. `operate`: acknowledge, silence, ask agents. `push`: publish checks.
# `metrics`: /metrics alone, for Prometheus. `admin`: everything, other tokens and certificates included.
INCLUDES: dict[str, frozenset[str]] = {
    "metrics": frozenset(("metrics",)),
    "read": frozenset(("read", "metrics")),
    "operate": frozenset(("operate", "read", "metrics")),
    "push": frozenset(("push", "read", "metrics")),
    "admin": frozenset(("admin", "push", "operate", "read", "metrics")),
}
SCOPES = tuple(INCLUDES)


def including(scopes: Iterable[str]) -> frozenset[str]:
    """All that these scopes amount to."""
    return frozenset().union(*(INCLUDES[scope] for scope in scopes))


@frozen
class Caller:
    """Somebody who got in. `actor` is the name under which the audit knows them."""

    actor: str
    scopes: frozenset[str] = field(converter=including)
    token: str | None = None  # the name of the token that was shown, if it has one

    def may(self, scope: str | None) -> bool:
        """None: everybody may."""
        return scope is None or scope in self.scopes


OWNER = Caller("operator", ("admin",))  # whoever may open control.sock
KEEPER = Caller("token:web.token", ("admin",))  # whoever has the token of STATE/web.token
NOBODY = Caller("stranger", ())  # on the few pages that are for everybody


def credential(request: Any) -> str:
    """What was shown: a bearer token, or the password of Basic authentication."""
    given = (request.getHeader(b"authorization") or b"").decode("latin-1")  # a header may hold any bytes
    kind, _, rest = given.partition(" ")
    if kind.lower() == "bearer":
        return str(rest.strip())
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
