"""Holds the documents of a network: named, versioned, signed contents that every broker carries and repeats. Pure.

The backends that share documents give them their meaning; Helens share what must be the same at all of them. A broker
keeps the newest version of each. If two were made in the same millisecond the one with the greater digest is kept,
whichever came first: else two halves of a network that received them in another order would differ for ever. Two
holders compare a digest with every heartbeat, and names, versions and digests where those differ; so a document that
was lost on its way arrives later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from scale0.config.config import digest
from scale0.documents.publication import Publication, Verdict

SCOPE = "doc/"  # before the name; no identity of a broker has a slash
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MOST = 256  # documents of a network: their names, versions and digests fit into the options of one command
MOST_BYTES = 4 << 20  # of one: half of the longest message
MOST_TOTAL = 64 << 20  # bytes of all: what a broker may be made to hold, and a restart to repeat
AHEAD_MS = 86_400_000  # a version is a time in ms; one of after tomorrow would keep all later ones out

Rank = tuple[int, str]  # version and digest: the greater one is kept
Have = Mapping[str, Rank]
NOTHING: Rank = (0, "")
BRIEF = 16  # hexadecimal digits of a digest that tell documents apart


class Refused(Exception):
    """Reports a document that is not accepted; the text says why."""


def scope_of(name: str) -> str:
    """Return the scope under which the document of this name is published."""
    return SCOPE + name


def name_of(publication: Publication) -> str | None:
    """Return the document's name; None for a publication that is a configuration."""
    return publication.scope.removeprefix(SCOPE) if publication.scope.startswith(SCOPE) else None


def rank_of(publication: Publication) -> Rank:
    """Return the rank by which the newer of two documents is found."""
    return publication.version, digest(publication.document)[:BRIEF]


def next_version(held: int, wall: float) -> int:
    """Return a version above `held`: the time `wall` (unix seconds) in ms, if that is higher.

    So versions rise, and are comparable between publishers as far as their clocks agree.
    """
    return max(held + 1, int(1000 * wall))


class Documents:
    """Keeps the newest version of each document.

    `keys` (hex) may sign; without any, every backend of the broker may publish.
    """

    def __init__(self, network: str, keys: Iterable[str] = ()) -> None:
        self.network = network
        self.keys = tuple(keys)
        self._newest: dict[str, Publication] = {}
        self._ranks: dict[str, Rank] = {}
        self._hashes: dict[str, int] = {}
        self._total = 0
        self._digest = 0

    def __len__(self) -> int:
        return len(self._newest)

    def get(self, name: str) -> Publication | None:
        """Return the document of this name, or None."""
        return self._newest.get(name)

    def all(self) -> list[Publication]:
        """Return all documents."""
        return list(self._newest.values())

    @property
    def digest(self) -> str:
        """Return a digest of names, versions and contents; two holders with the same documents have the same."""
        return format(self._digest, "016x")

    def have(self) -> dict[str, Rank]:
        """Return each name with its version and digest, as DOCUMENTS tells them."""
        return dict(self._ranks)

    def newer_than(self, theirs: Have) -> list[Publication]:
        """Return the documents that a holder of `theirs` lacks, or has in an older version."""
        return [self._newest[name] for name, rank in self._ranks.items() if rank > theirs.get(name, NOTHING)]

    def lacks(self, theirs: Have) -> bool:
        """Return True if a holder of `theirs` has a document that is newer than the one here."""
        return any(rank > self._ranks.get(name, NOTHING) for name, rank in theirs.items())

    def take(self, new: Publication, wall: float) -> Verdict:
        """Keep a document if it is news and return the verdict; `wall` is unix seconds, by the wall clock.

        `conflict` is another document of the version that is held, with a smaller digest: the held one stays. Raises
        Refused if the document is too large, one too many, of a future version, or not signed by a key of the network.
        """
        name = self._judge_form(new, wall)
        rank = self._ranks.get(name, NOTHING)
        if new.version < rank[0]:
            return "old"
        whole = digest(new.document)  # once: 4 MiB take milliseconds
        fresh = new.version, whole[:BRIEF]
        if fresh <= rank:
            return "known" if fresh == rank else "conflict"
        self._judge_room(name, new)
        if self.keys and not new.is_signed_by(self.keys):
            raise Refused(f"{name} is not signed by a key of this network")
        self._keep(name, new, fresh, _hash(new, whole))
        return "news"

    def _judge_form(self, new: Publication, wall: float) -> str:
        """Return the name of a document. Raises Refused if it is no document of this network."""
        name = name_of(new)
        if name is None or new.network != self.network or not NAME.fullmatch(name) or new.is_keepalive:
            raise Refused(f"no document of the network {self.network}")
        if len(new.document) > MOST_BYTES:
            raise Refused(f"{name} has more than {MOST_BYTES} bytes")
        if new.version > 1000 * wall + AHEAD_MS:
            raise Refused(f"version {new.version} of {name} is of after tomorrow: a clock is wrong")
        return name

    def _judge_room(self, name: str, new: Publication) -> None:
        held = self._newest.get(name)
        if held is None and len(self) >= MOST:
            raise Refused(f"{name} would be one document more than {MOST}")
        if self._total - (len(held.document) if held else 0) + len(new.document) > MOST_TOTAL:
            raise Refused(f"with {name} all documents would have more than {MOST_TOTAL} bytes")

    def _keep(self, name: str, new: Publication, rank: Rank, hashed: int) -> None:
        held = self._newest.get(name)
        self._total += len(new.document) - (len(held.document) if held is not None else 0)
        self._digest ^= hashed ^ self._hashes.get(name, 0)
        self._newest[name], self._ranks[name], self._hashes[name] = new, rank, hashed


def _hash(publication: Publication, whole: str) -> int:
    text = f"{publication.scope}\0{publication.version}\0{whole}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
