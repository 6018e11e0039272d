"""Holds the table of services that brokers exchange, and its digest, by which two brokers compare their views. Pure.

A table is service -> [workers, idle, queued]. Its digest is the exclusive or of one hash for each entry, so that a
change costs two hashes and not one of the whole table; both sides compute it for themselves and compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

Entry = list[int]
NONE: Entry = [0, 0, 0]
PART_BYTES = 16 << 10  # of entries in one TABLE, of which the options may have 64 KiB, holders and seals included
ENTRY_BYTES = 48  # three counts of up to ten digits, and punctuation


class Table:
    """Maps services to their counts of workers, idle workers and queued requests."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.seq = 0
        self._digest = 0

    @property
    def digest(self) -> str:
        """Return the digest as it travels, in hex."""
        return format(self._digest, "016x")

    def matches(self, digest: str) -> bool:
        """Return True if another broker's digest is that of this table; a malformed one never is."""
        try:
            return int(digest, 16) == self._digest
        except ValueError:
            return False

    def set(self, service: str, entry: Entry) -> bool:
        """Change an entry and return True if it differs from the old one; an entry of zeros is removed."""
        old = self.entries.get(service, NONE)
        if old == entry:
            return False
        if old != NONE:
            self._digest ^= _hash(service, old)
        if entry == NONE:
            del self.entries[service]
        else:
            self._digest ^= _hash(service, entry)
            self.entries[service] = list(entry)
        return True

    def clear(self) -> None:
        """Remove all entries, before a full table is read in."""
        self.entries.clear()
        self._digest = 0


def _hash(service: str, entry: Entry) -> int:
    text = f"{service}\0{entry[0]}\0{entry[1]}\0{entry[2]}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def parts(entries: Iterable[tuple[str, Entry]]) -> Iterator[dict[str, Entry]]:
    """Yield pieces that fit into the options of a message; at least one, for an empty table is news as well."""
    piece: dict[str, Entry] = {}
    size = 0
    for service, entry in entries:
        cost = 2 * len(service.encode("utf-8", "replace")) + ENTRY_BYTES  # twice: quotes and backslashes are escaped
        if piece and size + cost > PART_BYTES:
            yield piece
            piece, size = {}, 0
        piece[service] = entry
        size += cost
    yield piece
