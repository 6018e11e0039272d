"""Makes the page of an error: a sentence, what to do next, and a way on. It needs no parts: it works before login."""

from __future__ import annotations

from urllib.parse import quote

from helen.web.answers import set_headers
from helen.web.login.browser import set_page_headers
from helen.web.pages.assets import assets
from helen.web.pages.environment import environment
from helen.web.pages.preferences import preferences_of
from helen.web.problems import Problem
from helen.web.request import ApiRequest


def refuse_page(request: ApiRequest, problem: Problem) -> bytes:
    """Return the page of a problem. For a caller without a session it leads on to /login, and from there back.

    A cookie that is SameSite=Strict does not come with a link from a mail; a request that our own page makes has it.
    """
    set_headers(request, problem)
    set_page_headers(request)
    request.responseHeaders.removeHeader("www-authenticate")  # a browser would ask for a name and a password
    request.setResponseCode(problem.status)
    onward = f"/login?to={quote(request.uri.decode('latin-1'), safe='')}" if problem.status == 401 else None
    template = environment().get_template("error.html")
    page = template.render(problem=problem, onward=onward, build=assets().build, preferences=preferences_of(request))
    return page.encode("utf-8", "replace")
