"""Makes the OpenAPI 3.1 document, and the table of docs/api.rst, of the declared routes. Pure, and the same everywhere.

msgspec makes the schemas of the types that answers and bodies are declared as.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from helen.web.bodies import Body, declared_fields
from helen.web.cursors import MOST
from helen.web.problems import PROBLEM_JSON, ProblemJson
from helen.web.route import JSON, Query, Route
from helen.web.streaming.event_filter import EventJson
from helen.web.targets import WouldAsk

Schema = dict[str, Any]

PARAMETER = re.compile(r"<(?:[a-z]+:)?([a-z_]+)>")  # of a path, as Werkzeug has it
REFERENCE = "#/components/schemas/{name}"
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
PROBLEM = {PROBLEM_JSON: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
PROBLEM_ANSWER = {"$ref": "#/components/responses/Problem"}
BESIDE = (ProblemJson, WouldAsk, EventJson)  # types that answers hold besides those of their routes
ABOUT = (
    "Scopes are in `x-scope`: `read` is enough for most that is read, `operate`, `push` and `admin` for what is done."
    " docs/api.rst explains pages, dry runs, ETags and Idempotency-Key."
)


def build(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the whole document: `openapi`, `info`, `servers`, `security`, `paths` and `components`."""
    routes = [route for route in routes if not route.is_page]
    schemas = Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(path_of(route), {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Helen", "version": version, "description": ABOUT, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {"description": "What is wrong, and what to do about it (RFC 9457)", "content": PROBLEM}
            },
        },
    }


class Schemas:
    """Holds the schemas of all types that routes are declared with, and the components that they refer to."""

    def __init__(self, routes: Iterable[Route]) -> None:
        kinds: list[Any] = list(BESIDE)
        bodies: set[type[Body]] = set()
        for route in routes:
            kinds += [query.kind for query in route.query] + ([] if route.answer is None else [route.answer])
            if route.body is not None:
                bodies.add(route.body)
        kinds += sorted(bodies, key=lambda kind: kind.__name__)
        made, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
        for body in bodies:
            _correct(body, components[body.__name__]["properties"])
        self.components: Schema = _without_suffix(components)
        self._made = list(zip(kinds, _without_suffix(made), strict=True))

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type that a route is declared with."""
        return next(schema for each, schema in self._made if each is kind)


def _without_suffix(schemas: Any) -> Any:
    """Name components as clients know them: `Agent`, where the code has AgentJson beside the agent of the roster."""
    return json.loads(json.dumps(schemas).replace('Json"', '"'))


def _correct(body: type[Body], properties: Schema) -> None:
    """Give fields that take more than the type of their value, such as durations, the schema of what they take."""
    for field, reads in declared_fields(body):
        if reads.schema is not None:
            held = properties[field.encode_name]
            default = {"default": held["default"]} if held.get("default") is not None else {}
            properties[field.encode_name] = {**reads.schema, **default}


def path_of(route: Route) -> str:
    """Return the path as OpenAPI writes it."""
    return PARAMETER.sub(r"{\1}", route.path)


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": re.sub(r"[^a-z0-9]+", "_", _named(route)).strip("_"),
        "summary": route.summary,
        "tags": [_tag(route)],
        "x-scope": route.scope,
    }
    if route.scope is None:
        made["security"] = []
    parameters = [_in_path(name, route) for name in PARAMETER.findall(route.path)]
    if route.is_foreign:
        described = {"default": {"description": "In a convention of others"}}
        return made | {"parameters": parameters, "responses": described}
    parameters += [_in_query(query, schemas.of(query.kind)) for query in route.query] + _in_general(route)
    if parameters:
        made["parameters"] = parameters
    if route.body is not None:
        schema = {JSON: {"schema": schemas.of(route.body)}}
        made["requestBody"] = {"required": any(_required(route.body)), "content": schema}
    return made | {"responses": _responses(route, schemas)}


def _required(body: type[Body]) -> list[bool]:
    return [field.required for field, _ in declared_fields(body)]


def _named(route: Route) -> str:
    """Return the method and path; two paths that differ by a slash at the end are two."""
    path = path_of(route)
    return f"{route.method} {path}{'slash' if path.endswith('/') else ''}".lower()


def _tag(route: Route) -> str:
    parts = [part for part in route.path.split("/") if part and not part.startswith("<")]
    return parts[2] if parts[:2] == ["api", "v1"] else parts[0]


def _in_path(name: str, route: Route) -> dict[str, Any]:
    made = {"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
    return made | ({"description": "may hold slashes"} if f"<path:{name}>" in route.path else {})


def _in_query(query: Query, schema: Schema) -> dict[str, Any]:
    schema = {"type": "array", "items": schema} if query.many else schema
    return {"name": query.name, "in": "query", "schema": schema, "description": query.about}


def _in_general(route: Route) -> list[dict[str, Any]]:
    """Return the parameters that many routes take alike."""
    made = []
    if route.paged:
        limit = {"type": "integer", "minimum": 1, "maximum": MOST}
        made.append(_in_query(Query("limit", int, "rows of a page"), limit))
        made.append(_in_query(Query("cursor", str, "`next` of the page before"), TEXT))
    if route.method == "GET" and route.kind == JSON:
        made.append(_header("If-None-Match", "an ETag: 304 if nothing has changed"))
    if route.replaces:
        made.append(_header("If-Match", "the ETag of what is replaced: 412 if somebody has changed it"))
    if route.has_dry_run:
        made.append(_in_query(Query("dry_run", bool, "only say what would happen"), FLAG))
    if route.has_idempotency_key:
        made.append(_header("Idempotency-Key", "done once within 24 hours", pattern="^[!-~]{1,200}$"))
    return made


def _header(name: str, about: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {**TEXT, **more}, "description": about}


def _responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    answer = schemas.of(route.answer)
    content: dict[str, Any] = {route.kind: {"schema": answer}}
    made: dict[str, Any] = {str(route.status): {"description": "It went well", "content": content}}
    if route.status != 200 or (route.streams and route.is_write):
        dry = {JSON: {"schema": schemas.of(WouldAsk) if route.streams else answer}}
        lines = content if route.status == 200 and route.kind != JSON else {}
        made["200"] = {"description": "What would happen", "content": dry | lines}
    if route.method == "GET" and route.kind == JSON:
        made["304"] = {"description": "Nothing has changed"}
    made |= {str(status): {"description": title, "content": PROBLEM} for status, title in route.errors.items()}
    made["4XX"] = PROBLEM_ANSWER
    if route.scope is None:  # of a Helen that is not ready, in full
        made["503"] = {"description": "Not ready", "content": PROBLEM | content}
    else:
        made["5XX"] = PROBLEM_ANSWER
    return made


# ---------------------------------------------------------------------------------------------- docs/api.rst


def table(routes: Iterable[Route]) -> str:
    """Return the routes as a table of reStructuredText: method and path, scope, what it is for."""
    rows = [("Route", "Scope", "What it is for")]
    rows += [
        (f"``{route.method} {_in_docs(route)}``", _scope(route), route.summary) for route in routes if not route.is_page
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join("=" * width for width in widths)
    written = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([line, written[0], line, *written[1:], line]) + "\n"


def _in_docs(route: Route) -> str:
    return PARAMETER.sub(lambda found: found[1].upper().removesuffix("_ID"), route.path)


def _scope(route: Route) -> str:
    return f"``{route.scope}``" if route.scope is not None else "its own keys" if route.checks_caller else "none"
