"""Manage the agent's identity over time: enrol with a token, then renew the certificate.

It holds the identity and the trusted keys, and makes the TLS of each attempt to connect. An expired certificate is
shown all the same: Helen renews it for a time, and proof of its key is all that the agent has. enrolment.py requests
and checks certificates.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.identity.identity import Identity, IdentityError, Token, default_name
from equus.identity.identity_store import IdentityStore
from equus.identity.trusted_keys import TrustedKeys
from equus.link.connection import Connection
from equus.link.questions import Unanswered
from equus.link.trust import Trust, by_identity, by_token, explain
from equus.sessions.enrolment import ENROL_WITHIN, Enrolment
from equus.settings import Server, Settings

# Seconds after a renewal in which none is asked for again. By our clock each new certificate may be due at once, if
# that clock is ahead.
RENEWAL_PAUSE = 3_600.0
SAID_UNANSWERED = f"Helen has not answered `enrol` for {ENROL_WITHIN:g} s"
WARNS_BEFORE = 86_400.0  # seconds before the end of a certificate that no Helen has renewed


class Membership:
    """Holds the agent's identity. `identity` is None until the agent has enrolled, and always in plaintext.

    `wall` is unix seconds, `steady` monotonic seconds.
    """

    log = Logger()

    def __init__(
        self,
        settings: Settings,
        identity: Identity | None,
        store: IdentityStore,
        wall: Callable[[], float],
        defer_to_thread: Callable[..., Deferred[Any]],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self._first_token = Token.parse(settings.join) if settings.join else None
        self.token = self._first_token if identity is None else None
        self._joined_again_at: float | None = None  # monotonic seconds
        self.trusted_keys = TrustedKeys(store)
        self.is_renewing = False
        self._name = settings.name or default_name()
        self._is_secure = not settings.insecure_plaintext
        self._store = store
        self._wall, self._steady = wall, steady
        self._renewed_at: float | None = None  # monotonic seconds
        self._comes_back = False  # the connection has brought an identity, and the next one shows it
        self._warned: tuple[Identity, bool] | None = None  # the identity whose end was told last, and that it was over
        self._enrolment = Enrolment(store, defer_to_thread)
        self._jitter = random.SystemRandom().uniform(-1.0, 1.0)

    @property
    def name(self) -> str:
        """Return the name in the certificate; before there is one, the name to enrol under."""
        return self.identity.name if self.identity is not None else self._name

    @property
    def must_join(self) -> bool:
        """Return True if the agent has to enrol before anything else."""
        return self._is_secure and self.identity is None

    def trust(self, server: Server) -> Trust | None:
        """Return the TLS for an attempt to connect to a server; None for plaintext."""
        if not self._is_secure:
            return None
        if self.identity is not None:
            return by_identity(server, self.identity)
        assert self.token is not None  # tap.py refuses to start without either
        return by_token(server, self.token)

    # ---------------------------------------------------------------------------------------------- enrolment

    def join(self, connection: Connection, failed: Callable[[str], None]) -> None:
        """Enrol with the token, and close the connection: the next one shows the certificate.

        `failed` gets a sentence if the answer is refused. A lost connection is tried again instead.
        """
        assert self.token is not None
        joining = ensureDeferred(self._enrolment.join(connection, self._name, self.token))
        joining.addCallback(self._joined, connection).addErrback(self._not_joined, connection, failed)

    def finish_joining(self) -> bool:
        """Return True, once, if the connection was ended because it had brought an identity for the next one."""
        comes_back, self._comes_back = self._comes_back, False
        if comes_back:
            self.token = None
        return comes_back

    def join_again(self) -> bool:
        """Enrol with the token that the agent was started with, because Helen refuses its certificate.

        An agent of a group that grows and shrinks was forgotten while it was away for too long, and its token is good
        still. Return True if that is worth a try: one an hour, since a token that is used up stays so.
        """
        now = self._steady()
        is_early = self._joined_again_at is not None and now - self._joined_again_at < RENEWAL_PAUSE
        if not self._is_secure or self.identity is None or self._first_token is None or is_early:
            return False
        self._joined_again_at, self.token, self.identity = now, self._first_token, None
        return True

    def fall_back(self) -> bool:
        """Give up a token that was refused for the certificate in the state folder, if there is one.

        A unit may name its first token for ever, and the grace for the certificate is good still. Return True if so.
        Blocking: it reads three small files.
        """
        try:
            kept = self._store.load()
        except IdentityError as error:
            self.log.warn("the identity in the state folder can't be used: {error}", error=error)
            return False
        if kept is None:
            return False
        self.token = None
        self._set_identity(kept)
        return True

    def _joined(self, identity: Identity, connection: Connection) -> None:
        self._set_identity(identity)
        self._comes_back = True
        self.log.info("enrolled as {name}", name=identity.name)
        connection.close()

    def _not_joined(self, failure: Failure, connection: Connection, failed: Callable[[str], None]) -> None:
        """Pass on why enrolment failed. A lost connection is logged elsewhere, and tried again."""
        if failure.check(Unanswered):
            self.log.warn("{why}; another connection is tried", why=SAID_UNANSWERED)
            connection.close()
        elif failure.check(IdentityError):
            failed(str(failure.value))
        elif failure.check(OSError):
            failed(f"the new identity can't be kept: {failure.getErrorMessage()}")

    # ---------------------------------------------------------------------------------------------- renewal

    def renew_if_due(self, connection: Connection) -> None:
        """Renew the certificate if two thirds of its life are over, or if it is not valid yet."""
        if self._renewed_at is not None and self._steady() - self._renewed_at < RENEWAL_PAUSE:
            return
        if self._is_renewal_due(self._wall()):
            self.renew(connection, lambda: None)

    def _is_renewal_due(self, now: float) -> bool:
        held = self.identity
        return held is not None and (now >= held.renew_at(self._jitter) or held.is_out_of_time(now))

    def renew(self, connection: Connection, done: Callable[[], None]) -> None:
        """Ask for the next certificate, one request at a time; `done` is called if it comes."""
        if self.is_renewing or self.identity is None:
            return
        self.is_renewing = True
        renewing = ensureDeferred(self._enrolment.renew(connection, self.identity))
        renewing.addCallback(self._renewed, connection, self.identity)
        renewing.addCallbacks(lambda _: done(), self._not_renewed)

    def _renewed(self, identity: Identity, connection: Connection, held: Identity) -> None:
        self.is_renewing = False
        self._renewed_at = self._steady()
        self._set_identity(identity)
        now = self._wall()
        if identity.is_out_of_time(now):
            self.log.error("Helen's clock and ours differ: {why}", why=identity.trouble(now))
        elif held.is_out_of_time(now):  # Helen closes this connection soon, and another Helen wouldn't take it
            self.log.info("certificate renewed after its end; coming back with it")
            self._comes_back = True
            connection.close()
            return
        self.log.info("certificate renewed; it is shown from the next connection on")

    def _not_renewed(self, failure: Failure) -> None:
        self.is_renewing = False
        why = SAID_UNANSWERED if failure.check(Unanswered) else explain(failure)
        self.log.warn("the certificate was not renewed: {why}", why=why)

    def trouble(self) -> str | None:
        """Return why a Helen would refuse the certificate by its dates; None if it wouldn't, or there is none."""
        return self.identity.trouble(self._wall()) if self.identity is not None else None

    def warn_of_end(self) -> None:
        """Log once that a certificate which no Helen has renewed ends within a day, and once that it has ended."""
        identity, now = self.identity, self._wall()
        if identity is None or now < identity.not_after - WARNS_BEFORE or not self._is_renewal_due(now):
            return
        is_over = now >= identity.not_after
        if self._warned == (identity, is_over):
            return
        self._warned = (identity, is_over)
        if is_over:
            self.log.error("{trouble}; checks go on meanwhile, and results are kept", trouble=identity.trouble(now))
        else:
            self.log.warn(
                "no Helen has renewed the certificate of {name}, which ends in {hours:.0f} hours",
                name=identity.name, hours=(identity.not_after - now) / 3_600,
            )  # fmt: skip

    def _set_identity(self, identity: Identity) -> None:
        self.identity = identity
        self.trusted_keys.refresh()
