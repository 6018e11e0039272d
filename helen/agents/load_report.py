"""Reads the load report of an agent, the blob of `loaded`, into frozen values with bounds. Pure.

Everything that differs from docs/protocol.rst, section 5, is left out: an agent of another make is welcome, and a
hostile one can't make Helen keep more than these figures allow.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from equus_protocol.long_text import has_more_parts
from equus_protocol.manifest import FILE_NAME, MAX_FILES

MAX_PARTS = 32_768  # of its JSON: MAX_FILES files have 20,000
MAX_DIGITS = 300  # of a whole number: the greatest float has 309
MAX_LABELS = 64  # of one agent
MAX_FACTS = 32  # of its host
MAX_KINDS = 8  # of tunnels that an agent knows
SHELL = ("host_key", "signature", "certificate")
MAX_PART = 8_192  # characters of one of them
MAX_WORD = 255  # characters of a key, a label, a fact
MAX_REASON = 500  # characters of why a file is not used: a compiler's message with its place
MOST_SEQUENCE = 2**31 - 1
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape of half a surrogate pair; alone, no file and no page can hold it
_NEWER = re.compile(r"rollback: .* is older than ([0-9]{1,9}),")  # as equus_protocol.manifest says it


@frozen
class LoadReport:
    """Holds an agent's report on the code that it runs. `files`: name -> sha256, state, error; `not_active`: why some
    don't run as they are in the set.
    """

    files: dict[str, dict[str, str | None]] = field(factory=dict)
    not_active: dict[str, str] = field(factory=dict)
    labels: dict[str, str] = field(factory=dict)
    host: dict[str, str | int | float | bool] = field(factory=dict)
    isolation: str | None = None
    policy: str | None = None
    spool: dict[str, str | int] = field(factory=dict)
    troubles: dict[str, str] = field(factory=dict)  # `manifest`, `schedule`, `upgrade`, `withheld`, ... -> why
    tunnels: tuple[str, ...] = ()  # the kinds that it knows
    shell: dict[str, str] = field(factory=dict)  # of tunnels to SSH: `host_key`, `signature`, `certificate`

    @property
    def spool_begins(self) -> tuple[str, int] | None:
        """Return the spool and its first sequence, if another Helen has acknowledged those before it; else None."""
        spool, first = self.spool.get("id"), self.spool.get("first")
        return (spool, first) if isinstance(spool, str) and isinstance(first, int) and first > 1 else None


def read_loaded(blob: bytes) -> LoadReport:
    """Read the blob of `loaded`. It never raises, and takes some 10 ms for the greatest blob of the protocol."""
    document = read_object(blob)
    files = _files(_object(document, "files"))
    not_active = {
        name: file["error"] or str(file["state"]) for name, file in files.items() if file["state"] != "active"
    }
    return LoadReport(
        files, not_active, read_labels(document.get("labels")), _facts(_object(document, "host")),
        _word(document.get("isolation")), _word(document.get("policy")), _spool(_object(document, "spool")),
        _troubles(document), _kinds(document.get("tunnels")), read_shell(_object(document, "shell")),
    )  # fmt: skip


def read_object(blob: bytes) -> dict[str, Any]:
    """Return a JSON object of texts that UTF-8 can hold; an empty one if the blob is none, or has too many parts.

    It is called in a thread if the blob is great, and a parser in C would hold all others for as long as it runs.
    """
    if len(blob) > MAX_PARTS and has_more_parts(blob, MAX_PARTS):
        return {}
    try:
        document = json.loads(blob, parse_int=_whole)
        if _HALF.search(blob) is not None:
            document = json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _whole(digits: str) -> int | float:
    """Return a whole number, or infinity for more than MAX_DIGITS digits: no count of a report has so many."""
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def newer_version(troubles: Mapping[str, str]) -> int:
    """Return the version that an agent has refused an older set for, by its troubles; 0 if there is none."""
    found = _NEWER.match(troubles.get("manifest", ""))
    return int(found[1]) if found is not None else 0


def read_labels(labels: Any) -> dict[str, str]:
    """Return at most MAX_LABELS labels of sound length; the rest is left out."""
    if not isinstance(labels, dict):
        return {}
    sound = [(k, v) for k, v in labels.items() if isinstance(v, str) and 0 < len(k) <= MAX_WORD >= len(v)]
    return dict(sorted(sound)[:MAX_LABELS])


def _troubles(document: dict[str, Any]) -> dict[str, str]:
    """Return a sentence for each trouble; the first of a list of them."""
    found = {}
    for name in ("manifest", "upgrade", "labels-from"):
        said = _object(document, name)
        reason, text = _word(said.get("reason")), said.get("text")
        if reason is not None and isinstance(text, str):
            found[name] = f"{reason}: {text}"[:MAX_REASON]
    for name in ("schedule", "withheld"):
        listed = document.get(name)
        if isinstance(listed, list) and listed and isinstance(listed[0], str):
            found[name] = listed[0][:MAX_REASON]
    return found


def read_shell(said: dict[str, Any]) -> dict[str, str]:
    """Return what is said of SSH; all of it is left out if a part is too long: half a certificate is none."""
    parts = {key: value for key in SHELL if isinstance(value := said.get(key), str)}
    return parts if all(len(value) <= MAX_PART for value in parts.values()) else {}


def _kinds(listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list):
        return ()
    return tuple(kind for kind in listed[:MAX_KINDS] if isinstance(kind, str) and 0 < len(kind) <= MAX_WORD)


def _files(listed: dict[str, Any]) -> dict[str, dict[str, str | None]]:
    sound = [(name, file) for name, file in listed.items() if isinstance(file, dict) and FILE_NAME.fullmatch(name)]
    return {
        name: {
            "sha256": _word(file.get("sha256")),
            "state": _word(file.get("state")),
            "error": error[:MAX_REASON] if isinstance(error := file.get("error"), str) else None,
        }
        for name, file in sound[:MAX_FILES]
    }


def _facts(host: dict[str, Any]) -> dict[str, str | int | float | bool]:
    sound = [
        (key, value[:MAX_WORD] if isinstance(value, str) else value)
        for key, value in host.items()
        if isinstance(value, str | int | float) and len(key) <= MAX_WORD and abs(_size(value)) < 2**63
    ]
    return dict(sound[:MAX_FACTS])


def _size(value: str | int | float) -> float:
    """Return a value as a number to compare with a bound: 0 for a text, infinity for NaN, which JSON can't write."""
    if isinstance(value, str):
        return 0
    return value if value == value else float("inf")


def _spool(spool: dict[str, Any]) -> dict[str, str | int]:
    kept: dict[str, str | int] = {}
    if isinstance(name := spool.get("id"), str) and 0 < len(name) <= MAX_WORD:
        kept["id"] = name
    for key in ("depth", "first"):
        value = spool.get(key)
        if type(value) is int and 0 <= value <= MOST_SEQUENCE:
            kept[key] = value
    return kept


def _object(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str | None:
    return value[:MAX_WORD] if isinstance(value, str) else None
