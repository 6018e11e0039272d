"""The capability `crypto`: what a check needs to prove to a server that it knows a password. Reads and sends nothing.

Sums, keyed sums, derived keys and random bytes, bytes in (any Lua string) and hexadecimal digits out. Lua could
compute all of it, some thousand times slower.
"""

import hashlib
import hmac
import os
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, whole_argument

# MD5 and SHA-1 are what old servers ask for; no check can choose what its server speaks.
ALGORITHMS = ("sha256", "sha512", "sha384", "sha224", "sha1", "md5")
# A message of a login is some hundred bytes; larger things lie in files, for which there is host.file.checksum.
MOST_BYTES = 65_536
# PostgreSQL's default is 4,096 rounds. This many take 0.1 s of a core, and a server that asks for more wants our time.
MOST_ROUNDS = 200_000
MOST_RANDOM = 64


def _algorithm(call: str, value: Any) -> str:
    if value not in ALGORITHMS:
        raise bad(f"{call}: algorithm must be one of {', '.join(ALGORITHMS)}")
    return str(value)


def _bytes(call: str, name: str, value: Any) -> bytes:
    """A Lua string as the bytes that it is."""
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
    """The sum of some bytes."""
    algorithm, data = positional("host.crypto.digest", args, "algorithm", "data")
    name = _algorithm("host.crypto.digest", algorithm)
    return hashlib.new(name, _bytes("host.crypto.digest", "data", data), usedforsecurity=False).hexdigest()


def keyed(args: list[Any], _policy: Any, _context: Context) -> str:
    """The sum of some bytes with a key (RFC 2104)."""
    algorithm, key, data = positional("host.crypto.hmac", args, "algorithm", "key", "data")
    name = _algorithm("host.crypto.hmac", algorithm)
    return hmac.new(_bytes("host.crypto.hmac", "key", key), _bytes("host.crypto.hmac", "data", data), name).hexdigest()


def derived(args: list[Any], _policy: Any, context: Context) -> str:
    """A key from a password (PBKDF2, RFC 8018), as long as the sum is."""
    call = "host.crypto.pbkdf2"
    algorithm, password, salt, rounds = positional(call, args, "algorithm", "password", "salt", "rounds")
    name, times = _algorithm(call, algorithm), whole_argument(call, "rounds", rounds, None, 1, MOST_ROUNDS)
    context.seconds_left(1.0)
    return hashlib.pbkdf2_hmac(name, _bytes(call, "password", password), _bytes(call, "salt", salt), times).hex()


def random(args: list[Any], _policy: Any, _context: Context) -> str:
    """Bytes that nobody can foresee."""
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
