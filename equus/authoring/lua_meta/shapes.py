"""Read the shapes that the manual writes, such as `{ path, total_bytes, list = { { pid, [user] } } }`. Pure.

A field's type is that of its note (`(boolean)`, `(list)`), or follows from its name by the manual's rule: `*_bytes` is
an integer, `*_percent`, `*_seconds` and `*_at` are numbers, and the manual has a table of names. Else it is `any`: an
editor must not complain of what is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import frozen

ANY = "any"
_TOKEN = re.compile(r"\((?:[^()\"{}]|\"[^\"]*\")*\)|\"[^\"]*\"|\.\.\.|[A-Za-z_][A-Za-z_0-9]*|[^\s]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_INTEGER = re.compile(r"(^|_)(bytes|packets)$")
_NUMBER = re.compile(r"(^|_)(percent|percent_\d+s|seconds|at|per_second|inodes_\w+|reads|writes|free)$|^processes_")
_LIST = re.compile(r"\bList (of|with one entry)\b[^.]*$")
# Words of notes, and the type that each tells; the first that is there counts.
_NOTES = (
    ("in lower case", "table<string, string>"), ("boolean", "boolean"), ("list of", "string[]"),
    ("block devices", "string[]"), ("list", "any[]"), ('"', "string"), ("hex", "string"), ("string", "string"),
    ("their number", "integer"), ("number", "number"), ("counter", "number"), ("seconds", "number"),
    ("negative", "integer"), ("as received", "integer"), ("the last", "string"), ("standard error", "string"),
)  # fmt: skip


@frozen
class Field:
    """Describes one field of a table: its type, or the shape of what is in it; `is_list` for a list of such shapes."""

    name: str
    type: str = ANY
    optional: bool = False
    shape: tuple[Field, ...] = ()
    is_list: bool = False


class _Reader:
    """Reads the tokens of one shape. Raises IndexError if it ends early."""

    def __init__(self, text: str, types: Mapping[str, str]) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._types = types
        self._at = 0
        self._of_rest = ANY  # the type that a sentence gives to the fields behind it

    def peek(self) -> str:
        return self._tokens[self._at]

    def take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def fields(self) -> tuple[tuple[Field, ...], bool]:
        """Read `{ ... }`; return its fields, and True if it is a list of them: `{ { ... } }`."""
        self.take()
        if self.peek() == "{":
            inner, _ = self.fields()
            self.take()
            return inner, True
        found: list[Field] = []
        while self.peek() != "}":
            found += self._items(found)
        self.take()
        return tuple(found), False

    def _items(self, before: list[Field]) -> Iterator[Field]:
        word = self.take()
        if word == "[":
            name = self.take()
            yield Field(name, self._type_of(name), optional=True)
        elif _NAME.fullmatch(word):
            if _NAME.fullmatch(self.peek()) or self.peek() == ":":
                self._of_rest = "number" if word == "counters" else self._of_rest
                return  # words of a sentence: "and these counters:"
            yield self._value(word)
        elif word.startswith("(") and before:
            self._note(word, before)

    def _value(self, name: str) -> Field:
        if self.peek() != "=":
            return Field(name, self._type_of(name))
        self.take()
        shape, is_list = self.fields()
        if len(shape) <= 1 and not is_list:  # `names = { ... }`, `units = { names }`
            return Field(name, "any[]" if not shape else "string[]")
        return Field(name, "table", shape=shape, is_list=is_list)

    def _type_of(self, name: str) -> str:
        if _INTEGER.search(name):
            return "integer"
        return "number" if _NUMBER.search(name) else self._types.get(name, self._of_rest)

    def _note(self, note: str, before: list[Field]) -> None:
        last = before[-1]
        kind = next((kind for words, kind in _NOTES if words in note), last.type)
        if "counters" in note:
            before[:] = [Field(each.name, _or(each.type, kind), each.optional) for each in before]
        elif last.shape:
            before[-1] = Field(last.name, last.type, last.optional, _typed(last.shape, kind), last.is_list)
        else:
            before[-1] = Field(last.name, kind, last.optional or "nil" in note)


def _or(given: str, other: str) -> str:
    return other if given == ANY else given


def _typed(shape: tuple[Field, ...], kind: str) -> tuple[Field, ...]:
    return tuple(Field(each.name, kind, each.optional) for each in shape)


def read_shape(text: str, types: Mapping[str, str]) -> Field | None:
    """Return the first shape of a description, as a field without a name; None if it has none.

    `types` are those of fields whose type the description does not say.
    """
    found = re.search(r"``(\{ [^`]*\})``", text)
    if found is None:
        return None
    begins = text[: found.start()]
    fields, is_list = _Reader(found[1].replace("(each {", "= {").replace(" })", " }"), types).fields()
    return Field("", "table", shape=fields, is_list=is_list or _LIST.search(begins) is not None)
