"""Documents of a network: named, versioned, signed contents that every broker carries and repeats. Pure.

What they say is a matter of those who share them (Helens: what must be the same at all of them). A broker keeps the
newest version of each. Of two that were made in the same millisecond the one with the greater digest is kept, whichever
came first: else the two halves of a network that got them in another order would differ for ever. Two holders compare a
digest with every beat, and names, versions and digests where those differ; so what was lost on its way, or slept
through, is made up for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from scale0.config import digest
from scale0.publication import Publication, Verdict

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
    """A document that is not taken; the text says why."""


def scope_of(name: str) -> str:
    return SCOPE + name


def name_of(publication: Publication) -> str | None:
    """The document's name; None for a publication that is something else."""
    return publication.scope.removeprefix(SCOPE) if publication.scope.startswith(SCOPE) else None


def rank_of(publication: Publication) -> Rank:
    return publication.version, digest(publication.document)[:BRIEF]


def next_version(held: int, wall: float) -> int:
    """max(previous + 1, UNIX ms): rising, and comparable between publishers as far as their clocks agree."""
    return max(held + 1, int(1000 * wall))


class Documents:
    """The newest of each. `keys` (hex) are those that may sign; without any, whoever gets this far may publish."""

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
        return self._newest.get(name)

    def all(self) -> list[Publication]:
        return list(self._newest.values())

    @property
    def digest(self) -> str:
        """Of names, versions and contents: who has the same says the same."""
        return format(self._digest, "016x")

    def have(self) -> dict[str, Rank]:
        """For DOCUMENTS."""
        return dict(self._ranks)

    def newer_than(self, theirs: Have) -> list[Publication]:
        """What somebody lacks who has these."""
        return [self._newest[name] for name, rank in self._ranks.items() if rank > theirs.get(name, NOTHING)]

    def lacks(self, theirs: Have) -> bool:
        """Whether somebody who has these has something that is newer than ours."""
        return any(rank > self._ranks.get(name, NOTHING) for name, rank in theirs.items())

    def take(self, new: Publication, wall: float) -> Verdict:
        """Keep it if it is news; `conflict` is a twin that gives way to the one that is held. Raises Refused."""
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
        """Its name. Raises Refused."""
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
