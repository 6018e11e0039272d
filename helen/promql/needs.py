"""Says what of a bucket each function needs, so that no more is read: a rollup has twenty columns. Values only."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from helen.promql.nodes import Node, Selector
from helen.promql.syntax import uses

VALUE = "value"  # the last of a bucket, or a result's
SUMS = ("count", "total", "squares", "least", "most")  # in the order of points.Sums
CURVE = frozenset({"first_time", "first", VALUE, "increase", "increase_s"})
ALL = frozenset({*SUMS, *CURVE})
LAST = frozenset({VALUE})
_SPREAD = frozenset({"count", "total", "squares"})
OF_FUNCTION: Mapping[str, frozenset[str]] = {
    "rate": CURVE, "increase": CURVE, "sum_over_time": frozenset({"total"}), "count_over_time": frozenset({"count"}),
    "avg_over_time": frozenset({"count", "total"}), "min_over_time": frozenset({"least"}),
    "max_over_time": frozenset({"most"}), "stddev_over_time": _SPREAD, "stdvar_over_time": _SPREAD,
    "present_over_time": frozenset(),
}  # fmt: skip


@frozen
class Needs:
    """Holds what the functions of a question need of each of its selectors."""

    of_each: Mapping[Selector, frozenset[str]]

    @classmethod
    def of(cls, node: Node) -> Needs:
        """Return the needs of a question. Where no function of this table stands around a selector, it is the last."""
        found: dict[Selector, frozenset[str]] = {}
        for selector, function in uses(node):
            found[selector] = found.get(selector, frozenset()) | OF_FUNCTION.get(function, LAST)
        return cls(found)
