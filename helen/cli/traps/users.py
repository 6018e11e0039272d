"""Hold the users of SNMP's version 3 and their keys: proofs and ciphers (RFC 3414, RFC 3826, RFC 7860).

A key of a password takes some milliseconds, so it is made when the file is read; that for one device follows quickly.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from functools import lru_cache

from attrs import define, field

from groundwork.snmp_ciphers import cipher_of

REPEATED = 1_048_576  # bytes to which the standard has a password repeated
LEAST_PASSWORD = 8
MOST_DEVICES = 1_000  # whose keys are kept
# Names in the file -> the digest, and the bytes of a proof that are sent.
PROOFS = {
    "md5": ("md5", 12), "sha": ("sha1", 12), "sha224": ("sha224", 16), "sha256": ("sha256", 24),
    "sha384": ("sha384", 32), "sha512": ("sha512", 48),
}  # fmt: skip
# ... -> the cipher, the bytes of its key, and if a key that is too short grows by Cisco's rule.
CIPHERS = {
    "des": ("des-cbc", 16, False), "aes": ("aes-cfb", 16, False), "aes192": ("aes-cfb", 24, False),
    "aes256": ("aes-cfb", 32, False), "aes192c": ("aes-cfb", 24, True), "aes256c": ("aes-cfb", 32, True),
}  # fmt: skip
PROVED, ENCRYPTED = 1, 2


@lru_cache(64)
def key_of(digest: str, password: bytes) -> bytes:
    """Return the digest of a password that is repeated to a mebibyte."""
    return hashlib.new(digest, (password * (REPEATED // len(password) + 1))[:REPEATED], usedforsecurity=False).digest()


@define
class User:
    """Describes one user: what it proves and encrypts by. Without an `auth_password` it does neither."""

    name: bytes
    auth: str = "sha"
    auth_password: bytes = field(default=b"", repr=False)
    privacy: str = "aes"
    privacy_password: bytes = field(default=b"", repr=False)
    _keys: dict[bytes, tuple[bytes, bytes]] = field(factory=dict, repr=False)

    @property
    def flags(self) -> int:
        """Return the flags that each of its messages must have."""
        return (PROVED if self.auth_password else 0) | (ENCRYPTED if self.privacy_password else 0)

    @property
    def proof_size(self) -> int:
        return PROOFS[self.auth][1] if self.auth_password else 0

    def keys(self, engine: bytes) -> tuple[bytes, bytes]:
        """Return the keys of proof and cipher for one engine."""
        found = self._keys.get(engine)
        if found is None:
            found = self._keys[engine] = self._made(engine)
            if len(self._keys) > MOST_DEVICES:
                del self._keys[next(iter(self._keys))]
        return found

    def _made(self, engine: bytes) -> tuple[bytes, bytes]:
        digest, (_, size, is_cisco) = PROOFS[self.auth][0], CIPHERS[self.privacy]

        def localized(password: bytes) -> bytes:
            key = key_of(digest, password)
            return hashlib.new(digest, key + engine + key, usedforsecurity=False).digest()

        proof = localized(self.auth_password) if self.auth_password else b""
        if not self.privacy_password:
            return proof, b""
        key = last = localized(self.privacy_password)
        while len(key) < size:
            last = localized(last) if is_cisco else hashlib.new(digest, key, usedforsecurity=False).digest()
            key += last
        return proof, key[:size]

    def proof(self, engine: bytes, message: bytes) -> bytes:
        """Return the proof of a message whose own proof is zeros."""
        digest, size = PROOFS[self.auth]
        return hmac.new(self.keys(engine)[0], message, digest).digest()[:size]

    def decrypt(self, engine: bytes, data: bytes, salt: bytes, clock: tuple[int, int]) -> bytes:
        """Return decrypted data; `clock`: boots and time of the message. Raises ValueError for a wrong length."""
        key, start = self._start(engine, salt, clock)
        step = cipher_of(CIPHERS[self.privacy][0], key, start).decryptor()
        return step.update(data) + step.finalize()

    def encrypt(self, engine: bytes, data: bytes, salt: bytes, clock: tuple[int, int]) -> bytes:
        """Return encrypted data."""
        key, start = self._start(engine, salt, clock)
        if self.privacy == "des":
            data += bytes(-len(data) % 8)
        step = cipher_of(CIPHERS[self.privacy][0], key, start).encryptor()
        return step.update(data) + step.finalize()

    def _start(self, engine: bytes, salt: bytes, clock: tuple[int, int]) -> tuple[bytes, bytes]:
        if len(salt) != 8:
            raise ValueError("a salt must have 8 bytes")
        key = self.keys(engine)[1]
        if self.privacy == "des":
            return key[:8], bytes(one ^ other for one, other in zip(key[8:16], salt, strict=True))
        return key, struct.pack(">II", *clock) + salt
