"""Evaluate expressions that are data: literals, tables of them, local constants, `..` and plain arithmetic.

Pure, and nothing is run: an expression that is no constant raises NotConstant with its line. Lua tables become lists
(keys 1 to n), dicts, or an empty dict.
"""

import operator
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from equus.lua.tree import (
    Assignment,
    Binary,
    Chunk,
    Constant,
    Expression,
    Function,
    Local,
    Name,
    Return,
    Table,
    Unary,
    Variable,
    dotted,
)

_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
# Characters of a text built by `..`. A source can name a text and double it in each line; the texts of honest tables
# and tests are shorter.
TEXT_LIMIT = 8192
# Values of a table written out in full. A table that contains one table many times would otherwise grow without bound.
MOST_VALUES = 50_000


class NotConstant(Exception):
    """Reports an expression on `line` that has a value only when it is run."""

    def __init__(self, line: int, text: str = "this is not a constant") -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@frozen
class FunctionValue:
    """Stands for a function as a value: `run`, the one field of a check that is no data."""

    line: int
    parameters: tuple[str, ...]


class LocatedTable(dict[Any, Any]):
    """Holds a Lua table with the line where it begins, and the line of each key."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[Any, int] = {}

    def line_of(self, key: Any) -> int:
        """Return the line of a key, or the table's own."""
        return self.lines.get(key, self.line)


def plain(value: Any) -> Any:
    """Return a value of `evaluate` as plain lists and dicts. Raises NotConstant if it is too large or too deep."""
    try:
        return _plain(value, [MOST_VALUES])
    except RecursionError:
        raise NotConstant(value.line, "this is nested too deep to be data") from None


def _plain(value: Any, left: list[int]) -> Any:
    left[0] -= 1
    if not isinstance(value, LocatedTable):
        return value
    if left[0] < 0:
        raise NotConstant(value.line, f"this table holds more than {MOST_VALUES} values")
    if value and list(value) == list(range(1, len(value) + 1)):
        return [_plain(item, left) for item in value.values()]
    return {str(key): _plain(item, left) for key, item in value.items()}


def returned_value(chunk: Chunk) -> Any:
    """Evaluate the `return` of a source. Raises NotConstant if the source is more than data, or returns nothing."""
    if chunk.other is not None:
        raise NotConstant(chunk.other, "only local constants, assignments and the return belong at the top level")
    known: dict[int, Any] = {}
    for statement in chunk.statements:
        if isinstance(statement, Local):
            _declare(statement, known)
        elif isinstance(statement, Assignment):
            _assign(statement, known)
        elif isinstance(statement, Return) and len(statement.values) == 1:
            return evaluate(statement.values[0], known)
    last = chunk.statements[-1].line if chunk.statements else 1
    raise NotConstant(last, "the file must end with `return` and one table")


def _declare(statement: Local, known: dict[int, Any]) -> None:
    """Evaluate a local. If it is no constant, the fault is kept until the data uses it."""
    for number, variable in enumerate(statement.variables):
        if number < len(statement.values):
            try:
                known[id(variable)] = evaluate(statement.values[number], known)
            except NotConstant as fault:
                known[id(variable)] = fault


def _assign(statement: Assignment, known: dict[int, Any]) -> None:
    """Store `check.args.warn = {...}` or `function check.run()` in the table that it names, if that is known."""
    for target, value in zip(statement.targets, statement.values, strict=False):
        chain = dotted(target)
        table = _known(chain[0].variable, known) if chain else None
        for name in chain[1][:-1] if chain else ():
            table = table.get(name) if isinstance(table, LocatedTable) else None
        if chain and isinstance(table, LocatedTable) and chain[1]:
            table[chain[1][-1]] = evaluate(value, known)
            table.lines[chain[1][-1]] = statement.line


def _known(variable: Variable | None, known: Mapping[int, Any]) -> Any:
    return known.get(id(variable)) if variable is not None else None


def evaluate(expression: Expression, known: Mapping[int, Any]) -> Any:
    """Return the value: a table as LocatedTable, a function as FunctionValue. Raises NotConstant if it is no data."""
    try:
        return _evaluate(expression, known)
    except RecursionError:
        raise NotConstant(expression.line, "this is nested too deep to be data") from None


def _evaluate(expression: Expression, known: Mapping[int, Any]) -> Any:
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Function):
        return FunctionValue(expression.line, expression.parameters)
    if isinstance(expression, Table):
        return _table(expression, known)
    if isinstance(expression, Name):
        return _named(expression, known)
    if isinstance(expression, Unary):
        return _unary(expression, known)
    if isinstance(expression, Binary):
        return _binary(expression, known)
    raise NotConstant(expression.line)


def _named(name: Name, known: Mapping[int, Any]) -> Any:
    variable = name.variable
    if variable is None or id(variable) not in known or variable.writes:
        raise NotConstant(name.line, f"{name.name} is not a constant")
    value = known[id(variable)]
    if isinstance(value, NotConstant):
        raise value
    return value


def _table(table: Table, known: Mapping[int, Any]) -> LocatedTable:
    result, position = LocatedTable(table.line), 0
    for key_expression, value_expression in table.items:
        if key_expression is None:
            position += 1
            key: Any = position
        else:
            key = _evaluate(key_expression, known)
            if not isinstance(key, str | int | float):
                raise NotConstant(key_expression.line, "a key of a table of data must be a text or a number")
            key = int(key) if isinstance(key, float) and key.is_integer() else key
        value = _evaluate(value_expression, known)
        if value is not None:
            result[key] = value
            result.lines[key] = value_expression.line
    return result


def _unary(unary: Unary, known: Mapping[int, Any]) -> Any:
    value = _evaluate(unary.operand, known)
    if unary.operator == "()":
        return value
    if unary.operator == "-" and _is_number(value):
        return _wrapped(-value)
    if unary.operator == "not":
        return value is None or value is False
    raise NotConstant(unary.line)


def _binary(binary: Binary, known: Mapping[int, Any]) -> Any:
    left, right = _evaluate(binary.left, known), _evaluate(binary.right, known)
    if (
        binary.operator == ".."
        and isinstance(left, str)
        and isinstance(right, str)
        and len(left) + len(right) <= TEXT_LIMIT
    ):
        return left + right
    if binary.operator in _ARITHMETIC and _is_number(left) and _is_number(right):
        try:
            return _wrapped(_ARITHMETIC[binary.operator](left, right))
        except (ZeroDivisionError, OverflowError):
            raise NotConstant(binary.line) from None
    raise NotConstant(binary.line)


def _wrapped(number: int | float) -> int | float:
    """Wrap an integer around at 64 bits, as Lua does; Python's would grow with each multiplication."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63) if isinstance(number, int) else number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
