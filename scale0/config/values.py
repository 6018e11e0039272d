"""Converts single values of a configuration from text, each with a sentence that says what is expected. Pure.

A converter takes a text and returns its value, or raises ValueError with the expectation as its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Convert = Callable[[str], Any]

MAX_SCRYPT_MEMORY = 64 << 20  # bytes, 128 * N * r; a configuration must not be able to use up the machine

_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ENDPOINT = re.compile(r"tcp://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.*-]+):([0-9]{1,5})|ipc://[\x21-\x7e]{1,100}")
_SCRYPT = re.compile(r"scrypt\$([0-9]{1,7})\$([0-9]{1,3})\$([0-9]{1,3})\$((?:[0-9a-f]{2}){8,64})\$((?:[0-9a-f]{2})+)")
_Z85 = re.compile(r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")
_HEX32 = re.compile(r"[0-9a-f]{64}")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


def _matching(pattern: re.Pattern[str], expected: str) -> Convert:
    def convert(text: str) -> str:
        """Return the text itself. Raises ValueError if the pattern does not match all of it."""
        if not pattern.fullmatch(text):
            raise ValueError(expected)
        return text

    return convert


def _number(low: float, high: float, expected: str, whole: bool = False) -> Convert:
    digits = re.compile(r"[0-9]{1,12}" if whole else r"[0-9]{1,12}(\.[0-9]{1,9})?")

    def convert(text: str) -> float:
        """Return the number. Raises ValueError if the text is none between `low` and `high`."""
        if not digits.fullmatch(text) or not low <= float(text) <= high:
            raise ValueError(expected)
        return int(text) if whole else float(text)

    return convert


def truth(text: str) -> bool:
    """Return True for `1` or `true`, False for `0` or `false`. Raises ValueError for any other text."""
    if text not in ("0", "1", "false", "true"):
        raise ValueError("1 or 0")
    return text in ("1", "true")


def one_of(*choices: str) -> Convert:
    """Return a converter that takes these texts and raises ValueError for any other."""

    def convert(text: str) -> str:
        """Return the text itself. Raises ValueError if it is none of the choices."""
        if text not in choices:
            raise ValueError(", ".join(choices[:-1]) + " or " + choices[-1])
        return text

    return convert


def scrypt_record(text: str) -> str:
    """Return a password record `scrypt$N$r$p$SALT$KEY` as it is.

    Raises ValueError if the text has another form, or if checking it would take too much memory.
    """
    match = _SCRYPT.fullmatch(text)
    if not match:
        raise ValueError("scrypt$N$r$p$SALT$KEY with salt and key in hex; `scale0ctl password` makes one")
    n, r, p = (int(part) for part in match.group(1, 2, 3))
    if n < 2 or n & (n - 1) or not 0 < 128 * n * r <= MAX_SCRYPT_MEMORY or not 0 < p <= 16:
        raise ValueError(f"scrypt with N a power of two and 128*N*r at most {MAX_SCRYPT_MEMORY}")
    return text


def _port_ending(pattern: re.Pattern[str], expected: str) -> Convert:
    def convert(text: str) -> str:
        """Return the text itself. Raises ValueError if it does not match, or its port does not fit into 16 bits."""
        match = pattern.fullmatch(text)
        if not match or (match[2] is not None and int(match[2]) > 65_535):
            raise ValueError(expected)
        return text

    return convert


TEXT = _matching(re.compile(r".{0,255}"), "a text of at most 255 characters")
PEER_NAME = _matching(re.compile(r".{1,255}"), "a CURVE key or an address")
CONTENT = _matching(re.compile(r".*"), "a text")
SERVICE = _matching(re.compile(r"(?!mmi\.).{1,255}"), "a service name, or all; mmi.* is the broker's own")
IDENTITY = _matching(_IDENTITY, "1 to 128 letters, digits and ._:@-")
NAME = _matching(_NAME, "1 to 128 letters, digits and ._-")
OPTIONAL_NAME = _matching(re.compile(rf"({_NAME.pattern})?"), "1 to 128 letters, digits and ._-, or nothing")
ENDPOINT = _port_ending(_ENDPOINT, "an endpoint such as tcp://10.0.0.1:5555 or ipc:///run/scale0.sock")
HOST_PORT = _port_ending(_HOST_PORT, "HOST:PORT, such as 127.0.0.1:8080")
HOST = _matching(re.compile(r"[A-Za-z0-9_.:*-]{1,253}"), "an address of this machine, or * for all of them")
PORT = _number(0, 65_535, "a port number, 0 to 65535; 0 is any free port", whole=True)
SECONDS = _number(0.01, 86_400, "seconds, more than 0 and at most a day")
MILLIS = _number(0, 60_000, "milliseconds, 0 to 60000", whole=True)
PUBLIC_KEY = _matching(_Z85, "a CURVE public key, 40 characters of Z85")
SIGNING_KEY = _matching(_HEX32, "an Ed25519 public key, 64 hex digits")
