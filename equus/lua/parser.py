"""Parse Lua 5.4 source into the tree of tree.py, and resolve its names. Pure: runs nothing.

The parser accepts what the grammar of the language accepts. Rules beyond the grammar (labels of gotos, writing to
constants) are left to the real compiler, which the linter asks as well (compiler.py).

It is written by hand because the linter needs exactly Lua 5.4, the line of each name, constants without running
anything, and bounds on hostile source. luaparser runs on ANTLR, which is slow; tree-sitter-lua is a compiled
dependency. The running agent never imports this package.
"""

from collections.abc import Callable

from equus.lua.expressions import ExpressionParser
from equus.lua.tokens import LuaSyntaxError, Token
from equus.lua.tree import (
    Assignment,
    Call,
    Chunk,
    Constant,
    Expression,
    Index,
    Local,
    Name,
    Return,
    Statement,
)

_BLOCK_ENDS = frozenset(("end of source", "end", "else", "elseif", "until"))


def parse(source: str) -> Chunk:
    """Return the tree of a source. Raises LuaSyntaxError if it is no Lua."""
    return _Parser(source).chunk()


class _Parser(ExpressionParser):
    """Parses statements; keeps those of the top level."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._statements: list[Statement] = []
        self._other: int | None = None

    def chunk(self) -> Chunk:
        """Parse the whole source."""
        self._block()
        if self._token.kind != "end of source":
            self._unexpected()
        scopes = self._scopes
        return Chunk(
            tuple(self._statements),
            tuple(scopes.globals),
            tuple(scopes.variables),
            tuple(self._calls),
            tuple(self._paths),
            self._other,
        )

    @property
    def _top(self) -> bool:
        return self._functions == 0 and self._depth <= 1

    def _block(self) -> None:
        self._deeper()
        self._scopes.open()
        self._statements_of_block()
        self._scopes.close()
        self._depth -= 1

    def _statements_of_block(self) -> None:
        while self._token.kind not in _BLOCK_ENDS:
            if self._at("return"):
                self._return()
                return
            self._statement()

    def _statement(self) -> None:
        line = self._token.line
        known = _STATEMENTS.get(self._token.kind)
        if known is not None:
            known(self)
            if self._top and known not in (_Parser._local, _Parser._function, _Parser._empty):
                self._not_data(line)
        else:
            self._expression_statement()

    def _not_data(self, line: int) -> None:
        if self._other is None:
            self._other = line

    def _keep(self, statement: Statement) -> None:
        if self._top:
            self._statements.append(statement)

    def _empty(self) -> None:
        self._next()

    def _if(self) -> None:
        line = self._token.line
        while self._next().kind in ("if", "elseif"):
            self._expression()
            self._expect("then")
            self._block()
            if self._at("else"):
                self._next()
                self._block()
                break
            if not self._at("elseif"):
                break
        self._close("end", "if", line)

    def _while(self) -> None:
        line = self._next().line
        self._expression()
        self._expect("do")
        self._block()
        self._close("end", "while", line)

    def _do(self) -> None:
        line = self._next().line
        self._block()
        self._close("end", "do", line)

    def _repeat(self) -> None:
        """Parse `repeat`. Its condition sees the locals of the body, so that the block stays open for it."""
        line = self._next().line
        self._deeper()
        self._scopes.open()
        self._statements_of_block()
        self._close("until", "repeat", line)
        self._expression()
        self._scopes.close()
        self._depth -= 1

    def _for(self) -> None:
        line = self._next().line
        names = [self._expect("name")]
        while self._take(","):
            names.append(self._expect("name"))
        if len(names) == 1 and self._take("="):
            if not 2 <= len(self._expressions()) <= 3:
                raise LuaSyntaxError(line, "a numeric for takes a start, an end and a step")
        else:
            self._expect("in")
            self._expressions()
        self._expect("do")
        self._scopes.open()
        for name in names:
            self._scopes.declare(name.value, name.line, "loop")
        self._block()
        self._scopes.close()
        self._close("end", "for", line)

    def _function(self) -> None:
        line = self._next().line
        name = self._expect("name")
        target: Expression = self._scopes.name(name.value, name.line)
        method = False
        while not method and self._token.kind in (".", ":"):
            method = self._next().kind == ":"
            part = self._expect("name")
            target = Index(part.line, target, Constant(part.line, part.value))
        self._assigned(target)
        self._keep(Assignment(line, (target,), (self._body(line, ("self",) if method else ()),)))

    def _local(self) -> None:
        line = self._next().line
        if self._take("function"):
            name = self._expect("name")
            variable = self._scopes.declare(name.value, name.line, "function")
            self._keep(Local(line, (variable,), (self._body(line, ()),)))
            return
        names = [self._attributed_name()]
        while self._take(","):
            names.append(self._attributed_name())
        values = self._expressions() if self._take("=") else ()
        # The names are declared after the whole statement: `local x = x` reads the outer x.
        variables = tuple(self._scopes.declare(name.value, name.line, "local") for name in names)
        for number, variable in enumerate(variables):
            variable.later = variables[number + 1 :]
        self._keep(Local(line, variables, values))

    def _attributed_name(self) -> Token:
        name = self._expect("name")
        if self._take("<"):
            attribute = self._expect("name")
            if attribute.value not in ("const", "close"):
                raise LuaSyntaxError(attribute.line, f"unknown attribute '{attribute.value}'")
            self._expect(">")
        return name

    def _return(self) -> None:
        line = self._next().line
        values = () if self._token.kind in _BLOCK_ENDS or self._at(";") else self._expressions()
        self._take(";")
        if self._token.kind not in _BLOCK_ENDS:
            self._unexpected()
        self._keep(Return(line, values))

    def _label(self) -> None:
        self._next()
        self._expect("name")
        self._expect("::")

    def _goto(self) -> None:
        self._next()
        self._expect("name")

    def _expression_statement(self) -> None:
        line = self._token.line
        first = self._suffixed(statement=True)
        if isinstance(first, Call) and not (self._at("=") or self._at(",")):
            if self._top:
                self._not_data(line)
            return
        targets = [first]
        while self._take(","):
            targets.append(self._suffixed(statement=True))
        for target in targets:
            if not isinstance(target, Name | Index):
                raise LuaSyntaxError(line, f"syntax error near '{self._token.shown}'")
        self._expect("=")
        values = self._expressions()
        for target in targets:
            self._assigned(target)
        self._keep(Assignment(line, tuple(targets), values))

    def _assigned(self, target: Expression) -> None:
        """Record the use of an assignment's target: a plain name is written; of `a.b = 1` the name a is read."""
        if isinstance(target, Name):
            self._scopes.write(target)
        else:
            self._used(target)


_STATEMENTS: dict[str, Callable[[_Parser], None]] = {
    ";": _Parser._empty, "if": _Parser._if, "while": _Parser._while, "do": _Parser._do, "for": _Parser._for,
    "repeat": _Parser._repeat, "function": _Parser._function, "local": _Parser._local, "::": _Parser._label,
    "goto": _Parser._goto, "break": _Parser._empty,
}  # fmt: skip
