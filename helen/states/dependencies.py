"""Keeps the parents and children of checks: a critical parent holds back the alerts of its children. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from equus_protocol.results import CRITICAL
from helen.states.model import AWAY, DEPENDENCY, LINK, Hold, Key, Rule, State


class Dependencies:
    """Holds the parents of checks. `ignored` has, by check, those that would make a circle.

    Both ends of a circle would be silent for ever.
    """

    def __init__(self) -> None:
        self.ignored: dict[Key, tuple[str, ...]] = {}
        self._parents: dict[Key, tuple[Key, ...]] = {}
        self._children: dict[Key, set[Key]] = {}

    def parents(self, key: Key) -> tuple[Key, ...]:
        """Return the parents of a check, without the ignored ones."""
        return self._parents.get(key, ())

    def children(self, key: Key) -> Collection[Key]:
        """Return the checks that have this one as a parent."""
        return self._children.get(key, ())

    def set_rule(self, key: Key, rule: Rule) -> None:
        """Replace the parents of a check by those that its rule names, without those that would make a circle."""
        wanted = tuple(_parse_ref(ref, key[0]) for ref in rule.depends)
        for parent in self._parents.pop(key, ()):
            self._children[parent].discard(key)
        self.ignored.pop(key, None)
        sound = tuple(parent for parent in wanted if not self._is_above(key, parent))
        if len(sound) != len(wanted):
            self.ignored[key] = tuple(ref_of(parent) for parent in wanted if parent not in sound)
        if sound:
            self._parents[key] = sound
        for parent in sound:
            self._children.setdefault(parent, set()).add(key)

    def _is_above(self, key: Key, start: Key) -> bool:
        """Return True if `key` is `start` or one of the checks that `start` depends on."""
        waiting, seen = [start], {start}
        while waiting:
            each = waiting.pop()
            if each == key:
                return True
            fresh = [parent for parent in self._parents.get(each, ()) if parent not in seen]
            seen.update(fresh)
            waiting += fresh
        return False


def ref_of(key: Key) -> str:
    """Return AGENT/CHECK."""
    return f"{key[0]}/{key[1]}"


def holds_of(parent: Key, state: State) -> Iterator[Hold]:
    """Yield the holds of a parent on its children: its own, and that of its agent's link, if that is away."""
    ref = ref_of(parent)
    if not state.down:
        return
    if CRITICAL in (state.shown.status, state.hard.status):
        yield Hold(DEPENDENCY, ref, f"{ref} is critical")
        return
    yield Hold(DEPENDENCY, ref, f"{ref} was critical, and nothing is known of it since")
    if state.shown.reason == AWAY:
        yield Hold(DEPENDENCY, ref_of((parent[0], LINK)), f"the agent of {ref} is away")


def _parse_ref(ref: str, agent: str) -> Key:
    """Read `AGENT/CHECK`, or `CHECK` on the same agent."""
    name, slash, check_id = ref.partition("/")
    return (name, check_id) if slash else (agent, ref)
