"""What an agent says of itself in the blob of `loaded`: read once, bounded, into frozen values. Pure.

Whatever isn't as docs/protocol.rst section 5 has it is left out: a foreign agent is welcome, and a hostile one can
make nobody keep more than these figures allow.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import field, frozen

from equus_protocol.manifest import FILE_NAME, MAX_FILES

MAX_LABELS = 64  # of one agent
MAX_FACTS = 32  # of its host
MAX_WORD = 255  # characters of a key, a label, a fact
MAX_REASON = 500  # characters of why a file is not used: a compiler's message with its place
MOST_SEQUENCE = 2**31 - 1


@frozen
class LoadReport:
    """`files`: name -> sha256, state, error. `not_active`: why some of them don't run as they are in the set."""

    files: dict[str, dict[str, str | None]] = field(factory=dict)
    not_active: dict[str, str] = field(factory=dict)
    labels: dict[str, str] = field(factory=dict)
    host: dict[str, str | int | float | bool] = field(factory=dict)
    isolation: str | None = None
    policy: str | None = None
    spool: dict[str, str | int] = field(factory=dict)
    troubles: dict[str, str] = field(factory=dict)  # of `manifest`, `schedule`, `upgrade`: why it is not in use

    @property
    def spool_begins(self) -> tuple[str, int] | None:
        """The spool, and its first sequence, if those before it were acknowledged by somebody else."""
        spool, first = self.spool.get("id"), self.spool.get("first")
        return (spool, first) if isinstance(spool, str) and isinstance(first, int) and first > 1 else None


def read_loaded(blob: bytes) -> LoadReport:
    """Never raises; up to some 10 ms for the greatest blob that the protocol lets through."""
    document = read_object(blob)
    files = _files(_object(document, "files"))
    not_active = {
        name: file["error"] or str(file["state"]) for name, file in files.items() if file["state"] != "active"
    }
    return LoadReport(
        files, not_active, read_labels(document.get("labels")), _facts(_object(document, "host")),
        _word(document.get("isolation")), _word(document.get("policy")), _spool(_object(document, "spool")),
        _troubles(document),
    )  # fmt: skip


def read_object(blob: bytes) -> dict[str, Any]:
    """A JSON object, or an empty one for whatever isn't one."""
    try:
        document = json.loads(blob)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_labels(labels: Any) -> dict[str, str]:
    """At most MAX_LABELS of them, of sound length; the rest is left out."""
    if not isinstance(labels, dict):
        return {}
    sound = [(k, v) for k, v in labels.items() if isinstance(v, str) and 0 < len(k) <= MAX_WORD >= len(v)]
    return dict(sorted(sound)[:MAX_LABELS])


def _troubles(document: dict[str, Any]) -> dict[str, str]:
    """A sentence each; a list of them is told by its first."""
    found = {}
    for name in ("manifest", "upgrade"):
        said = _object(document, name)
        reason, text = _word(said.get("reason")), said.get("text")
        if reason is not None and isinstance(text, str):
            found[name] = f"{reason}: {text}"[:MAX_REASON]
    refused = document.get("schedule")
    if isinstance(refused, list) and refused and isinstance(refused[0], str):
        found["schedule"] = refused[0][:MAX_REASON]
    return found


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
    """Of a number; what is no number, or none that JSON can say again, is out of every bound."""
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
