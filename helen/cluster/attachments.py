"""Seals the claim that an agent is attached to this Helen, and judges such claims of other Helens.

A Helen that is told that another one has an agent since later would drop its own connection. So the claim is signed
with the network key, which no broker and no other program has; it lies no further ahead than clocks may differ; and an
agent that comes back within seconds of such a drop is a conflict, of clones or of a program that claims it, which is
shown and not obeyed: its connection stays.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from attrs import define
from cryptography.exceptions import InvalidSignature

from helen.cluster.network_key import NetworkKey
from scale0.worker import Holder

PREFIX = b"helen: attachment of an agent, 1\0"
SKEW_SECONDS = 30.0  # by which the clocks of Helens may differ, as brokers have it
BACK_SECONDS = 10.0  # an agent that moves on purpose stays for longer where it went
SHOWN_SECONDS = 600.0  # for which a conflict is shown after it was seen last
MOST = 1_000  # drops and conflicts that are remembered


def text_of(service: str, epoch: int, identity: str) -> bytes:
    """Return what is signed: that the Helen of this identity has the agent since `epoch` (unix milliseconds)."""
    return PREFIX + b"\0".join((service.encode(), str(epoch).encode(), identity.encode()))


@define
class Conflict:
    """Describes an agent that another Helen claims, with the reason for which that is not obeyed."""

    why: str
    at: float  # monotonic seconds


class Attachments:
    """Seals our claims, and says which claims of others are not obeyed.

    Without a network key no claim is sealed: then the roles of keys at the broker decide alone. `now` returns monotonic
    seconds, `wall` unix seconds.
    """

    def __init__(
        self, identity: str, key: NetworkKey | None, now: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._identity, self._key, self._now, self._wall = identity, key, now, wall
        self._dropped: OrderedDict[str, float] = OrderedDict()  # agent -> when its connection was let go
        self._conflicts: OrderedDict[str, Conflict] = OrderedDict()

    def seal(self, service: str, epoch: int) -> str:
        """Return the seal of our own claim, in base64; empty without a network key."""
        if self._key is None:
            return ""
        return base64.b64encode(self._key.private.sign(text_of(service, epoch, self._identity))).decode()

    def why_not(self, service: str, agent: str, holder: Holder | None, own_epoch: int) -> str:
        """Return the reason for which a claim is not obeyed; empty if the agent's connection is to be let go.

        A claim that is not obeyed is shown as a conflict.
        """
        why = self._fault_of(service, holder, own_epoch)
        dropped = self._dropped.get(agent)
        if not why and dropped is not None and self._now() - dropped < BACK_SECONDS:
            claimant = holder.identity if holder is not None else "another Helen"
            why = f"{claimant} claims it, too, and it came back here within {BACK_SECONDS:g} s: is it a clone?"
        if why:
            _remember(self._conflicts, agent, Conflict(why, self._now()))
        else:
            _remember(self._dropped, agent, self._now())
        return why

    def _fault_of(self, service: str, holder: Holder | None, own_epoch: int) -> str:
        if self._key is None:
            return ""
        if holder is None:
            return "a broker of an older version, or none, says that another Helen has it, and not which"
        if not self._is_sealed(service, holder):
            return f"{holder.identity} claims it without a seal of the network key"
        if holder.epoch > 1_000 * (self._wall() + SKEW_SECONDS):
            return f"{holder.identity} claims it from a time that is to come; set its clock right"
        return "" if holder.epoch > own_epoch else f"{holder.identity} claims it, but had it before this Helen"

    def _is_sealed(self, service: str, holder: Holder) -> bool:
        assert self._key is not None
        try:
            seal = base64.b64decode(holder.seal, validate=True)
            self._key.private.public_key().verify(seal, text_of(service, holder.epoch, holder.identity))
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True

    def troubles(self) -> list[str]:
        """Return a sentence for each conflict of the last ten minutes."""
        now = self._now()
        for agent in [name for name, each in self._conflicts.items() if now - each.at > SHOWN_SECONDS]:
            del self._conflicts[agent]
        return [f"{agent} stays connected here: {each.why}" for agent, each in self._conflicts.items()]


def _remember(known: OrderedDict[str, Any], agent: str, what: Any) -> None:
    known[agent] = what
    known.move_to_end(agent)
    if len(known) > MOST:
        known.popitem(last=False)
