"""Define the tree of a Lua source: expressions, top-level statements, and the variables that names refer to.

The insides of functions are parsed and their names resolved, but no tree is kept of them: the linter needs the globals
and host calls of a file, and the reader of a check's table needs its constants.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen


@define
class Variable:
    """Describes one local name and counts its uses. `kind` is local, parameter, loop or function."""

    name: str
    line: int
    kind: str
    reads: int = 0
    writes: int = 0  # after its declaration
    later: tuple[Variable, ...] = ()  # the ones after it in the same statement


@frozen
class Constant:
    """Holds a literal: nil, a boolean, a number or a string."""

    line: int
    value: Any


@frozen
class Name:
    """Holds a used name; `variable` is None for a global."""

    line: int
    name: str
    variable: Variable | None


@frozen
class Index:
    """Holds `base.key` or `base[key]`."""

    line: int
    base: Expression
    key: Expression


@frozen
class Call:
    """Holds `callee(arguments)`, or with `method` `callee:method(arguments)`."""

    line: int
    callee: Expression
    method: str | None
    arguments: tuple[Expression, ...]


@frozen
class Table:
    """Holds a table constructor. An item without a key has the key None; such items count from 1."""

    line: int
    items: tuple[tuple[Expression | None, Expression], ...]


@frozen
class Function:
    """Holds a function's parameter names."""

    line: int
    parameters: tuple[str, ...]


@frozen
class Binary:
    line: int
    operator: str
    left: Expression
    right: Expression


@frozen
class Unary:
    line: int
    operator: str
    operand: Expression


@frozen
class Varargs:
    line: int


Expression = Constant | Name | Index | Call | Table | Function | Binary | Unary | Varargs


@frozen
class Local:
    """Holds `local names = values` of the top level, or `local function` with its Function as the value."""

    line: int
    variables: tuple[Variable, ...]
    values: tuple[Expression, ...]


@frozen
class Assignment:
    """Holds `targets = values` of the top level, or `function a.b()` with its Function as the value."""

    line: int
    targets: tuple[Expression, ...]
    values: tuple[Expression, ...]


@frozen
class Return:
    line: int
    values: tuple[Expression, ...]


Statement = Local | Assignment | Return


@frozen
class GlobalUse:
    """Describes a read or write of a global; `path` has the constant names: ("os", "execute")."""

    line: int
    path: tuple[str, ...]
    written: bool


@frozen
class Path:
    """Holds the constant names at the beginning of a chain that is read: `host.disk` in `host.disk("/").path`.

    `computed` is true if the first link is no constant name, as in `host[name]`.
    """

    root: Name
    names: tuple[str, ...]
    line: int
    computed: bool


@frozen
class Chunk:
    """Holds a whole source. `other`: line of the first top-level statement that is no data (loop, call), or None."""

    statements: tuple[Statement, ...]
    globals: tuple[GlobalUse, ...]
    variables: tuple[Variable, ...]
    calls: tuple[Call, ...]
    paths: tuple[Path, ...] = field(repr=False)
    other: int | None


def dotted(expression: Expression) -> tuple[Name, tuple[str, ...]] | None:
    """Return the root and the constant names of `a.b.c`, or None for any other expression."""
    names: list[str] = []
    while isinstance(expression, Index):
        if not isinstance(expression.key, Constant) or not isinstance(expression.key.value, str):
            return None
        names.append(expression.key.value)
        expression = expression.base
    return (expression, tuple(reversed(names))) if isinstance(expression, Name) else None
