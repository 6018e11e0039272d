"""Tells people that somebody has opened a way to the SSH server of an agent's machine. Pure: the clock is an argument.

It is a warning of the check `equus:shell` of that agent. Each opening is told; it is over when no tunnel was open for
QUIET_SECONDS, so that even a session of a second is told, and a login with many commands ends once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define

from equus_protocol.results import OK, WARNING
from groundwork.event import Event

SHELL = "equus:shell"  # what messages name as the check; no check can have such an id
QUIET_SECONDS = 600.0


@define
class _Told:
    open: int = 0  # tunnels
    quiet_since: float = 0.0  # monotonic seconds


class OpenShells:
    """Counts the open tunnels to SSH of each agent. `steady`: monotonic seconds.

    `told` is called with the agent's name, the check to name, `problem` or `recovery`, the status, and a sentence.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self.told: Event[[str, str, str, int, str]] = Event()
        self._steady = steady
        self._of: dict[str, _Told] = {}

    def recall(self, names: Iterable[str]) -> None:
        """Take agents of which people were told before this start: all tunnels have ended with it."""
        for name in names:
            self._of.setdefault(name, _Told(quiet_since=self._steady()))

    def opened(self, name: str, caller: str, address: str) -> None:
        """Tell that a tunnel to an agent was opened, for whom and from where."""
        self._of.setdefault(name, _Told()).open += 1
        sentence = f"{caller} at {address} has opened a tunnel to the SSH server of {name}"
        self.told(name, SHELL, "problem", WARNING, sentence)

    def ended(self, name: str) -> None:
        """Take note that one of them has ended."""
        known = self._of[name]
        known.open -= 1
        known.quiet_since = self._steady()

    def sweep(self) -> None:
        """Tell the end where none was open for a while; called once a second."""
        now = self._steady()
        quiet = [name for name, each in self._of.items() if not each.open and now - each.quiet_since >= QUIET_SECONDS]
        for name in quiet:
            del self._of[name]
            sentence = f"no tunnel to its SSH server was open for {QUIET_SECONDS / 60:g} minutes"
            self.told(name, SHELL, "recovery", OK, sentence)
