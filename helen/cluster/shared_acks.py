"""Shares acknowledgements between all Helens: of each check the newest counts (helen/cluster/ack_entries.py). Merged.

An agent that goes to another Helen is judged anew there. So that the people on call aren't told again of what one of
them has taken over, the Helen to which it comes writes the acknowledgement into its journal, with the action `carry`,
before the agent's first result. It counts there for the status that it was given for, and ends as it would have ended
where it was made. The Helen that has the agent decides; the others only remember.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from helen.cluster.ack_entries import (
    Entries,
    Entry,
    ack_of,
    bounded,
    changed_at,
    forgotten_before,
    is_old,
    is_over,
    is_same_ack,
    newest,
    prune,
    rank_of,
    read_entries,
)
from helen.states.model import Key, State

BY_NETWORK = "network"  # the author of a record that another Helen's operator has caused


class Place(Protocol):
    """Knows the states of this Helen."""

    @property
    def states(self) -> Mapping[Key, State]:
        """Return the states of all checks."""

    def keys_of(self, agent: str) -> Iterable[Key]:
        """Return an agent's checks that have a state."""


class Judged(Protocol):
    """Knows the agents of this Helen."""

    def has(self, agent: str) -> bool:
        """Return True if an agent is connected here, and the journal says what it runs."""

    def runs(self, agent: str, check_id: str) -> bool:
        """Return True if the journal says that the agent runs this check: then it has a state, or will have one."""


class AcksPart:
    """Merges acknowledgements. `identity` is this Helen's.

    `write(document, agent, check)` adds a record `ack` to the journal.
    """

    names = ("acks",)
    in_memory = True

    def __init__(
        self, identity: str, place: Callable[[], Place], judged: Judged,
        write: Callable[[dict[str, Any], str, str], object], wall: Callable[[], float], changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._identity, self._place, self._judged = identity, place, judged
        self._write, self._wall, self._changed = write, wall, changed
        self._known: Entries = {}  # the newest version of each, ours or others'
        self._of: defaultdict[str, set[str]] = defaultdict(set)  # the names in _known, by agent
        self._is_first = True

    # ---------------------------------------------------------------------------------------------- what happens here

    def noticed(self, agent: str, check_id: str, is_order: bool = False) -> None:
        """Compare a check with what is known, after a record about it was evaluated.

        `is_order`: an operator has just acknowledged it here, or taken that back.
        """
        state, name = self._place().states.get((agent, check_id)), f"{agent}/{check_id}"
        ours, held = ack_of(state), self._known.get(name)
        theirs = None if held is None else held["ack"]
        if ours is None and not is_order and not self._decides(state, agent, check_id):
            return
        is_same = ours == theirs if is_order else is_same_ack(ours, theirs)
        if not is_same:
            self._say(name, state)

    def _decides(self, state: State | None, agent: str, check_id: str) -> bool:
        """Return True if this Helen knows that a check is not acknowledged: it judges it, or its agent runs it no more.

        A check without a state that the agent runs will have one soon; an agent without rules has just come.
        """
        if state is not None:
            return state.hard.known
        return self._judged.has(agent) and not self._judged.runs(agent, check_id)

    def came(self, agent: str) -> None:
        """Bring the checks of an agent that has come, and what is known of them, together: before its first result."""
        place = self._place()
        here = {f"{agent}/{check_id}" for _, check_id in place.keys_of(agent)}
        for name in sorted(here | self._of.get(agent, set())):
            self._bring_together(name, place.states.get(_key(name)))

    def _bring_together(self, name: str, state: State | None) -> None:
        held, ours = self._known.get(name), ack_of(state)
        theirs = None if held is None or is_over(held, self._wall()) else held["ack"]
        is_one_version = held is not None and held["at"] == changed_at(state) and is_same_ack(ours, held["ack"])
        if ours == theirs or is_one_version:
            return
        if held is None or changed_at(state) > held["at"]:
            self._say(name, state)
        elif not self._judged.runs(*_key(name)):
            if is_old(held, self._wall()):
                self._say(name, None)  # of a check that no agent has had for so long
        else:
            said = {"action": "clear", "owner": BY_NETWORK} if theirs is None else {"action": "carry", **theirs}
            self._write({**said, "at": held["at"] / 1_000}, *_key(name))

    def _say(self, name: str, state: State | None) -> None:
        """Tell the network what counts here, as of the time at which it came to be so."""
        at = changed_at(state) or int(1_000 * self._wall())
        self._take(name, {"at": max(rank_of(self._known.get(name))[0] + 1, at), "by": self._identity,
                          "ack": ack_of(state)})  # fmt: skip
        self._changed()

    def _take(self, name: str, entry: Entry) -> None:
        self._known[name] = entry
        self._of[_key(name)[0]].add(name)

    # ---------------------------------------------------------------------------------------------- the network

    def wanted(self, name: str, value: Any) -> Any:
        """Return all acknowledgements, if one of ours is newer than the network's."""
        now = self._wall()
        said = read_entries(value, now)
        if self._is_first:
            self._is_first = False
            self._catch_up()
        merged = newest(said, self._known if value is None else self._still_named(said, now))
        merged = bounded(prune(merged, now))
        self._known = {}
        self._of.clear()
        for check, entry in merged.items():
            self._take(check, entry)
        is_news = any(rank_of(entry) > rank_of(said.get(check)) for check, entry in merged.items())
        return {"acks": merged} if is_news else None

    def _catch_up(self) -> None:
        """Find once, after the start, what was acknowledged here and not published: a crash was quicker."""
        for (agent, check_id), state in self._place().states.items():
            name = f"{agent}/{check_id}"
            held = self._known.get(name)
            if state.ack is not None and changed_at(state) > max(rank_of(held)[0], forgotten_before(self._wall())):
                self._say(name, state)

    def _still_named(self, said: Entries, now: float) -> Entries:
        """Return what is known here, without what the network had and forgot: its end was named for KEPT_MS."""
        return {
            name: entry for name, entry in self._known.items()
            if name in said or not is_old(entry, now) or self._is_in_force(name, entry)
        }  # fmt: skip

    def _is_in_force(self, name: str, entry: Entry) -> bool:
        key = _key(name)
        return self._judged.has(key[0]) and is_same_ack(ack_of(self._place().states.get(key)), entry["ack"])

    async def adopt(self, name: str, value: Any) -> None:
        """Take what is newer than ours; write it into the journal at once for agents that are here."""
        for check, entry in read_entries(value, self._wall()).items():
            if rank_of(entry) <= rank_of(self._known.get(check)):
                continue
            self._take(check, entry)
            if self._judged.has(_key(check)[0]):
                self._bring_together(check, self._place().states.get(_key(check)))


def _key(name: str) -> Key:
    agent, _, check_id = name.partition("/")
    return agent, check_id
