"""Read from the code what the drawings show, so that a drawing can't name what no longer exists.

Files are read with `ast`, never imported; only the tables of equus_protocol are, which import nothing else.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from equus_protocol.codec import FORMS, Role

ROOT = Path(__file__).parents[2]


class Stale(LookupError):
    """Report that a drawing names something that the code doesn't have."""


def code(module: str, name: str = "", root: Path = ROOT) -> str:
    """Return a module's path, as drawings show it. Raises Stale if module, or the class or function, is gone."""
    path = root / (module.replace(".", "/") + ".py")
    if not path.exists():
        raise Stale(f"{module} is no module: {path} does not exist")
    if name and name not in names_of(path):
        raise Stale(f"{module} has no {name}")
    return str(path.relative_to(root))


@cache
def names_of(path: Path) -> frozenset[str]:
    """Return the classes, functions, methods (`Class.method`) and constants of a file."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, functions)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def message(command: str, sender: str) -> str:
    """Return a command of the protocol that this side sends. Raises Stale if the grammar has none."""
    for form in FORMS:
        if form.command.decode() == command and form.sender is Role[sender]:
            return command
    raise Stale(f"{sender} sends no {command!r}")


def threads(*packages: str, root: Path = ROOT) -> dict[str, str]:
    """Return the named threads that these packages start: `{NAME: PATH}`."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Thread"):
                    name = next((each.value for each in node.keywords if each.arg == "name"), None)
                    if isinstance(name, ast.Constant):
                        found[str(name.value)] = str(path.relative_to(root))
    return found


def strings(module: str, name: str, root: Path = ROOT) -> list[str]:
    """Return the text constants in the value of a module's constant, or of a class's attribute `Class.name`."""
    path = root / (module.replace(".", "/") + ".py")
    owner, _, attribute = name.rpartition(".")
    body = ast.parse(path.read_text()).body
    if owner:
        body = next((each.body for each in body if isinstance(each, ast.ClassDef) and each.name == owner), [])
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == attribute for target in targets):
            value = getattr(node, "value", None)
            return [
                each.value
                for each in ast.walk(value or ast.Pass())
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
    raise Stale(f"{module} has no {name}")
