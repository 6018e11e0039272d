"""Perform the capability `crypto`: digests, HMACs, PBKDF2, random bytes and ciphers. Reads no file and sends nothing.

Checks need them to prove to a server that they know a password, and to speak with devices that encrypt (SNMPv3).
Arguments are bytes (any Lua string), answers are hexadecimal digits. Lua could compute the same some thousand times
slower.
"""

import hashlib
import hmac
import os
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, whole_argument
from groundwork.snmp_ciphers import CIPHERS, cipher_of

# MD5 and SHA-1 are for old servers: the server chooses the algorithm, not the check.
ALGORITHMS = ("sha256", "sha512", "sha384", "sha224", "sha1", "md5")
# A login message is some hundred bytes. For files there is host.file.checksum.
MOST_BYTES = 65_536
# PostgreSQL's default is 4,096 rounds. This many take 0.1 s of a core; a server that asks for more may want to keep it
# busy.
MOST_ROUNDS = 200_000
MOST_RANDOM = 64
# SNMPv3 makes a key of the digest of a password that is repeated to this length (RFC 3414, A.2); it takes 2 ms.
MOST_REPEATED = 1_048_576


def _algorithm(call: str, value: Any) -> str:
    if value not in ALGORITHMS:
        raise bad(f"{call}: algorithm must be one of {', '.join(ALGORITHMS)}")
    return str(value)


def _bytes(call: str, name: str, value: Any) -> bytes:
    """Return the bytes of a Lua string."""
    if not isinstance(value, str):
        raise bad(f"{call}: {name} must be a text")
    try:
        data = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise bad(f"{call}: {name} must be bytes or UTF-8") from None
    if len(data) > MOST_BYTES:
        raise bad(f"{call}: {name} must be at most {MOST_BYTES} bytes")
    return data


def digest(args: list[Any], _policy: Any, _context: Context) -> str:
    """Perform host.crypto.digest: return the digest of some bytes, repeated up to a length if one is given."""
    call = "host.crypto.digest"
    algorithm, given, length = positional(call, args, "algorithm", "data", "length")
    name, data = _algorithm(call, algorithm), _bytes(call, "data", given)
    if length is not None:
        size = whole_argument(call, "length", length, None, 1, MOST_REPEATED)
        if not data:
            raise bad(f"{call}: data must not be empty where a length is given")
        data = (data * (size // len(data) + 1))[:size]
    return hashlib.new(name, data, usedforsecurity=False).hexdigest()


def keyed(args: list[Any], _policy: Any, _context: Context) -> str:
    """Perform host.crypto.hmac: return the HMAC (RFC 2104) of some bytes."""
    algorithm, key, data = positional("host.crypto.hmac", args, "algorithm", "key", "data")
    name = _algorithm("host.crypto.hmac", algorithm)
    return hmac.new(_bytes("host.crypto.hmac", "key", key), _bytes("host.crypto.hmac", "data", data), name).hexdigest()


def derived(args: list[Any], _policy: Any, context: Context) -> str:
    """Perform host.crypto.pbkdf2: return a key from a password (RFC 8018), as long as a digest."""
    call = "host.crypto.pbkdf2"
    algorithm, password, salt, rounds = positional(call, args, "algorithm", "password", "salt", "rounds")
    name, times = _algorithm(call, algorithm), whole_argument(call, "rounds", rounds, None, 1, MOST_ROUNDS)
    context.seconds_left(1.0)
    return hashlib.pbkdf2_hmac(name, _bytes(call, "password", password), _bytes(call, "salt", salt), times).hex()


def _cipher(call: str, args: list[Any]) -> tuple[Cipher[Any], bytes]:
    """Return the cipher that the arguments name, and the data. Raises CallFailed if they don't fit each other."""
    name, given_key, given_iv, given = positional(call, args, "cipher", "key", "iv", "data")
    if not isinstance(name, str) or name not in CIPHERS:
        raise bad(f"{call}: cipher must be one of {', '.join(CIPHERS)}")
    (sizes, block), key, iv = CIPHERS[name], _bytes(call, "key", given_key), _bytes(call, "iv", given_iv)
    data = _bytes(call, "data", given)
    if len(key) not in sizes:
        raise bad(f"{call}: key must have {' or '.join(map(str, sizes))} bytes for {name}, not {len(key)}")
    if len(iv) != block:
        raise bad(f"{call}: iv must have {block} bytes for {name}, not {len(iv)}")
    if name == "des-cbc" and len(data) % block:
        raise bad(f"{call}: data must be whole blocks of {block} bytes for {name}, not {len(data)} bytes")
    return cipher_of(name, key, iv), data


def encrypted(args: list[Any], _policy: Any, _context: Context) -> str:
    """Perform host.crypto.encrypt: return encrypted bytes. Raises CallFailed if this host lacks the cipher."""
    return _transformed("host.crypto.encrypt", args)


def decrypted(args: list[Any], _policy: Any, _context: Context) -> str:
    """Perform host.crypto.decrypt: return decrypted bytes. Raises CallFailed if this host lacks the cipher."""
    return _transformed("host.crypto.decrypt", args)


def _transformed(call: str, args: list[Any]) -> str:
    cipher, data = _cipher(call, args)
    try:
        step = cipher.encryptor() if call.endswith(".encrypt") else cipher.decryptor()
    except UnsupportedAlgorithm:  # OpenSSL without its old ciphers, or in FIPS mode
        raise CallFailed("unsupported", f"the OpenSSL of this host does not have the cipher {args[0]}") from None
    return (step.update(data) + step.finalize()).hex()


def random(args: list[Any], _policy: Any, _context: Context) -> str:
    """Perform host.crypto.random: return unpredictable bytes. Raises CallFailed if the kernel has none."""
    (count,) = positional("host.crypto.random", args, "count")
    try:
        return os.urandom(whole_argument("host.crypto.random", "count", count, None, 1, MOST_RANDOM)).hex()
    except OSError as fault:
        raise CallFailed("failed", f"this host has no random bytes: {fault.strerror}") from None


CALLS: dict[str, Perform] = {
    "crypto.digest": digest,
    "crypto.hmac": keyed,
    "crypto.pbkdf2": derived,
    "crypto.random": random,
    "crypto.encrypt": encrypted,
    "crypto.decrypt": decrypted,
}
