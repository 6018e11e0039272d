"""What each route takes and answers, for OpenAPI: parameters, the body, the answer. Beside the rows of described.py.

Conventions of others (passive intake, Alertmanager) are described by those who made them: their routes have none.
"""

from __future__ import annotations

from attrs import frozen

from helen.journal.values import CHANGE_KINDS
from helen.web import schemas as s
from helen.web.schemas import Schema, a, body, ref

JSON, LINES, STREAM, PLAIN = "application/json", "application/x-ndjson", "text/event-stream", "text/plain"
V1 = "/api/v1"


@frozen
class Query:
    """A parameter of the query."""

    name: str
    schema: Schema
    about: str
    many: bool = False


@frozen
class Content:
    """`answer` is the schema of the answer that went well, `status` its number, `dry` that of a dry run."""

    answer: Schema
    status: int = 200
    kind: str = JSON
    body: Schema | None = None
    query: tuple[Query, ...] = ()
    paged: bool = False
    replaces: bool = False  # heeds If-Match


ON = Query("on", s.TEXT, "agents: a name, a pattern, or KEY=PATTERN", many=True)
CHECK = Query("check", s.TEXT, "checks: a name or a pattern", many=True)
KIND = Query("kind", a("string", enum=list(CHANGE_KINDS)), "kinds of events", many=True)
SINCE_ID = Query("since", s.TEXT, "the id of an event: what came after it")
SINCE = Query("since", s.NUMBER, "unix seconds")
AT = Query("at", a("number", minimum=0, exclusiveMaximum=4e9), "unix seconds")
AGENT = Query("agent", s.TEXT, "an agent by its name")
SUBJECT = Query("subject", s.TEXT, "what it was done to")
ALL = Query("all", a("boolean"), "those that are well, too")
STATUS = Query("status", s.STATUS, "only these", many=True)
KEPT = Query("kept", s.TEXT, "1: those as well that are known from before this start")
VERBOSE = Query("verbose", s.TEXT, "every part")

HISTORY = tuple(
    Query(name, s.TEXT, about) for name, about in (
        ("agent", "its name"), ("check", "its id"), ("from", "unix seconds"), ("to", "unix seconds"),
        ("metric", "a name; may be repeated"), ("resolution", "of the rows"), ("limit", "rows"), ("cursor", "`next`"),
    )
)  # fmt: skip

ACK = {"agent": s.TEXT, "check": s.TEXT, "owner": s.TEXT}
WINDOW = body(
    "kind", kind=a("string", enum=["downtime", "silence"]), id=a("string", pattern="^[A-Za-z0-9._-]{1,64}$"),
    agents=s.listed(s.TEXT), checks=s.listed(s.TEXT), labels=s.table(s.TEXT), begin=s.NUMBER, until=s.NUMBER_OR_NONE,
    recurrence=s.maybe(s.RECURRENCE), author=s.TEXT, comment=s.TEXT,
)  # fmt: skip
FILE = s.obj(text=s.TEXT_OR_NONE, version=s.TEXT, fault=s.TEXT_OR_NONE)
WRITTEN = s.obj(version=s.TEXT_OR_NONE, fault=s.TEXT_OR_NONE)
WHOLE = body("text", text=s.TEXT_OR_NONE, version=s.TEXT_OR_NONE)
ASKED = {"check": s.TEXT, "on": s.PATTERNS, "args": s.OBJECT, "timeout": s.DURATION}
CANARY = {
    "canary": a(["string", "null"], examples=["1%", None]), "rings": a(["string", "null"], examples=["1%, 10%, 100%"]),
    "gates": s.table(s.TEXT),
}  # fmt: skip

