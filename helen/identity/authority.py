"""Enrols, renews and revokes agents, and checks every certificate that an agent shows.

`identify`, which a connection needs at once, reads memory only. An expired certificate is admitted for `grace` seconds
more, if nothing else has ended it: helen/identity/renewals.py. A method that changes something returns a Deferred that
fires once the store has it on disk; no method blocks but `Authority.open`. `now` is unix seconds. TLS is
helen/identity/tls.py's; the owner of connections closes them when it hears of a revocation by `on_revoked`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
from cryptography import x509
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from helen.identity import ca_sync, renewals, reserved_names
from helen.identity.ca_sync import CAReading
from helen.identity.enrolment_documents import Enrolled
from helen.identity.given_labels import GivenLabels
from helen.identity.guess_limit import GuessLimit
from helen.identity.join_tokens import TOKEN, JoinTokens
from helen.identity.renewals import Renewal
from helen.keys import ca_files, certificates
from helen.keys.ca_files import CAUnusable, Material
from helen.keys.certificates import BadRequest
from helen.storage import credential_rows, token_rows
from helen.storage.agent_rows import Agent, AuditEntry, audit
from helen.storage.credential_rows import Grant, NewCertificate
from helen.storage.database import Loaded, Store
from helen.storage.enrolled_keys import GRACE, EnrolledCertificate, EnrolledKeys, Identity, NotEnrolled

AUDITED_A_MINUTE = 60  # refusals; clients must not fill the disk. Those that are left out are counted all the same

log = Logger()


class Authority:
    """Keeps the enrolled agents in memory, in front of the store and the CA folder."""

    def __init__(
        self, state: Path, store: Store, material: Material, hosts: Sequence[str], agents: Iterable[Agent] = ()
    ) -> None:
        self.material = material
        self.given = GivenLabels(store, agents)
        self.tokens = JoinTokens(store, lambda: certificates.fingerprint(self.material.ca))
        self.is_connected: Callable[[str], bool] = lambda name: False  # whether an agent of this name is here now
        self.reserved: Callable[[str], str] = reserved_names.why_reserved  # why a name needs a token of its own, or ""
        self.refusals: Counter[str] = Counter()  # "enrol", "renew", "shut-out", "conflict", "identify": for metrics
        self._folder = state / "ca"
        self._store = store
        self._hosts = tuple(hosts)
        self._keys = EnrolledKeys()
        self._guesses = GuessLimit()
        self._audited: deque[float] = deque(maxlen=AUDITED_A_MINUTE)
        self._revoked_listeners: list[Callable[[str, frozenset[str]], None]] = []
        self._changed_listeners: list[Callable[[], None]] = []
        self._known_listeners: list[Callable[[str], None]] = []
        self.has_chosen_grace = False  # an operator has set it, here or at another Helen
        self._grace_listeners: list[Callable[[], None]] = []
        self.grace = renewals.USUAL_GRACE  # seconds after its end in which a certificate can be renewed; 0: none
        self.closed = ""  # why no new agent gets a certificate for the moment; renewals go on

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
        self._hosts = ca_files.server_hosts(names, listen)

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
        self._revoked_listeners.append(tell)

    def on_changed(self, tell: Callable[[], None]) -> None:
        """Call `tell()` when `material` has changed, so that ServerTLS can swap it in."""
        self._changed_listeners.append(tell)

    def on_known(self, tell: Callable[[str], None]) -> None:
        """Call `tell(name)` when something is new about a name: a certificate, its end, a revocation."""
        self._known_listeners.append(tell)

    def on_grace(self, tell: Callable[[], None]) -> None:
        """Call `tell()` when the grace has been set."""
        self._grace_listeners.append(tell)

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

    def _tell_known(self, name: str) -> None:
        for tell in self._known_listeners:
            tell(name)

    # --------------------------------------------------------------------------------------- identifying

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        """Return the identity behind a certificate at `now`, unix seconds; after the handshake, and again at hello.

        Raises NotEnrolled; changes nothing but a counter.
        """
        try:
            return self._keys.identify(certificate, self.material.bundle, now, self.grace)
        except NotEnrolled:
            self.refusals["identify"] += 1
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
        for tell in self._grace_listeners:
            tell()
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
            self._note(self._store.call(credential_rows.used, identity.key_hash, now, older, now + GRACE))
            if older:
                self._tell_known(identity.name)

    def conflict(self, name: str, address: str, now: float) -> None:
        """Audit that two machines use one identity, at `now`, unix seconds. The roster decides which one stays."""
        reason = "another live connection has this identity"
        self._audit_refusal("conflict", f"agent:{name}", name, address, reason, now)

    # --------------------------------------------------------------------------------------- enrolling

    def enrol(self, name: str, token: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """Give a certificate for a token and a signing request (PEM) from `address`; `now`: unix seconds.

        Nothing is raised: the Deferred fails with NotEnrolled, which is audited already.
        """
        if self._guesses.is_shut_out(address, now):
            self.refusals["shut-out"] += 1
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
        return enrolled.addCallback(lambda made: self.given.refresh(name).addCallback(lambda _: made))

    def renew(self, identity: Identity, name: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """Give a new certificate to an agent that shows one; `name` is the one asked for, `now` unix seconds.

        Nothing is raised: the Deferred fails with NotEnrolled, which is audited already.
        """
        try:
            if name != identity.name:
                raise NotEnrolled(f"{identity.name} may renew its own certificate only")
            self._keys.check_renewal(name, identity.key_hash, now, self.grace)
            grant = self._grant(name, csr, now, f"agent:{name}", address)
        except (BadRequest, NotEnrolled):
            return self._give(fail(), "renew", identity.name, address, now)
        given = self._store.call(credential_rows.renew, identity.key_hash, grant, self.grace)
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
        ca, ca_key = self.material.ca, self.material.ca_key

        def sign() -> NewCertificate:
            return ca_sync.in_rows(certificates.agent_certificate(ca, ca_key, key, name, now))

        return Grant(name, certificates.key_hash(key), now, actor, sign, address)

    def _give(self, given: Deferred[bytes], kind: str, name: str, address: str, now: float) -> Deferred[Enrolled]:
        def refused(failure: Failure) -> Failure:
            failure.trap(BadRequest, NotEnrolled)
            reason = str(failure.value)
            if getattr(failure.value, "guess", False):
                self._guesses.add(address, now)
            self._audit_refusal(kind, "stranger" if kind == "enrol" else f"agent:{name}", name, address, reason, now)
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
        self._tell_known(name)
        renew_after = certificates.renew_after(issued_at, not_after)
        return Enrolled(certificates.pem(certificate), certificates.pem(*self.material.bundle), renew_after)

    # --------------------------------------------------------------------------------------- revoking

    def revoke(self, name: str, now: float, by: str = "operator") -> Deferred[int]:
        """Revoke every certificate of a name at `now`, unix seconds; fires with their number. In memory it is at once.

        Fails with UnknownAgent.
        """
        self._shut_out(name, now)

        def done(keys: tuple[str, ...]) -> int:
            self._shut_out(name, now)  # one that was being made meanwhile
            self._keys.revoked[name] = now
            self._tell_known(name)
            return len(keys)

        return self._store.call(credential_rows.revoke, name, now, by).addCallback(done)

    def check_revoke(self, name: str, now: float) -> Deferred[int]:
        """Fire with the number of certificates that `revoke` would revoke at `now`, unix seconds.

        Fails with UnknownAgent.
        """
        return self._store.call(credential_rows.check_revoke, name, now)

    def _shut_out(self, name: str, now: float) -> None:
        keys = self._keys.revoke(name, now)
        if keys:
            self._tell_known(name)
            self._tell_revoked(name, keys)

    def _tell_revoked(self, name: str, keys: frozenset[str]) -> None:
        for tell in self._revoked_listeners:
            tell(name, keys)

    def forget(self, name: str, now: float, by: str = "operator", is_free: bool = False) -> Deferred[None]:
        """Revoke a name at `now`, unix seconds, and leave it out of all lists. Fails with UnknownAgent.

        With `is_free` a token without a name may give it again at once.
        """
        self._shut_out(name, now)

        def forgotten(_: None) -> Deferred[None]:
            self._shut_out(name, now)
            return self.given.refresh(name)

        return self._store.call(credential_rows.forget, name, now, by, is_free).addCallback(forgotten)

    # --------------------------------------------------------------------------------------- other CAs, other Helens

    def import_ca(self, pem: bytes, now: float, by: str = "operator") -> Deferred[bool]:
        """Trust one more CA (PEM) from `now`, unix seconds, on. Its agents must be admitted (ca/admitted) or learned.

        Fires with True if `material` has changed. Fails with BadRequest if it is no CA's certificate, or expired.
        """
        try:
            (certificate,) = x509.load_pem_x509_certificates(pem)
            ca_files.checked_ca(certificate, now)
        except (ValueError, x509.InvalidVersion, CAUnusable) as error:
            return fail(BadRequest(str(error) or "give exactly one CA certificate in PEM form"))
        kept = self._store.call(ca_sync.keep_ca, self._folder, certificate, now, by)
        return kept.addCallback(lambda _: self.refresh(now))

    def learn(
        self, others: Iterable[EnrolledCertificate], revoked: Mapping[str, float] = MappingProxyType({})
    ) -> Deferred[None]:
        """Take over what another Helen of the network knows: its agents may connect here, those that it revoked not.

        `revoked` are names, and since when: an agent gets one only with a token that was made for it later.
        """
        known = tuple(others)
        for one in self._keys.learn(known):
            self._tell_revoked(one.name, frozenset([one.key_hash]))

        def learned(_: Any) -> None:
            self._keys.remember(known)
            self._keys.learn_names(revoked)

        return self._store.call(credential_rows.learn, known, revoked).addCallback(learned)

    def refresh(self, now: float) -> Deferred[bool]:
        """Read the CA folder again, renew what is due, forget what has expired; `now`: unix seconds.

        For the start, each hour and SIGHUP. Fires with True if `material` has changed. Fails with StateError if the
        folder can't be used; what was in force stays so.
        """
        read = self._store.call(ca_sync.read_folder, self._folder, self._hosts, now)
        return read.addCallback(self._take, now)

    def _take(self, reading: CAReading, now: float) -> bool:
        for sentence in reading.left_out:
            log.warn("ca/admitted: {sentence}", sentence=sentence)
        self._keys.forget_expired(now)
        known = {one.name for one in reading.known if not self._keys.of(one.name)}
        self._keys.remember(reading.known)
        for name in known:  # admitted by a file
            self._tell_known(name)
        held, self.material = self.material, reading.material
        if (held.bundle, held.server) == (self.material.bundle, self.material.server):
            return False
        for tell in self._changed_listeners:
            tell()
        return True

    # --------------------------------------------------------------------------------------- the audit

    def _audit_refusal(self, kind: str, actor: str, name: str, address: str, reason: str, now: float) -> None:
        self.refusals[kind] += 1
        if len(self._audited) == AUDITED_A_MINUTE and now - self._audited[0] < 60:
            return
        self._audited.append(now)
        text = "{kind} of {name!r} from {address} is refused: {reason}"
        log.info(text, kind=kind, name=name, address=address, reason=reason)
        self._note(self._store.call(audit, AuditEntry(now, actor, f"{kind}-refused", name[:63], address, reason)))

    def _note(self, written: Deferred[Any]) -> None:
        """Log a failure of a write that no caller waits for."""
        written.addErrback(lambda failure: log.failure("The store did not take an entry", failure))
