"""Moves a broker between its states (joining, active, disabled), and puts configurations into force. Pure."""

from __future__ import annotations

from scale0.broker.context import Context, Entered, Publish, Store
from scale0.broker.peer_links import PeerLinks
from scale0.broker.requests.routing import Routing
from scale0.broker.sessions import RETRY_DISABLED, RETRY_LATER, Sessions
from scale0.broker.sharing import Sharing
from scale0.config.schema import BrokerConfig
from scale0.wire.options import Fault


class Lifecycle:
    """Changes state and configuration, with what sessions and requests must learn of that."""

    def __init__(
        self, context: Context, sessions: Sessions, routing: Routing, peer_links: PeerLinks, sharing: Sharing
    ) -> None:
        self._c, self._sessions, self._routing = context, sessions, routing
        self._peer_links, self._sharing = peer_links, sharing

    def set_state(self, state: str) -> None:
        """Enter a state, and have it stored."""
        if state != self._c.state:
            self._c.log("info", f"{self._c.state} -> {state}")
            self._c.state = state
            self._c.effects.append(Entered(state))
            self._c.effects.append(Store(0))

    def enable(self) -> None:
        """Let a disabled broker join again; its configuration lets it pass to active at once."""
        if self._c.state == "disabled":
            self.set_state("joining")
            self.set_state("active")
            self._peer_links.check_all()

    def disable(self) -> None:
        """End all sessions, and be silent from then on."""
        self._end_all("disabled", RETRY_DISABLED)
        self.set_state("disabled")

    def stop(self) -> None:
        """Tell all sessions that the broker stops, so that they need not wait for silence."""
        if self._c.state == "active":
            self._end_all("draining", RETRY_LATER)

    def _end_all(self, reason: str, retry_after_ms: int) -> None:
        self._routing.ends.drop_all(503, reason, f"this broker is {reason}")
        self._peer_links.leave()
        for session in list(self._sessions.all.values()):
            self._sessions.end(session, Fault(503, reason, f"this broker is {reason}"), retry_after_ms)

    def configure(self, config: BrokerConfig, version: int) -> None:
        """Put a configuration into force; workers with a service that is not served any more are ended."""
        self._c.use(config, version)
        self._c.failures.always(config.error_clients)
        self._sharing.configured()
        self._sessions.clocks.configured()
        self._c.log("info", f"configuration {version} is in force")
        self._c.effects += [Store(0), Publish()]
        for session in list(self._sessions.all.values()):
            worker = session.worker
            if session.role == "backend" and worker is not None and not all(map(self._c.serves, worker.services)):
                fault = Fault(421, "wrong_broker", "one of its services is not served here now")
                self._sessions.end(session, fault)