CONTENTS: dict[tuple[str, str], Content] = {
    ("GET", "/livez"): Content(s.TEXT, kind=PLAIN),
    ("GET", "/readyz"): Content(ref("Health"), kind="application/health+json", query=(VERBOSE,)),
    ("GET", "/healthz"): Content(ref("Health"), kind="application/health+json", query=(VERBOSE,)),
    ("GET", "/metrics"): Content(s.TEXT, kind=PLAIN, query=(ON,)),
    ("GET", f"{V1}/openapi.json"): Content(s.OBJECT),
    ("GET", f"{V1}/status"): Content(ref("Status")),
    ("GET", f"{V1}/agents"): Content(ref("Agents"), query=(ON,), paged=True),
    ("GET", f"{V1}/agents/<name>"): Content(ref("AgentInFull")),
    ("GET", f"{V1}/results"): Content(ref("Results"), query=(SINCE, ON, KEPT), paged=True),
    ("GET", f"{V1}/states"): Content(ref("States"), query=(AGENT, ALL, STATUS), paged=True),
    ("GET", f"{V1}/states/<agent>/<path:check>"): Content(ref("State")),
    ("GET", f"{V1}/explain/<agent>/<path:check>"): Content(ref("Explanation"), query=(AT,)),
    ("GET", f"{V1}/history"): Content(s.OBJECT, query=HISTORY),
    ("GET", f"{V1}/drain"): Content(ref("Drain")),
    ("GET", f"{V1}/windows"): Content(ref("Windows"), paged=True),
    ("GET", f"{V1}/windows/<name>"): Content(ref("Window")),
    ("GET", f"{V1}/events"): Content(s.TEXT, kind=STREAM, query=(KIND, ON, CHECK, SINCE_ID)),
    ("GET", f"{V1}/checks"): Content(ref("Checks")),
    ("GET", f"{V1}/assignments"): Content(ref("Assignments")),
    ("GET", f"{V1}/push"): Content(ref("Push")),
    ("GET", f"{V1}/rollouts"): Content(ref("Rollouts")),
    ("GET", f"{V1}/rollouts/current"): Content(ref("Rollout")),
    ("GET", f"{V1}/keys"): Content(ref("Keys")),
    ("GET", f"{V1}/jobs"): Content(ref("Jobs"), paged=True),
    ("GET", f"{V1}/jobs/<job_id>"): Content(ref("Job")),
    ("GET", f"{V1}/jobs/<job_id>/follow"): Content(s.OBJECT, kind=LINES),
    ("GET", f"{V1}/notifications"): Content(ref("Notifications"), paged=True),
    ("GET", f"{V1}/notifications/file"): Content(FILE),
    ("GET", f"{V1}/checks/files"): Content(s.OBJECT),
    ("GET", f"{V1}/audit"): Content(ref("Audit"), query=(SUBJECT,), paged=True),
    ("GET", f"{V1}/web-tokens"): Content(ref("WebTokens"), paged=True),
    ("GET", f"{V1}/passive"): Content(ref("Passive")),
    ("GET", f"{V1}/passive/keys/<host>"): Content(s.OBJECT),
    ("GET", f"{V1}/passive/pings/<host>/<path:check>"): Content(s.OBJECT),
    # ---------------------------------------------------------------------------------------------- directing
    ("POST", f"{V1}/web-tokens"): Content(
        ref("WebToken"), 201,
        body=body("name scopes", name=s.TEXT, scopes=s.TOKEN["scopes"], expires=s.maybe(s.DURATION))),
    ("POST", f"{V1}/web-tokens/<name>/revoke"): Content(ref("WebToken"), body=body()),
    ("POST", f"{V1}/tokens"): Content(ref("JoinToken"), 201, body=body(agent=s.TEXT_OR_NONE, ttl=s.DURATION)),
    ("POST", f"{V1}/certificates"): Content(ref("Certificate"), 201, body=body("name csr", name=s.TEXT, csr=s.TEXT)),
    ("POST", f"{V1}/agents/<name>/revoke"): Content(s.obj(agent=s.TEXT, revoked=s.INTEGER), body=body()),
    ("POST", f"{V1}/agents/<name>/forget"): Content(s.obj(agent=s.TEXT), body=body()),
    ("PUT", f"{V1}/assignments"): Content(ref("Assigned"), body=body("text", text=s.TEXT), replaces=True),
    ("POST", f"{V1}/runs"): Content(s.OBJECT, kind=LINES, body=body("check on", **ASKED)),
    ("POST", f"{V1}/once"): Content(s.OBJECT, kind=LINES, body=body("files", files=s.FILES, **ASKED)),
    ("POST", f"{V1}/acks"): Content(
        ref("Ack"),
        body=body("agent check owner", **ACK, comment=s.TEXT_OR_NONE, until=s.NUMBER_OR_NONE, sticky=s.FLAG)),
    ("POST", f"{V1}/acks/clear"): Content(ref("Ack"), body=body("agent check", **ACK)),
    ("POST", f"{V1}/windows"): Content(ref("WindowPreview"), 201, body=WINDOW, replaces=True),
    ("POST", f"{V1}/windows/<name>/cancel"): Content(
        s.obj(id=s.TEXT, kind=s.TEXT, cancelled=s.FLAG), body=body(author=s.TEXT_OR_NONE), replaces=True),
    ("POST", f"{V1}/jobs"): Content(ref("Job"), 201, body=body("check on", **ASKED, wait_for_offline=s.DURATION)),
    ("POST", f"{V1}/jobs/once"): Content(
        ref("Job"), 201, body=body("files", files=s.FILES, **ASKED, wait_for_offline=s.DURATION)),
    ("POST", f"{V1}/drain"): Content(ref("Drain"), 202, body=body(over=s.DURATION, force=s.FLAG)),
    ("POST", f"{V1}/drain/undo"): Content(ref("Drain"), body=body()),
    ("POST", f"{V1}/jobs/<job_id>/cancel"): Content(ref("Job"), body=body()),
    ("POST", f"{V1}/jobs/<job_id>/retry"): Content(ref("Job"), 201, body=body()),
    ("POST", f"{V1}/notifications/route"): Content(
        ref("Routed"), body=body(labels=s.OBJECT, text=s.TEXT_OR_NONE)),
    ("POST", f"{V1}/notifications/check"): Content(
        s.obj(channels=s.listed(s.CHANNEL)), body=body("text", text=s.TEXT)),
    ("POST", f"{V1}/notifications/test"): Content(ref("ChannelTest"), body=body("channel", channel=s.TEXT)),
    ("POST", f"{V1}/notifications/<name>/retry"): Content(ref("Message"), body=body()),
    ("POST", f"{V1}/notifications/<name>/drop"): Content(ref("Message"), body=body()),
    ("PUT", f"{V1}/passive"): Content(WRITTEN, body=WHOLE, replaces=True),
    ("PUT", f"{V1}/notifications/file"): Content(WRITTEN, body=WHOLE, replaces=True),
    ("POST", f"{V1}/push"): Content(ref("Pushed"), 201, body=body(files=s.FILES, tests=s.FILES, **CANARY)),
    ("POST", f"{V1}/push/signed"): Content(
        ref("Version"), 201, body=body("manifest undo", manifest=s.TEXT, undo=s.TEXT, **CANARY)),
    ("POST", f"{V1}/push/agent"): Content(s.obj(agent=s.TEXT), 201, body=body("wheels", wheels=s.FILES, **CANARY)),
    ("POST", f"{V1}/push/undo"): Content(ref("Version"), 201, body=body()),
    ("POST", f"{V1}/rollouts/pause"): Content(ref("Rollout"), 201, body=body()),
    ("POST", f"{V1}/rollouts/resume"): Content(ref("Rollout"), 201, body=body()),
    ("POST", f"{V1}/rollouts/undo"): Content(ref("Rollout"), 201, body=body()),
    ("POST", f"{V1}/keys"): Content(ref("Keys"), 201, body=body(root=s.TEXT_OR_NONE)),
}  # fmt: skip
