"""List the parts of an agent that don't know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred

from equus.code.update import Updater
from equus.link.route import Route
from equus.nrpe.newest import NewestResults
from equus.policy.policy import PolicyInForce
from equus.schedule.secret_runner import SecretRunner
from equus.sessions.membership import Membership
from equus.sessions.tunnels import TunnelProgram
from equus.spool.spool_thread import SpoolThread


@frozen
class Parts:
    """Holds the parts; tap.py makes them, and an Agent connects them with each other."""

    reactor: Any
    wall: Callable[[], float]  # unix seconds
    runner: SecretRunner
    writer: SpoolThread
    updater: Updater
    policy: PolicyInForce
    membership: Membership
    route: Route
    version: str
    print_line: Callable[[str], None]  # to stdout
    finish: Callable[[int, str], None]  # end with an exit status, and a sentence for the log
    defer_to_thread: Callable[..., Deferred[Any]]
    loaded: Callable[[], None] = lambda: None  # called after the first `loaded`
    programs: Mapping[str, TunnelProgram] = field(factory=dict)  # of tunnels, by their kinds
    newest: NewestResults | None = None  # for check_nrpe
