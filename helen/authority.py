"""Who may speak to Helen: the certificate authority, enrolment, renewal and revocation of agents.

The decisions that a connection needs at once (`identify`) are synchronous and read memory only; whatever changes
something returns a Deferred that fires once the store has it on disk. It does not speak TLS (helen/tls.py) and does
not close connections: those who hold some listen with `on_revoked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
from cryptography import x509
from twisted.internet.defer import Deferred

from helen.store import Loaded, Store


class NotEnrolled(Exception):
    """Refused; `reason` is a sentence for the log and the audit, never for the wire (which says only `not-enrolled`)."""

    reason: str


class UnknownAgent(Exception):
    """No agent has this name: `revoke` of somebody who never enrolled."""


@attrs.frozen
class Identity:
    """Who stands behind a verified client certificate. Close the connection when `not_after` is reached."""

    name: str
    key_hash: str  # sha256 of the SubjectPublicKeyInfo, hexadecimal
    not_after: float  # Unix seconds


@attrs.frozen
class Enrolled:
    """What an agent gets; the fields of the `enrolled` blob but for `signing_keys`, which are helen.signing's."""

    certificate: str  # PEM
    ca: str  # PEM of every CA that the agent shall trust
    renew_after: int  # Unix seconds: two thirds of the certificate's life
    identity: Identity


class Authority:
    """Made by `Authority.open` at start (blocking: reads and makes files); everything else never blocks."""

    @classmethod
    def open(cls, state: Path, store: Store, loaded: Loaded, names: Iterable[str], now: float) -> Authority: ...

    @property
    def bundle(self) -> tuple[x509.Certificate, ...]: ...  # every CA that clients may come from, our own first

    def on_revoked(self, tell: Callable[[str, frozenset[str]], None]) -> None:
        """`tell(name, key_hashes)` is called in the reactor thread as soon as a revocation is known."""

    def on_changed(self, tell: Callable[[], None]) -> None:
        """`tell()` after the server certificate or the bundle changed: swap the TLS context (helen.tls)."""

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        """Pure and synchronous; raises NotEnrolled. Call it after the handshake and again at hello."""

    def seen(self, identity: Identity, now: float) -> None:
        """At each accepted hello: the first use of a newer certificate retires the older ones after a grace."""

    def make_token(self, now: float, name: str | None = None, ttl: float = 3600.0, by: str = "") -> Deferred[str]: ...

    def enrol(self, name: str, token: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """Fails with NotEnrolled."""

    def renew(self, identity: Identity, name: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """`name` is the one that was asked for: it must be the identity's own. Fails with NotEnrolled."""

    def issue(self, name: str, csr: str, now: float, by: str = "") -> Deferred[Enrolled]:
        """For `helen certificate`. Fails with BadRequest (helen.certificates), a sentence for the operator."""

    def revoke(self, name: str, now: float, by: str = "") -> Deferred[int]:
        """The number of certificates revoked. Fails with UnknownAgent."""

    def import_ca(self, pem: bytes, now: float, by: str = "") -> Deferred[None]: ...

    def refresh(self, now: float) -> Deferred[bool]:
        """Once an hour and on SIGHUP: re-reads the CA folder, renews the server certificate when two thirds are over."""

    def conflict(self, name: str, address: str, now: float) -> None:
        """Writes the audit entry for two machines that use one identity."""
