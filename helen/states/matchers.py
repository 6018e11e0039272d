"""Reads and applies matchers as Alertmanager has them: `name="value"`, `!=`, `=~`, `!~`, on an alert's labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from helen.states.linear_regex import Expression, read_expression

ALERTNAME = "HelenCheck"  # the label `alertname` of all alerts: Alertmanager wants one
MAX_MATCHERS = 50  # of one silence
MAX_VALUE = 1_000  # characters of one
_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TEXT = re.compile(
    r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}]*?))\s*(?:,|\Z)', re.DOTALL
)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


@frozen
class Matcher:
    """Describes a condition on one label. A label that isn't there is the same as an empty one."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True
    _compiled: Expression | None = field(init=False, repr=False, eq=False)

    @_compiled.default
    def _compile(self) -> Expression | None:
        return read_expression(self.value) if self.is_regex else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels meet the condition."""
        value = labels.get(self.name, "")
        holds = value == self.value if self._compiled is None else self._compiled.fullmatch(value)
        return holds == self.is_equal

    def to_json(self) -> dict[str, Any]:
        """Return `name`, `value`, `isRegex` and `isEqual`, as the API of Alertmanager names them."""
        return {"name": self.name, "value": self.value, "isRegex": self.is_regex, "isEqual": self.is_equal}

    def __str__(self) -> str:
        sign = ("=~" if self.is_regex else "=") if self.is_equal else ("!~" if self.is_regex else "!=")
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{sign}"{escaped}"'


def read_matcher(document: Any) -> Matcher:
    """Read a matcher from JSON as `to_json` writes it. Raises ValueError with a sentence if it is none."""
    if not isinstance(document, dict):
        raise ValueError("a matcher is an object of name, value, isRegex and isEqual")
    name, value = document.get("name"), document.get("value")
    is_regex, is_equal = document.get("isRegex", False), document.get("isEqual", True)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(value, str):
        raise ValueError(f"{name!r} is no label: a matcher has a name of letters, digits and _, and a value")
    if not isinstance(is_regex, bool) or not isinstance(is_equal, bool):
        raise ValueError(f"{name}: isRegex and isEqual are true or false")
    if len(value) > MAX_VALUE:
        raise ValueError(f"{name}: a value has at most {MAX_VALUE} characters")
    return Matcher(name, value, is_regex, is_equal)  # which reads an expression, and refuses what is none


def read_matchers(text: str) -> tuple[Matcher, ...]:
    """Read matchers from text, in braces or without: `{agent="web-1", check=~"disk.*"}`.

    Raises ValueError with a sentence if the text, or one of the matchers, can't be used.
    """
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    found: list[Matcher] = []
    at = 0
    while at < len(inner.rstrip()):
        match = _TEXT.match(inner, at)
        if match is None or len(found) == MAX_MATCHERS:
            raise ValueError(f'{text!r} is no matcher: write name="value", or with != =~ !~')
        name, sign, quoted, bare = match.groups()
        value = bare if quoted is None else re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], each[0]), quoted)
        document = {"name": name, "value": value, "isRegex": "~" in sign, "isEqual": "!" not in sign}
        found.append(read_matcher(document))
        at = match.end()
    return tuple(found)


def as_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels under names that Prometheus accepts, without those that are empty."""
    named = {_LABEL.sub("_", name): value for name, value in sorted(labels.items()) if value}
    return {f"_{name}" if name[:1].isdigit() else name: value for name, value in named.items()}
