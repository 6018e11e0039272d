"""Make the ciphers of SNMP's version 3 (RFC 3414, RFC 3826), for the checks of agents and the receiver of traps."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

try:
    from cryptography.hazmat.decrepit.ciphers.modes import CFB
except ImportError:  # its place in versions before 47
    from cryptography.hazmat.primitives.ciphers.modes import CFB

# The lengths of a key, and of a block and an iv, in bytes.
CIPHERS = {"aes-cfb": ((16, 24, 32), 16), "des-cbc": ((8,), 8)}


def cipher_of(name: str, key: bytes, iv: bytes) -> Cipher[Any]:
    """Return one of CIPHERS with a key and an iv of its lengths.

    Its encryptor and decryptor raise UnsupportedAlgorithm where OpenSSL lacks the cipher.
    """
    if name == "aes-cfb":
        return Cipher(AES(key), CFB(iv))
    return Cipher(TripleDES(key * 3), CBC(iv))
