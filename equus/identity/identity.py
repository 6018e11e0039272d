"""Read what an agent is: its certificate with the key and the CAs that it trusts, its name, and tokens to enrol by.

The name is the certificate's SAN URI `urn:equus:agent:NAME`. The files are in equus/identity/identity_store.py, the
requests to Helen in equus/sessions/enrolment.py.
"""

from __future__ import annotations

import hashlib
import re
import socket
from datetime import UTC, datetime

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from equus.settings import is_agent_name

AGENT_URI = "urn:equus:agent:"
RENEW_AT = 2 / 3  # of the life of a certificate
RENEW_JITTER = 0.1  # of that, either way: a thousand agents provisioned together don't renew together
_TOKEN = re.compile(r"([0-9A-Fa-f]{64})\.([\x21-\x7e]{1,255})")
_CERTIFICATES = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


class IdentityError(Exception):
    """Says that a file or a token can't be used; the text says why, and what to do."""


@frozen
class Token:
    """Describes a token for enrolment: the hash of the CA to expect, and the secret for Helen."""

    ca_sha256: str
    text: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Token:
        """Return the token of a line that `helen token` printed. Raises IdentityError if it is none."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise IdentityError(
                "--join: this is not a token. A token is 64 hexadecimal digits, a dot and a secret; "
                "copy the whole line that `helen token` printed."
            )
        return cls(match[1].lower(), text)

    def fits(self, ca_der: bytes) -> bool:
        """Return True if the token names this CA certificate (DER)."""
        return hashlib.sha256(ca_der).hexdigest() == self.ca_sha256


@frozen
class Identity:
    """Describes a certificate with its key and the CAs of Helen, as PEM; the times are unix seconds."""

    name: str
    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes
    not_before: float
    not_after: float

    @classmethod
    def of(cls, certificate: bytes, key: bytes, ca: bytes, source: str) -> Identity:
        """Return the identity of three PEM texts. Raises IdentityError, which names `source`, if they don't fit."""
        try:
            parsed = x509.load_pem_x509_certificate(certificate)
            public = serialization.load_pem_private_key(key, None).public_key()
        except (ValueError, TypeError, x509.InvalidVersion) as error:
            raise IdentityError(f"{source}: certificate or key can't be read as PEM ({error}).") from error
        if parsed.public_key() != public:
            raise IdentityError(f"{source}: the key does not belong to the certificate. Take both from one folder.")
        if not split_certificates(ca):
            raise IdentityError(f"{source}: the CA file holds no certificate that can be read (BEGIN CERTIFICATE).")
        name = name_in(parsed)
        if name is None:
            raise IdentityError(
                f"{source}: the certificate names no agent (no URI {AGENT_URI}NAME); get one from `helen certificate`."
            )
        start, end = parsed.not_valid_before_utc.timestamp(), parsed.not_valid_after_utc.timestamp()
        return cls(name, certificate, key, ca, start, end)

    def trouble(self, now: float) -> str | None:
        """Return why a Helen would refuse this certificate, or None. `now` is unix seconds, wall clock."""
        if now >= self.not_after:
            return (
                f"the certificate of {self.name} expired on {_day(self.not_after)}: a Helen that knows its key renews"
                " it for a time (`helen renewals` shows that); after it enrol again with --join TOKEN, or bring a new"
                " one from `helen certificate`"
            )
        if now < self.not_before:
            return (
                f"the certificate of {self.name} is valid from {_day(self.not_before)}: is this machine's clock right?"
            )
        return None

    def is_out_of_time(self, now: float) -> bool:
        """Return True if the certificate has expired, or is not valid yet. `now` is unix seconds, wall clock."""
        return not self.not_before <= now < self.not_after

    def renew_at(self, jitter: float) -> float:
        """Return when to ask for the next certificate, in unix seconds; `jitter` is between -1 and 1."""
        return self.not_before + (self.not_after - self.not_before) * RENEW_AT * (1 + RENEW_JITTER * jitter)


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def name_in(certificate: x509.Certificate) -> str | None:
    """Return the agent's name: the SAN URI, else the common name; None if neither is a legal name."""
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = san.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    names = [uri.removeprefix(AGENT_URI) for uri in uris if uri.startswith(AGENT_URI)]
    names += [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return next((name for name in names if is_agent_name(name)), None)


def default_name(host: str | None = None) -> str:
    """Return a legal name made of the host's name, for an agent that was given none."""
    name = re.sub(r"[^a-z0-9._-]+", "-", (host or socket.gethostname()).lower())
    name = re.sub(r"\.{2,}", ".", name).strip("._-")[:63].rstrip("._-")
    return name or "agent"


def split_certificates(pem: bytes) -> list[bytes]:
    """Return each certificate of a PEM bundle; none at all if one of them can't be read."""
    found = _CERTIFICATES.findall(pem)
    try:
        for block in found:
            x509.load_pem_x509_certificate(block)
    except (ValueError, x509.InvalidVersion):
        return []
    return found
