"""Finds which functions, classes and constants of the product each command can reach, by the names in its code.

A text that names an option is heard by people who typed some command: which ones is a matter of who calls what. The
graph follows names, not types: a class that is named counts with all its methods, and what is only called through an
object counts as reached where the object's class is named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import define, field, frozen
from sources import nodes_of, tree_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("groundwork", "equus_protocol", "equus", "scale0", "zerotask", "helen")
WHOLE = ""  # the name of what a module does when it is imported


@frozen
class Part:
    """Describes one statement of a module: a function, a class, a constant, or WHOLE for the rest."""

    module: str
    name: str


@define
class Module:
    """Holds the statements of a module by the name that each gives, and what its imports bring."""

    name: str
    parts: dict[str, list[ast.stmt]] = field(factory=dict)
    imports: dict[str, tuple[str, str]] = field(factory=dict)


@cache
def modules() -> dict[str, Module]:
    """Return all modules of the product by their dotted names."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {(name := _dotted(path)): _read(name, path) for path in paths}


def _dotted(path: Path) -> str:
    words = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def _read(name: str, path: Path) -> Module:
    found = Module(name)
    text = path.read_text()
    tree = tree_of(text)
    for statement in tree.body:
        for given in _names_given(statement):
            found.parts.setdefault(given, []).append(statement)
    for node in nodes_of(text):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found.imports |= {alias.asname: (alias.name, WHOLE) for alias in node.names if alias.asname}
    return found


def _names_given(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    adds = any(isinstance(node, ast.Attribute) and node.attr == "add_command" for node in ast.walk(statement))
    return [] if adds or isinstance(statement, ast.Import | ast.ImportFrom) else [WHOLE]


@cache
def reached_from(*starts: Part) -> frozenset[Part]:
    """Return the parts that these reach, with themselves."""
    found, waiting = set[Part](), list(starts)
    while waiting:
        part = waiting.pop()
        if part not in found and part.name in modules()[part.module].parts:
            found.add(part)
            waiting += _named_by(part)
    return frozenset(found)


@cache
def _named_by(part: Part) -> list[Part]:
    module = modules()[part.module]
    found = [Part(part.module, WHOLE)]
    for statement in module.parts[part.name]:
        nodes = list(_without_annotations(statement))
        own = set[str]() if part.name == WHOLE else _given_within(nodes)
        for node in nodes:
            if isinstance(node, ast.Name):
                found += _resolved(module, node.id) if node.id not in own else []
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found += _resolved_attribute(module, node.value.id, node.attr)
            elif isinstance(node, ast.Call) and _is_import(node):
                found += _all_of(node.args[0])
    return found


def _given_within(nodes: list[ast.AST]) -> set[str]:
    """Return the names that a function gives to things of its own: variables, parameters, inner functions."""
    inner = {node.name for node in nodes[1:] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    variables = {node.id for node in nodes[1:] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return inner | variables | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _is_import(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "import_module"


def _all_of(name: ast.expr) -> list[Part]:
    """Return the parts of a module that is imported by a name in quotes; of one that is looked up, nothing."""
    if not isinstance(name, ast.Constant) or name.value not in modules():
        return []
    return [Part(name.value, each) for each in modules()[name.value].parts]


def _without_annotations(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that can call something: no annotations, and not the group that a command is added to."""
    yield statement
    for name, value in ast.iter_fields(statement):
        if name in ("annotation", "returns"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not (name == "decorator_list" and _adds_to_group(each)):
                yield from _without_annotations(each)


def _adds_to_group(decorator: ast.AST) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr in ("command", "group")


def _resolved(module: Module, name: str) -> list[Part]:
    if name in module.parts:
        return [Part(module.name, name)]
    if name not in module.imports:
        return []
    source, wanted = module.imports[name]
    return [Part(source, wanted)] if source in modules() else []


def _resolved_attribute(module: Module, owner: str, attribute: str) -> list[Part]:
    """Return what `owner.attribute` is if the owner is an imported module."""
    source, wanted = module.imports.get(owner, ("", ""))
    name = f"{source}.{wanted}".rstrip(".")
    return [Part(name, attribute)] if name in modules() else []
