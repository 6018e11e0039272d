"""Reads the text of a question into nodes, by promql-parser, and names what Helen does not have of PromQL.

The parser is recursive, takes the square of the time, and lets texts of strange depth end the process. So it runs in
the process that answers, which may end; depth and length are bounded before it sees anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import promql_parser

from helen.promql.errors import MOST_DEPTH, MOST_SELECTORS, MOST_TEXT, BadData, Unsupported
from helen.promql.matching import Match
from helen.promql.nodes import (
    END,
    NAME,
    START,
    Aggregate,
    Binary,
    Call,
    Negative,
    Node,
    Number,
    Pairing,
    Selector,
    Text,
)

LONGEST = 10 * 366 * 86_400_000  # of a range or an offset, milliseconds
AGGREGATES = ("sum", "avg", "min", "max", "count", "group", "topk", "bottomk")
OF_WINDOWS = (
    "rate", "increase", "delta", "irate", "idelta", "changes", "resets", "avg_over_time", "min_over_time",
    "max_over_time", "sum_over_time", "count_over_time", "last_over_time", "present_over_time", "stddev_over_time",
    "stdvar_over_time", "quantile_over_time",
)  # fmt: skip
OF_VECTORS = ("abs", "ceil", "floor", "round", "sqrt", "clamp", "clamp_min", "clamp_max", "sort", "sort_desc")
OF_NUMBERS = ("time", "vector", "scalar")
OPERATORS = frozenset("+ - * / % ^ atan2 == != > < >= <= and or unless".split())
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`', re.DOTALL)
_SIGNS = re.compile(r"[-+*/%^=<>]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_OPERATOR_OF = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}


def read_question(text: str) -> Node:
    """Return the question as a node. Raises BadData for what is no PromQL, Unsupported for what Helen lacks."""
    node = _read(_parsed(text))
    if len(list(selectors(node))) > MOST_SELECTORS:
        raise BadData(f"a question has at most {MOST_SELECTORS} selectors")
    return node


def read_selector(text: str) -> Selector:
    """Return a selector of series, as `match[]` has it. Raises BadData for anything else."""
    node = read_question(text)
    if not isinstance(node, Selector) or node.range is not None:
        raise BadData(f'{text[:100]!r} is no selector, such as used{{agent="web-1"}}')
    return node


def selectors(node: Node) -> Iterable[Selector]:
    """Yield the selectors in a question."""
    return (selector for selector, _ in uses(node))


def uses(node: Node | None, function: str = "") -> Iterable[tuple[Selector, str]]:
    """Yield the selectors in a question, each with the function that it is given to; empty if it is given to none."""
    if isinstance(node, Selector):
        yield node, function
    elif isinstance(node, Call):
        for each in node.args:
            yield from uses(each, node.name)
    elif isinstance(node, Aggregate):
        yield from uses(node.parameter)
        yield from uses(node.of)
    elif isinstance(node, Binary):
        yield from uses(node.left)
        yield from uses(node.right)
    elif isinstance(node, Negative):
        yield from uses(node.of)


def _parsed(text: str) -> Any:
    if not text.strip():
        raise BadData("`query` is a question in PromQL, such as max by (agent) (used)")
    if len(text) > MOST_TEXT:
        raise BadData(f"a question has at most {MOST_TEXT} characters")
    bare = _STRING.sub("", text)
    if max(map(bare.count, "([{")) > MOST_DEPTH or len(_SIGNS.findall(bare)) > 4 * MOST_DEPTH:
        raise BadData(f"a question has at most {MOST_DEPTH} brackets of a kind, and {4 * MOST_DEPTH} signs")
    try:
        return promql_parser.parse(text)
    except ValueError as error:
        raise BadData(f"no PromQL: {error}") from error


def _read(tree: Any) -> Node:
    reader = _READERS.get(type(tree).__name__)
    if reader is None:
        raise Unsupported(f"Helen has no {type(tree).__name__} of PromQL")
    node: Node = reader(tree)
    return node


def _number(tree: Any) -> Node:
    return Number(float(tree.val))


def _text(tree: Any) -> Node:
    return Text(tree.val)


def _paren(tree: Any) -> Node:
    return _read(tree.expr)


def _negative(tree: Any) -> Node:
    return Negative(_read(tree.expr))


def _subquery(tree: Any) -> Node:
    raise Unsupported("Helen has no subqueries of PromQL, [RANGE:STEP]: ask for a range of a series, [RANGE]")


def _selector(tree: Any) -> Selector:
    matchers = tree.matchers
    if matchers.or_matchers:
        raise Unsupported("Helen has no `or` between matchers: use =~ with alternatives")
    found = [Match(each.name, _OPERATOR_OF[str(each.op)], each.value) for each in matchers.matchers]
    if tree.name is not None:
        found.append(Match(NAME, "=", tree.name))
    return Selector(tuple(found), _milliseconds(tree, "offset"), _fixed(tree.at))


def _window(tree: Any) -> Node:
    inner = _selector(tree.vector_selector)
    return Selector(inner.matches, inner.offset, inner.at, _milliseconds(tree, "range"))


def _milliseconds(tree: Any, name: str) -> int:
    try:
        span = getattr(tree, name)
    except (OverflowError, ValueError) as error:
        raise BadData(f"a {name} is longer than 10 years") from error
    found = 0 if span is None else round(span / timedelta(milliseconds=1))
    if abs(found) > LONGEST:
        raise BadData(f"a {name} is longer than 10 years")
    return found


def _fixed(at: Any) -> int | str | None:
    if at is None:
        return None
    word = str(at.type).rpartition(".")[2]
    if word in ("Start", "End"):
        return START if word == "Start" else END
    moment: datetime = at.at
    return round(moment.timestamp() * 1000)


def _call(tree: Any) -> Node:
    name = tree.func.name
    if name not in (*OF_WINDOWS, *OF_VECTORS, *OF_NUMBERS):
        raise Unsupported(f"Helen has no function {name}() of PromQL: docs/prometheus.rst lists those that it has")
    return Call(name, tuple(_read(each) for each in tree.args))


def _aggregate(tree: Any) -> Node:
    name, modifier = str(tree.op), tree.modifier
    if name not in AGGREGATES:
        raise Unsupported(f"Helen has no aggregation {name} of PromQL: it has {', '.join(AGGREGATES)}")
    labels = () if modifier is None else tuple(modifier.labels)
    is_without = modifier is not None and str(modifier.type).endswith("Without")
    parameter = None if tree.param is None else _read(tree.param)
    return Aggregate(name, _read(tree.expr), parameter, labels, is_without)


def _binary(tree: Any) -> Node:
    sign, modifier = str(tree.op), tree.modifier
    if sign not in OPERATORS:
        raise Unsupported(f"Helen has no operator {sign} of PromQL")
    left, right = _read(tree.lhs), _read(tree.rhs)
    if modifier is None:
        return Binary(sign, left, right)
    filled = getattr(modifier, "fill_values", None)
    if filled is not None and (filled.lhs is not None or filled.rhs is not None):
        raise Unsupported("Helen has no `fill` of PromQL")
    matching = modifier.matching
    is_on = matching is not None and str(matching.type).endswith("Include")
    many = {"ManyToOne": "left", "OneToMany": "right"}.get(_word(modifier.card), "")
    labels = () if matching is None else tuple(matching.labels)
    pairing = Pairing(labels, is_on, many, tuple(modifier.group_labels or ()))
    return Binary(sign, left, right, pairing, modifier.return_bool)


def _word(of: Any) -> str:
    return str(of).rpartition(".")[2]


_READERS = {
    "NumberLiteral": _number, "StringLiteral": _text, "ParenExpr": _paren, "UnaryExpr": _negative,
    "SubqueryExpr": _subquery, "VectorSelector": _selector, "MatrixSelector": _window, "Call": _call,
    "AggregateExpr": _aggregate, "BinaryExpr": _binary,
}  # fmt: skip
