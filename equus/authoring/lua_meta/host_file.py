"""Make the definitions of `host`: a function for each call, and classes of its arguments and its answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from equus.authoring.lua_meta.annotations import alias, classes, listed, remark
from equus.authoring.lua_meta.manual import HostCall, Manual
from equus.authoring.lua_meta.shapes import Field, read_shape
from equus.capabilities.calls import CODES
from equus_protocol.results import STATUS_WORDS

# Calls whose answer is one value, or that of another call; the manual says so in words.
ONE_VALUE = {
    "metric": "equus.Status", "log": "nil", "now": "number", "state.get": "any", "state.put": "nil",
    "unix": "equus.tcp.answer",
    **{f"crypto.{name}": "string" for name in ("digest", "hmac", "pbkdf2", "random", "encrypt", "decrypt")},
}  # fmt: skip
# Answers that have the fields of another class, and these.
EXTENDED = {"certificate": ("equus.tls.answer.certificate", (Field("left_percent", "number"), Field("chain", "any[]")))}
_PARTS = re.compile(r"^host\.([a-z_.0-9]+)([({])(.*)[)}]$")
_NAME = re.compile(r"(\[?)\s*,?\s*([a-z_]+)\b")
_TABLE = re.compile(r"\{(.*?)\}")


def host_file(known: Manual) -> str:
    """Return the text of host.lua."""
    lines = ["---@meta", ""]
    lines += [*alias("equus.Status", STATUS_WORDS), "", *alias("equus.Code", sorted(CODES)), ""]
    lines += ["--- All that a check may ask of its host.", "---@class equus.Host", "local host = {}", ""]
    for group in sorted({call.name.partition(".")[0] for call in known.calls if "." in call.name}):
        lines += [f"---@class equus.Host.{group}", f"host.{group} = {{}}", ""]
    for call in known.calls:
        lines += [*_call(call, known), ""]
    return "\n".join([*lines, "return host", ""])


def _call(call: HostCall, known: Manual) -> Iterator[str]:
    """Yield the classes of a call, its description and its function."""
    forms = [_PARTS.fullmatch(form) for form in call.forms]
    parts = [found for found in forms if found is not None]
    named = {}
    parameters: list[Field] = []
    if parts[0][2] == "{":
        named["arguments"] = arguments = _joined([_fields(found[3], known) for found in parts])
        parameters = [Field("arguments", f"equus.{call.name}.arguments", all(each.optional for each in arguments))]
    else:
        parameters = _positional(call, parts[0][3], named, known)
    for name, fields in named.items():
        yield from [*classes(f"equus.{call.name}.{name}", fields), ""]
    kind = yield from _answer(call, known)
    yield from remark(call.about)
    yield from remark(f"Needs {call.needs}." if call.needs else "Needs no capability.")
    for each in parameters:
        yield f"---@param {each.name}{'?' * each.optional} {each.type}"
    yield from _returns(call, kind)
    yield f"function host.{call.name}({', '.join(each.name for each in parameters)}) end"


def _answer(call: HostCall, known: Manual) -> Generator[str, None, str]:
    """Yield the class of an answer, and return its type."""
    name = f"equus.{call.name}.answer"
    if call.name in ONE_VALUE:
        return ONE_VALUE[call.name]
    if call.name in EXTENDED:
        base, fields = EXTENDED[call.name]
        yield from [*classes(name, fields, base), ""]
        return name
    shape = read_shape(call.text, known.answers)
    if shape is None:
        return "table"
    yield from [*classes(name, shape.shape), ""]
    return listed(name, shape.is_list)


def _returns(call: HostCall, kind: str) -> Iterator[str]:
    """Yield what a call returns: those with a capability may fail, with a code and a sentence."""
    if not call.needs:
        if kind != "nil":
            yield f"---@return {kind}"
        return
    yield f"---@return {kind}? answer"
    yield "---@return equus.Code? code"
    yield "---@return string? text"


def _positional(call: HostCall, text: str, named: dict[str, list[Field]], known: Manual) -> list[Field]:
    """Return the parameters of `host.x(a [, b [, { c }]])`. The fields of a table among them go to `named`."""
    table = _TABLE.search(text)
    if table is None:
        return _fields(text, known)
    found = _fields(text[: table.start()], known)
    if "=" in table[1]:  # { slot = value }
        return [*found, Field("slots", "table<string, any>", True)]
    named["options"] = [Field(each.name, each.type, True) for each in _fields(table[1], known)]
    return [*found, Field("options", f"equus.{call.name}.options", True)]


def _fields(text: str, known: Manual) -> list[Field]:
    """Return the names of a list of arguments; those behind a `[` are optional."""
    return [Field(name, known.arguments.get(name, "any"), bool(bracket)) for bracket, name in _NAME.findall(text)]


def _joined(forms: list[list[Field]]) -> list[Field]:
    """Return the fields of all forms of a call; one that is not in each form is optional."""
    found: dict[str, Field] = {}
    for each in [each for form in forms for each in form]:
        is_everywhere = all(any(other.name == each.name and not other.optional for other in form) for form in forms)
        found.setdefault(each.name, Field(each.name, each.type, not is_everywhere))
    return list(found.values())
