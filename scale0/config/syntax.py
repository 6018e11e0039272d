"""Reads and writes one configuration tree in three syntaxes: JSON, XML and ZFL, which is ZPL (RFC 4). Pure.

A tree maps each name to the list of its values; a value is a text or a tree. All three syntaxes can hold that: a list
is a repeated name, types come from the schema (schema.py), and an empty list is a missing name. A value that one of the
three cannot write is refused in all of them (`check`), so that a document never changes its meaning with its syntax.

`read` also returns the line of each value, so that a fault can be found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

import msgspec

MAX_DOCUMENT = 8 << 20  # bytes; what fits into one ZeroMQ message of ours
MAX_DEPTH = 16  # trees within trees; the schema has three
INDENT = 4  # spaces, RFC 4
ROOT = "scale0"

Tree = dict[str, list["str | Tree"]]
Path = tuple[str | int, ...]  # name, index, name, index ...
Lines = dict[Path, int]

SYNTAXES = {".json": "JSON", ".xml": "XML", ".zfl": "ZFL"}  # by the ending of a file's name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")  # what XML and ZPL both take for a name
_FORBIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class Unreadable(Exception):
    """Reports a text that is no document of its syntax; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def plain(tree: Mapping[str, Any]) -> Tree:
    """Return a tree of plain values in the shape that the three syntaxes share: each name with a list of its values."""
    shaped = {name: [_plain(v) for v in _as_list(value) if v is not None] for name, value in tree.items()}
    return {name: values for name, values in shaped.items() if values}


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _plain(value: Any) -> str | Tree:
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list | tuple):
        raise Unreadable(1, "a list within a list; XML and ZFL can write lists of values and of trees only")
    return str(value)


