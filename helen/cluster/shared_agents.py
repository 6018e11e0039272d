"""Shares which agents are enrolled and which are revoked between all Helens. Merged.

Sixteen documents, `agents.0` to `agents.f`, each with the names that fall into it:

    {"certificates": {KEY HASH: [NAME, issued at, not after, retires at, revoked at]}, "revoked": {NAME: since when},
     "given": {NAME: [since when, {KEY: VALUE}]}, "ephemeral": {NAME: seconds away after which it is forgotten}}

Nothing in them is ever taken back but by its date: an end that comes sooner counts, a name that was revoked comes back
with a certificate that was given later, and of the labels that operators give a name the newest count. A Helen that
knows no `given` or `ephemeral` leaves them out of what it publishes, and the next one that does puts them back. An
`ephemeral` has the date of the `given` beside it, and an agent without one is expected back. The newest certificate
of a name stays after its end, for as long as a grace may last, so that a Helen which is new lets in an agent that was
away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from zlib import crc32

from helen.identity.authority import Authority
from helen.identity.renewals import GRACE_MAX
from helen.storage.enrolled_keys import EnrolledCertificate, earlier
from helen.storage.given_rows import Given

SHARDS = "0123456789abcdef"  # so that one enrolment sends a sixteenth: 40 KB with 5,000 agents
NAMES = tuple(f"agents.{shard}" for shard in SHARDS)
Certificates = dict[str, list[Any]]


def document_of(name: str) -> str:
    """Return the document in which an agent of this name stands."""
    return NAMES[crc32(name.encode()) % len(NAMES)]


class AgentsPart:
    """Merges certificates and revocations. `changed(document, at_once)` is called when something of it is new here."""

    names = NAMES
    in_memory = False

    def __init__(
        self, authority: Authority, wall: Callable[[], float], changed: Callable[[str, bool], None],
        forgotten: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._authority, self._wall, self._changed, self._forgotten = authority, wall, changed, forgotten
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        for name in authority.names | authority.given.names:
            self._members[document_of(name)].add(name)
        authority.on_known(self._known)
        authority.given.on_changed(self._known)

    def _known(self, name: str) -> None:
        document = document_of(name)
        self._members[document].add(name)
        certificates, revoked = self._authority.about(name)
        self._changed(document, revoked is not None or any(one.revoked_at is not None for one in certificates))

    def wanted(self, name: str, value: Any) -> Any:
        """Return both together, without certificates that are over; None if the network knows all of that."""
        said: dict[str, Any] = value or {"certificates": {}, "revoked": {}}
        now = self._wall()
        ours = self._ours(name)
        revoked = said["revoked"] | {
            agent: max(at, said["revoked"].get(agent, 0.0)) for agent, at in ours["revoked"].items()
        }  # fmt: skip
        merged = {
            "certificates": merge(said["certificates"], ours["certificates"], revoked, now), "revoked": revoked,
            **merge_given(given_in(said), ours["given"]),
        }  # fmt: skip
        known = {
            "certificates": standing(said["certificates"], said["revoked"], now), "revoked": said["revoked"],
            "given": said.get("given", {}), "ephemeral": said.get("ephemeral", {}),
        }  # fmt: skip
        return None if merged == known else merged

    def _ours(self, name: str) -> dict[str, Any]:
        certificates: Certificates = {}
        revoked: dict[str, float] = {}
        for agent in self._members[name]:
            known, since = self._authority.about(agent)
            certificates |= {one.key_hash: in_row(one) for one in known}
            if since is not None:
                revoked[agent] = since
        given = {agent: held for agent in self._members[name] if (held := self._authority.given.about(agent))}
        return {"certificates": certificates, "revoked": revoked, "given": given}

    async def adopt(self, name: str, value: Any) -> None:
        """Learn what is new to us. Connections of agents that are revoked by it end at once."""
        now, ours = self._wall(), self._ours(name)
        new = [
            EnrolledCertificate(key, row[0], row[1], row[2], None, row[3], row[4], learned=True)
            for key, row in standing(value["certificates"], value["revoked"], now).items()
            if (key not in ours["certificates"] or says_more(row, ours["certificates"][key]))
        ]
        revoked = {
            agent: at for agent, at in value["revoked"].items() if at > ours["revoked"].get(agent, 0.0)
        }  # fmt: skip
        await self._adopt_given(name, given_in(value))
        if not new and not revoked:
            return
        self._members[name] |= {one.name for one in new} | revoked.keys()
        await self._authority.learn(new, revoked)
        for agent in revoked:
            if self._authority.about(agent)[1] is not None:
                self._forgotten(agent)

    async def _adopt_given(self, name: str, others: Mapping[str, Given]) -> None:
        """Learn the labels that operators have given elsewhere; certificates were learned before, or come at once."""
        self._members[name] |= others.keys()
        await self._authority.given.learn(others)


def given_in(said: Mapping[str, Any]) -> dict[str, Given]:
    """Return what a document says that operators have given, by name."""
    lives = said.get("ephemeral", {})
    return {name: Given(dict(labels), at, lives.get(name)) for name, (at, labels) in said.get("given", {}).items()}


def merge_given(held: Mapping[str, Given], ours: Mapping[str, Given]) -> dict[str, Any]:
    """Return the newest of both by name, as the document has it: `given` and `ephemeral`."""
    newest = {**held, **{agent: given for agent, given in ours.items() if given.is_newer(held.get(agent))}}
    return {
        "given": {agent: [given.at, given.labels] for agent, given in newest.items()},
        "ephemeral": {agent: given.ephemeral for agent, given in newest.items() if given.ephemeral is not None},
    }


def in_row(one: EnrolledCertificate) -> list[Any]:
    """Return the row of a certificate, as the document has it."""
    return [one.name, one.issued_at, one.not_after, one.retires_at, one.revoked_at]


def says_more(row: Iterable[Any], held: Iterable[Any]) -> bool:
    """Return True if the row has an end that comes sooner than the known one."""
    (*_, retires, revoked), (*_, our_retires, our_revoked) = row, held
    return earlier(our_retires, retires) != our_retires or (our_revoked is None and revoked is not None)


def merge(said: Certificates, ours: Certificates, revoked: Mapping[str, float], now: float) -> Certificates:
    """Return the certificates of both by key hash, without those that are over. `now`: unix seconds."""
    merged = dict(said)
    for key, row in ours.items():
        held = merged.get(key)
        merged[key] = row if held is None else [*held[:3], earlier(held[3], row[3]), earlier(held[4], row[4])]
    return standing(merged, revoked, now)


def standing(rows: Certificates, revoked: Mapping[str, float], now: float) -> Certificates:
    """Return those that have not expired at `now`, unix seconds, and the newest of each name that a grace may renew.

    `revoked`: names, and since when. It must be the whole truth, or two Helens would take a row out and put it back in
    turn.
    """
    newest: dict[str, float] = {}
    for name, issued_at, *_ in rows.values():
        newest[name] = max(issued_at, newest.get(name, 0.0))
    return {
        key: row for key, row in rows.items()
        if row[2] > now
        or (
            row[2] > now - GRACE_MAX and row[3] is None and row[4] is None and row[1] == newest[row[0]]
            and row[1] > revoked.get(row[0], 0.0)
        )
    }  # fmt: skip
