"""Knows the agents that are enrolled, and checks every certificate that an agent shows.

helen.identity.enrolment gives certificates, helen.identity.revocation ends them, helen.identity.trusted_cas has CAs.
`identify`, which a connection needs at once, reads memory only. An expired certificate is admitted for `grace` seconds
more, if nothing else has ended it: helen/identity/renewals.py. A method that changes something returns a Deferred that
fires once the store has it on disk; no method blocks but `Authority.open`. `now` is unix seconds. TLS is
helen/identity/tls.py's; the owner of connections closes them when it hears of a revocation by `on_revoked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography import x509
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from groundwork.event import Event
from helen.identity import renewals
from helen.identity.enrolment import Enrolment
from helen.identity.enrolment_documents import Enrolled
from helen.identity.given_labels import GivenLabels
from helen.identity.join_tokens import JoinTokens
from helen.identity.refusals import Refusals
from helen.identity.renewals import Renewal
from helen.identity.revocation import Revocation
from helen.identity.trusted_cas import TrustedCAs
from helen.keys import ca_files, certificates
from helen.keys.ca_files import Material
from helen.keys.certificates import BadRequest
from helen.storage import credential_rows
from helen.storage.agent_rows import Agent
from helen.storage.database import Loaded, Store
from helen.storage.enrolled_keys import GRACE, EnrolledCertificate, EnrolledKeys, Identity, NotEnrolled

log = Logger()


class Authority:
    """Keeps the enrolled agents in memory, in front of the store and the CA folder."""

    def __init__(
        self, state: Path, store: Store, material: Material, hosts: Sequence[str], agents: Iterable[Agent] = ()
    ) -> None:
        self.given = GivenLabels(store, agents)
        self.tokens = JoinTokens(store, lambda: certificates.fingerprint(self.material.ca))
        self.grace = renewals.USUAL_GRACE  # seconds after its end in which a certificate can be renewed; 0: none
        self.has_chosen_grace = False  # an operator has set it, here or at another Helen
        self._store = store
        self._keys = keys = EnrolledKeys()
        self._revoked: Event[[str, frozenset[str]]] = Event()
        self._known: Event[[str]] = Event()
        self._grace_set: Event[[]] = Event()
        self._refusals = Refusals(store)
        self.cas = TrustedCAs(state / "ca", store, keys, material, hosts, self._known)
        self.enrolment = Enrolment(store, keys, lambda: self.material, self.given, self._refusals, self._known)
        self.revocation = Revocation(store, keys, self.given, self._known, self._revoked)

    @classmethod
    def open(
        cls, state: Path, store: Store, loaded: Loaded, names: Iterable[str], now: float, listen: str = ""
    ) -> Authority:
        """Read or make STATE/ca, for `names` and the address `listen`; `now`: unix seconds. It blocks: for the start.

        Let `refresh` fire before agents can connect: it admits certificates. Raises StateError.
        """
        hosts = ca_files.server_hosts(names, listen)
        authority = cls(state, store, ca_files.prepare(state / "ca", hosts, now), hosts, loaded.agents)
        authority.grace = renewals.kept_grace(loaded.kv)
        authority.has_chosen_grace = renewals.GRACE_KEY in loaded.kv
        authority._keys.remember(loaded.certificates)
        authority._keys.revoked = {agent.name: agent.revoked_at for agent in loaded.agents if agent.revoked_at}
        return authority

    def answer_to(self, names: Iterable[str], listen: str = "") -> None:
        """Put other names into Helen's own certificate from the next `refresh` on."""
        self.cas.answer_to(names, listen)

    @property
    def material(self) -> Material:
        """Return the CA of this server, its own certificate, and all CAs that are trusted here."""
        return self.cas.material

    @property
    def closed(self) -> str:
        """Return why no new agent gets a certificate for the moment; empty if agents do."""
        return self.enrolment.closed

    @property
    def refusals(self) -> Mapping[str, int]:
        """Return the numbers of refusals by kind, for metrics."""
        return self._refusals.counts

    @property
    def known(self) -> tuple[EnrolledCertificate, ...]:
        """Return every certificate that is remembered: unexpired ones, and expired ones that a grace may bring back."""
        return self._keys.all()

    @property
    def bundle(self) -> str:
        """Return all CAs that are trusted here, in PEM form."""
        return certificates.pem(*self.material.bundle)

    def on_revoked(self, tell: Callable[[str, frozenset[str]], None]) -> None:
        """Call `tell(name, key_hashes)` for each revocation, at once in the reactor thread, before it is on disk."""
        self._revoked.subscribe(tell)

    def on_changed(self, tell: Callable[[], None]) -> None:
        """Call `tell()` when `material` has changed, so that ServerTLS can swap it in."""
        self.cas.changed.subscribe(tell)

    def on_known(self, tell: Callable[[str], None]) -> None:
        """Call `tell(name)` when something is new about a name: a certificate, its end, a revocation."""
        self._known.subscribe(tell)

    def on_grace(self, tell: Callable[[], None]) -> None:
        """Call `tell()` when the grace has been set."""
        self._grace_set.subscribe(tell)

    def about(self, name: str) -> tuple[list[EnrolledCertificate], float | None]:
        """Return the remembered certificates of a name, and since when it is revoked, in unix seconds."""
        return self._keys.of(name), self._keys.revoked.get(name)

    @property
    def has_given(self) -> bool:
        """Return True if an agent has a certificate from this Helen, and not from another one of the network."""
        return any(not one.learned for one in self._keys.all())

    @property
    def names(self) -> set[str]:
        """Return the names for which `about` has something."""
        return {one.name for one in self._keys.all()} | self._keys.revoked.keys()

    # --------------------------------------------------------------------------------------- identifying

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        """Return the identity behind a certificate at `now`, unix seconds; after the handshake, and again at hello.

        Raises NotEnrolled; changes nothing but a counter.
        """
        try:
            return self._keys.identify(certificate, self.material.bundle, now, self.grace)
        except NotEnrolled:
            self._refusals.counts["identify"] += 1
            raise

    def is_excused(self, certificate: x509.Certificate, now: float) -> bool:
        """Return True if a certificate that is out of its time at `now`, unix seconds, is admitted all the same."""
        if self.grace <= 0:
            return False
        try:
            return bool(self._keys.identify(certificate, self.material.bundle, now, self.grace).out_of_time)
        except NotEnrolled:
            return False

    def set_grace(self, seconds: float, now: float, by: str = "operator") -> Deferred[None]:
        """Admit certificates for so long after their end, from now on; 0: not at all. `now`: unix seconds.

        Fires once the store has it. Fails with BadRequest if it is out of bounds.
        """
        try:
            self.grace = renewals.checked_grace(seconds)
        except BadRequest:
            return fail()
        self.has_chosen_grace = True
        self._grace_set()
        return self._store.call(credential_rows.keep_grace, renewals.GRACE_KEY, seconds, now, by)

    def renewal(self, name: str) -> Renewal:
        """Return until when the newest certificate of a name is good, and until when it can be renewed."""
        return renewals.of(self._keys, name, self.grace)

    def seen(self, identity: Identity, now: float) -> None:
        """Take note of an accepted hello at `now`, unix seconds.

        The first one with a certificate ends the older certificates of its name after GRACE.
        """
        older = self._keys.first_use(identity.key_hash, now)
        if older is not None:
            used = self._store.call(credential_rows.used, identity.key_hash, now, older, now + GRACE)
            used.addErrback(lambda failure: log.failure("The store did not take an entry", failure))
            if older:
                self._known(identity.name)

    def conflict(self, name: str, address: str, now: float) -> None:
        """Audit that two machines use one identity, at `now`, unix seconds. The roster decides which one stays."""
        reason = "another live connection has this identity"
        self._refusals.add("conflict", f"agent:{name}", name, address, reason, now)

    # --------------------------------------------------------------------------------------- enrolling, revoking

    def enrol(self, name: str, token: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """Give a certificate for a token and a signing request (PEM) from `address`; `now`: unix seconds.

        Nothing is raised: the Deferred fails with NotEnrolled, which is audited already.
        """
        return self.enrolment.enrol(name, token, csr, address, now)

    def renew(self, identity: Identity, name: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """Give a new certificate to an agent that shows one; `name` is the one asked for, `now` unix seconds.

        Nothing is raised: the Deferred fails with NotEnrolled, which is audited already.
        """
        return self.enrolment.renew(identity, name, csr, address, now, self.grace)

    def issue(self, name: str, csr: str, now: float, by: str = "operator") -> Deferred[Enrolled]:
        """Give a certificate as an operator asks for it; a revoked name is back. `now`: unix seconds.

        Fails with BadRequest or NotEnrolled, both with a sentence.
        """
        return self.enrolment.issue(name, csr, now, by)

    def revoke(self, name: str, now: float, by: str = "operator") -> Deferred[int]:
        """Revoke every certificate of a name at `now`, unix seconds; fires with their number. In memory it is at once.

        Fails with UnknownAgent.
        """
        return self.revocation.revoke(name, now, by)

    def forget(self, name: str, now: float, by: str = "operator", is_free: bool = False) -> Deferred[None]:
        """Revoke a name at `now`, unix seconds, and leave it out of all lists. Fails with UnknownAgent.

        With `is_free` a token without a name may give it again at once.
        """
        return self.revocation.forget(name, now, by, is_free)

    # --------------------------------------------------------------------------------------- other CAs, other Helens

    def import_ca(self, pem: bytes, now: float, by: str = "operator") -> Deferred[bool]:
        """Trust one more CA (PEM) from `now`, unix seconds, on. Its agents must be admitted (ca/admitted) or learned.

        Fires with True if `material` has changed. Fails with BadRequest if it is no CA's certificate, or expired.
        """
        return self.cas.import_ca(pem, now, by)

    def learn(
        self, others: Iterable[EnrolledCertificate], revoked: Mapping[str, float] = MappingProxyType({})
    ) -> Deferred[None]:
        """Take over what another Helen of the network knows: its agents may connect here, those that it revoked not.

        `revoked` are names, and since when: an agent gets one only with a token that was made for it later.
        """
        known = tuple(others)
        for one in self._keys.learn(known):
            self._revoked(one.name, frozenset([one.key_hash]))

        def learned(_: Any) -> None:
            self._keys.remember(known)
            self._keys.learn_names(revoked)

        return self._store.call(credential_rows.learn, known, revoked).addCallback(learned)

    def refresh(self, now: float) -> Deferred[bool]:
        """Read the CA folder again, renew what is due, forget what has expired; `now`: unix seconds.

        For the start, each hour and SIGHUP. Fires with True if `material` has changed. Fails with StateError if the
        folder can't be used; what was in force stays so.
        """
        return self.cas.refresh(now)
