"""Shows the rings of a push before it is made. Pure; it takes its time for a great fleet, so it is for a thread."""

from __future__ import annotations

from typing import Any

from helen.rollout.rings import Candidate, choose
from helen.rollout.rollout import Plan


def preview_rings(fleet: list[Candidate], plan: Plan, version: int, key: bytes) -> list[dict[str, Any]]:
    """Return the rings that a push as this version would have; `key` is that of Helen's rollouts.

    Each has `number`, `ring`, `size` and `members`, which is empty for the ring of all.
    """
    taken, shown = frozenset[str](), []
    for number, spec in enumerate(plan.rings, 1):
        members = frozenset(each.name for each in fleet) if spec.is_all else choose(fleet, spec, taken, version, key)
        names = [] if spec.is_all else sorted(members - taken)
        shown.append({"number": number, "ring": spec.text, "size": len(members - taken), "members": names})
        taken = members
    return shown
