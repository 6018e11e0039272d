"""Tests that routes are declared in one place each, with types: none twice or forgotten, and few `Any`."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from helen.web.access_routes.browsers import LinkJson, MeJson, SessionJson
from helen.web.access_routes.web_tokens import WebTokenJson
from helen.web.agent_views import AgentJson
from helen.web.openapi import PARAMETER, table
from helen.web.pages.registry import PAGES
from helen.web.routes import registry
from helen.web.routes.registry import MODULES, ROUTES
from helen.web.sight.limits import HOW

ROOT = Path(registry.__file__).parents[1]
DOCS = ROOT.parents[1] / "docs" / "api.rst"
MOST_ANY = 0.05  # of the parameters in helen/web


def test_every_module_of_routes_is_gathered() -> None:
    """Every module of routes is in MODULES, without which it would answer nothing."""
    folders = ("routes", "access_routes", "foreign_routes", "forward_routes")
    there = {path.stem for folder in folders for path in (ROOT / folder).glob("*.py")} - {"__init__", "registry"}
    assert there == {module.__name__.rpartition(".")[2] for module in MODULES}  # type: ignore[attr-defined]


def test_every_route_has_its_row_of_limits() -> None:
    """Each route and page has a row in helen/web/sight/limits.py on callers that are limited to some agents.

    `parts.visible(request.caller)` is the test for agents; tests/helen/web/test_limits.py asks every route with it.
    """
    names = {route.name for route in (*ROUTES, *PAGES.routes)}
    assert sorted(names - set(HOW)) == [], "add rows to TABLE in helen/web/sight/limits.py"
    assert sorted(set(HOW) - names) == []


@pytest.mark.parametrize("kind", [AgentJson, MeJson, WebTokenJson, SessionJson, LinkJson])
def test_each_field_of_what_people_trust_is_described(kind: type) -> None:
    """Each field of agents, callers, tokens and sessions is described in docs/api.rst."""
    named = set(re.findall(r"\w+", DOCS.read_text()))
    assert get_type_hints(kind).keys() - named == set()


def test_no_route_hides_another() -> None:
    """Each method of each path is declared once."""
    names = [route.name for route in ROUTES]
    assert sorted(set(names)) == sorted(names)


def test_functions_take_what_their_paths_hold() -> None:
    """A route's function takes the names in its path as parameters, after a declared body."""
    for route in ROUTES:
        names = list(inspect.signature(route.handler).parameters)
        before = ["parts", "request"] + (["body"] if route.body is not None and route.reads_body else [])
        assert names == before + PARAMETER.findall(route.path), route.name


def test_the_table_in_the_docs() -> None:
    """docs/api.rst has the table of the routes as declared; after a change paste the table that this test shows."""
    made = table(ROUTES)
    assert made in DOCS.read_text(), made


def parameters(path: Path) -> list[ast.expr | None]:
    """Return the annotations of all parameters in a file, but for self and cls."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            found += [each.annotation for each in every if each is not None and each.arg not in ("self", "cls")]
    return found


def test_few_parameters_are_any() -> None:
    """Few parameters are `Any`, which tells neither a reader nor mypy their type."""
    annotations = [each for path in sorted(ROOT.rglob("*.py")) for each in parameters(path)]
    untold = [each for each in annotations if each is None or ast.unparse(each) == "Any"]
    assert len(untold) < MOST_ANY * len(annotations), f"{len(untold)} of {len(annotations)}"
