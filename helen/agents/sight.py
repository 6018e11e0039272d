"""Tells which agents a limited caller sees: those that fit one of its patterns by name, or by a label that steers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate

from attrs import field, frozen

from helen.agents.roster import Agent

Test = Callable[[str], "re.Match[str] | None"]
Tests = tuple[Test, tuple[tuple[str, Test], ...]]


@frozen
class Sight:
    """Holds the patterns of a limit, and the agents of the roster by name. Two with the same patterns are equal.

    Labels are those of this moment, so an agent that gets another label comes into sight, or leaves it, at once. An
    agent that is not known has no labels: only a pattern of its name fits it.
    """

    on: tuple[str, ...]
    agents: Mapping[str, Agent] = field(eq=False, repr=False)
    _tests: Tests = field(init=False, eq=False, repr=False)

    @_tests.default
    def _compiled(self) -> Tests:
        """Return the patterns as expressions: that of names, and those of labels by their keys."""
        labels = [pattern.partition("=")[::2] for pattern in self.on if "=" in pattern]
        names = "|".join(translate(pattern) for pattern in self.on if "=" not in pattern) or "(?!)"
        return re.compile(names).match, tuple((key, re.compile(translate(value)).match) for key, value in labels)

    def __call__(self, name: str | None) -> bool:
        """Return True if the agent of this name is seen; None, for what is of no agent, is not."""
        if name is None:
            return False
        agent = self.agents.get(name)
        return self.fits(name, {} if agent is None else agent.labels)

    def fits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if an agent with these labels is seen, as groundwork.authority.decide has it; a microsecond."""
        is_named, of_labels = self._tests
        if name and is_named(name) is not None:
            return True
        return any(key in labels and is_value(labels[key]) is not None for key, is_value in of_labels)

    def sees_check(self, ref: str) -> bool:
        """Return True if the agent of `AGENT/CHECK` is seen."""
        return self(ref.partition("/")[0])

    def names(self) -> list[str]:
        """Return the names of all agents that are seen."""
        return [name for name, agent in list(self.agents.items()) if self.fits(name, agent.labels)]


def seen(sight: Sight | None, agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents that are seen; all of them without a limit."""
    return [agent for agent in agents if sight is None or sight.fits(agent.name, agent.labels)]
