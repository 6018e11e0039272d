"""Shows and narrows downtimes and silences for callers that are limited to some agents. Pure.

A limited caller sees the windows that hold a check of its agents, with a scope of these checks alone. It opens, changes
and ends those that can't reach beyond its limit, whatever agents come later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase

from attrs import evolve

from helen.agents.sight import Sight
from helen.states.downtimes import MAX_KEYS, Scope, Window
from helen.states.model import Key

GLOB = frozenset("*?[")
EVERY = ("*",)
Covers = Callable[[Window, Key], bool]


def is_within(window: Window, sight: Sight) -> bool:
    """Return True if a window can cover no agent beyond the limit."""
    scope = window.scope
    return all(sight(agent) for agent, _ in scope.keys) and (not scope.agents or _is_narrow(scope, sight))


def narrowed(window: Window, sight: Sight) -> Window | None:
    """Return the window within the limit; None where the scope and the limit can't be written as one scope."""
    if is_within(window, sight):
        return window
    scope, names = window.scope, tuple(pattern for pattern in sight.on if "=" not in pattern)
    made = None
    if scope.keys and not all(sight(agent) for agent, _ in scope.keys):
        return None
    if len(names) == len(sight.on) and scope.agents == EVERY:
        made = evolve(scope, agents=names)
    elif not names and len(sight.on) == 1:
        key, _, value = sight.on[0].partition("=")
        made = evolve(scope, labels=(*scope.labels, (key, value))) if key not in dict(scope.labels) else None
    return None if made is None else evolve(window, scope=made)


def seen_window(window: Window, sight: Sight | None, keys: Iterable[Key], covers: Covers) -> Window | None:
    """Return a window as a caller sees it; None if it holds none of its checks. `keys` are those of visible agents."""
    if sight is None or is_within(window, sight):
        return window
    covered = [key for key in keys if covers(window, key)]
    if not covered:
        return None
    return evolve(window, scope=Scope((), (), keys=frozenset(sorted(covered)[:MAX_KEYS])))


def seen_keys(keys: Collection[Key], sight: Sight) -> list[Key]:
    """Return the checks of agents that are seen."""
    known = {agent: sight(agent) for agent in {agent for agent, _ in keys}}
    return [key for key in keys if known[key[0]]]


def _is_narrow(scope: Scope, sight: Sight) -> bool:
    """Return True if the patterns of a scope fit no agent beyond the limit, by their agents or by one of its labels."""
    for key, glob in scope.labels:
        for pattern in sight.on:
            limit, is_label, value = pattern.partition("=")
            if is_label and limit == key and (glob == value or (_is_plain(glob) and fnmatchcase(glob, value))):
                return True
    names = [pattern for pattern in sight.on if "=" not in pattern]
    return all(glob in names or (_is_plain(glob) and sight(glob)) for glob in scope.agents)


def _is_plain(glob: str) -> bool:
    return not GLOB & set(glob)
