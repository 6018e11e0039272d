"""Finds arguments of assignments that look like passwords: all agents that an entry covers are sent them as text. Pure.

docs/secrets.rst has what to write instead: `{ secret = "NAME" }`. Its value is on the agent's machine alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from helen.assignments.schedule import Assignments

MAX_DEPTH = 8  # of tables and lists within an argument
RANDOM_LENGTH = 20  # characters: shorter texts are words, names and numbers
RANDOM_BITS = 3.5  # of a character: words have fewer, in what a generator has made there are more
_NAME = re.compile(
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|api[-_.]?key|access[-_.]?key|private[-_.]?key|credentials?"
    r"|auth(?:orization)?|proxy-authorization|cookie|community|bearer|psk",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
_SAYS = re.compile(
    r"(?:Bearer|Basic|Token|ApiKey)\s+\S{6,}|\w+://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?:[?&;]|^)(?:password|passwd|pwd|token|secret|api_?key)=[^&;\s]+",
    re.IGNORECASE,
)
_OF_A_GENERATOR = re.compile(r"[A-Za-z0-9+/_=-]+")
_HEXADECIMAL = re.compile(r"[0-9a-f]+|[0-9A-F]+")


def password_warnings(assignments: Assignments) -> list[str]:
    """Return a sentence for each argument that looks like a password, by its entry; never with its value."""
    named = [
        *((entry.id or entry.check, entry.args) for entry in assignments.entries),
        *((f"[[defaults]] number {given.place}", given.args) for given in assignments.defaults),
    ]
    found = dict.fromkeys(
        f'{where}: the argument "{name}" looks like a password, and each agent that the entry covers'
        ' is sent it: write { secret = "NAME" }, and put its value into secrets.toml there'
        for where, args in named
        for name in _suspects(args, "", 0)
    )
    return list(found)


def _suspects(value: Any, name: str, depth: int) -> Iterator[str]:
    """Give the dotted names of suspicious texts within a value."""
    if isinstance(value, Mapping):
        if set(value) == {"secret"} or depth == MAX_DEPTH:  # a reference
            return
        for key, each in value.items():
            yield from _suspects(each, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list):
        for each in value if depth < MAX_DEPTH else ():
            yield from _suspects(each, name, depth + 1)
    elif isinstance(value, str) and value and (_is_named_so(name) or _SAYS.search(value) or _is_random(value)):
        yield name


def _is_named_so(name: str) -> bool:
    """Return True if the last part of a name is a word for a secret, or ends with one: db_password, apiKey."""
    last = name.rpartition(".")[2]
    words = [word for word in _PARTS.split(last) if word]
    return any(_NAME.fullmatch(each) for each in (last, *words[-1:], "_".join(words[-2:])))


def _is_random(text: str) -> bool:
    """Return True for a long text of letters and digits without a pattern, as generators make them; no checksum."""
    if len(text) < RANDOM_LENGTH or not _OF_A_GENERATOR.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return False
    if not (re.search("[0-9]", text) and re.search("[a-z]", text) and re.search("[A-Z]", text)) or "/" in text[:2]:
        return False
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts) >= RANDOM_BITS
