"""Writes name patterns of Helen as matchers of Alertmanager, which has regular expressions. Pure."""

from __future__ import annotations

import re

from helen.notify.routing import GLOB
from helen.states.matchers import Matcher, as_labels

_GLOB_PARTS = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


def label_name(name: str) -> str:
    """Return a label's name with the characters that Alertmanager allows."""
    return next(iter(as_labels({name: "x"})))


def matcher_of_globs(name: str, globs: tuple[str, ...]) -> Matcher:
    """Return the matcher of a label that one of the patterns fits."""
    if len(globs) == 1 and not set(globs[0]) & GLOB:
        return Matcher(name, globs[0])
    return Matcher(name, "|".join(expression_of(glob) for glob in globs), True)


def expression_of(glob: str) -> str:
    """Return a name pattern as an expression, in words that RE2 reads as well."""
    parts = []
    for part in _GLOB_PARTS.findall(glob):
        if part in ("*", "?"):
            parts.append(".*" if part == "*" else ".")
        elif len(part) > 1 and part[0] == "[":
            parts.append("[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", part[1] == "!") + "]")
        else:
            parts.append(re.escape(part))
    return "".join(parts)
