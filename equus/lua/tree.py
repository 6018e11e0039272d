"""What the parser keeps of a Lua source: expressions, top-level statements, and what names refer to. Values only.

The insides of functions are parsed and their names resolved, but no tree is kept of them: linting asks which globals
and which host calls a file uses, and reading a table asks for its constants. Both need no more.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen


@define
class Variable:
    """One local name, and whether anything reads it. `kind` is local, parameter, loop or function."""

    name: str
    line: int
    kind: str
    reads: int = 0
    writes: int = 0  # after its declaration
    later: tuple[Variable, ...] = ()  # those behind it in the same statement


@frozen
class Constant:
    """A literal: nil, a boolean, a number or a string."""

    line: int
    value: Any


@frozen
class Name:
    """A name; `variable` is None for a global."""

    line: int
    name: str
    variable: Variable | None


@frozen
class Index:
    """`base.key` or `base[key]`."""

    line: int
    base: Expression
    key: Expression


@frozen
class Call:
    """`callee(arguments)`; `method` for `callee:method(arguments)`."""

    line: int
    callee: Expression
    method: str | None
    arguments: tuple[Expression, ...]


@frozen
class Table:
    """A table constructor. An item without a key has the key None and counts from 1."""

    line: int
    items: tuple[tuple[Expression | None, Expression], ...]


@frozen
class Function:
    """A function with the names of its parameters."""

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
    """`local names = values` of the top level, and `local function` with its Function as the value."""

    line: int
    variables: tuple[Variable, ...]
    values: tuple[Expression, ...]


@frozen
class Assignment:
    """`targets = values` of the top level, and `function a.b()` with its Function as the value."""

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
    """A global read or written; `path` is what is taken of it by constant names: ("os", "execute")."""

    line: int
    path: tuple[str, ...]
    written: bool


@frozen
class Path:
    """The longest run of constant names of a chain whose value is taken: `host.disk` in `host.disk("/").path`.

    `computed`: the first link is no constant name, as in `host[name]`.
    """

    root: Name
    names: tuple[str, ...]
    line: int
    computed: bool


@frozen
class Chunk:
    """A whole source. `other`: the line of the first top-level statement that is no data (a loop, a call), or None."""

    statements: tuple[Statement, ...]
    globals: tuple[GlobalUse, ...]
    variables: tuple[Variable, ...]
    calls: tuple[Call, ...]
    paths: tuple[Path, ...] = field(repr=False)
    other: int | None


def dotted(expression: Expression) -> tuple[Name, tuple[str, ...]] | None:
    """The root and the constant names of `a.b.c`, or None for anything else."""
    names: list[str] = []
    while isinstance(expression, Index):
        if not isinstance(expression.key, Constant) or not isinstance(expression.key.value, str):
            return None
        names.append(expression.key.value)
        expression = expression.base
    return (expression, tuple(reversed(names))) if isinstance(expression, Name) else None
