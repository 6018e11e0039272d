"""Parse Lua expressions and function bodies into tree.py's nodes, and resolve their names. Pure: runs nothing."""

from equus.lua.cursor import Cursor
from equus.lua.scope import Scopes
from equus.lua.tree import (
    Binary,
    Call,
    Constant,
    Expression,
    Function,
    Index,
    Name,
    Path,
    Table,
    Unary,
    Varargs,
)

# Left and right binding power; the right one is lower where an operator binds to the right.
_BINARY = {
    "or": (1, 1), "and": (2, 2), "<": (3, 3), ">": (3, 3), "<=": (3, 3), ">=": (3, 3), "~=": (3, 3), "==": (3, 3),
    "|": (4, 4), "~": (5, 5), "&": (6, 6), "<<": (7, 7), ">>": (7, 7), "..": (9, 8), "+": (10, 10), "-": (10, 10),
    "*": (11, 11), "/": (11, 11), "//": (11, 11), "%": (11, 11), "^": (14, 13),
}  # fmt: skip
_UNARY, _UNARY_POWER = frozenset(("not", "-", "#", "~")), 12
_LITERALS = {"nil": None, "true": True, "false": False}


class ExpressionParser(Cursor):
    """Parses expressions. The bodies of functions contain statements, which the subclass in parser.py parses."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._scopes = Scopes()
        self._calls: list[Call] = []
        self._paths: list[Path] = []
        self._functions = 0

    def _block(self) -> None:
        raise NotImplementedError

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
        """Parse a name or a bracketed expression with its suffixes. With `statement` no read of it is recorded."""
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
            # Brackets cut a list of values to one, and they end a chain of names.
            return Unary(token.line, "()", inner)
        self._unexpected()

    def _used(self, expression: Expression) -> None:
        """Record that the value of a chain is read: the read of its root, and its longest run of constant names."""
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
        """Parse the parameters and the block of a function, after its name."""
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
