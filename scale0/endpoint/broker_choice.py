"""Chooses the broker to connect to: the preferred one, the given ones in turn, or one that others shall name. Pure.

After PREFERRED_TRIES failures the other brokers are asked, one after the other, for a broker that has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scale0.endpoint.effects import Target

PREFERRED_TRIES = 3  # failures at the preferred broker before others are asked
FAILED_MOST = 100  # brokers that are remembered as failed: NEEDBROKER names them


class BrokerChoice:
    """Keeps the brokers that a client in this `role` knows, and how often and which of them have failed."""

    def __init__(self, role: str, targets: Sequence[Target]) -> None:
        self.preferred = ""  # the identity of the one that a configuration names
        self.failures = 0  # since the last configuration
        self.failed: list[str] = []  # identities
        self._end = "frontend" if role == "frontend" else "backend"
        self._targets = list(targets)  # given by the caller
        self._tokens = {target.endpoint: target.token for target in targets if target.token}
        self._known: list[Target] = []  # from group_config: the own group, then its fallbacks
        self._to_ask: list[Target] | None = None

    def learn(self, groups: Iterable[dict[str, Any]], preferred: str) -> None:
        """Take the brokers of the configuration: its groups, and the identity of the preferred one."""
        end = self._end
        members = [m for group in groups for m in group.get("brokers", ())]
        self._known = [Target(m[end], m.get("public_key", ""), m.get("identity", "")) for m in members if m.get(end)]
        self.preferred = preferred

    def token_of(self, target: Target | None) -> str:
        """Return the token by which a broker of this process knows this client; empty for any other broker."""
        return "" if target is None else self._tokens.get(target.endpoint, "")

    @property
    def is_asking(self) -> bool:
        """Return True if the next broker is only to name another."""
        return self._to_ask is not None

    def next(self) -> Target:
        """Return the broker to connect to now."""
        if self._to_ask:
            return self._to_ask.pop(0)
        self._to_ask = None
        return self._first_choice()

    def configured(self) -> None:
        """Forget all failures: a broker has taken this client."""
        self.failures, self.failed, self._to_ask = 0, [], None

    def named(self) -> None:
        """Ask no other broker: one has been named."""
        self._to_ask = None

    def fail(self, here: Target | None) -> None:
        """Count a failure of the broker `here`. The third time others are asked for a broker."""
        self.failures += 1
        if self.failures % PREFERRED_TRIES == 0:
            self._note_failed(here)
            self._to_ask = self._others(here) or None

    def send_away(self, here: Target | None) -> bool:
        """Have others asked instead of the broker `here`, which takes no more clients; return False without others."""
        if not self._others(here):
            return False
        self._note_failed(here)
        self._to_ask = self._others(here)
        return True

    def skip(self) -> bool:
        """Give up the broker that was asked; return False if none is left, and begin again with the first choice."""
        if self._to_ask:
            return True
        self._to_ask, self.failed = None, []
        self.failures += 1
        return False

    def _first_choice(self) -> Target:
        """Return the preferred broker, or after failures the given ones in turn."""
        known = next((t for t in self._known if t.identity == self.preferred), None)
        if known is not None and self.failures < PREFERRED_TRIES:
            return known
        return self._targets[self.failures % len(self._targets)]

    def _others(self, here: Target | None) -> list[Target]:
        """Return brokers that may name another, in the order of the configuration; those that failed are left out."""
        endpoint = here.endpoint if here else ""
        seen = dict.fromkeys([*self._known, *self._targets])
        return [t for t in seen if t.endpoint != endpoint and (not t.identity or t.identity not in self.failed)]

    def _note_failed(self, here: Target | None) -> None:
        name = here.identity if here else ""
        if name and name not in self.failed:
            self.failed = [*self.failed, name][-FAILED_MOST:]
