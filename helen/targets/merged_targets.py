"""Puts declared targets and those that are found together, in steps: fifty sources may find 10,000 each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from helen.targets.declarations import MAX_TARGETS
from helen.targets.source_watch import SourceWatch
from helen.targets.target_fields import Target
from helen.targets.target_groups import slices


class MergedTargets:
    """Holds the targets that count: a declared one before one that is found by its name, and MAX_TARGETS in all.

    They are whole once `steps` was run to its end. `most_steps` is how many it takes at the most, unless a source finds
    more meanwhile.
    """

    def __init__(self, declared: Mapping[str, Target], sources: SourceWatch) -> None:
        self.config: Mapping[str, Target] = {}  # all of them, by name
        self.found: dict[str, str] = {}  # name -> the place where it is found, of those that are not declared
        self.left_out = 0  # found ones beyond MAX_TARGETS
        self.is_whole = False
        self.declared, self._fresh = declared, dict[str, Target]()
        self._all: dict[str, tuple[str, Target]] = {}
        self._finding = sources.steps(self._all)
        self.most_steps = 2 * sources.most_steps + 2

    def steps(self) -> Iterator[None]:
        """Gather what is found, then choose, NAMES_A_STEP targets at a step."""
        yield from self._finding
        for names in slices(list(self._all)):
            self._choose([name for name in names if name not in self.declared])
            yield
        self.config, self.is_whole = {**self.declared, **self._fresh}, True

    def _choose(self, names: list[str]) -> None:
        room = max(0, MAX_TARGETS - len(self.declared) - len(self._fresh))
        for name in names[:room]:
            self.found[name], self._fresh[name] = self._all[name]
        self.left_out += len(names[room:])
