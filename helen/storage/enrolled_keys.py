"""Keeps the enrolled keys in memory, and identifies the agent behind a certificate without a wait.

A certificate that is out of its time identifies its agent still, for as long as a grace lasts (`grace`, in seconds),
if it is the newest one of an agent that is not revoked: docs/identity.rst, "Agents that were away". Pure: no store, no
clock (`now` is unix seconds), no Twisted. helen/identity/authority.py keeps it in step with the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import attrs
from cryptography import x509

from helen.keys import certificates
from helen.keys.certificates import BadRequest

GRACE = 600.0  # seconds that an older certificate lives on after the first use of a newer one, see docs/identity.rst
RENEWS_WITHIN = 600.0  # seconds that a connection lasts whose certificate is out of its time: long enough to renew it


class NotEnrolled(Exception):
    """Says that the connection of an agent is refused. `reason` is for the log and the audit; on the wire all of them
    are `not-enrolled`.
    """

    def __init__(self, reason: str, *, guess: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.guess = guess  # the token is none of this Helen's: the client may be guessing


class UnknownAgent(Exception):
    """Says that there is no agent of this name."""


@attrs.frozen
class EnrolledCertificate:
    """Holds the part of a certificate that decides whether its holder may connect. Times are unix seconds."""

    key_hash: str
    name: str
    issued_at: float
    not_after: float
    used_at: float | None = None
    retires_at: float | None = None
    revoked_at: float | None = None
    learned: bool = attrs.field(default=False, eq=False)  # another Helen of the network has given it
    renewed: bool = attrs.field(default=False, eq=False)  # given for an older one, which counts until this one is used


@attrs.frozen
class Identity:
    """Holds the identity of an agent that has shown a certificate. Close its connection when `not_after` is reached:
    TLS won't.

    `out_of_time` says so of a certificate that is admitted by the grace; empty for all others.
    """

    name: str
    key_hash: str
    not_after: float
    out_of_time: str = ""


class EnrolledKeys:
    """Has certificates by key hash: unexpired ones, revoked ones too, and expired ones that nothing else has ended.

    The revoked ones are there so that a refusal can say why, the expired ones for the grace.
    """

    def __init__(self) -> None:
        self._known: dict[str, EnrolledCertificate] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)  # by name: asked for each agent that connects
        self.revoked: dict[str, float] = {}  # names that need a token with just that name -> since when

    def all(self) -> tuple[EnrolledCertificate, ...]:
        return tuple(self._known.values())

    def of(self, name: str) -> list[EnrolledCertificate]:
        return self._of(name)

    def remember(self, known: Iterable[EnrolledCertificate]) -> None:
        """Add certificates that are not known here; the known are newer than the store, where writes may be waiting."""
        for one in known:
            self._known.setdefault(one.key_hash, one)
            self._names[self._known[one.key_hash].name].add(one.key_hash)
            if self.revoked.get(one.name, one.issued_at) < one.issued_at:
                del self.revoked[one.name]  # it was given after the name was revoked

    def forget_expired(self, now: float) -> None:
        """Drop certificates that have expired at `now`, unix seconds, but those that a grace may bring back."""
        for one in [one for one in self._known.values() if one.not_after <= now and self._has_ended(one)]:
            del self._known[one.key_hash]
            self._names[one.name].discard(one.key_hash)
            if not self._names[one.name]:
                del self._names[one.name]

    def identify(
        self, certificate: x509.Certificate | None, bundle: Sequence[x509.Certificate], now: float, grace: float = 0.0
    ) -> Identity:
        """Return the identity behind a certificate at `now`, unix seconds; `grace`: seconds, 0 for none.

        TLS has checked the chain already. It is checked here once more, because a TLS library has ignored the decision
        of its callback before (CVE-2026-27448). Raises NotEnrolled with a reason; changes nothing.
        """
        if certificate is None:
            raise NotEnrolled("no client certificate")
        try:
            name, key = certificates.name_in(certificate), certificates.key_hash_in(certificate)
        except BadRequest as error:
            raise NotEnrolled(str(error)) from None
        known = self.check(name, key, now)
        begins, ends = certificates.since(certificate), certificates.until(certificate)
        out_of_time = "" if begins <= now < ends else self._excuse(known, begins, ends, now, grace)
        if not certificates.is_client(certificate):
            raise NotEnrolled(f"the certificate of {name} is not for clients")
        if not any(certificates.is_issued_by(certificate, ca) for ca in bundle):
            raise NotEnrolled(f"the certificate of {name} is of a CA that Helen does not know")
        if out_of_time and not any(_is_of(certificate, ca, now) for ca in bundle):
            raise NotEnrolled(f"the certificate of {name} has expired, and its CA too")
        return Identity(name, key, now + RENEWS_WITHIN if out_of_time else ends, out_of_time)

    def check_renewal(self, name: str, key_hash: str, now: float, grace: float) -> None:
        """Raise NotEnrolled unless the key may be renewed at `now`, unix seconds; `grace`: seconds."""
        known = self.check(name, key_hash, now)
        if known.not_after <= now:
            self._excuse(known, known.issued_at, known.not_after, now, grace)

    def has_grace(self, one: EnrolledCertificate) -> bool:
        """Return True if a certificate is one that a grace brings back, however long ago it has expired."""
        return not self._has_ended(one)

    def _excuse(self, known: EnrolledCertificate, begins: float, ends: float, now: float, grace: float) -> str:
        """Return in words how a certificate is out of its time. Raises NotEnrolled unless the grace covers that.

        One that is not valid yet was made by a clock that was ahead: the record of its key counts, as after its end.
        """
        is_over = now >= ends
        words = f"expired on {_day(ends)}" if is_over else f"is valid from {_day(begins)}"
        if grace <= (now - ends if is_over else begins - now):
            raise NotEnrolled(f"the certificate of {known.name} is out of its time: it {words}")
        if known.name in self.revoked:
            raise NotEnrolled(f"{known.name} is revoked")
        if self._is_followed(known):
            raise NotEnrolled(f"the certificate of {known.name} {words}, and a newer one was given since")
        return words

    def _has_ended(self, one: EnrolledCertificate) -> bool:
        is_over = one.retires_at is not None or one.revoked_at is not None or one.name in self.revoked
        return is_over or self._is_followed(one)

    def _is_followed(self, one: EnrolledCertificate) -> bool:
        """Return True if a later certificate of the same name ends the claim of this one to a grace.

        A renewal does so once it was used; any other certificate at once, because an operator has given that one.
        """
        return any(
            other.issued_at > one.issued_at and other.retires_at is None
            and (other.used_at is not None or not other.renewed)
            for other in self._of(one.name)
        )  # fmt: skip

    def check(self, name: str, key_hash: str, now: float) -> EnrolledCertificate:
        """Return the record of a key. Raises NotEnrolled unless it is in force for the name at `now`, unix seconds.

        The end of the certificate itself is not looked at.
        """
        known = self._known.get(key_hash)
        if known is None or known.name != name:
            raise NotEnrolled(f"the key that {name} shows is not enrolled under that name")
        if known.revoked_at is not None:
            raise NotEnrolled(f"{name} is revoked")
        if known.retires_at is not None and now >= known.retires_at:
            raise NotEnrolled(f"{name} has used a newer certificate than the one that it shows")
        return known

    def first_use(self, key_hash: str, now: float) -> tuple[str, ...] | None:
        """Record the first use of a key at `now`, unix seconds; None if it was used before.

        Return the older keys of the same name: they end GRACE later.
        """
        known = self._known.get(key_hash)
        if known is None or known.used_at is not None:
            return None
        older = tuple(one.key_hash for one in self._of(known.name) if _is_older(one, known, now))
        self._known[key_hash] = attrs.evolve(known, used_at=now)
        for key in older:
            self._known[key] = attrs.evolve(self._known[key], retires_at=now + GRACE)
        return older

    def revoke(self, name: str, now: float) -> frozenset[str]:
        """Revoke the keys of a name at `now`, unix seconds; return those that were in force."""
        keys = frozenset(one.key_hash for one in self._of(name) if one.revoked_at is None)
        for key in keys:
            self._known[key] = attrs.evolve(self._known[key], revoked_at=now)
        return keys

    def _of(self, name: str) -> list[EnrolledCertificate]:
        return [self._known[key] for key in sorted(self._names.get(name, ()))]

    def learn(self, others: Iterable[EnrolledCertificate]) -> tuple[EnrolledCertificate, ...]:
        """Take over ends of certificates that another Helen knows; return those that are newly revoked here."""
        revoked = []
        for one in others:
            ours = self._known.get(one.key_hash)
            if ours is None:
                continue
            ends = earlier(ours.retires_at, one.retires_at), earlier(ours.revoked_at, one.revoked_at)
            self._known[one.key_hash] = attrs.evolve(ours, retires_at=ends[0], revoked_at=ends[1])
            if ours.revoked_at is None and one.revoked_at is not None:
                revoked.append(self._known[one.key_hash])
        return tuple(revoked)

    def learn_names(self, revoked: Mapping[str, float]) -> None:
        """Take over names that another Helen has revoked; a certificate that was given later brings its name back."""
        for name, at in revoked.items():
            if all(one.issued_at <= at for one in self._of(name)):
                self.revoked[name] = max(at, self.revoked.get(name, 0.0))


def earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two times, None being never."""
    return min((each for each in (one, other) if each is not None), default=None)


def _is_older(one: EnrolledCertificate, used: EnrolledCertificate, now: float) -> bool:
    """Return True if `one` ends with the first use of another at `now`, unix seconds.

    One that was issued after `now` was so by a clock that was ahead, and before.
    """
    is_before = one.issued_at < used.issued_at or one.issued_at > now
    return is_before and one.retires_at is None and one.key_hash != used.key_hash


def _is_of(certificate: x509.Certificate, ca: x509.Certificate, now: float) -> bool:
    """Return True if a CA that is in its time has signed a certificate."""
    return certificates.since(ca) <= now < certificates.until(ca) and certificates.is_issued_by(certificate, ca)


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
