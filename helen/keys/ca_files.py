"""Reads the files of Helen's certificate authority in STATE/ca, and makes those that are missing.

    ca.key  ca.pem         Helen's own CA (0600 and 0644); put yours there before the first start, and it is used
    server.pem             its server certificate with the key (0600, one file so that both change at once)
    trusted/*.pem          further CAs that agents and Helens may come from
    admitted/*.pem         agent certificates that were signed elsewhere

Every function blocks: call them at start or in the store's thread. Nothing is remembered between two calls.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import is_there
from helen.files.state_dir import StateError, make_folder, read_private
from helen.keys import certificates
from helen.keys.certificates import BadRequest, PrivateKey

ANY_ADDRESS = ("0.0.0.0", "::", "")  # to listen there says nothing about the names that agents will use
PEM_FILES = 1_000  # in trusted/ or admitted/: more is a mistake, and each is read at every refresh


class CAUnusable(StateError):
    """Says that a file of the CA can't be used as it is; the text says which, and what to do."""


@attrs.frozen
class Material:
    """Holds the keys and certificates that TLS and the authority need, read at one time."""

    ca: x509.Certificate
    ca_key: PrivateKey = attrs.field(repr=False, eq=False)
    server: x509.Certificate
    server_key: PrivateKey = attrs.field(repr=False, eq=False)
    trusted: tuple[x509.Certificate, ...] = ()
    admitted: tuple[x509.Certificate, ...] = ()

    @property
    def bundle(self) -> tuple[x509.Certificate, ...]:
        """Return every CA that a peer's certificate may be of, Helen's own first."""
        return (self.ca, *self.trusted)


def server_hosts(names: Iterable[str], listen: str) -> tuple[str, ...]:
    """Return the names for Helen's certificate: those given, this machine's, and the address that it listens on."""
    own = [socket.gethostname().lower(), "" if listen in ANY_ADDRESS else listen.lower()]
    usable = [host for host in own if certificates.HOST_NAME.fullmatch(host) or ":" in host]
    return tuple(dict.fromkeys([*names, *usable, "localhost", "127.0.0.1", "::1"]))


def prepare(folder: Path, hosts: Iterable[str], now: float) -> Material:
    """Read everything; make files that are missing or due for renewal at `now`, unix seconds. Raises CAUnusable."""
    for part in (folder, folder / "trusted", folder / "admitted"):
        make_folder(part)
    ca, ca_key = _own_ca(folder, now)
    server, server_key = _server(folder / "server.pem", ca, ca_key, tuple(hosts), now)
    trusted = tuple(c for c in _certificates_in(folder / "trusted") if c != ca)
    for certificate in trusted:
        checked_ca(certificate, now)
    admitted = tuple(_certificates_in(folder / "admitted"))
    return Material(ca, ca_key, server, server_key, trusted, admitted)


def checked_ca(certificate: x509.Certificate, now: float) -> x509.Certificate:
    """Return the certificate itself. Raises CAUnusable if it is not of a CA, or has expired at `now`, unix seconds."""
    shown = certificate.subject.rfc4514_string()
    if not certificates.is_ca(certificate):
        raise CAUnusable(f"{shown} is no CA certificate: put the CA's own into ca/trusted, not one that it signed.")
    if now >= certificates.until(certificate):
        raise CAUnusable(f"The CA certificate {shown} has expired: take it out of ca/, or renew it (certs/README.rst).")
    return certificate


def add_trusted(folder: Path, certificate: x509.Certificate) -> Path:
    """Write one more CA into trusted/, under a name made from its content; return the path."""
    path = folder / "trusted" / f"{certificates.fingerprint(certificate)[:16]}.pem"
    write_durably(path, certificates.pem(certificate).encode(), PUBLIC)
    return path


def load_key(path: Path) -> PrivateKey:
    """Read an unencrypted private key in PEM form.

    Raises CAUnusable if the file holds another kind of content, and KeyExposed if other users can read it.
    """
    content = read_private(path)
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CAUnusable(f"{path} is no unencrypted private key in PEM form that can be read.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey):
        raise CAUnusable(f"{path} holds a key of a kind that Helen does not use: take P-256, P-384, Ed25519 or RSA.")
    return key


def key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_certificates(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (ValueError, x509.InvalidVersion) as error:
        raise CAUnusable(f"{path} holds no certificate in PEM form that can be read.") from error


def _own_ca(folder: Path, now: float) -> tuple[x509.Certificate, PrivateKey]:
    key_path, path = folder / "ca.key", folder / "ca.pem"
    if is_there(path) and not is_there(key_path):
        raise CAUnusable(f"{path} is there but its key is not: put {key_path} back, or move both away for a new CA.")
    if not is_there(key_path):
        write_durably(key_path, key_pem(ec.generate_private_key(ec.SECP256R1())))
    key = load_key(key_path)
    if not is_there(path):  # a crash between the two files, or an operator has put only a key there
        write_durably(path, certificates.pem(certificates.new_ca(key, now)).encode(), PUBLIC)
    certificate = load_certificates(path)[0]
    if certificate.public_key() != key.public_key():
        raise CAUnusable(f"{path} is not the certificate of {key_path}: put the two that belong together there.")
    return checked_ca(certificate, now), key


def _server(
    path: Path, ca: x509.Certificate, ca_key: PrivateKey, hosts: tuple[str, ...], now: float
) -> tuple[x509.Certificate, PrivateKey]:
    if is_there(path):
        held, key = load_certificates(path)[0], load_key(path)
        if _still_good(held, key, ca, hosts, now):
            return held, key
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        made = certificates.server_certificate(ca, ca_key, key.public_key(), hosts, now)
    except BadRequest as error:
        raise CAUnusable(f"--name: {error}") from error
    write_durably(path, key_pem(key) + certificates.pem(made).encode())
    return made, key


def _still_good(
    held: x509.Certificate, key: PrivateKey, ca: x509.Certificate, hosts: tuple[str, ...], now: float
) -> bool:
    try:
        names = set(held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except certificates.UNREADABLE:
        return False
    issued_at = certificates.since(held) + certificates.BACKDATED
    return (
        held.public_key() == key.public_key()
        and certificates.is_issued_by(held, ca)
        and issued_at <= now < certificates.renew_after(issued_at, certificates.until(held))
        and names == set(certificates.server_names(hosts))
    )


def _certificates_in(folder: Path) -> list[x509.Certificate]:
    paths = sorted(folder.glob("*.pem"))
    if len(paths) > PEM_FILES:
        raise CAUnusable(f"{folder} holds {len(paths)} files, more than the {PEM_FILES} that Helen reads.")
    return [certificate for path in paths for certificate in load_certificates(path)]
