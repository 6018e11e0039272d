"""Defines the parts that a question in PromQL is read into. Values only; times are milliseconds."""

from __future__ import annotations

from attrs import frozen

from helen.promql.matching import Match

Labels = dict[str, str]
NAME = "__name__"
START, END = "start", "end"  # of the range that is asked for, in `@ start()`


@frozen
class Number:
    """Holds a number."""

    value: float


@frozen
class Text:
    """Holds a string: an answer of its own, nothing more."""

    value: str


@frozen
class Selector:
    """Picks series. `range` is None where the newest sample of each counts, `at` fixes the time."""

    matches: tuple[Match, ...]
    offset: int = 0
    at: int | str | None = None
    range: int | None = None


@frozen
class Call:
    """Calls a function by its name."""

    name: str
    args: tuple[Node, ...]


@frozen
class Aggregate:
    """Joins series to groups. `labels` are those of `by`, or with `is_without` those that are left out."""

    name: str
    of: Node
    parameter: Node | None
    labels: tuple[str, ...]
    is_without: bool


@frozen
class Pairing:
    """Says which series of two sides belong together: by `labels`, or with `is_on` False by all others.

    `many` is "left" or "right" where series of that side share one of the other, which hands on its `taken` labels.
    """

    labels: tuple[str, ...] = ()
    is_on: bool = False
    many: str = ""
    taken: tuple[str, ...] = ()


@frozen
class Binary:
    """Joins two sides by an operator. With `is_bool` a comparison says 0 or 1 instead of leaving series out."""

    operator: str
    left: Node
    right: Node
    pairing: Pairing = Pairing()
    is_bool: bool = False


@frozen
class Negative:
    """Holds what has its sign turned."""

    of: Node


Node = Number | Text | Selector | Call | Aggregate | Binary | Negative
