"""Look secrets up when a message is sent, and mask them in each text that leaves Helen. Blocks: files.

A remote's answer may quote what it was sent, so each secret that was used is masked in the answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field

from helen.files.toml_table import Secret, Text

MAX_SECRET = 16_384  # bytes of a file: a token of any kind
MASK = "****"
SHORTEST_PART = 6  # characters of a part of a URL: shorter ones are words
_URL_PARTS = re.compile(r"[/:@?&=#]+")
SHORTEST_MASKED = 4  # characters: a shorter one would mask half of all text, and is no secret anyway


class SecretMissing(Exception):
    """Says that a secret can't be read; the text says which one, and never its value."""


@define
class OpenedSecrets:
    """Look up the secrets of one message, and mask them in what comes back."""

    used: list[str] = field(factory=list)

    def text(self, given: Text) -> str:
        """Return the value of a setting. Raises SecretMissing if it is a reference that leads nowhere."""
        if isinstance(given, str):
            return given
        value = _from_environment(given.name) if given.kind == "env" else _from_file(given.name)
        self.used.append(value)
        return value

    def texts(self, given: Mapping[str, Text]) -> dict[str, str]:
        """Return the values of a table of settings, by the same names. Raises SecretMissing as `text` does."""
        return {name: self.text(each) for name, each in given.items()}

    def mask(self, text: str) -> str:
        """Return the text with each secret in it replaced by MASK."""
        for value in sorted(self.used, key=len, reverse=True):
            if len(value) >= SHORTEST_MASKED:
                text = text.replace(value, MASK)
        return text

    def mask_parts(self, url: str) -> None:
        """Treat each part of this URL as a secret: for many services its host or a part of its path is the token."""
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


def show_setting(given: Any) -> Any:
    """Return a setting as people may see it: a reference by its name, a table with its plain values masked."""
    if isinstance(given, Secret):
        return str(given)
    if isinstance(given, dict):
        return {name: str(each) if isinstance(each, Secret) else MASK for name, each in given.items()}
    return given


def show_url(url: Text) -> str:
    """Return scheme, host and port of a URL, or its reference: the path is often the secret."""
    if isinstance(url, Secret):
        return str(url)
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/{MASK if parts.path.strip('/') or parts.query else ''}"
