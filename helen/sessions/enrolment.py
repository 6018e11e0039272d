"""Answers agents that ask for a certificate: strangers by token, agents by the certificate that they hold."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import messages as m
from helen.agents.roster import Roster
from helen.identity.authority import Authority
from helen.identity.enrolment_documents import Enrolled, EnrolRequest
from helen.keys.certificates import BadRequest
from helen.sessions.connection import AgentConnection, Hold
from helen.storage.enrolled_keys import NotEnrolled

CLOSED_RETRY = 5  # seconds that a stranger shall stay away while no certificates are made


class Enrolment:
    """Handles `enrol` for all connections. `wall`: unix seconds.

    `renews` asks the quota of an agent that has a certificate, and refuses it.
    `pinned()` returns the public keys and the root that a new agent pins, as helen.library.keyring has them.
    """

    log = Logger()

    def __init__(
        self,
        authority: Authority,
        roster: Roster,
        pinned: Callable[[], tuple[str, str]],
        wall: Callable[[], float],
        renews: Callable[[AgentConnection], bool] = lambda connection: True,
    ) -> None:
        self._authority, self._roster, self._pinned, self._wall = authority, roster, pinned, wall
        self._renews = renews

    def enrol(self, connection: AgentConnection, enrol: m.Enrol) -> None:
        """Make a certificate and send it, or refuse: whatever is wrong with the request is `not-enrolled`."""
        try:
            request = EnrolRequest.parse(enrol.blob)
        except BadRequest as error:
            connection.refuse("not-enrolled", str(error))
            return
        if self._authority.closed and connection.identity is None:
            connection.refuse(f"overloaded;retry-after={CLOSED_RETRY}", self._authority.closed)
            return
        if connection.identity is not None and not self._renews(connection):
            return
        connection.hold(Hold.ENROLMENT)
        now = self._wall()
        if connection.identity is not None:
            done = self._authority.renew(connection.identity, enrol.name, request.csr, connection.address, now)
        else:
            done = self._authority.enrol(enrol.name, request.token or "", request.csr, connection.address, now)
        done.addCallbacks(
            lambda enrolled: self._enrolled(connection, enrol, enrolled),
            lambda failure: self._not_enrolled(connection, failure),
        )
        done.addErrback(lambda failure: self.log.failure("enrolment", failure))

    def _enrolled(self, connection: AgentConnection, enrol: m.Enrol, enrolled: Enrolled) -> None:
        self._roster.enrol(enrol.name)
        connection.send(m.Enrolled(enrol.message_id, enrolled.blob(*self._pinned())))
        connection.go_on(Hold.ENROLMENT)

    def _not_enrolled(self, connection: AgentConnection, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, NotEnrolled):
            connection.refuse("not-enrolled", error.reason)
        else:
            self.log.failure("enrolment failed", failure)
            connection.refuse("internal", failure.getErrorMessage())
