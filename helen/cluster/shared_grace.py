"""Shares for how long after its end a certificate is renewed between all Helens; what was set last counts.

{"grace": seconds, 0 for not at all}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helen.cluster.shared_part import NotYet
from helen.identity.authority import Authority
from helen.keys.certificates import BadRequest


class GracePart:
    """Publishes the grace that an operator has set, and sets the one of the network. `wall`: unix seconds."""

    names = ("renewals",)
    in_memory = False

    def __init__(self, authority: Authority, wall: Callable[[], float], changed: Callable[[], None]) -> None:
        self._authority, self._wall = authority, wall
        authority.on_grace(changed)

    def wanted(self, name: str, value: Any) -> Any:
        """Return our grace, if an operator has set it and it is another one than the network's."""
        ours = self._authority.grace
        if not self._authority.has_chosen_grace or (value is not None and value["grace"] == ours):
            return None
        return {"grace": ours}

    async def adopt(self, name: str, value: Any) -> None:
        """Set the grace. Raises NotYet if this Helen knows no such grace."""
        grace = value.get("grace") if isinstance(value, dict) else None
        if isinstance(grace, bool) or not isinstance(grace, int | float):
            raise NotYet("the grace of the network is no number of seconds: is another Helen newer than this one?")
        if self._authority.has_chosen_grace and self._authority.grace == grace:
            return
        try:
            await self._authority.set_grace(grace, self._wall(), "network")
        except BadRequest as error:
            raise NotYet(f"the grace of the network can't be used here: {error}") from error
