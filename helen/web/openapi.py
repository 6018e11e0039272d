"""The OpenAPI 3.1 document, made from the table of routes and their contents. Pure, and the same for each Helen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from helen.web.contents import CONTENTS, JSON, Content, Query
from helen.web.cursors import MOST
from helen.web.schemas import COMPONENTS, FLAG, TEXT, a, ref
from helen.web.table import Route

PARAMETER = re.compile(r"<(?:[a-z]+:)?([a-z_]+)>")  # of a path, as Klein has it
PROBLEM = {"application/problem+json": {"schema": ref("Problem")}}
ABOUT = (
    "Scopes are in `x-scope`: `read` is enough for most that is read, `operate`, `push` and `admin` for what is done."
    " docs/api.rst explains pages, dry runs, ETags and Idempotency-Key."
)


def build(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(path_of(route), {})[route.method.lower()] = _operation(route, CONTENTS.get(route.key))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Helen", "version": version, "description": ABOUT, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {"description": "What is wrong, and what to do about it (RFC 9457)", "content": PROBLEM}
            },
        },
    }


def path_of(route: Route) -> str:
    """The path as OpenAPI writes it."""
    return PARAMETER.sub(r"{\1}", route.path)


def _operation(route: Route, content: Content | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": re.sub(r"[^a-z0-9]+", "_", _named(route)).strip("_"),
        "summary": route.summary,
        "tags": [_tag(route)],
        "x-scope": route.scope,
    }
    if route.scope is None:
        made["security"] = []
    parameters = [_in_path(name, route) for name in PARAMETER.findall(route.path)]
    if content is None:
        return made | {"parameters": parameters, "responses": {"default": {"description": "In a convention of others"}}}
    parameters += [_in_query(query) for query in content.query] + _in_general(route, content)
    if parameters:
        made["parameters"] = parameters
    if content.body is not None:
        made["requestBody"] = {"required": "required" in content.body, "content": {JSON: {"schema": content.body}}}
    return made | {"responses": _responses(route, content)}


def _named(route: Route) -> str:
    """Two paths that differ by a slash at the end are two."""
    path = path_of(route)
    return f"{route.method} {path}{'slash' if path.endswith('/') else ''}".lower()


def _tag(route: Route) -> str:
    parts = [part for part in route.path.split("/") if part and not part.startswith("<")]
    return parts[2] if parts[:2] == ["api", "v1"] else parts[0]


def _in_path(name: str, route: Route) -> dict[str, Any]:
    made = {"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
    return made | ({"description": "may hold slashes"} if f"<path:{name}>" in route.path else {})


def _in_query(query: Query) -> dict[str, Any]:
    schema = {"type": "array", "items": query.schema} if query.many else query.schema
    return {"name": query.name, "in": "query", "schema": schema, "description": query.about}


def _in_general(route: Route, content: Content) -> list[dict[str, Any]]:
    """What many routes take alike."""
    made = []
    if content.paged:
        made.append(_in_query(Query("limit", a("integer", minimum=1, maximum=MOST), "rows of a page")))
        made.append(_in_query(Query("cursor", TEXT, "`next` of the page before")))
    if route.method == "GET" and content.kind == JSON:
        made.append(_header("If-None-Match", "an ETag: 304 if nothing has changed"))
    if content.replaces:
        made.append(_header("If-Match", "the ETag of what is replaced: 412 if somebody has changed it"))
    if route.is_write:
        made.append(_in_query(Query("dry_run", FLAG, "only say what would happen")))
    if route.method == "POST" and not route.streams:
        made.append(_header("Idempotency-Key", "done once within 24 hours", pattern="^[!-~]{1,200}$"))
    return made


def _header(name: str, about: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {**TEXT, **more}, "description": about}


def _responses(route: Route, content: Content) -> dict[str, Any]:
    good = {"description": "It went well", "content": {content.kind: {"schema": content.answer}}}
    made: dict[str, Any] = {str(content.status): good}
    if content.status != 200 or (route.streams and route.is_write):
        dry = {JSON: {"schema": ref("WouldAsk") if route.streams else content.answer}}
        kept = content.kind if content.status == 200 else JSON
        made["200"] = {"description": "What would happen", "content": dry | (good["content"] if kept != JSON else {})}
    if route.method == "GET" and content.kind == JSON:
        made["304"] = {"description": "Nothing has changed"}
    made["4XX"] = {"$ref": "#/components/responses/Problem"}
    if route.scope is None:  # of a Helen that is not ready, in full
        made["503"] = {"description": "Not ready", "content": PROBLEM | good["content"]}
    else:
        made["5XX"] = {"$ref": "#/components/responses/Problem"}
    return made
