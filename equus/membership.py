"""Who the agent is to Helen over time: a stranger with a token, then a member whose certificate is renewed.

It holds the identity and the pins of signing keys, and says how each dial is to be trusted. How a certificate is asked
for and judged is in enrolment.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.connection import Connection
from equus.enrolment import Enrolment
from equus.identity import Identity, IdentityError, IdentityStore, Token, default_name
from equus.pins import Pins
from equus.settings import Server, Settings
from equus.trust import Trust, by_identity, by_token, explain


class Membership:
    """`identity` is None until the token has been turned into one, and always in plaintext."""

    log = Logger(namespace="equus.membership")

    def __init__(
        self,
        settings: Settings,
        identity: Identity | None,
        store: IdentityStore,
        wall: Callable[[], float],
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self.identity = identity
        self.token = Token.parse(settings.join) if settings.join and identity is None else None
        self.pins = Pins(store)
        self.is_renewing = False
        self._name = settings.name or default_name()
        self._is_secure = not settings.insecure_plaintext
        self._store = store
        self._wall = wall
        self._enrolment = Enrolment(store, defer_to_thread)
        self._jitter = random.SystemRandom().uniform(-1.0, 1.0)

    @property
    def name(self) -> str:
        """The certificate's; before there is one, what will be asked for."""
        return self.identity.name if self.identity is not None else self._name

    @property
    def must_join(self) -> bool:
        return self._is_secure and self.identity is None

    def trust(self, server: Server) -> Trust | None:
        """How to dial; None without TLS."""
        if not self._is_secure:
            return None
        if self.identity is not None:
            return by_identity(server, self.identity)
        assert self.token is not None  # tap.py refuses to start without either
        return by_token(server, self.token)

    # ---------------------------------------------------------------------------------------------- the first

    def join(self, connection: Connection, failed: Callable[[str], None]) -> None:
        """Turn the token into an identity, and end the connection: the next one shows the certificate."""
        assert self.token is not None
        joining = ensureDeferred(self._enrolment.join(connection, self._name, self.token))
        joining.addCallback(self._joined, connection).addErrback(self._not_joined, failed)

    def take_up(self) -> bool:
        """Whether the connection that has ended had brought the identity; True once."""
        has_joined = self.token is not None and self.identity is not None
        if has_joined:
            self.token = None
        return has_joined

    def _joined(self, identity: Identity, connection: Connection) -> None:
        self._become(identity)
        self.log.info("enrolled as {name}", name=identity.name)
        connection.close()

    def _not_joined(self, failure: Failure, failed: Callable[[str], None]) -> None:
        """A connection that went away says so itself, and is tried again."""
        if failure.check(IdentityError):
            failed(str(failure.value))
        elif failure.check(OSError):
            failed(f"the new identity can't be kept: {failure.getErrorMessage()}")

    # ---------------------------------------------------------------------------------------------- the next ones

    def renew_if_time(self, connection: Connection) -> None:
        if self.identity is not None and self._wall() >= self.identity.renew_at(self._jitter):
            self.renew(connection, lambda: None)

    def renew(self, connection: Connection, done: Callable[[], None]) -> None:
        """Ask for the next certificate, one request at a time; `done` is called if it came."""
        if self.is_renewing or self.identity is None:
            return
        self.is_renewing = True
        renewing = ensureDeferred(self._enrolment.renew(connection, self.identity))
        renewing.addCallback(self._renewed).addCallbacks(lambda _: done(), self._not_renewed)

    def _renewed(self, identity: Identity) -> None:
        self.is_renewing = False
        self._become(identity)
        self.log.info("certificate renewed; it is shown from the next connection on")

    def _not_renewed(self, failure: Failure) -> None:
        self.is_renewing = False
        self.log.warn("the certificate was not renewed: {why}", why=explain(failure))

    def _become(self, identity: Identity) -> None:
        self.identity = identity
        self.pins.refresh()