def check(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the path of each name or value that some syntax cannot write, with a sentence on what is allowed."""
    for name, values in tree.items():
        if not _NAME.fullmatch(name):
            yield (*path, name), "a name starts with a letter and has letters, digits, `_`, `.` and `-`"
        for index, value in enumerate(values):
            here = (*path, name, index)
            if isinstance(value, dict):
                yield from check(value, here)
            elif _FORBIDDEN.search(value):
                yield here, "a value has no newlines or control characters: ZFL cannot write them"
            elif '"' in value and "'" in value:
                yield here, "a value has single or double quotes, not both: ZFL has no escapes"


# ------------------------------------------------------------------------------------------ reading


def read(document: bytes, syntax: str) -> tuple[Tree, Lines]:
    """Return the tree of a document, and the line of each value; `syntax` is JSON, XML or ZFL.

    Raises Unreadable, with the line, if the document is too long or has not this syntax.
    """
    if len(document) > MAX_DOCUMENT:
        raise Unreadable(1, f"a document has at most {MAX_DOCUMENT} bytes")
    if syntax == "XML":
        return _XmlReader().read(document)
    try:
        text = document.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Unreadable(document.count(b"\n", 0, e.start) + 1, "not UTF-8") from None
    return _read_json(text) if syntax == "JSON" else _read_zfl(text)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_JSON_BYTE = re.compile(r"byte (\d+)")


def _read_json(text: str) -> tuple[Tree, Lines]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as e:
        at = _JSON_BYTE.search(str(e))
        before = text.encode("utf-8", "replace")[: int(at[1])] if at else text.encode("utf-8", "replace")
        raise Unreadable(before.count(b"\n") + 1, f"no JSON: {e}") from None
    if not isinstance(value, dict):
        raise Unreadable(1, "a configuration is a JSON object: {...}")
    if _depth(value) > MAX_DEPTH:
        raise Unreadable(1, f"nested deeper than {MAX_DEPTH}")
    return plain(value), _json_lines(text)


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, children), default=0) if isinstance(value, dict | list) else 0


def _json_lines(text: str) -> Lines:
    """Return the line on which each value starts, in a text that is known to be JSON."""
    lines: Lines = {}
    stack: list[list[Any]] = []  # open containers: [kind, path, name or index]
    expects_name = False
    line, seen = 1, 0
    for match in _JSON_TOKEN.finditer(text):
        token = match[0]
        line += text.count("\n", seen, match.start())
        seen = match.start()
        if token in "}]":
            stack.pop()
        elif token == ",":
            expects_name = stack[-1][0] == "{"
            if not expects_name:
                stack[-1][2] += 1
        elif token == ":":
            expects_name = False
        elif expects_name:
            stack[-1][2] = msgspec.json.decode(token)
        else:
            path = _value_path(stack)
            lines.setdefault(path, line)
            if token in "{[":
                stack.append([token, path, 0])
            expects_name = token == "{"
    return lines


def _value_path(stack: list[list[Any]]) -> Path:
    """Return the path of the value that starts here, counted as in a tree: a lone value is the first of its list."""
    if not stack:
        return ()
    kind, path, key = stack[-1]
    return (*path, key, 0) if kind == "{" else (*path[:-1], key)


class _XmlReader:
    """Makes trees of XML elements.

    A DTD is refused, since it could make a small text large, and so are attributes, which the other syntaxes lack.
    """

    def __init__(self) -> None:
        self.lines: Lines = {}
        self._open: list[tuple[Path, Tree, list[str]]] = []
        self._root: Tree | None = None
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def read(self, document: bytes) -> tuple[Tree, Lines]:
        """Return the tree of a document, and the line of each value. Raises Unreadable if it is no such XML."""
        try:
            self._parser.Parse(document, True)
        except expat.ExpatError as e:
            raise Unreadable(e.lineno, f"no XML: {expat.errors.messages[e.code]}") from None
        return self._root or {}, self.lines

    def _fault(self, message: str) -> Unreadable:
        return Unreadable(self._parser.CurrentLineNumber, message)

    def _doctype(self, *ignored: Any) -> None:
        raise self._fault("no document type here: entities are not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if attributes:
            raise self._fault(f"<{name}> has attributes; write them as elements")
        if not self._open and name != ROOT:
            raise self._fault(f"the outermost element is <{ROOT}>, not <{name}>")
        if len(self._open) > MAX_DEPTH:
            raise self._fault(f"nested deeper than {MAX_DEPTH}")
        path: Path = ()
        if self._open:
            parent, siblings, _ = self._open[-1]
            path = (*parent, name, len(siblings.get(name, ())))
            siblings.setdefault(name, []).append("")
        self.lines[path] = self._parser.CurrentLineNumber
        self._open.append((path, {}, []))

    def _text(self, text: str) -> None:
        self._open[-1][2].append(text)

    def _end(self, name: str) -> None:
        _, children, texts = self._open.pop()
        text = "".join(texts)
        if children and text.strip():
            raise self._fault(f"<{name}> has both text and elements")
        if not self._open:
            if text.strip():
                raise self._fault(f"<{name}> holds elements, not text")
            self._root = children
        else:
            self._open[-1][1][name][-1] = children or text


_ZFL_LINE = re.compile(r"(?P<margin> *)(?P<name>[A-Za-z0-9$\-_@.&+/]+)[ \t]*(?P<rest>.*)")
_ZFL_VALUE = re.compile(
    r"""=[\ \t]*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>(?:[^"'\#\ \t][^\#]*?)?))[\ \t]*(?:\#.*)?""",
    re.VERBOSE,
)


def _read_zfl(text: str) -> tuple[Tree, Lines]:
    root: Tree = {}
    lines: Lines = {(): 1}
    trees: list[tuple[Path, Tree]] = [((), root)]
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line.strip(" \t") or line.lstrip(" \t").startswith("#"):
            continue
        depth, name, value = _zfl_parts(line, number)
        if depth >= len(trees):
            raise Unreadable(number, "indented too far: by 4 spaces beneath a name without a value")
        del trees[depth + 1 :]
        path, parent = trees[depth]
        here = (*path, name, len(parent.get(name, ())))
        child: str | Tree = {} if value is None else value
        parent.setdefault(name, []).append(child)
        lines[here] = number
        if isinstance(child, dict):
            if len(trees) > MAX_DEPTH:
                raise Unreadable(number, f"nested deeper than {MAX_DEPTH}")
            trees.append((here, child))
    return root, lines


def _zfl_parts(line: str, number: int) -> tuple[int, str, str | None]:
    match = _ZFL_LINE.fullmatch(line)
    if match is None:
        raise Unreadable(number, "no line of ZFL: expected `name`, `name = value` or `# comment`, indented by spaces")
    depth, odd = divmod(len(match["margin"]), INDENT)
    if odd:
        raise Unreadable(number, f"indented by {len(match['margin'])} spaces; ZFL indents by multiples of {INDENT}")
    rest = match["rest"]
    if not rest or rest.startswith("#"):
        return depth, match["name"], None
    if not rest.startswith("="):
        raise Unreadable(number, f"`=` is missing between {match['name']} and its value")
    value = _ZFL_VALUE.fullmatch(rest)
    if value is None:
        raise Unreadable(number, "no value of ZFL: quotes are closed, and nothing but a comment follows them")
    return depth, match["name"], next(v for v in value.group("double", "single", "bare") if v is not None)


# ------------------------------------------------------------------------------------------ writing


def write(tree: Mapping[str, Any], syntax: str) -> bytes:
    """Return the document of a tree; `syntax` is JSON, XML or ZFL. Raises Unreadable if some syntax cannot hold it."""
    shaped = plain(tree)
    for path, fault in check(shaped):
        raise Unreadable(1, f"{spell(path)}: {fault}")
    if syntax == "JSON":
        return msgspec.json.encode(tree)
    lines = _xml_lines(shaped) if syntax == "XML" else _zfl_lines(shaped, "")
    return "".join(line + "\n" for line in lines).encode("utf-8")


def spell(path: Path) -> str:
    """Return a path as a person would write it: group_config[1].brokers[0].identity."""
    text = ""
    for at, step in enumerate(path):
        if isinstance(step, str):
            text += f".{step}" if text else step
        elif at + 1 < len(path) or step:
            text += f"[{step}]"
    return text


def _xml_lines(tree: Tree) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<{ROOT}>"
    yield from _each(tree, "    ", _xml_leaf, lambda margin, name: f"{margin}<{name}>", lambda m, n: f"{m}</{n}>")
    yield f"</{ROOT}>"


def _xml_leaf(margin: str, name: str, value: str) -> str:
    return f"{margin}<{name}>{escape(value)}</{name}>"


def _zfl_lines(tree: Tree, margin: str) -> Iterator[str]:
    yield from _each(tree, margin, _zfl_leaf, lambda margin, name: margin + name, None)


def _zfl_leaf(margin: str, name: str, value: str) -> str:
    quote = "'" if '"' in value else '"'
    return f"{margin}{name} = {quote}{value}{quote}"


def _each(
    tree: Tree,
    margin: str,
    leaf: Callable[[str, str, str], str],
    opening: Callable[[str, str], str],
    closing: Callable[[str, str], str] | None,
) -> Iterator[str]:
    for name, values in tree.items():
        for value in values:
            if isinstance(value, str):
                yield leaf(margin, name, value)
                continue
            yield opening(margin, name)
            yield from _each(value, margin + " " * INDENT, leaf, opening, closing)
            if closing is not None:
                yield closing(margin, name)
