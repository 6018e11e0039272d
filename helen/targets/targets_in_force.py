"""Keeps the targets that are in force: those that targets.toml declares, and those that its sources find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from helen.sessions.session_service import SessionService
from helen.storage.config_file import ConfigFile
from helen.targets.declarations import Declared, read
from helen.targets.merged_targets import MergedTargets
from helen.targets.source_watch import KEY, SourceWatch
from helen.targets.target_fields import Target, TargetsError
from helen.targets.target_groups import slices

FILE = "targets.toml"


class TargetsInForce:
    """Follows the file and its sources. `changed(names)` is called once others are in force; `steady`: monotonic.

    It is called in a turn of its own, with the names of the targets that are other ones than before, or new.
    """

    def __init__(
        self, sessions: SessionService, state: Path, steady: Callable[[], float], reactor: Any,
        changed: Callable[[Sequence[str]], None],
    ) -> None:  # fmt: skip
        self.config_file = ConfigFile[Declared](
            reactor, state / FILE, sessions.store, FILE, read, TargetsError, self._on_config
        )  # fmt: skip
        self.sources = SourceWatch(reactor, sessions.store, steady, self._on_found)
        self.targets: Mapping[str, Target] = {}  # declared ones and those that are found, by name
        self.found: Mapping[str, str] = {}  # name -> the place where it is found, of those that are not declared
        self.left_out = 0  # targets that were found, and are beyond MAX_TARGETS
        self._sessions, self._changed = sessions, changed
        self._before: Iterable[str] = ()  # the targets before this start
        self._has_begun = False

    async def start(self, kept: Mapping[str, str]) -> None:
        """Read the declarations; nothing follows from them before `begin`. `kept`: the store's small values."""
        with suppress(TargetsError):  # what a newer version has kept says nothing here
            self._before = read(kept.get(FILE, "")).targets.keys()
        await self.config_file.start(kept.get(FILE))
        declared = self.config_file.config or Declared()
        await self.sources.start(declared.sources, kept.get(KEY))
        self._before = {*self._before, *self.sources.found()}
        self.merge()

    def begin(self) -> set[str]:
        """Follow each change from now on; return the targets of the last run that are no more."""
        self._has_begun = True
        return set(self._before) - self.targets.keys()

    def _on_config(self) -> None:
        """Put what is declared into force at once, beside what was found before; what is found now follows in turns."""
        declared, before = self.config_file.config or Declared(), self.targets
        self.sources.take(declared.sources)
        kept = {name: before[name] for name in self.found if name not in declared.targets and name in before}
        self.targets = {**declared.targets, **kept}
        self._follow(before)

    def _on_found(self) -> None:
        self._follow(self.targets)

    def _follow(self, before: Mapping[str, Target]) -> None:
        """Merge what is declared and what is found, then tell of those that are not as `before`; in turns."""
        if not self._has_begun:
            self.merge()
            return
        merged, walk = self.merged(), self._sessions.fair_turns.walk
        steps = merged.steps()
        walk(range(merged.most_steps), lambda _: next(steps, None))
        walk([merged], partial(self.take, steps=steps, before=before))

    def merged(self) -> MergedTargets:
        """Return what is declared and what is found, to be merged in steps."""
        return MergedTargets(self._declared(), self.sources)

    def _declared(self) -> Mapping[str, Target]:
        return (self.config_file.config or Declared()).targets

    def merge(self) -> None:
        """Put declared and found targets into force in one piece: before `begin` no connection waits for a turn."""
        merged = self.merged()
        for _ in merged.steps():
            pass
        self._put_into_force(merged)

    def _put_into_force(self, merged: MergedTargets) -> None:
        self.targets, self.found, self.left_out = merged.config, merged.found, merged.left_out

    def take(self, merged: MergedTargets, steps: Iterator[None], before: Mapping[str, Target]) -> None:
        """Put merged targets into force and tell what has changed; those of an older file than the newest never count.

        They were put into force when the newest came, and a merge that has them follows.
        """
        for _ in steps:  # a source has found more since the steps were counted
            pass
        if not merged.is_whole:  # a fault, which the log has: without them all targets would be dropped
            return
        if merged.declared == self._declared():
            self._put_into_force(merged)
        changed, walk = list[str](), self._sessions.fair_turns.walk

        def compare(some: Sequence[str]) -> None:  # with what is in force by now: another change may have come
            changed.extend(name for name in some if name in self.targets and before.get(name) != self.targets[name])

        walk(slices(list(self.targets)), compare)
        walk([changed], self._changed)
