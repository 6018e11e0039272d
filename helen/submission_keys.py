"""The secrets of those who report from outside, all of them made from one key: STATE/passive.key.

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

from helen.passive import Declared, Passive
from helen.statedir import read_private, write_whole

KEY_BYTES = 32
PREFIX = "hs_"  # of a submission key: whoever finds one somewhere knows what it is


class SubmissionKeys:
    """`load` reads, or makes, the key. Blocks: at start only."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def load(cls, path: Path) -> SubmissionKeys:
        if not path.exists():
            write_whole(path, secrets.token_hex(KEY_BYTES).encode() + b"\n")
        return cls(read_private(path).strip())

    def ping(self, ping: Declared) -> str:
        """The UUID in a ping's URL: 122 bits that nobody guesses."""
        return str(UUID(bytes=self._made("ping", ping.host, ping.id, ping.serial)[:16], version=4))

    def ping_key(self, config: Passive) -> str:
        """The key before the names of pings in URLs: /ping/KEY/NAME."""
        return self._written("pings", "*", "", config.serial)

    def of_host(self, config: Passive, host: str) -> str:
        """What a host shows with its results; `*` is good for all of them."""
        serial = config.serial if host == "*" else config.hosts[host].serial
        return PREFIX + self._written("submit", host, "", serial)

    def is_good(self, config: Passive, host: str, given: str) -> bool:
        """Whether this key may report for the host."""
        wanted = [self.of_host(config, name) for name in ("*", host) if name == "*" or name in config.hosts]
        return any(hmac.compare_digest(given.encode(), each.encode()) for each in wanted)

    def _written(self, *what: object) -> str:
        return base64.urlsafe_b64encode(self._made(*what)[:24]).decode()

    def _made(self, *what: object) -> bytes:
        return hmac.digest(self._key, "\0".join(map(str, what)).encode(), sha256)
