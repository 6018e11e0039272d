"""Compares labels of series with the matchers of a selector. Pure.

Expressions come from clients, so helen.states.linear_regex reads them: it takes linear time. A list of words, which is
what dashboards send for several choices of a variable, is looked up instead.
"""

from __future__ import annotations

import re

from attrs import define, field, frozen

from helen.promql.errors import MOST_TRIES, BadData, TooMuch
from helen.states.linear_regex import BadExpression, Expression, read_expression

_PLAIN = re.compile(r"(?:[^\\.+*?()|\[\]{}^$]|\\[^A-Za-z0-9])*")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@define
class Budget:
    """Counts how often steps of expressions were tried, so that no question tries for ever. One for each question."""

    left: int = MOST_TRIES

    def spend(self, tries: int) -> None:
        """Take off so many tries. Raises TooMuch when none is left."""
        self.left -= tries
        if self.left < 0:
            raise TooMuch("the expressions of the labels take too long: use shorter ones, or fewer of them")


@frozen
class Match:
    """Holds one condition, such as `agent=~"web-.*"`. A label that isn't there is the same as an empty one."""

    name: str
    operator: str  # =, !=, =~ or !~
    value: str
    _words: frozenset[str] | None = field(init=False, repr=False, eq=False)
    _expression: Expression | None = field(init=False, repr=False, eq=False)
    _known: dict[str, bool] = field(init=False, repr=False, eq=False, factory=dict)

    @_words.default
    def _listed(self) -> frozenset[str] | None:
        if self.operator in ("=", "!="):
            return frozenset([self.value])
        parts = re.split(r"(?<!\\)\|", self.value)
        is_plain = all(_PLAIN.fullmatch(part) for part in parts)
        return frozenset(_ESCAPE.sub(r"\1", part) for part in parts) if is_plain else None

    @_expression.default
    def _read(self) -> Expression | None:
        if self._words is not None:
            return None
        try:
            return read_expression(self.value)
        except BadExpression as error:
            raise BadData(str(error)) from error

    @property
    def exact(self) -> str | None:
        """Return the one value that meets the condition; None if there may be others."""
        return self.value if self.operator == "=" else None

    def takes(self, value: str, budget: Budget) -> bool:
        """Return True if a value meets the condition. Raises TooMuch."""
        if self._expression is None:
            assert self._words is not None
            holds = value in self._words
        elif value in self._known:
            holds = self._known[value]
        else:
            budget.spend((len(value) + 1) * len(self._expression.program))
            holds = self._known[value] = self._expression.fullmatch(value)
        return holds == (self.operator in ("=", "=~"))
