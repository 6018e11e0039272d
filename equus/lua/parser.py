"""Lua 5.4 source to the tree of tree.py, names resolved on the way. Pure: nothing is ever run.

It accepts what the language's grammar accepts; rules beyond it (gotos and their labels, writing to constants) are the
real compiler's, which linting asks as well.
"""

from collections.abc import Callable

from equus.lua.cursor import Cursor
from equus.lua.scope import Scopes
from equus.lua.tokens import LuaSyntaxError, Token
from equus.lua.tree import (
    Assignment,
    Binary,
    Call,
    Chunk,
    Constant,
    Expression,
    Function,
    Index,
    Local,
    Name,
    Path,
    Return,
    Statement,
    Table,
    Unary,
    Varargs,
)

_BLOCK_ENDS = frozenset(("end of source", "end", "else", "elseif", "until"))
# Left and right binding power; the right one is lower where an operator binds to the right.
_BINARY = {
    "or": (1, 1), "and": (2, 2), "<": (3, 3), ">": (3, 3), "<=": (3, 3), ">=": (3, 3), "~=": (3, 3), "==": (3, 3),
    "|": (4, 4), "~": (5, 5), "&": (6, 6), "<<": (7, 7), ">>": (7, 7), "..": (9, 8), "+": (10, 10), "-": (10, 10),
    "*": (11, 11), "/": (11, 11), "//": (11, 11), "%": (11, 11), "^": (14, 13),
}  # fmt: skip
_UNARY, _UNARY_POWER = frozenset(("not", "-", "#", "~")), 12
_LITERALS = {"nil": None, "true": True, "false": False}


def parse(source: str) -> Chunk:
    """The tree of a source; LuaSyntaxError when it is none."""
    return _Parser(source).chunk()


class _Parser(Cursor):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._scopes = Scopes()
        self._calls: list[Call] = []
        self._paths: list[Path] = []
        self._functions = 0
        self._statements: list[Statement] = []
        self._other: int | None = None

    def chunk(self) -> Chunk:
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

    # Statements ------------------------------------------------------------------------------------------------------

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
        """The condition sees the locals of the body, so the block stays open for it."""
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
        # The names begin behind the whole statement: `local x = x` reads the outer one.
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
        """A plain name is written; of `a.b = 1` the name a is read."""
        if isinstance(target, Name):
            self._scopes.write(target)
        else:
            self._used(target)

    # Expressions -----------------------------------------------------------------------------------------------------

    def _expressions(self) -> tuple[Expression, ...]:
        found = [self._expression()]
        while self._take(","):
            found.append(self._expression())
        return tuple(found)

    def _expression(self, power: int = 0) -> Expression:
        self._deeper()
        if self._token.kind in _UNARY:
            operator = self._next()
            left: Expression = Unary(operator.line, operator.kind, self._expression(_UNARY_POWER))
        else:
            left = self._simple()
        while self._token.kind in _BINARY and _BINARY[self._token.kind][0] > power:
            operator = self._next()
            left = Binary(operator.line, operator.kind, left, self._expression(_BINARY[operator.kind][1]))
        self._depth -= 1
        return left

    def _simple(self) -> Expression:
        token = self._token
        if token.kind in ("number", "string"):
            self._next()
            return Constant(token.line, token.value)
        if token.kind in _LITERALS:
            self._next()
            return Constant(token.line, _LITERALS[token.kind])
        if token.kind == "...":
            self._next()
            return Varargs(token.line)
        if token.kind == "{":
            return self._table()
        if token.kind == "function":
            self._next()
            return self._body(token.line, ())
        return self._suffixed(statement=False)

    def _suffixed(self, statement: bool) -> Expression:
        """A name or a bracketed expression with all that hangs on it. What a statement assigns to is not read here."""
        expression = self._primary()
        while True:
            token = self._token
            if token.kind == ".":
                self._next()
                name = self._expect("name")
                expression = Index(name.line, expression, Constant(name.line, name.value))
            elif token.kind == "[":
                self._next()
                key = self._expression()
                self._close("]", "[", token.line)
                expression = Index(token.line, expression, key)
            elif token.kind in ("(", "string", "{", ":"):
                expression = self._call(expression)
            else:
                if not statement:
                    self._used(expression)
                return expression

    def _call(self, callee: Expression) -> Call:
        self._used(callee)
        line = self._token.line
        method = None
        if self._take(":"):
            method = self._expect("name").value
        call = Call(line, callee, method, self._arguments())
        self._calls.append(call)
        return call

    def _arguments(self) -> tuple[Expression, ...]:
        token = self._token
        if token.kind == "string":
            self._next()
            return (Constant(token.line, token.value),)
        if token.kind == "{":
            return (self._table(),)
        self._expect("(")
        found = () if self._at(")") else self._expressions()
        self._close(")", "(", token.line)
        return found

    def _primary(self) -> Expression:
        token = self._token
        if token.kind == "name":
            self._next()
            return self._scopes.name(token.value, token.line)
        if token.kind == "(":
            self._next()
            inner = self._expression()
            self._close(")", "(", token.line)
            # Brackets cut a list of values to one, and end a chain of names.
            return Unary(token.line, "()", inner)
        self._unexpected()

    def _used(self, expression: Expression) -> None:
        """The value of a chain is taken: its root is read, and the longest run of constant names is noted."""
        links: list[Index] = []
        base = expression
        while isinstance(base, Index):
            links.append(base)
            base = base.base
        if not isinstance(base, Name):
            return
        longest: Index | Name = base
        names: list[str] = []
        for link in reversed(links):
            if not isinstance(link.key, Constant) or not isinstance(link.key.value, str):
                break
            longest = link
            names.append(link.key.value)
        self._scopes.read(base, tuple(names))
        self._paths.append(Path(base, tuple(names), longest.line, isinstance(longest, Name) and bool(links)))

    def _table(self) -> Table:
        line = self._expect("{").line
        items: list[tuple[Expression | None, Expression]] = []
        while not self._at("}"):
            items.append(self._item())
            if not (self._take(",") or self._take(";")):
                break
        self._close("}", "{", line)
        return Table(line, tuple(items))

    def _item(self) -> tuple[Expression | None, Expression]:
        token = self._token
        if token.kind == "[":
            self._next()
            key = self._expression()
            self._close("]", "[", token.line)
            self._expect("=")
            return key, self._expression()
        if token.kind == "name" and self._peek().kind == "=":
            self._next()
            self._next()
            return Constant(token.line, token.value), self._expression()
        return None, self._expression()

    def _body(self, line: int, implied: tuple[str, ...]) -> Function:
        """Parameters and block of a function, behind its name."""
        self._functions += 1
        self._scopes.open()
        opening = self._expect("(").line
        names = list(implied)
        more = not self._at(")")
        while more and not self._take("..."):
            names.append(self._expect("name").value)
            more = self._take(",")
        self._close(")", "(", opening)
        for name in names:
            self._scopes.declare(name, opening, "parameter")
        self._block()
        self._scopes.close()
        self._close("end", "function", line)
        self._functions -= 1
        return Function(line, tuple(names))


_STATEMENTS: dict[str, Callable[[_Parser], None]] = {
    ";": _Parser._empty, "if": _Parser._if, "while": _Parser._while, "do": _Parser._do, "for": _Parser._for,
    "repeat": _Parser._repeat, "function": _Parser._function, "local": _Parser._local, "::": _Parser._label,
    "goto": _Parser._goto, "break": _Parser._empty,
}  # fmt: skip
