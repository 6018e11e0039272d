"""Which agents are enrolled, and which are no more, at all Helens: merged, whoever said it.

Sixteen documents, `agents.0` to `agents.f`, each with the names that fall into it:

    {"certificates": {KEY HASH: [NAME, issued at, not after, retires at, revoked at]}, "revoked": {NAME: since when}}

Nothing in them is ever taken back but by its date: an end that comes sooner counts, and a name that was revoked comes
back with a certificate that was given later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from helen.authority import Authority
from helen.known_keys import KnownCertificate, earlier

SHARDS = "0123456789abcdef"  # so that one enrolment sends a sixteenth: 40 KB with 5,000 agents
NAMES = tuple(f"agents.{shard}" for shard in SHARDS)
Certificates = dict[str, list[Any]]


def document_of(name: str) -> str:
    """In which document an agent of this name stands."""
    return NAMES[crc32(name.encode()) % len(NAMES)]


class AgentsPart:
    """`changed(document, at_once)` is called when something of it is new here."""

    names = NAMES
    in_memory = False

    def __init__(
        self, authority: Authority, wall: Callable[[], float], changed: Callable[[str, bool], None],
        forgotten: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._authority, self._wall, self._changed, self._forgotten = authority, wall, changed, forgotten
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        for name in authority.names:
            self._members[document_of(name)].add(name)
        authority.on_known(self._known)

    def _known(self, name: str) -> None:
        document = document_of(name)
        self._members[document].add(name)
        certificates, revoked = self._authority.about(name)
        self._changed(document, revoked is not None or any(one.revoked_at is not None for one in certificates))

    def wanted(self, name: str, value: Any) -> Any:
        """Both together, without what has expired; None if the network knows all of that."""
        said: dict[str, Any] = value or {"certificates": {}, "revoked": {}}
        now = self._wall()
        ours = self._ours(name)
        merged = {
            "certificates": merge(said["certificates"], ours["certificates"], now),
            "revoked": said["revoked"] | {
                agent: max(at, said["revoked"].get(agent, 0.0)) for agent, at in ours["revoked"].items()
            },
        }  # fmt: skip
        known = {"certificates": merge(said["certificates"], {}, now), "revoked": said["revoked"]}
        return None if merged == known else merged

    def _ours(self, name: str) -> dict[str, Any]:
        certificates: Certificates = {}
        revoked: dict[str, float] = {}
        for agent in self._members[name]:
            known, since = self._authority.about(agent)
            certificates |= {one.key_hash: in_row(one) for one in known}
            if since is not None:
                revoked[agent] = since
        return {"certificates": certificates, "revoked": revoked}

    async def adopt(self, name: str, value: Any) -> None:
        """What is new to us of it. Connections of whoever is revoked by it end at once."""
        now, ours = self._wall(), self._ours(name)
        new = [
            KnownCertificate(key, row[0], row[1], row[2], None, row[3], row[4], learned=True)
            for key, row in value["certificates"].items()
            if row[2] > now and (key not in ours["certificates"] or says_more(row, ours["certificates"][key]))
        ]
        revoked = {
            agent: at for agent, at in value["revoked"].items() if at > ours["revoked"].get(agent, 0.0)
        }  # fmt: skip
        if not new and not revoked:
            return
        self._members[name] |= {one.name for one in new} | revoked.keys()
        await self._authority.learn(new, revoked)
        for agent in revoked:
            if self._authority.about(agent)[1] is not None:
                self._forgotten(agent)


def in_row(one: KnownCertificate) -> list[Any]:
    return [one.name, one.issued_at, one.not_after, one.retires_at, one.revoked_at]


def says_more(row: Iterable[Any], held: Iterable[Any]) -> bool:
    """Whether an end stands in it that comes sooner than what is known."""
    (*_, retires, revoked), (*_, our_retires, our_revoked) = row, held
    return earlier(our_retires, retires) != our_retires or (our_revoked is None and revoked is not None)


def merge(said: Certificates, ours: Certificates, now: float) -> Certificates:
    """By key hash, without those that have expired."""
    merged = {key: row for key, row in said.items() if row[2] > now}
    for key, row in ours.items():
        if row[2] <= now:
            continue
        held = merged.get(key)
        merged[key] = row if held is None else [*held[:3], earlier(held[3], row[3]), earlier(held[4], row[4])]
    return merged
