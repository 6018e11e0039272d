"""Makes the secrets of hosts and pings that report from outside, all of them from one key: STATE/passive.key.

A ping's URL holds a UUID of its own, a host's results come with a key that is good for that host alone. Neither is kept
anywhere, so no file of settings has a secret in it; another `serial` in passive.toml makes another secret.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from groundwork.atomic_write import write_durably
from groundwork.presence import is_there
from helen.files.state_dir import read_private
from helen.passive.declarations import Declared, Passive

KEY_BYTES = 32
PREFIX = "hs_"  # of a submission key: one that turns up somewhere is known for what it is


def digest_of(key: str) -> bytes:
    """Return the hash by which a key is looked up: the time that it takes tells nothing of the key."""
    return sha256(key.encode("utf-8", "replace")).digest()


class SubmissionKeys:
    """Derives each secret from `key`."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def load(cls, path: Path) -> SubmissionKeys:
        """Read the key, or make it. Blocks; at start only. Raises StateError or OSError if it can't be used."""
        if not is_there(path):
            write_durably(path, secrets.token_hex(KEY_BYTES).encode() + b"\n")
        return cls(read_private(path).strip())

    def ping(self, ping: Declared) -> str:
        """Return the UUID in a ping's URL: 122 bits that can't be guessed."""
        return str(UUID(bytes=self._made("ping", ping.host, ping.id, ping.serial)[:16], version=4))

    def ping_key(self, config: Passive) -> str:
        """Return the key that stands before the names of pings in URLs: /ping/KEY/NAME."""
        return self._written("pings", "*", "", config.serial)

    def of_host(self, config: Passive, host: str) -> str:
        """Return the key that a host sends with its results; the one of `*` is good for all hosts."""
        declared = config.hosts.get(host)
        serial = config.serial if declared is None else declared.serial
        return PREFIX + self._written("submit", host, "", serial)

    def is_good(self, config: Passive, host: str, given: str) -> bool:
        """Return True if this key may report for the host. One that is not declared takes as long as any other."""
        of_all, of_host = (
            hmac.compare_digest(given.encode("utf-8", "replace"), self.of_host(config, name).encode())
            for name in ("*", host)
        )
        return of_all or (of_host and host in config.hosts)

    def digests(self, config: Passive) -> frozenset[bytes]:
        """Return the hashes of all keys with which hosts report, that of `*` included; some microseconds for each."""
        return frozenset(digest_of(self.of_host(config, host)) for host in ("*", *config.hosts))

    def _written(self, *what: object) -> str:
        return base64.urlsafe_b64encode(self._made(*what)[:24]).decode()

    def _made(self, *what: object) -> bytes:
        return hmac.digest(self._key, "\0".join(map(str, what)).encode(), sha256)
