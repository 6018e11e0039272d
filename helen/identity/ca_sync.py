"""Reads the CA folder and the store together, and admits the certificates in STATE/ca/admitted.

Each function takes the database first, runs in the store's thread (`store.call`) and blocks on files. Nothing is
remembered here: helen/identity/authority.py gets a CAReading whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import attrs
from cryptography import x509

from helen.keys import ca_files, certificates
from helen.keys.ca_files import Material
from helen.keys.certificates import BadRequest
from helen.storage import credential_rows
from helen.storage.agent_rows import AuditEntry, audit
from helen.storage.credential_rows import Grant, NewCertificate
from helen.storage.enrolled_keys import EnrolledCertificate, NotEnrolled


@attrs.frozen
class CAReading:
    """Holds the folder of the CA as it is now, the known certificates, and a sentence for each file of admitted/ that
    was left out.
    """

    material: Material
    known: tuple[EnrolledCertificate, ...]
    left_out: tuple[str, ...]


def read_folder(db: sqlite3.Connection, folder: Path, hosts: Sequence[str], now: float) -> CAReading:
    """Make what is missing or due at `now`, unix seconds, admit what is new, delete what expired long ago."""
    material = ca_files.prepare(folder, hosts, now)
    credential_rows.forget_expired(db, now)
    left_out = tuple(sentence for one in material.admitted if (sentence := _admit(db, material, one, now)))
    return CAReading(material, credential_rows.live_certificates(db, now), left_out)


def keep_ca(db: sqlite3.Connection, folder: Path, certificate: x509.Certificate, now: float, actor: str) -> None:
    """Add a CA to trusted/, and an entry of `now`, unix seconds, to the audit."""
    ca_files.add_trusted(folder, certificate)
    audit(db, AuditEntry(now, actor, "import-ca", certificates.fingerprint(certificate)))


def in_rows(certificate: x509.Certificate) -> NewCertificate:
    """Return a certificate as the store keeps it."""
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
        credential_rows.admit(db, Grant(name, certificates.key_hash(key), now, "operator", lambda: new))
    except (BadRequest, NotEnrolled) as error:
        return str(error)
    return None
