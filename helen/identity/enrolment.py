"""Gives certificates to agents: for a token, in the place of an older one, or because an operator asks for it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from cryptography import x509
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from groundwork.event import Event
from helen.identity import ca_sync, reserved_names
from helen.identity.enrolment_documents import Enrolled
from helen.identity.given_labels import GivenLabels
from helen.identity.guess_limit import GuessLimit
from helen.identity.join_tokens import TOKEN
from helen.identity.refusals import Refusals
from helen.keys import certificates
from helen.keys.ca_files import Material
from helen.keys.certificates import BadRequest
from helen.storage import credential_rows, token_rows
from helen.storage.credential_rows import Grant, NewCertificate
from helen.storage.database import Store
from helen.storage.enrolled_keys import EnrolledCertificate, EnrolledKeys, Identity, NotEnrolled


class Enrolment:
    """Signs requests of agents with the CA in force, `material()`. `known(name)` is called for each certificate."""

    def __init__(
        self, store: Store, keys: EnrolledKeys, material: Callable[[], Material], given: GivenLabels,
        refusals: Refusals, known: Event[[str]],
    ) -> None:  # fmt: skip
        self.closed = ""  # why no new agent gets a certificate for the moment; renewals go on
        self.is_connected: Callable[[str], bool] = lambda name: False  # whether an agent of this name is here now
        self.reserved: Callable[[str], str] = reserved_names.why_reserved  # why a name needs a token of its own, or ""
        self._store = store
        self._keys = keys
        self._material = material
        self._given = given
        self._refusals = refusals
        self._known = known
        self._guesses = GuessLimit()

    def enrol(self, name: str, token: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """Give a certificate for a token and a signing request (PEM) from `address`; `now`: unix seconds.

        Nothing is raised: the Deferred fails with NotEnrolled, which is audited already.
        """
        if self._guesses.is_shut_out(address, now):
            self._refusals.counts["shut-out"] += 1
            return fail(NotEnrolled(f"too many wrong tokens from {address}; it is heard again in a minute"))
        if self.closed:
            return fail(NotEnrolled(self.closed))
        try:
            if not TOKEN.fullmatch(token):
                raise NotEnrolled("the token has not the form of one", guess=True)
            grant = self._grant(name, csr, now, f"agent:{name[:63]}", address)
        except (BadRequest, NotEnrolled):
            return self._give(fail(), "enrol", name, address, now)
        grant = attrs.evolve(grant, kept=self.reserved(name), is_connected=self.is_connected(name))
        redeemed = self._store.call(token_rows.redeem, token, grant)
        # Kept in memory at once: a revocation that comes while the labels are read must find the certificate there.
        enrolled = self._give(redeemed, "enrol", name, address, now)
        return enrolled.addCallback(lambda made: self._given.refresh(name).addCallback(lambda _: made))

    def renew(
        self, identity: Identity, name: str, csr: str, address: str, now: float, grace: float
    ) -> Deferred[Enrolled]:
        """Give a new certificate to an agent that shows one; `name` is the one asked for, `now` unix seconds.

        `grace`: seconds after its end in which a certificate can be renewed.

        Nothing is raised: the Deferred fails with NotEnrolled, which is audited already.
        """
        try:
            if name != identity.name:
                raise NotEnrolled(f"{identity.name} may renew its own certificate only")
            self._keys.check_renewal(name, identity.key_hash, now, grace)
            grant = self._grant(name, csr, now, f"agent:{name}", address)
        except (BadRequest, NotEnrolled):
            return self._give(fail(), "renew", identity.name, address, now)
        given = self._store.call(credential_rows.renew, identity.key_hash, grant, grace)
        return self._give(given, "renew", identity.name, address, now)

    def issue(self, name: str, csr: str, now: float, by: str = "operator") -> Deferred[Enrolled]:
        """Give a certificate as an operator asks for it; a revoked name is back. `now`: unix seconds.

        Fails with BadRequest or NotEnrolled, both with a sentence.
        """
        if self.closed:
            return fail(NotEnrolled(self.closed))
        try:
            grant = self._grant(name, csr, now, by)
        except BadRequest:
            return fail()
        return self._store.call(credential_rows.issue, grant).addCallback(self._enrolled, now)

    def check_issue(self, name: str, csr: str, now: float) -> Deferred[None]:
        """Fail as `issue` would, or do nothing. `now`: unix seconds."""
        try:
            grant = self._grant(name, csr, now, "")
        except BadRequest:
            return fail()
        return self._store.call(credential_rows.check_issue, grant)

    def _grant(self, name: str, csr: str, now: float, actor: str, address: str = "") -> Grant:
        certificates.checked_name(name)
        key = certificates.key_of_request(csr)
        ca, ca_key = self._material().ca, self._material().ca_key

        def sign() -> NewCertificate:
            return ca_sync.in_rows(certificates.agent_certificate(ca, ca_key, key, name, now))

        return Grant(name, certificates.key_hash(key), now, actor, sign, address)

    def _give(self, given: Deferred[bytes], kind: str, name: str, address: str, now: float) -> Deferred[Enrolled]:
        def refused(failure: Failure) -> Failure:
            failure.trap(BadRequest, NotEnrolled)
            reason = str(failure.value)
            if getattr(failure.value, "guess", False):
                self._guesses.add(address, now)
            self._refusals.add(kind, "stranger" if kind == "enrol" else f"agent:{name}", name, address, reason, now)
            return Failure(NotEnrolled(reason))

        return given.addCallbacks(self._enrolled, refused, callbackArgs=(now, kind == "renew"))

    def _enrolled(self, der: bytes, now: float, renewed: bool = False) -> Enrolled:
        """Take note of a certificate that the store has: from now on its holder is known."""
        certificate = x509.load_der_x509_certificate(der)
        issued_at = certificates.since(certificate) + certificates.BACKDATED
        not_after = certificates.until(certificate)
        key, name = certificates.key_hash(certificate.public_key()), certificates.name_in(certificate)
        self._keys.remember([EnrolledCertificate(key, name, now, not_after, renewed=renewed)])
        self._keys.revoked.pop(name, None)
        self._known(name)
        renew_after = certificates.renew_after(issued_at, not_after)
        return Enrolled(certificates.pem(certificate), certificates.pem(*self._material().bundle), renew_after)
