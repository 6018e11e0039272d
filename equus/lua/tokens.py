"""Split Lua 5.4 source into tokens. Pure.

Bytes that are no UTF-8 are surrogates in the Python strings, so that every string literal keeps its exact bytes.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

KEYWORDS = frozenset(
    "and break do else elseif end false for function goto if in local nil not or repeat return then true until"
    " while".split()
)
# The first byte of compiled Lua, and of no source.
BYTECODE_MARK = "\x1b"

_TOKEN = re.compile(
    r"""
    [ \t\r\f\v]*(?:
    (?P<newline>\n)
  | --\[(?P<long_comment>=*)\[
  | (?P<comment>--[^\n]*)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>0[xX](?:[0-9A-Fa-f.]|[pP][+-]?)+ | (?:[0-9]|\.[0-9])(?:[eE][+-]?|[0-9A-Za-z_.])*)
  | \[(?P<long_string>=*)\[
  | (?P<quote>["'])
  | (?P<op>\.\.\.|\.\.|==|~=|<=|>=|<<|>>|//|::|[-+*/%^\#&~|<>=(){}\[\];:,.])
  | (?P<end>\Z))
    """,
    re.VERBOSE,
)
_PLAIN = {'"': re.compile(r'[^"\\\n]*'), "'": re.compile(r"[^'\\\n]*")}
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"'\n])|x([0-9A-Fa-f]{2})|([0-9]{1,3})|u\{([0-9A-Fa-f]{1,8})\}|z([\s]*))")
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LuaSyntaxError(Exception):
    """Reports source that is no Lua; `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line = line
        self.text = text


class Token(NamedTuple):
    """Holds one token. kind: name, number, string, end of source, or the keyword or operator itself."""

    kind: str
    value: Any
    line: int

    @property
    def shown(self) -> str:
        """Return the token as messages show it."""
        return {"end of source": "<eof>"}.get(self.kind, str(self.value)[:40])


def tokens(source: str) -> Iterator[Token]:
    """Yield all tokens of a source, the last one of kind "end of source". Raises LuaSyntaxError."""
    if source.startswith(BYTECODE_MARK):
        raise LuaSyntaxError(1, "this is compiled Lua; only source is accepted")
    source = source.replace("\r\n", "\n")
    at, line = 0, 1
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise LuaSyntaxError(line, f"unexpected symbol near {source[at:].lstrip()[:1]!r}")
        kind = match.lastgroup or ""
        text, at = match[kind], match.end()
        if kind == "newline":
            line += 1
        elif kind in ("long_comment", "long_string"):
            begin = line
            value, at = _long(source, at, text, line)
            line += source.count("\n", match.end(), at)
            if kind == "long_string":
                yield Token("string", value, begin)
        elif kind == "quote":
            begin = line
            value, at, line = _quoted(source, at, text, line)
            yield Token("string", value, begin)
        elif kind == "name":
            yield Token(text if text in KEYWORDS else "name", text, line)
        elif kind == "number":
            yield Token("number", _number(text, line), line)
        elif kind == "op":
            yield Token(text, text, line)
    yield Token("end of source", "<eof>", line)


def _long(source: str, at: int, level: str, line: int) -> tuple[str, int]:
    """Return the inside of a long bracket that opened before `at`, and the position after it."""
    end = source.find(f"]{level}]", at)
    if end < 0:
        raise LuaSyntaxError(line, f"unfinished long string or comment (starts at line {line})")
    return source[at:end].removeprefix("\n"), end + len(level) + 2


def _quoted(source: str, at: int, quote: str, line: int) -> tuple[str, int, int]:
    parts: list[str] = []
    while True:
        match = _PLAIN[quote].match(source, at)
        assert match is not None
        parts.append(match.group())
        at = match.end()
        if source.startswith(quote, at):
            return _joined(parts), at + 1, line
        escape = _ESCAPE.match(source, at)
        if escape is None:
            what = "invalid escape sequence" if source.startswith("\\", at) else "unfinished string"
            raise LuaSyntaxError(line, f"{what} near {source[at : at + 10]!r}")
        parts.append(_escaped(escape, line))
        line += escape.group().count("\n")
        at = escape.end()


def _escaped(escape: re.Match[str], line: int) -> str:
    simple, hexadecimal, decimal, point, _ = escape.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if hexadecimal is not None or decimal is not None:
        number = int(hexadecimal, 16) if hexadecimal is not None else int(decimal)
        if number > 255:
            raise LuaSyntaxError(line, f"decimal escape too large near '\\{decimal}'")
        return chr(number) if number < 128 else chr(0xDC00 + number)
    if point is not None:
        number = int(point, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    return ""  # \z


def _joined(parts: list[str]) -> str:
    """Join the parts; escaped bytes that form UTF-8 together become their characters."""
    text = "".join(parts)
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _number(text: str, line: int) -> int | float:
    lower = text.lower()
    try:
        if lower.startswith("0x"):
            if "." in lower or "p" in lower:
                return float.fromhex(lower)
            # Hexadecimal integers wrap around at 64 bits, as signed numbers.
            return (int(lower, 16) + (1 << 63)) % (1 << 64) - (1 << 63)
        if lower.isdigit():
            return int(lower) if len(lower) < 20 and int(lower) < 1 << 63 else float(lower)
        return float(lower) if "_" not in lower else _malformed(text, line)
    except (ValueError, OverflowError):
        return _malformed(text, line)


def _malformed(text: str, line: int) -> float:
    raise LuaSyntaxError(line, f"malformed number near '{text[:40]}'")
