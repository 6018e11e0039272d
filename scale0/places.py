"""Which command of Scale0 may come on which port. Pure.

A *link* is our own connection to a fellow broker. With one port for frontends and backends, what either may say may
come there.
"""

from __future__ import annotations

from scale0.context import BACKEND, FRONTEND, PEER

FROM_WORKERS = frozenset({"READY", "SERVICES"})
REPLIES = frozenset({"PARTIAL", "FINAL"})
FROM_FELLOWS = frozenset({"FORWARD", "TABLE", "TABLEREQ"})
SHARED = frozenset({"PUBLISH", "DOCUMENTS"})
ANYWHERE = frozenset({"CHECKCONFIG", "HEARTBEAT", "NEEDBROKER", "MANAGEMENTREQ", "DISCONNECT", "CANCEL"})


def belongs(command: str, socket: str, is_link: bool, one_port: bool) -> bool:
    """Whether it may be said here at all; whether it is the time for it is another matter."""
    if command == "REQUEST":
        return socket in (FRONTEND, BACKEND)  # a backend may want something, too
    if command in SHARED:
        return socket != FRONTEND or one_port
    if command in FROM_WORKERS:
        return socket == BACKEND or (one_port and socket == FRONTEND)
    if command in REPLIES:
        return socket != FRONTEND or one_port
    if command in FROM_FELLOWS:
        return socket == PEER or is_link
    return command in ANYWHERE or is_link
