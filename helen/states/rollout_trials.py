"""Names the checks that a version is being tried on: the document of a `rollout` record, as values. Pure.

helen/states/fleet_timeline.py applies it to states; helen/sessions/rollout_control.py writes it. Gates decide without
it: helen/rollout/gates.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

OPEN, PASSED, UNDONE, BACK = "open", "passed", "undone", "back"  # actions
ROLLOUT_KEY = "Helen", "rollout"  # agent and check of messages about a rollout; no agent has a capital letter


@frozen
class TrialScope:
    """Describes one ring of one version. `agents` is None for all agents but those in `without`."""

    version: int
    ring: int
    agents: frozenset[str] | None
    without: frozenset[str]
    checks: frozenset[str]  # their ids in agents' schedules
    detail: str = ""

    @property
    def ref(self) -> str:
        return str(self.version)

    def has(self, agent: str) -> bool:
        return agent not in self.without and (self.agents is None or agent in self.agents)

    def covers(self, agent: str, check_id: str) -> bool:
        return check_id in self.checks and self.has(agent)

    def to_json(self) -> dict[str, Any]:
        """Return an object of the fields: the part of a `rollout` record that says what is tried where."""
        return {
            "version": self.version, "ring": self.ring, "agents": None if self.agents is None else sorted(self.agents),
            "without": sorted(self.without), "checks": sorted(self.checks), "detail": self.detail,
        }  # fmt: skip

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrialScope:
        """Read the document of a `rollout` record; other keys are left out."""
        agents = document["agents"]
        return cls(
            document["version"], document["ring"], None if agents is None else frozenset(agents),
            frozenset(document["without"]), frozenset(document["checks"]), document["detail"],
        )  # fmt: skip
