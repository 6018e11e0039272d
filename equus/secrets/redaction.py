"""Hide the values of secrets in everything that leaves the sandbox: texts, documents, log lines. Pure.

It keeps accidents from showing a password: one that is part of an error, of a URL, of a server's answer. It is no
protection against the author of a check, because a check can write a value backwards; secrets.toml says which checks
get a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

LEAST = 4  # characters of a secret: shorter ones stand in every other text
MASK = "*" * LEAST  # no longer than a value, so that no document grows beyond its limit
# A text may have been cut in the middle of a secret. The shortest cap is that of a label, 512 bytes: 128 characters.
CUT_FROM = 128
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)  # of JSON, with its quotes
# Escapes that may stand for characters of a value. Workers write none of them: a value is printable, and of what is
# printable JSON demands escapes for the quote and the backslash alone.
_ODD_ESCAPE = rb"\\[u/]"


class Redaction:
    """Masks a set of values, in each form in which JSON, Python and URLs write them."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._found = re.compile("|".join(map(re.escape, self._forms))) if forms else None
        # Each value, and each beginning of one, begins so.
        heads = sorted({json.dumps(form[:LEAST], ensure_ascii=False)[1:-1].encode() for form in forms})
        self._suspect = re.compile(b"|".join([*map(re.escape, heads), _ODD_ESCAPE]))

    def text(self, text: str) -> str:
        """Return the text with each value masked, and the beginning of one at its end if it may have been cut there."""
        if self._found is None:
            return text
        text = self._found.sub(MASK, text)
        return self._without_rest(text) if len(text) >= CUT_FROM else text

    def value(self, value: Any) -> Any:
        """Return plain data with every text in it masked, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(item) for name, item in value.items()}
        return value

    def document(self, blob: bytes) -> bytes:
        """Return a JSON document with every text in it masked, names included, and all else byte for byte.

        It is not decoded: only a text that may hold a value is, by itself. Raises ValueError or RecursionError if there
        may be a value in something that is no JSON.
        """
        if self._found is None or self._suspect.search(blob) is None:
            return blob
        around = _STRING.sub(b"", blob)
        if b'"' in around or self._suspect.search(around):
            json.loads(blob)  # a number, most likely
        return _STRING.sub(self._masked, blob)

    def _masked(self, found: re.Match[bytes]) -> bytes:
        string = found[0]
        if self._suspect.search(string) is None:
            return string
        text = json.loads(string)
        masked = self.text(text)
        return string if masked == text else json.dumps(masked, ensure_ascii=False).encode()

    def _without_rest(self, text: str) -> str:
        for form in self._forms:
            for length in range(min(len(form) - 1, len(text)), LEAST - 1, -1):
                if text.endswith(form[:length]):
                    return text[:-length] + MASK
        return text


def _forms(value: str) -> set[str]:
    """Return the forms of a value: as it is, and as JSON, Python and URLs write it."""
    in_json = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    return {value, *in_json, repr(value)[1:-1], quote(value, safe=""), quote_plus(value), quote(value)}
