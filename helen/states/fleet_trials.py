"""Steps the trials of versions over the checks of a fleet: opened on a ring, passed, undone or taken back. Pure.

rollout_trials.py describes a trial, and trial_steps.py steps one check through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helen.states.fleet_states import Events
from helen.states.fleet_windows import FleetWindows
from helen.states.inputs import Approved, Input, TakenBack, Tried
from helen.states.model import Key
from helen.states.rollout_trials import BACK, OPEN, PASSED, UNDONE, TrialScope


class FleetTrials(FleetWindows):
    """Adds the trials of versions to the states of a fleet. A None among the events is a pause."""

    def rollout(self, document: Mapping[str, Any]) -> Events:
        """Step a `rollout` record: a version is tried on a ring, has passed, is undone, or gone from some agents."""
        action, ref = document["action"], str(document["version"])
        if action == OPEN:
            yield from self._open_trial(TrialScope.from_json(document))
        elif action == PASSED:
            self.trial = None
            yield from self._end_trial(ref, None, Approved(self.clock, ref, document["why"]))
        elif action == UNDONE:
            self.trial = None
        elif action == BACK:
            yield from self._end_trial(ref, frozenset(document["agents"]), TakenBack(self.clock, ref, document["why"]))

    def _open_trial(self, scope: TrialScope) -> Events:
        self.trial = scope
        agents = self._checks if scope.agents is None else scope.agents & self._checks.keys()
        for agent in sorted(agents):
            yield None
            for check_id in sorted(self._checks[agent] & scope.checks) if scope.has(agent) else ():
                self._mark_trial((agent, check_id), scope.ref)
                yield from self._step((agent, check_id), Tried(self.clock, scope.ref, scope.detail))

    def _mark_trial(self, key: Key, ref: str) -> None:
        held = self.states[key].trial
        if held is not None:
            self._forget_trial(key, held.ref)
        self.tried.setdefault(ref, set()).add(key)

    def _end_trial(self, ref: str, agents: frozenset[str] | None, given: Input) -> Events:
        """End the trial of a version on these agents; None: on all of them."""
        for agent in sorted(self._checks if agents is None else agents):
            yield None
            tried = self.tried.get(ref, ())
            for key in [each for each in self.keys_of(agent) if each in tried]:
                self._forget_trial(key, ref)
                yield from self._step(key, given)
