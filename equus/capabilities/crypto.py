"""Perform the capability `crypto`: digests, HMACs, PBKDF2 and random bytes. Reads no file and sends nothing.

Checks need them to prove to a server that they know a password. Arguments are bytes (any Lua string), answers are
hexadecimal digits. Lua could compute the same some thousand times slower.
"""

import hashlib
import hmac
import os
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, whole_argument

# MD5 and SHA-1 are for old servers: the server chooses the algorithm, not the check.
ALGORITHMS = ("sha256", "sha512", "sha384", "sha224", "sha1", "md5")
# A login message is some hundred bytes. For files there is host.file.checksum.
MOST_BYTES = 65_536
# PostgreSQL's default is 4,096 rounds. This many take 0.1 s of a core; a server that asks for more may want to keep it
# busy.
MOST_ROUNDS = 200_000
MOST_RANDOM = 64


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
    """Perform host.crypto.digest: return the digest of some bytes."""
    algorithm, data = positional("host.crypto.digest", args, "algorithm", "data")
    name = _algorithm("host.crypto.digest", algorithm)
    return hashlib.new(name, _bytes("host.crypto.digest", "data", data), usedforsecurity=False).hexdigest()


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
}
