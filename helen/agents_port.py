"""Listen for agents: by the hub, by Twisted's own TLS, or without TLS."""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from helen import ports
from helen.sessions.listener import AgentListener, TLSListener
from helen.sessions.openssl_calls import MISSING
from helen.sessions.session_service import SessionService
from helen.sessions.tls_hub import TLSHub
from helen.settings.settings import HUB, Settings

_log = Logger(namespace="helen.service")


def listen_for_agents(
    reactor: Any, chosen: Settings, sessions: SessionService, server_tls: Any, given: int | None
) -> Any:
    """Take the port of agents, and return it with `startReading`, `stopListening` and `getHost`; none is accepted yet.

    `given` is the descriptor of a socket that systemd listens on. Raises CannotListenError if the port is taken.
    """
    encrypted = not chosen.insecure_plaintext
    if not encrypted:
        _log.warn("--insecure-plaintext: no TLS, no identities; a peer that reaches this port may be any agent")
    accepting = AgentListener(reactor, sessions, sessions.connections, encrypted)
    is_hub = encrypted and _takes_hub(chosen)
    listener: Any = accepting
    if encrypted and not is_hub:
        listener = TLSListener(server_tls, accepting, sessions.fair_turns)
    agents = ports.listen(reactor, given, listener, chosen.listen)
    if is_hub:
        return TLSHub(reactor, agents, server_tls, accepting, sessions.fair_turns)
    accepting.accepts_on(agents)
    agents.stopReading()
    return agents


def _takes_hub(chosen: Settings) -> bool:
    """Return False for Twisted's own TLS: by setting, or because pyOpenSSL has lost what the hub calls."""
    wanted = chosen.transport == HUB
    if wanted and MISSING:
        _log.warn(
            "this pyOpenSSL lacks {names}: agents' TLS goes by way of Twisted, at a higher cost for each result",
            names=", ".join(MISSING),
        )
    return wanted and not MISSING
