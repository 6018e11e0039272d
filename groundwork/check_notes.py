"""Reads what people are to know of a check: runbook, owner and notes, in its table or in assignments.toml. Pure.

Agents hold them against these rules when they read a table, and use them for nothing; Helen shows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import asdict, frozen

MOST_URL = 2_000  # characters
MOST_OWNER = 200
MOST_NOTES = 2_000
MOST_PORT = 65_535
_PLACE = re.compile(r"\{([^{}]*)\}")
# A host's name or address, with a user before it and a port behind it. urllib.parse would read it, too, and brings
# 400 KiB that each worker of checks would be copied with.
_WHOLE = re.compile(
    r"https://(?:[^/?#@\[\]{]*@)?(?:\[(?:[0-9a-f.]*:){2,8}[0-9a-f.]*\]|[^/?#@:\[\]{]+)(?::([0-9]{0,5}))?(?:[/?#].*)?",
    re.IGNORECASE,
)
_RESERVED = re.compile(rb"[^A-Za-z0-9_.~-]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def read_runbook(value: Any) -> str:
    """Return an https URL in which `{agent}` and `{check}` may stand. Raises ValueError with the rest of a sentence."""
    if not isinstance(value, str) or len(value) > MOST_URL or not value.isascii() or not value.isprintable():
        raise ValueError(f"must be an https URL of at most {MOST_URL} characters")
    unknown = [name for name in _PLACE.findall(value) if name not in ("agent", "check")]
    if unknown or set(_PLACE.sub("", value)) & set("{} \"'<>\\`"):
        raise ValueError("may hold {agent} and {check}, and no other braces, blanks or quotes")
    found = _WHOLE.fullmatch(value)
    if found is None or int(found[1] or 0) > MOST_PORT:
        raise ValueError("must be an https URL, such as https://wiki.example.org/checks/{check}")
    return value


def read_owner(value: Any) -> str:
    """Return a name in one line. Raises ValueError with the rest of a sentence."""
    if not isinstance(value, str) or not 0 < len(value.strip()) <= MOST_OWNER or not value.isprintable():
        raise ValueError(f"must be one line of 1 to {MOST_OWNER} characters: a team or a person")
    return value.strip()


def read_notes(value: Any) -> str:
    """Return plain text, which may have lines. Raises ValueError with the rest of a sentence."""
    if not isinstance(value, str) or not value.strip() or len(value) > MOST_NOTES or _CONTROL.search(value):
        raise ValueError(f"must be plain text of 1 to {MOST_NOTES} characters, without control characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds what is no text") from None
    return value


READERS: Mapping[str, Callable[[Any], str]] = {"runbook": read_runbook, "owner": read_owner, "notes": read_notes}


@frozen
class CheckNotes:
    """Holds what people should know of a check: a page to follow, whom to call, notes. None: it is not given."""

    runbook: str | None = None
    owner: str | None = None
    notes: str | None = None

    def over(self, other: CheckNotes) -> CheckNotes:
        """Return these, and where one is missing that of the other."""
        return CheckNotes(self.runbook or other.runbook, self.owner or other.owner, self.notes or other.notes)

    def of(self, agent: str, check_id: str) -> CheckNotes:
        """Return these with the names in the runbook's URL."""
        if self.runbook is None or "{" not in self.runbook:
            return self
        names = {"agent": _quoted(agent), "check": _quoted(check_id)}
        return CheckNotes(_PLACE.sub(lambda place: names[place[1]], self.runbook), self.owner, self.notes)

    def document(self) -> dict[str, str]:
        """Return those that are set, by their names."""
        return {name: value for name, value in asdict(self).items() if value is not None}


NO_NOTES = CheckNotes()


def _quoted(text: str) -> str:
    """Return a text as one part of a URL, with %2F for each byte that means something there."""
    return _RESERVED.sub(lambda found: b"%%%02X" % ord(found[0]), text.encode()).decode()


def read_all(given: Mapping[str, Any], told: Callable[[str, str], None]) -> CheckNotes:
    """Return the notes among these fields; `told(name, sentence)` hears of each that can't be used."""
    found = {}
    for name, read in READERS.items():
        if given.get(name) is None:
            continue
        try:
            found[name] = read(given[name])
        except ValueError as fault:
            told(name, str(fault))
    return CheckNotes(**found)
