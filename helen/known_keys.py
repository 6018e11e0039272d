"""Which keys are enrolled, in memory: the answer to "who is this certificate?" without a wait.

Pure: no store, no clock, no Twisted. helen.authority keeps it in step with the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs
from cryptography import x509

from helen import certificates
from helen.certificates import BadRequest

GRACE = 600.0  # seconds that an older certificate lives on after the first use of a newer one, see docs/identity.rst


class NotEnrolled(Exception):
    """Refused. `reason` is for the log and the audit; on the wire all of them are `not-enrolled`."""

    def __init__(self, reason: str, *, guess: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.guess = guess  # whoever asked has never held a token of ours


class UnknownAgent(Exception):
    """No agent has this name."""


@attrs.frozen
class KnownCertificate:
    """What must be remembered of a certificate to know whether its holder may come in."""

    key_hash: str
    name: str
    issued_at: float
    not_after: float
    used_at: float | None = None
    retires_at: float | None = None
    revoked_at: float | None = None
    learned: bool = attrs.field(default=False, eq=False)  # another Helen of the network has given it


@attrs.frozen
class Identity:
    """Who stands behind a certificate. Close the connection when `not_after` is reached: TLS won't."""

    name: str
    key_hash: str
    not_after: float


class KnownKeys:
    """Unexpired certificates by key hash, revoked ones included, so that a refusal can say why."""

    def __init__(self) -> None:
        self._known: dict[str, KnownCertificate] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)  # a fleet that comes back asks by name, each of it
        self.revoked: dict[str, float] = {}  # names that nobody may have without a token for just them, and since when

    def all(self) -> tuple[KnownCertificate, ...]:
        return tuple(self._known.values())

    def of(self, name: str) -> list[KnownCertificate]:
        return self._of(name)

    def remember(self, known: Iterable[KnownCertificate]) -> None:
        """Never over what is here, which is newer than the store: a revocation may be on its way there."""
        for one in known:
            self._known.setdefault(one.key_hash, one)
            self._names[self._known[one.key_hash].name].add(one.key_hash)
            if self.revoked.get(one.name, one.issued_at) < one.issued_at:
                del self.revoked[one.name]  # it was given after the name was revoked

    def forget_expired(self, now: float) -> None:
        for one in [one for one in self._known.values() if one.not_after <= now]:
            del self._known[one.key_hash]
            self._names[one.name].discard(one.key_hash)
            if not self._names[one.name]:
                del self._names[one.name]

    def identify(
        self, certificate: x509.Certificate | None, bundle: Sequence[x509.Certificate], now: float
    ) -> Identity:
        """Whose certificate this is; raises NotEnrolled, changes nothing.

        TLS has checked the chain already. It is checked here once more, because what a callback in the TLS library
        decides has been ignored before (CVE-2026-27448).
        """
        if certificate is None:
            raise NotEnrolled("no client certificate")
        try:
            name, key = certificates.name_in(certificate), certificates.key_hash_in(certificate)
        except BadRequest as error:
            raise NotEnrolled(str(error)) from None
        self.check(name, key, now)
        not_after = certificates.until(certificate)
        if not certificates.since(certificate) <= now < not_after:
            raise NotEnrolled(f"the certificate of {name} is out of its time")
        if not certificates.is_client(certificate):
            raise NotEnrolled(f"the certificate of {name} is not for clients")
        if not any(certificates.is_issued_by(certificate, ca) for ca in bundle):
            raise NotEnrolled(f"the certificate of {name} is of a CA that Helen does not know")
        return Identity(name, key, not_after)

    def check(self, name: str, key_hash: str, now: float) -> None:
        """Raises NotEnrolled unless the key is in force for the name."""
        known = self._known.get(key_hash)
        if known is None or known.name != name:
            raise NotEnrolled(f"the key that {name} shows is not enrolled under that name")
        if known.revoked_at is not None:
            raise NotEnrolled(f"{name} is revoked")
        if known.retires_at is not None and now >= known.retires_at:
            raise NotEnrolled(f"{name} has used a newer certificate than the one that it shows")

    def first_use(self, key_hash: str, now: float) -> tuple[str, ...] | None:
        """The older keys of the same name, which end after GRACE from now on; None when it was used before."""
        known = self._known.get(key_hash)
        if known is None or known.used_at is not None:
            return None
        older = tuple(one.key_hash for one in self._of(known.name) if _is_followed_by(one, known))
        self._known[key_hash] = attrs.evolve(known, used_at=now)
        for key in older:
            self._known[key] = attrs.evolve(self._known[key], retires_at=now + GRACE)
        return older

    def revoke(self, name: str, now: float) -> frozenset[str]:
        """The keys of a name that were in force until now."""
        keys = frozenset(one.key_hash for one in self._of(name) if one.revoked_at is None)
        for key in keys:
            self._known[key] = attrs.evolve(self._known[key], revoked_at=now)
        return keys

    def _of(self, name: str) -> list[KnownCertificate]:
        return [self._known[key] for key in sorted(self._names.get(name, ()))]

    def learn(self, others: Iterable[KnownCertificate]) -> tuple[KnownCertificate, ...]:
        """Ends that another Helen knows of; the revocations that are new here, as they are here now."""
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
        """Names that were revoked elsewhere; a certificate that was given later brings its name back."""
        for name, at in revoked.items():
            if all(one.issued_at <= at for one in self._of(name)):
                self.revoked[name] = max(at, self.revoked.get(name, 0.0))


def earlier(one: float | None, other: float | None) -> float | None:
    """The first of two moments, of which either may never come."""
    return min((each for each in (one, other) if each is not None), default=None)


def _is_followed_by(old: KnownCertificate, new: KnownCertificate) -> bool:
    return old.issued_at < new.issued_at and old.retires_at is None
