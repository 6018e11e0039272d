"""Makes the labels of series: those of the agent, the check, the operator's own, and those of the metric. Pure.

`agent` and `check` come first, then labels that steer (those that are given by the server, and trusted claims). A label
of a metric that has the name of one of these is called `exported_NAME`, as Prometheus does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from helen.promql.matching import Budget, Match
from helen.promql.nodes import NAME, Labels

STATE, IS_OK = "helen_state", "helen_ok"  # of each check: its status from 0 to 3, and 1 while it is ok
OWN = (STATE, IS_OK)
EXPORTED = "exported_"
Key = tuple[str, str]  # agent and check id


def read_metric(text: str) -> tuple[str, Labels]:
    """Return name and labels of a metric as rollups write it: `used{path="/"}`. Any other text is all name."""
    begin = text.find("{")
    if begin < 1 or not text.endswith('"}'):
        return text, {}
    labels, at = Labels(), begin + 1
    while at < len(text):
        middle = text.find('="', at)
        if middle < 0:
            return text, {}
        value, end = _quoted(text, middle + 2)
        labels[text[at:middle]] = value
        if text[end : end + 1] != "," or end + 1 >= len(text):
            return (text[:begin], labels) if text[end:] == "}" else (text, {})
        at = end + 1
    return text, {}


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return what stands in quotes, and the place behind them."""
    end, parts = at, list[str]()
    while end < len(text) and text[end] != '"':
        end += text[end] == "\\"
        parts.append(text[end : end + 1])
        end += 1
    return "".join(parts), end + 1


def labels_of(base: Mapping[str, str], name: str, own: Mapping[str, str]) -> Labels:
    """Return the labels of a series: `base` are those of its check on its agent, `own` those of the metric."""
    renamed = {EXPORTED + key if key in base or key == NAME else key: value for key, value in own.items() if value}
    return {NAME: name, **base, **renamed}


@define
class Choice:
    """Says which series a selector picks: `matches` of one selector, the labels of agents, and who may be seen.

    `agents` are the labels that steer, by the name of each agent; `sees` tells which agents are in the caller's sight.
    """

    matches: Sequence[Match]
    agents: Mapping[str, Mapping[str, str]]
    sees: Callable[[str], bool]
    budget: Budget
    _bases: dict[Key, Labels | None] = field(init=False, factory=dict)

    def base(self, key: Key) -> Labels | None:
        """Return the labels of a check on an agent; None if no series of it can be picked. Raises TooMuch."""
        if key not in self._bases:
            self._bases[key] = self._base(*key)
        return self._bases[key]

    def takes(self, labels: Labels) -> bool:
        """Return True if the selector picks a series with these labels. Raises TooMuch."""
        return all(match.takes(labels.get(match.name, ""), self.budget) for match in self.matches)

    def takes_name(self, name: str) -> bool:
        """Return True if a metric of this name may be picked. Raises TooMuch."""
        return all(match.takes(name, self.budget) for match in self.matches if match.name == NAME)

    @property
    def name(self) -> str | None:
        """Return the name of the one metric that is wanted; None if there may be several."""
        return next((match.exact for match in self.matches if match.name == NAME and match.exact is not None), None)

    def _base(self, agent: str, check: str) -> Labels | None:
        if not self.sees(agent):
            return None
        given = {name: value for name, value in self.agents.get(agent, {}).items() if value}
        labels = given | {"agent": agent, "check": check}
        known = (match for match in self.matches if match.name in labels)
        return labels if all(match.takes(labels[match.name], self.budget) for match in known) else None
