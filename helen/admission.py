"""What the CA folder and the store say together: read in the store's thread, handed to helen.authority whole.

Each function takes the database first (`store.call`) and blocks on files. It decides who is admitted from
STATE/ca/admitted; it remembers nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import attrs
from cryptography import x509

from helen import ca_folder, certificates, credentials
from helen.ca_folder import Material
from helen.certificates import BadRequest
from helen.credentials import Grant, NewCertificate
from helen.known_keys import KnownCertificate, NotEnrolled
from helen.records import AuditEntry, audit


@attrs.frozen
class Reading:
    """The folder as it is now, who is known, and why some of admitted/ were left out."""

    material: Material
    known: tuple[KnownCertificate, ...]
    left_out: tuple[str, ...]


def read_folder(db: sqlite3.Connection, folder: Path, hosts: Sequence[str], now: float) -> Reading:
    """Makes what is missing or due, admits what is new, lets go of what is long over."""
    material = ca_folder.prepare(folder, hosts, now)
    credentials.forget_expired(db, now)
    left_out = tuple(sentence for one in material.admitted if (sentence := _admit(db, material, one, now)))
    return Reading(material, credentials.live_certificates(db, now), left_out)


def keep_ca(db: sqlite3.Connection, folder: Path, certificate: x509.Certificate, now: float, actor: str) -> None:
    """One more file in trusted/, and a line in the audit."""
    ca_folder.add_trusted(folder, certificate)
    audit(db, AuditEntry(now, actor, "import-ca", certificates.fingerprint(certificate)))


def in_rows(certificate: x509.Certificate) -> NewCertificate:
    """As the store keeps it."""
    not_after = certificates.until(certificate)
    return NewCertificate(f"{certificate.serial_number:x}", not_after, certificates.der(certificate))


def _admit(db: sqlite3.Connection, material: Material, certificate: x509.Certificate, now: float) -> str | None:
    try:
        name = certificates.name_in(certificate)
        key = certificates.checked_key(certificate.public_key())
        if certificates.until(certificate) <= now:
            raise BadRequest(f"the certificate of {name} has expired")
        if not any(certificates.is_issued_by(certificate, ca) for ca in material.bundle):
            raise BadRequest(f"the certificate of {name} is of a CA that is neither ca.pem nor in trusted/")
        new = in_rows(certificate)
        credentials.admit(db, Grant(name, certificates.key_hash(key), now, "operator", lambda: new))
    except (BadRequest, NotEnrolled) as error:
        return str(error)
    return None
