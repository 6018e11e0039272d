"""Routes of assignments: the text that says what runs where. docs/api.rst lists them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from helen.assignments.arguments import argument_faults
from helen.assignments.password_arguments import password_warnings
from helen.assignments.schedule import unknown_checks
from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import whole_of
from helen.web.etags import demand, tag_of_document
from helen.web.label_warnings import assignment_warnings
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()


class AssignmentsJson(TypedDict):
    """Holds the text of assignments.toml, the revision in force, and the fault of the file if it is not used."""

    text: str
    revision: int
    fault: str | None


class AssignedJson(TypedDict):
    """Names the revision that the text became, checks in it that are not published, and arguments that none takes.

    `warnings` are sentences about labels that no agent was given, and about arguments that look like passwords.
    """

    revision: int
    unknown_checks: list[str]
    argument_faults: list[str]
    warnings: list[str]


class ReplaceAssignments(Body, frozen=True, kw_only=True):
    """Has the whole text of assignments.toml."""

    text: Annotated[str, whole_of("assignments.toml")]


@routes.get(f"{V1}/assignments", "fleet-look", "What runs where, as text", answer=AssignmentsJson)
async def get_assignments(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the text and its ETag."""
    file = parts.assignments
    text = await file.text() or ""
    shown: AssignmentsJson = {"text": text, "revision": file.revision, "fault": file.fault}
    return write_json(request, shown, tag=tag_of_document(text))


@routes.put(
    f"{V1}/assignments", "assign", "Replace what runs where", body=ReplaceAssignments, answer=AssignedJson,
    action="assign", errors={400: "bad request, or assignments refused"},
)  # fmt: skip
async def put_assignments(parts: Parts, request: ApiRequest, body: ReplaceAssignments) -> bytes:
    """Replace the whole text; with If-Match only if no other client has changed it since it was read with that ETag."""
    file = parts.assignments

    def demand_unchanged(held: str | None) -> None:
        demand(request, tag_of_document(held), "assignments.toml")

    assignments = await file.rewrite(body.text, request.caller.actor, demand_unchanged, body.dry_run)
    request.subject = f"revision {file.revision}"
    unknown = unknown_checks(assignments, parts.library.tables)
    request.setHeader("etag", tag_of_document(body.text))
    faults = argument_faults(assignments, parts.library.tables)
    warnings = await assignment_warnings(parts, assignments) + password_warnings(assignments)
    shown: AssignedJson = {
        "revision": file.revision, "unknown_checks": unknown, "argument_faults": faults, "warnings": warnings,
    }  # fmt: skip
    return write_json(request, shown)
