"""Lists the pages for browsers. A page is a module beside this file, and a name in MODULES; about.py is one to copy.

Pages call the functions behind the API's routes, with the caller that the gate has found: a page shows no more than its
caller may read.
"""

from __future__ import annotations

from attrs import frozen

from helen.web.gate import Pages
from helen.web.pages import (
    about,
    agents,
    ask,
    author,
    board,
    check,
    checks,
    login,
    mesh,
    rollouts,
    shared,
    why,
    windows,
)  # fmt: skip
from helen.web.pages.environment import compile_templates
from helen.web.pages.error_page import refuse_page
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.route import Route
from helen.web.routes.registry import RouteModule

MODULES: tuple[RouteModule, ...] = (
    shared, login, board, check, checks, author, agents, mesh, why, rollouts, windows, ask, about,
)  # fmt: skip


@frozen
class AllPages:
    """Holds the routes of all pages, and makes the page of an error."""

    routes: tuple[Route, ...]

    def refuse(self, request: ApiRequest, problem: Problem) -> bytes:
        """Return the page that says what is wrong."""
        return refuse_page(request, problem)


compile_templates()
PAGES: Pages = AllPages(tuple(route for module in MODULES for route in module.routes))
