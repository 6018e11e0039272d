"""Keep the agent's identity on disk: its certificate and key, the CAs that it trusts, the keys that sign its code.

The name is the certificate's SAN URI `urn:equus:agent:NAME`. Keys are made here and never leave; files with keys are
readable by their owner alone, or the agent refuses to start. The requests to Helen are in
equus/sessions/enrolment.py.
"""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import NameOID

from equus.settings import is_agent_name
from equus_protocol import roots
from equus_protocol.manifest import ManifestRefused, key_id
from equus_protocol.roots import Root
from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import is_there

SIGNING_KEYS = "signing-keys.pem"
ROOT = "root.json"
AGENT_URI = "urn:equus:agent:"
MAX_PEM = 262_144  # bytes of any PEM file that is read: some hundred certificates
RENEW_AT = 2 / 3  # of the life of a certificate
RENEW_JITTER = 0.1  # of that, either way: a thousand agents provisioned together don't renew together
_TOKEN = re.compile(r"([0-9A-Fa-f]{64})\.([\x21-\x7e]{1,255})")
_PEM = serialization.Encoding.PEM
_CERTIFICATES = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
_PUBLIC_KEYS = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----\n?", re.DOTALL)


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


# ---------------------------------------------------------------------------------------------------- new keys


def make_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key of the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM (PKCS #8), not encrypted."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def signing_request(name: str, key: ec.EllipticCurvePrivateKey) -> str:
    """Return a request (PEM) for a certificate. Helen uses only its public key, and decides on the rest itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    san = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(AGENT_URI + name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(san, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(_PEM).decode()


# ---------------------------------------------------------------------------------------------------- files


def read_identity(certificate: Path, key: Path, ca: Path) -> Identity:
    """Return the identity in three files. Raises IdentityError, also if other users can read the key."""
    mode = _stat_mode(key)
    if mode & 0o077:
        raise IdentityError(
            f"{key} can be read by others (mode {mode & 0o777:04o}). Run `chmod 600 {key}`, "
            "and if others use this machine, replace the certificate."
        )
    return Identity.of(_read(certificate), _read(key), _read(ca), f"{certificate}, {key}, {ca}")


def _stat_mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}.") from error


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PEM + 1)
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}.") from error
    if len(content) > MAX_PEM:
        raise IdentityError(f"{path} has more than {MAX_PEM} bytes: that is not one of the agent's PEM files.")
    return content


def _is_there(path: Path) -> bool:
    """Return True if there is a file. Raises IdentityError if that can't be told: it may be the agent's only key."""
    try:
        return is_there(path)
    except OSError as error:
        raise IdentityError(
            f"cannot look at {path}: {error.strerror}. Mend the disk, or chown the state folder to Equus's user."
        ) from error


class IdentityStore:
    """Keeps agent.pem, agent.key and ca.pem in the state folder.

    Two files can't be renamed in one step: the new pair is written beside the old, then the key is renamed, then the
    certificate. A start after a crash in between finds a key that fits `agent.pem.next`, and finishes the work.
    """

    def __init__(self, state: Path) -> None:
        self.certificate, self.key, self.ca = state / "agent.pem", state / "agent.key", state / "ca.pem"
        self._next = state / "agent.pem.next"
        self._signing_keys = state / SIGNING_KEYS
        self._root = state / ROOT

    def load(self) -> Identity | None:
        """Return the identity in the state folder, or None if there is none. Raises IdentityError if it is damaged."""
        if not _is_there(self.key):
            return None
        try:
            return read_identity(self.certificate, self.key, self.ca)
        except IdentityError:
            if not _is_there(self._next):
                raise
            identity = read_identity(self._next, self.key, self.ca)  # raises again if it doesn't fit either
            self._next.replace(self.certificate)
            return identity

    def save(self, identity: Identity) -> None:
        """Replace the identity durably. Blocking: several syncs."""
        write_durably(self.ca, identity.ca, PUBLIC)
        write_durably(self._next, identity.certificate, PUBLIC)
        write_durably(self.key, identity.key)
        self._next.replace(self.certificate)

    def signing_keys(self) -> dict[str, Ed25519PublicKey]:
        """Return the signing keys that were pinned first, by id; none before they were pinned."""
        return read_signing_keys(_read(self._signing_keys)) if _is_there(self._signing_keys) else {}

    def root(self) -> Root:
        """Return the root that says which keys sign code: the newest one, or one made of the pinned keys.

        An operator who removes signing-keys.pem wants to begin anew, so a root that is left is then ignored. Raises
        IdentityError if a file is damaged.
        """
        keys = self.signing_keys()
        if not keys or not _is_there(self._root):
            return Root(keys)
        try:
            return roots.read(_read(self._root))
        except ManifestRefused as refused:
            raise IdentityError(f"{self._root} can't be used: {refused}. Restore it, or remove both it and "
                                f"{self._signing_keys} to pin anew.") from refused  # fmt: skip

    def keep_root(self, envelope: bytes) -> None:
        """Store a root that has been verified. Blocking."""
        write_durably(self._root, envelope, PUBLIC)

    def pin(self, pem: bytes, root: bytes = b"") -> None:
        """Trust these signing keys, and the root that came with them if there is one. Blocking."""
        self._root.unlink(missing_ok=True)
        if root:
            self.keep_root(root)
        write_durably(self._signing_keys, pem, PUBLIC)

    def pin_beside(self, certificate: Path) -> None:
        """Pin the signing keys beside a certificate, where `helen certificate` puts them, unless some are pinned.

        Raises IdentityError if they can't be read.
        """
        beside = certificate.with_name(SIGNING_KEYS)
        if _is_there(beside) and not _is_there(self._signing_keys):
            pem = _read(beside)
            if not read_signing_keys(pem):
                raise IdentityError(f"{beside} holds no public key (BEGIN PUBLIC KEY).")
            root = certificate.with_name(ROOT)
            self.pin(pem, checked_root(_read(root), read_signing_keys(pem)) if _is_there(root) else b"")


def checked_root(envelope: bytes, keys: Mapping[str, Ed25519PublicKey]) -> bytes:
    """Return a first root again. Raises IdentityError unless it is signed by its own keys, and they are `keys`."""
    try:
        root = roots.read(envelope)
        if root.keys.keys() != keys.keys() or not roots.is_self_signed(envelope, root):
            raise IdentityError("the root does not belong to the signing keys that came with it.")
    except ManifestRefused as refused:
        raise IdentityError(f"the root can't be used: {refused}.") from refused
    return envelope


def read_signing_keys(pem: bytes) -> dict[str, Ed25519PublicKey]:
    """Return Ed25519 public keys by id, of a PEM text. Raises IdentityError if one of them can't be read."""
    keys = {}
    for block in _PUBLIC_KEYS.findall(pem):
        try:
            key = serialization.load_pem_public_key(block)
        except ValueError as error:
            raise IdentityError(f"a signing key can't be read: {error}.") from error
        if not isinstance(key, Ed25519PublicKey):
            raise IdentityError("a signing key is not an Ed25519 key.")
        keys[key_id(key)] = key
    return keys
