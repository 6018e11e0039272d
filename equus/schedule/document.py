"""Read the blob of Helen's `schedule`: from JSON to Entries, each field checked. Pure.

A document that is no list is refused whole, and the schedule before it stays. A bad entry in a good list is refused
alone, so that one slip doesn't stop all checks of a host; each refusal is a sentence, which Helen gets in `loaded`.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen

from equus.schedule.schedule import Entry, Overlap
from groundwork.figures import is_double

MAX_ENTRIES = 4_096  # far beyond a host's checks; at 256 bytes each they fill a blob
SHORTEST = 0.1  # seconds between two runs: twenty times what starting a worker takes
LONGEST = 366 * 86_400.0  # seconds
MAX_TIMEOUT = 3_600.0  # seconds; the policy's own cap is lower
MAX_ID = 255  # bytes: it travels as a <string> of the protocol
_KNOWN = frozenset({"id", "check", "every", "offset", "timeout", "args", "overlap"})


class ScheduleRefused(Exception):
    """Says that a document or an entry can't be used; the text says why."""


@frozen
class ScheduleDocument:
    """Holds the entries of a document, and a sentence for each entry that was refused."""

    entries: tuple[Entry, ...]
    refused: tuple[str, ...]


def parse(blob: bytes) -> ScheduleDocument:
    """Return the schedule in a blob. Raises ScheduleRefused if all of it is refused."""
    try:
        document = json.loads(blob)
    except (ValueError, RecursionError) as error:
        raise ScheduleRefused(f"the schedule is not JSON: {error}") from error
    if not isinstance(document, list):
        raise ScheduleRefused(f"the schedule is not a list but {type(document).__name__}")
    if len(document) > MAX_ENTRIES:
        raise ScheduleRefused(f"the schedule has {len(document)} entries; at most {MAX_ENTRIES} are allowed")
    entries: dict[str, Entry] = {}
    refused = []
    for number, item in enumerate(document, 1):
        try:
            entry = read_entry(item)
            if entry.id in entries:
                raise ScheduleRefused(f"id {entry.id!r} is there twice")
            entries[entry.id] = entry
        except ScheduleRefused as error:
            refused.append(f"entry {number}: {error}")
    return ScheduleDocument(tuple(entries.values()), tuple(refused))


def read_entry(item: Any) -> Entry:
    """Return one entry. Raises ScheduleRefused if a field is wrong; unknown fields are a newer Helen's and ignored."""
    if not isinstance(item, dict):
        raise ScheduleRefused(f"not an object but {type(item).__name__}")
    every = _number(item, "every", SHORTEST, LONGEST)
    if every is None:
        raise ScheduleRefused("every is missing")
    try:
        overlap = Overlap(item.get("overlap", "skip"))
    except ValueError:
        raise ScheduleRefused(f"overlap {item['overlap']!r} is not one of skip, queue, kill") from None
    return Entry(
        id=_name(item, "id"),
        check=_name(item, "check"),
        every=every,
        offset=(_number(item, "offset", 0.0, LONGEST) or 0.0) % every,
        timeout=_number(item, "timeout", 0.001, MAX_TIMEOUT),
        args=_args(item.get("args")),
        overlap=overlap,
    )


def _name(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value or len(value.encode("utf-8", "replace")) > MAX_ID:
        raise ScheduleRefused(f"{key} must be a text of 1 to {MAX_ID} bytes")
    if any(character <= " " or character == "\x7f" or 0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise ScheduleRefused(f"{key} {value!r} has a space or a control character")
    return value


def _number(item: dict[str, Any], key: str, least: float, most: float) -> float | None:
    value = item.get(key)
    if value is None:
        return None
    if not is_double(value):
        raise ScheduleRefused(f"{key} must be a number of seconds, not {repr(value)[:40]}")
    if not least <= value <= most:
        raise ScheduleRefused(f"{key} {repr(value)[:40]} is not between {least:g} and {most:g} seconds")
    return float(value)


def _args(value: Any) -> bytes:
    """Return args as JSON in one canonical form, so that equal args are equal entries."""
    if value is None:
        return b""
    if not isinstance(value, dict):
        raise ScheduleRefused("args must be an object")
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
