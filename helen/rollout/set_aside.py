"""Counts versions that were taken back on the word of one or two agents; sets an agent aside at its second. Pure.

An agent that is set aside joins only the ring of all agents, and its reports undo nothing, until an operator readmits
it: otherwise a faulty or hostile agent would take back every push. If more members report a version, it is at fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from attrs import field, frozen

UNDONE_MOST = 2  # versions that an agent undoes before it is set aside
FEW = 2  # members on whose word alone a version goes back: with more of them it is the version's fault
KEPT_MOST = 1_000  # agents; the one that undid a version longest ago is forgotten first


class NotSetAside(Exception):
    """Says that an agent's results count in rollouts already."""


@frozen
class SetAside:
    """Holds the agents that are set aside with the versions that were taken back because of them, the newest agent
    last.
    """

    undone: dict[str, tuple[int, ...]] = field(factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Return the agents that are set aside."""
        return frozenset(name for name, versions in self.undone.items() if len(versions) >= UNDONE_MOST)

    def shown(self) -> dict[str, list[int]]:
        """Return the agents that are set aside, each with the versions that it undid."""
        return {name: list(self.undone[name]) for name in sorted(self.names)}

    def count(self, version: int, speakers: Iterable[str]) -> SetAside:
        """Return it with a version that was taken back because of what these members said, if they are few."""
        names = sorted(speakers)
        if not 0 < len(names) <= FEW:
            return self
        undone = {name: held for name, held in self.undone.items() if name not in names}
        undone |= {name: (*self.undone.get(name, ()), version)[-UNDONE_MOST:] for name in names}
        return SetAside(dict(list(undone.items())[-KEPT_MOST:]))

    def demand(self, name: str) -> None:
        """Raise NotSetAside if an agent is not set aside."""
        if name not in self.names:
            raise NotSetAside(f"{name} is not set aside: `helen rollout status` names those that are")

    def readmit(self, name: str) -> SetAside:
        """Return it without an agent. Raises NotSetAside."""
        self.demand(name)
        return SetAside({each: held for each, held in self.undone.items() if each != name})

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self.undone)

    @classmethod
    def from_json(cls, text: str) -> SetAside:
        """Read the text of `to_json`."""
        return cls({name: tuple(versions) for name, versions in json.loads(text).items()})


def aside_sentence(name: str, aside: SetAside) -> str:
    """Return the sentence about an agent that is set aside."""
    versions = " and ".join(map(str, aside.undone.get(name, ())))
    return (
        f"{name} is set aside in rollouts: versions {versions} were taken back on its word."
        f" `helen rollout readmit {name}` has it listened to again"
    )
