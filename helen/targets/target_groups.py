"""Groups targets by their `via`, with the agents that fit it, and says what is at fault with each group.

There may be 10,000 of each: what is asked of all of them is counted as agents come and go, or looked at some a step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import define, field

from groundwork.counts import count
from groundwork.target_ids import parsed
from helen.targets.target_fields import Target

T = TypeVar("T")
MOST_AGENTS = 100  # of one `via` that are considered: each is held against each of its targets
NAMES_A_STEP = 200  # targets that are looked at together, of a microsecond each


@define(eq=False)
class Group:
    """Holds the targets with one `via`, and the agents that match it: enrolled ones that keep a schedule of their own.

    `usable` are those of them that are connected, or just were: to count them anew for each `via` takes too long.
    """

    via: tuple[str, ...]
    targets: list[str] = field(factory=list)
    agents: set[str] = field(factory=set)
    usable: set[str] = field(factory=set)

    def note(self, name: str, is_usable: bool) -> None:
        """Take note if an agent that fits can be chosen."""
        (self.usable.add if is_usable and name in self.agents else self.usable.discard)(name)

    def considered(self) -> list[str]:
        """Return the agents between which leases are decided: the first by name that can be chosen.

        One that is away for long is never chosen, so it takes no place.
        """
        return heapq.nsmallest(MOST_AGENTS, self.usable)


def slices(names: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield all names, or targets, NAMES_A_STEP together."""
    return (names[first : first + NAMES_A_STEP] for first in range(0, len(names), NAMES_A_STEP))


def said_of_groups(said: list[str], groups: Iterable[Group], config: Mapping[str, Target]) -> Iterator[None]:
    """Append a sentence to `said` for each target that no agent fits, or fewer than are to look at it; in steps."""
    lonely, few = list[str](), list[str]()
    for group in groups:
        for names in slices(group.targets):
            targets = [config[name] for name in names if name in config]
            if group.agents:
                few += _said_too_few(group, targets)
            else:
                lonely += [f"{each.name}: no agent fits its via, {', '.join(each.via)}" for each in targets]
            yield
    said += sorted(lonely)
    said += few


def _said_too_few(group: Group, targets: Iterable[Target]) -> Iterator[str]:
    """Yield a sentence for each target that more agents are to look at than there are."""
    usable = len(group.usable)
    for target in targets:
        quorum = target.quorum
        if usable < quorum.needed:
            there = f"{usable} of the {len(group.agents)} that fit its via are connected"
            yield f"{target.name}: {count(quorum.needed, 'agent')} must see it bad, and {there}"
        elif len(group.agents) < quorum.runners:
            yield f"{target.name}: its quorum is {quorum}, and {count(len(group.agents), 'agent')} fit its via"


def said_left_out(agent: str, ids: tuple[str, ...]) -> str:
    """Return a sentence about an agent that has no room for these checks of targets and meshes."""
    first = "/".join(parsed(ids[0]) or ids[:1])
    return (
        f"{agent} has no room in its schedule for {count(len(ids), 'check')} of targets and meshes, {first} first: let"
        " more agents fit the targets' via, or fewer the meshes"
    )
