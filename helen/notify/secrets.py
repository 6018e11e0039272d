"""Secrets by reference: looked up when a message is sent, and masked in whatever anybody gets to see. Blocks: files.

The text that a remote answers with may hold what it was sent; each secret that was used is masked in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field

from helen.notify.tables import Secret, Text

MAX_SECRET = 16_384  # bytes of a file: a token of any kind
MASK = "****"
SHORTEST_PART = 6  # characters of a part of a URL: shorter ones are words
_URL_PARTS = re.compile(r"[/:@?&=#]+")
SHORTEST_MASKED = 4  # characters: a shorter one would mask half of all text, and is no secret anyway


class SecretMissing(Exception):
    """A secret can't be had; the sentence says which, and never what is in it."""


@define
class Opened:
    """What was looked up for one message, and how to hide it again."""

    used: list[str] = field(factory=list)

    def text(self, given: Text) -> str:
        """The value; raises SecretMissing."""
        if isinstance(given, str):
            return given
        value = _from_environment(given.name) if given.kind == "env" else _from_file(given.name)
        self.used.append(value)
        return value

    def texts(self, given: Mapping[str, Text]) -> dict[str, str]:
        return {name: self.text(each) for name, each in given.items()}

    def mask(self, text: str) -> str:
        """The same without any of them."""
        for value in sorted(self.used, key=len, reverse=True):
            if len(value) >= SHORTEST_MASKED:
                text = text.replace(value, MASK)
        return text

    def parts(self, url: str) -> None:
        """Nothing of this URL is to be seen either: for many services its host or a part of its path is the secret."""
        self.used += [part for part in _URL_PARTS.split(url) if len(part) >= SHORTEST_PART]


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SecretMissing(f"the environment variable {name} is not set where Helen runs")
    return value


def _from_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_SECRET + 1)
    except OSError as error:
        raise SecretMissing(f"{path} can't be read: {error.strerror}") from error
    try:
        value = raw.decode().strip()
    except UnicodeDecodeError as error:
        raise SecretMissing(f"{path} is no UTF-8") from error
    if not value or len(raw) > MAX_SECRET or not value.isprintable():
        raise SecretMissing(f"{path} holds no secret: one line of text, at most {MAX_SECRET} bytes")
    return value


def shown(given: Any) -> Any:
    """A setting for people: a reference by its name, of a URL only where it goes (paths are often the secret)."""
    if isinstance(given, Secret):
        return str(given)
    if isinstance(given, dict):
        return {name: str(each) if isinstance(each, Secret) else MASK for name, each in given.items()}
    return given


def shown_url(url: Text) -> str:
    if isinstance(url, Secret):
        return str(url)
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/{MASK if parts.path.strip('/') or parts.query else ''}"


def shown_service(url: Text) -> str:
    """Of a URL of Apprise's only which service it is for: whatever follows may be a secret."""
    return str(url) if isinstance(url, Secret) else f"{url.partition('://')[0]}://{MASK}"
