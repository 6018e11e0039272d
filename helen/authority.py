"""Who may speak to Helen: enrolment, renewal and revocation of agents, and the check of every certificate shown.

What a connection needs at once (`identify`) reads memory only. Whatever changes something returns a Deferred that
fires once the store has it on disk; methods never block, but for `Authority.open`. `now` is Unix seconds. This does not
speak TLS (helen.tls) and closes no connection: who holds some listens with `on_revoked`.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography import x509
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from helen import admission, ca_folder, certificates, credentials
from helen.admission import Reading
from helen.ca_folder import CAUnusable, Material
from helen.certificates import BadRequest
from helen.credentials import Grant, NewCertificate
from helen.enrolment import Enrolled
from helen.known_keys import GRACE, Identity, KnownCertificate, KnownKeys, NotEnrolled
from helen.records import AuditEntry, audit
from helen.store import Loaded, Store
from helen.wrong_tries import WrongTries

TOKEN = re.compile(r"[0-9a-f]{64}\.[A-Za-z0-9_-]{43,128}")
SECRET_BYTES = 40  # 320 bits: 72 find the token's row, 248 are only in the operator's hands
TOKEN_TTL = 3_600.0  # seconds
TOKEN_TTL_MAX = 30 * 86_400.0  # a token that lies about for longer is forgotten by everybody but the finder
AUDITED_A_MINUTE = 60  # refusals; strangers may not fill the disk. Those that are left out are counted all the same

log = Logger()


class Authority:
    """Helen's memory of who is enrolled, in front of the store and the CA folder."""

    def __init__(self, state: Path, store: Store, material: Material, hosts: Sequence[str]) -> None:
        self.material = material
        self.refusals: Counter[str] = Counter()  # "enrol", "renew", "shut-out", "conflict", "identify": for metrics
        self._folder = state / "ca"
        self._store = store
        self._hosts = tuple(hosts)
        self._keys = KnownKeys()
        self._tries = WrongTries()
        self._audited: deque[float] = deque(maxlen=AUDITED_A_MINUTE)
        self._revoked_listeners: list[Callable[[str, frozenset[str]], None]] = []
        self._changed_listeners: list[Callable[[], None]] = []
        self._known_listeners: list[Callable[[str], None]] = []
        self.closed = ""  # why nobody gets a certificate for the moment; renewals go on

    @classmethod
    def open(
        cls, state: Path, store: Store, loaded: Loaded, names: Iterable[str], now: float, listen: str = ""
    ) -> Authority:
        """Blocking, at start: reads or makes STATE/ca. Let `refresh` fire before listening; it admits certificates."""
        hosts = ca_folder.server_hosts(names, listen)
        authority = cls(state, store, ca_folder.prepare(state / "ca", hosts, now), hosts)
        authority._keys.remember(loaded.certificates)
        authority._keys.revoked = {agent.name: agent.revoked_at for agent in loaded.agents if agent.revoked_at}
        return authority

    def answer_to(self, names: Iterable[str], listen: str = "") -> None:
        """Other names for Helen's own certificate from the next `refresh` on."""
        self._hosts = ca_folder.server_hosts(names, listen)

    @property
    def known(self) -> tuple[KnownCertificate, ...]:
        """Every unexpired certificate, revoked ones included: for other Helens (`learn`)."""
        return self._keys.all()

    @property
    def bundle(self) -> str:
        """All CAs that are trusted here, in PEM form."""
        return certificates.pem(*self.material.bundle)

    def on_revoked(self, tell: Callable[[str, frozenset[str]], None]) -> None:
        """`tell(name, key_hashes)` in the reactor thread, at once, before the store knows."""
        self._revoked_listeners.append(tell)

    def on_changed(self, tell: Callable[[], None]) -> None:
        """`tell()` when `material` is another one: swap it into helen.tls.ServerTLS."""
        self._changed_listeners.append(tell)

    def on_known(self, tell: Callable[[str], None]) -> None:
        """`tell(name)` when something is new about a name: a certificate, its end, a revocation."""
        self._known_listeners.append(tell)

    def about(self, name: str) -> tuple[list[KnownCertificate], float | None]:
        """What is known of a name: unexpired certificates, and since when it is revoked."""
        return self._keys.of(name), self._keys.revoked.get(name)

    @property
    def has_given(self) -> bool:
        """Whether an agent has a certificate because of this Helen, and not of another one of the network."""
        return any(not one.learned for one in self._keys.all())

    @property
    def names(self) -> set[str]:
        """Of which `about` has something to say."""
        return {one.name for one in self._keys.all()} | self._keys.revoked.keys()

    def _tell_known(self, name: str) -> None:
        for tell in self._known_listeners:
            tell(name)

    # --------------------------------------------------------------------------------------- who is it

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        """Call it after the handshake and again at hello. Raises NotEnrolled, changes nothing but a counter."""
        try:
            return self._keys.identify(certificate, self.material.bundle, now)
        except NotEnrolled:
            self.refusals["identify"] += 1
            raise

    def seen(self, identity: Identity, now: float) -> None:
        """At each accepted hello. The first one with a certificate ends the older ones of its name after GRACE."""
        older = self._keys.first_use(identity.key_hash, now)
        if older is not None:
            self._note(self._store.call(credentials.used, identity.key_hash, now, older, now + GRACE))
            if older:
                self._tell_known(identity.name)

    def conflict(self, name: str, address: str, now: float) -> None:
        """Two machines use one identity: for the audit. Which of them stays is the connection's business."""
        reason = "another live connection has this identity"
        self._audit_refusal("conflict", f"agent:{name}", name, address, reason, now)

    # --------------------------------------------------------------------------------------- coming in

    def make_token(
        self, now: float, name: str | None = None, ttl: float = TOKEN_TTL, by: str = "operator"
    ) -> Deferred[str]:
        """A new one-time token, kept nowhere. Fails with BadRequest for a bad name or ttl."""
        try:
            name = self.check_token(name, ttl)
        except BadRequest:
            return fail()
        token = f"{certificates.fingerprint(self.material.ca)}.{secrets.token_urlsafe(SECRET_BYTES)}"
        made = self._store.call(credentials.add_token, token, name, now, now + ttl, by)
        return made.addCallback(lambda _: token)

    def check_token(self, name: str | None, ttl: float) -> str | None:
        """The name as it will be written. Raises BadRequest where no such token can be made."""
        if not 0 < ttl <= TOKEN_TTL_MAX:
            raise BadRequest(f"a token may live for up to {TOKEN_TTL_MAX / 86_400:g} days, not {ttl / 86_400:.4g}")
        return name and certificates.checked_name(name)

    def enrol(self, name: str, token: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """A certificate for a token. Fails with NotEnrolled, which is audited already."""
        if self._tries.is_shut_out(address, now):
            self.refusals["shut-out"] += 1
            return fail(NotEnrolled(f"too many wrong tokens from {address}; it is heard again in a minute"))
        if self.closed:
            return fail(NotEnrolled(self.closed))
        try:
            if not TOKEN.fullmatch(token):
                raise NotEnrolled("what was given as token has not the form of one", guess=True)
            grant = self._grant(name, csr, now, f"agent:{name[:63]}", address)
        except (BadRequest, NotEnrolled):
            return self._give(fail(), "enrol", name, address, now)
        return self._give(self._store.call(credentials.redeem, token, grant), "enrol", name, address, now)

    def renew(self, identity: Identity, name: str, csr: str, address: str, now: float) -> Deferred[Enrolled]:
        """A certificate for the one held; `name` is what was asked for. Fails with NotEnrolled, audited already."""
        try:
            if name != identity.name:
                raise NotEnrolled(f"{identity.name} may renew its own certificate only")
            self._keys.check(name, identity.key_hash, now)
            grant = self._grant(name, csr, now, f"agent:{name}", address)
        except (BadRequest, NotEnrolled):
            return self._give(fail(), "renew", identity.name, address, now)
        given = self._store.call(credentials.renew, identity.key_hash, grant)
        return self._give(given, "renew", identity.name, address, now)

    def issue(self, name: str, csr: str, now: float, by: str = "operator") -> Deferred[Enrolled]:
        """For `helen certificate`; brings back a revoked name. Fails with BadRequest or NotEnrolled, both sentences."""
        if self.closed:
            return fail(NotEnrolled(self.closed))
        try:
            grant = self._grant(name, csr, now, by)
        except BadRequest:
            return fail()
        return self._store.call(credentials.issue, grant).addCallback(self._enrolled, now)

    def check_issue(self, name: str, csr: str, now: float) -> Deferred[None]:
        """Whether `issue` would work; fails as it would."""
        try:
            grant = self._grant(name, csr, now, "")
        except BadRequest:
            return fail()
        return self._store.call(credentials.check_issue, grant)

    def _grant(self, name: str, csr: str, now: float, actor: str, address: str = "") -> Grant:
        certificates.checked_name(name)
        key = certificates.key_of_request(csr)
        ca, ca_key = self.material.ca, self.material.ca_key

        def sign() -> NewCertificate:
            return admission.in_rows(certificates.agent_certificate(ca, ca_key, key, name, now))

        return Grant(name, certificates.key_hash(key), now, actor, sign, address)

    def _give(self, given: Deferred[bytes], kind: str, name: str, address: str, now: float) -> Deferred[Enrolled]:
        def refused(failure: Failure) -> Failure:
            failure.trap(BadRequest, NotEnrolled)
            reason = str(failure.value)
            if getattr(failure.value, "guess", False):
                self._tries.add(address, now)
            self._audit_refusal(kind, "stranger" if kind == "enrol" else f"agent:{name}", name, address, reason, now)
            return Failure(NotEnrolled(reason))

        return given.addCallbacks(self._enrolled, refused, callbackArgs=(now,))

    def _enrolled(self, der: bytes, now: float) -> Enrolled:
        """The store has it: from now on its holder is known."""
        certificate = x509.load_der_x509_certificate(der)
        issued_at = certificates.since(certificate) + certificates.BACKDATED
        not_after = certificates.until(certificate)
        key, name = certificates.key_hash(certificate.public_key()), certificates.name_in(certificate)
        self._keys.remember([KnownCertificate(key, name, now, not_after)])
        self._keys.revoked.pop(name, None)
        self._tell_known(name)
        renew_after = certificates.renew_after(issued_at, not_after)
        return Enrolled(certificates.pem(certificate), certificates.pem(*self.material.bundle), renew_after)

    # --------------------------------------------------------------------------------------- going out

    def revoke(self, name: str, now: float, by: str = "operator") -> Deferred[int]:
        """Every certificate of a name, at once in memory; the number of them. Fails with UnknownAgent."""
        self._shut_out(name, now)

        def done(keys: tuple[str, ...]) -> int:
            self._shut_out(name, now)  # one that was being made meanwhile
            self._keys.revoked[name] = now
            self._tell_known(name)
            return len(keys)

        return self._store.call(credentials.revoke, name, now, by).addCallback(done)

    def check_revoke(self, name: str, now: float) -> Deferred[int]:
        """How many certificates `revoke` would take; fails with UnknownAgent."""
        return self._store.call(credentials.check_revoke, name, now)

    def _shut_out(self, name: str, now: float) -> None:
        keys = self._keys.revoke(name, now)
        if keys:
            self._tell_known(name)
            self._tell_revoked(name, keys)

    def _tell_revoked(self, name: str, keys: frozenset[str]) -> None:
        for tell in self._revoked_listeners:
            tell(name, keys)

    def forget(self, name: str, now: float, by: str = "operator") -> Deferred[None]:
        """Shut a name out, and leave it out of all lists. Fails with UnknownAgent."""
        self._shut_out(name, now)
        return self._store.call(credentials.forget, name, now, by).addCallback(lambda _: self._shut_out(name, now))

    # --------------------------------------------------------------------------------------- other CAs, other Helens

    def import_ca(self, pem: bytes, now: float, by: str = "operator") -> Deferred[bool]:
        """Trust one more CA from now on. Its agents come in once they are admitted (STATE/ca/admitted) or learned."""
        try:
            (certificate,) = x509.load_pem_x509_certificates(pem)
            ca_folder.checked_ca(certificate, now)
        except (ValueError, x509.InvalidVersion, CAUnusable) as error:
            return fail(BadRequest(str(error) or "give exactly one CA certificate in PEM form"))
        kept = self._store.call(admission.keep_ca, self._folder, certificate, now, by)
        return kept.addCallback(lambda _: self.refresh(now))

    def learn(
        self, others: Iterable[KnownCertificate], revoked: Mapping[str, float] = MappingProxyType({})
    ) -> Deferred[None]:
        """What another Helen of the network knows: its agents may come here, those that it revoked may not.

        `revoked` are names, and since when: nobody gets them without a token that was made for them later.
        """
        known = tuple(others)
        for one in self._keys.learn(known):
            self._tell_revoked(one.name, frozenset([one.key_hash]))

        def learned(_: Any) -> None:
            self._keys.remember(known)
            self._keys.learn_names(revoked)

        return self._store.call(credentials.learn, known, revoked).addCallback(learned)

    def refresh(self, now: float) -> Deferred[bool]:
        """At start, once an hour and on SIGHUP: reads the CA folder again, renews what is due, forgets what is over.

        Whether `material` changed. Fails with StateError when the folder cannot be used; what was in force stays so.
        """
        read = self._store.call(admission.read_folder, self._folder, self._hosts, now)
        return read.addCallback(self._take, now)

    def _take(self, reading: Reading, now: float) -> bool:
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
        """Nobody waits for it; that it failed must be seen all the same."""
        written.addErrback(lambda failure: log.failure("The store did not take an entry", failure))
