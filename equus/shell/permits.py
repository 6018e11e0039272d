"""Decide which key may log in as which user: by a file of keys, or by certificates of a CA that the policy names.

Both files are read anew each time, so a key that is removed ends its sessions too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from attrs import frozen
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from equus.policy.file_ownership import ownership_fault
from equus.policy.shell import AUDITOR
from equus_protocol.host_key import fingerprint

ACCEPTED = frozenset({"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"})
MAX_FILE = 1_048_576  # bytes of a file of keys
MAX_BLOB = 65_536  # bytes of a key or a certificate that a client shows


@frozen
class Access:
    """Describes the part of the policy that says who may log in. `%u` in `authorized_keys` stands for the user."""

    users: tuple[str, ...]
    authorized_keys: str | None = None
    trusted_user_ca: str | None = None
    auditors: str | None = None  # keys that may read recordings, as the user AUDITOR


@frozen
class Permit:
    """Holds the permit of one key: `who` is its fingerprint or the certificate's name, `key` the public key's bytes."""

    who: str
    key: bytes
    may_pty: bool = True
    may_forward: bool = True
    command: str | None = None  # the only one, by the certificate


def permit(access: Access, user: str, blob: bytes, now: float) -> Permit | None:
    """Return what a public key or a certificate opens for a user, None for nothing. `now`: unix seconds. Blocking.

    Raises OSError if a file can't be read, PermissionError among them if other users could change it.
    """
    if user == AUDITOR:
        access = Access((user,), access.auditors)
    if user not in access.users or len(blob) > MAX_BLOB:
        return None
    kind = blob[4 : 4 + int.from_bytes(blob[:4], "big")].decode("ascii", "replace")
    if kind in ACCEPTED and access.authorized_keys is not None:
        path = access.authorized_keys.replace("%u", user)
        return Permit(fingerprint(blob), blob) if blob in set(_keys_of(path)) else None
    if kind.endswith("-cert-v01@openssh.com") and access.trusted_user_ca is not None:
        return _by_certificate(access.trusted_user_ca, user, kind, blob, now)
    return None


def _by_certificate(path: str, user: str, kind: str, blob: bytes, now: float) -> Permit | None:
    try:
        found = load_ssh_public_identity(f"{kind} {base64.b64encode(blob).decode()}".encode())
        if not isinstance(found, SSHCertificate):
            return None
        found.verify_cert_signature()
        signer = _blob(found.signature_key())
        key = _blob(found.public_key())
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        return None
    options = dict(found.critical_options)
    command = options.pop(b"force-command", None)
    is_good = (
        found.type is SSHCertificateType.USER and not options and user.encode() in found.valid_principals
        and found.valid_after <= now < found.valid_before and signer in set(_keys_of(path))
    )  # fmt: skip
    if not is_good:
        return None
    who = f"certificate {found.key_id.decode('utf-8', 'replace')!r} {found.serial} of {fingerprint(signer)}"
    return Permit(
        who, key, b"permit-pty" in found.extensions, b"permit-port-forwarding" in found.extensions,
        None if command is None else command.decode("utf-8", "replace"),
    )  # fmt: skip


def _blob(key: object) -> bytes:
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)  # type: ignore[attr-defined]
    return base64.b64decode(line.split()[1])


def _keys_of(path: str) -> Iterator[bytes]:
    """Yield the keys of a file, one a line. A line that begins with options is left out: none of them is known here."""
    fault = ownership_fault(path)
    if fault is not None:
        raise PermissionError(fault)
    with open(path, "rb") as file:
        text = file.read(MAX_FILE + 1)
    if len(text) > MAX_FILE:
        raise OSError(f"{path} is larger than {MAX_FILE} bytes")
    for line in text.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] in ACCEPTED:
            try:
                yield base64.b64decode(fields[1], validate=True)
            except ValueError:
                continue
