"""Read the tokens of a source one by one, with the tests that every rule of the grammar uses. Pure."""

from collections.abc import Iterator
from typing import NoReturn

from equus.lua.tokens import LuaSyntaxError, Token, tokens

# The longest shipped check has about 1,500 tokens. This many take a second or two to parse; data of that size belongs
# into a file that the check reads.
MOST_TOKENS = 100_000
# Lua itself stops at 200 levels. Each level here takes up to seven of Python's thousand frames.
DEEPEST = 100


def _counted(source: Iterator[Token]) -> Iterator[Token]:
    """Yield the same tokens, up to MOST_TOKENS of them."""
    for number, token in enumerate(source):
        if number >= MOST_TOKENS:
            raise LuaSyntaxError(token.line, f"the source has more than {MOST_TOKENS} tokens, too many for the linter")
        yield token


class Cursor:
    """Holds the parser's position: the next token, one more ahead, and the depth of nesting."""

    def __init__(self, source: str) -> None:
        self._tokens = _counted(tokens(source))
        self._token: Token = next(self._tokens)
        self._ahead: Token | None = None
        self._depth = 0

    def _next(self) -> Token:
        token = self._token
        self._token, self._ahead = (self._ahead, None) if self._ahead else (next(self._tokens, token), None)
        return token

    def _peek(self) -> Token:
        if self._ahead is None:
            self._ahead = next(self._tokens, self._token)
        return self._ahead

    def _at(self, kind: str) -> bool:
        return self._token.kind == kind

    def _take(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._next()
        return True

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            what = "a name" if kind == "name" else f"'{kind}'"
            raise LuaSyntaxError(self._token.line, f"{what} expected near '{self._token.shown}'")
        return self._next()

    def _close(self, kind: str, opening: str, line: int) -> None:
        """Take the closing token of a construct. The message names the opening's line: the fault is often there."""
        if not self._take(kind):
            began = "" if line == self._token.line else f" (to close '{opening}' at line {line})"
            raise LuaSyntaxError(self._token.line, f"'{kind}' expected{began} near '{self._token.shown}'")

    def _unexpected(self) -> NoReturn:
        raise LuaSyntaxError(self._token.line, f"unexpected symbol near '{self._token.shown}'")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise LuaSyntaxError(self._token.line, f"nested more than {DEEPEST} deep")
