"""JSON schemas of what the HTTP API takes and answers, by name: the components of its OpenAPI document. Data only.

An answer may get further fields in a later version; those that are here stay.
"""

from __future__ import annotations

from typing import Any

from helen.journal.values import CHANGE_KINDS
from helen.web.access import SCOPES

Schema = dict[str, Any]


def a(kind: str | list[str], **more: Any) -> Schema:
    """A schema of a simple type."""
    return {"type": kind, **more}


def obj(optional: str = "", /, **properties: Schema) -> Schema:
    """An object: `optional` names the properties that may be left out."""
    required = [name for name in properties if name not in optional.split()]
    return {"type": "object", "properties": properties, "required": required}


def body(required: str = "", /, **properties: Schema) -> Schema:
    """What is sent: `required` names what must be there."""
    made: Schema = {"type": "object", "properties": properties | {"dry_run": a("boolean", default=False)}}
    return made | ({"required": required.split()} if required else {})


def listed(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def table(of: Schema) -> Schema:
    """An object whose keys are names."""
    return {"type": "object", "additionalProperties": of}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(of: Schema) -> Schema:
    """It may be null."""
    return {"anyOf": [of, {"type": "null"}]}


TEXT, NUMBER, INTEGER, FLAG = a("string"), a("number"), a("integer"), a("boolean")
TEXT_OR_NONE, NUMBER_OR_NONE, INTEGER_OR_NONE = a(["string", "null"]), a(["number", "null"]), a(["integer", "null"])
ANYTHING: Schema = {}
OBJECT = a("object")
STATUS = a("string", enum=["ok", "warning", "critical", "unknown"])
DURATION: Schema = {"anyOf": [a("number", minimum=0), a("string", examples=["30s", "2h", "7d"])]}
PATTERNS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
COUNTS = table(INTEGER)
NEXT = {"next": TEXT_OR_NONE}
FILES = table(TEXT)

CONDITION = obj(status=STATUS, kind=a("string", enum=["soft", "hard"]), since=NUMBER, reason=TEXT_OR_NONE,
                attempt=INTEGER)  # fmt: skip
METRIC = obj(name=TEXT, value=ANYTHING, unit=TEXT, labels=table(TEXT), warn=TEXT_OR_NONE, crit=TEXT_OR_NONE)
LATEST = {
    "check_id": TEXT, "status": STATUS, "summary": TEXT, "received": NUMBER, "since": NUMBER, "reason": TEXT_OR_NONE,
    "code": TEXT_OR_NONE, "took_ms": NUMBER_OR_NONE, "metrics": listed(METRIC),
}  # fmt: skip
AGENT = {
    "name": TEXT, "connected": FLAG, "since": NUMBER_OR_NONE, "last_seen": NUMBER_OR_NONE, "address": TEXT,
    "protocol": INTEGER_OR_NONE, "equus": TEXT, "labels": table(TEXT), "host": OBJECT, "isolation": TEXT_OR_NONE,
    "policy": TEXT_OR_NONE, "clock_offset": NUMBER_OR_NONE, "spool": OBJECT, "troubles": table(TEXT),
    "clash": maybe(OBJECT), "current": FLAG, "checks": COUNTS,
}  # fmt: skip
ENTRY = obj(id=TEXT, check=TEXT, every=NUMBER_OR_NONE, timeout=NUMBER_OR_NONE, args=OBJECT, overlap=ANYTHING)
SAID = listed(obj(at=NUMBER_OR_NONE, text=TEXT))
JOB = {
    "id": TEXT_OR_NONE, "check": TEXT, "on": listed(TEXT), "targets": listed(TEXT), "args": OBJECT, "timeout": NUMBER,
    "submitted": NUMBER, "deadline": NUMBER_OR_NONE, "of": TEXT_OR_NONE,
}  # fmt: skip
CHANNEL = obj("url headers bearer host port tls from to password argv environment shape rate timeout", name=TEXT,
              type=TEXT, url=TEXT_OR_NONE, timeout=NUMBER, rate=ANYTHING)  # fmt: skip
TOKEN = {
    "name": TEXT, "scopes": listed(a("string", enum=list(SCOPES))), "created": NUMBER, "created_by": TEXT,
    "expires": NUMBER_OR_NONE, "used_at": NUMBER_OR_NONE, "expired": FLAG,
}  # fmt: skip
RECURRENCE = obj("days zone", begin=TEXT, end=TEXT, zone=TEXT, days=listed(TEXT))

COMPONENTS: dict[str, Schema] = {
    "Problem": obj("reasons", type=TEXT, title=TEXT, status=INTEGER, detail=TEXT, reasons=listed(TEXT)),
    "Health": obj("checks", status=a("string", enum=["pass", "warn", "fail"]), checks=table(listed(OBJECT))),
    "Status": obj(
        version=TEXT, started=NUMBER, agents=obj(known=INTEGER, connected=INTEGER), checks=COUNTS,
        manifest=maybe(obj(version=INTEGER, digest=TEXT)), assignments=obj(revision=INTEGER, fault=TEXT_OR_NONE),
        journal=obj(segment=INTEGER, backlog=INTEGER, trouble=TEXT_OR_NONE), store=obj(trouble=TEXT_OR_NONE),
        questions=INTEGER, counts=COUNTS, notifications=OBJECT, network=maybe(OBJECT),
    ),
    "Agent": obj(**AGENT),
    "Agents": obj(agents=listed(ref("Agent")), **NEXT),
    "AgentInFull": obj(
        **AGENT, files=table(OBJECT), results=listed(obj(**LATEST, state=maybe(ref("State")))), schedule=listed(ENTRY)
    ),
    "Results": obj(results=listed(obj(agent=TEXT, **LATEST)), **NEXT),
    "State": obj(
        agent=TEXT, check_id=TEXT, **CONDITION["properties"], attempts=INTEGER, confirmed=CONDITION, flapping=FLAG,
        acknowledged=maybe(obj(owner=TEXT, comment=TEXT, until=NUMBER_OR_NONE, sticky=FLAG)),
        held_by=listed(obj(kind=TEXT, ref=TEXT, detail=TEXT)), told=STATUS,
    ),
    "States": obj(states=listed(ref("State")), at=TEXT, **NEXT),
    "Explanation": obj(
        agent=TEXT, check=TEXT, at=NUMBER, state=maybe(CONDITION), why_state=SAID, why_no_alert=SAID, why_not_run=SAID,
        what_else=SAID, what_changed=SAID,
    ),
    "Window": obj(
        "matchers active", id=TEXT, kind=a("string", enum=["downtime", "silence"]), agents=listed(TEXT),
        checks=listed(TEXT), labels=table(TEXT), matchers=listed(OBJECT), begin=NUMBER, until=NUMBER_OR_NONE,
        recurrence=maybe(RECURRENCE), author=TEXT, comment=TEXT, active=FLAG,
    ),
    "Windows": obj(windows=listed(ref("Window")), **NEXT),
    "WindowPreview": obj(
        window=ref("Window"), active=FLAG, spans=listed(listed(NUMBER_OR_NONE)),
        covers=obj(checks=INTEGER, agents=INTEGER), not_ok=listed(TEXT),
    ),
    "Checks": obj(
        version=INTEGER_OR_NONE,
        checks=listed(obj(name=TEXT, summary=TEXT, every=NUMBER_OR_NONE, timeout=NUMBER_OR_NONE, needs=listed(TEXT),
                          args=OBJECT, sha256=TEXT, kept_old=FLAG)),
        problems=listed(obj(file=TEXT, line=INTEGER_OR_NONE, severity=TEXT, text=TEXT)),
    ),
    "Assignments": obj(text=TEXT, revision=INTEGER, fault=TEXT_OR_NONE),
    "Assigned": obj(revision=INTEGER, unknown_checks=listed(TEXT)),
    "Push": obj(
        "digest", version=INTEGER_OR_NONE, digest=TEXT, agents=INTEGER, loaded=INTEGER, kept_old=table(OBJECT),
        can_sign=FLAG, rollout=maybe(OBJECT), staged=maybe(OBJECT), agent=TEXT_OR_NONE,
    ),
    "Rollouts": obj(rollouts=listed(obj(version=INTEGER, state=TEXT, author=TEXT, started=NUMBER, changed=NUMBER,
                                        why=TEXT_OR_NONE, rings=ANYTHING))),
    "Rollout": obj(version=INTEGER, base=INTEGER_OR_NONE, author=TEXT, started=NUMBER, changed=NUMBER, state=TEXT,
                   why=TEXT_OR_NONE, paused=ANYTHING, by_itself=FLAG, files=ANYTHING, checks=listed(TEXT), gates=OBJECT,
                   newest=INTEGER_OR_NONE, kept_old=OBJECT, rings=listed(OBJECT), agents=INTEGER, loaded=INTEGER),
    "Drain": obj("over", questions=INTEGER, others=listed(ANYTHING), over=NUMBER),
    "Pushed": obj(version=INTEGER_OR_NONE, warnings=listed(TEXT)),
    "Version": obj(version=INTEGER),
    "Keys": obj(
        version=INTEGER, threshold=INTEGER, keys=listed(obj(id=TEXT, pem=TEXT, here=FLAG)),
        online=obj(id=TEXT, pem=TEXT), waiting=FLAG,
    ),
    "Job": obj("state why counts", **JOB, state=TEXT, why=TEXT_OR_NONE, counts=COUNTS),
    "Jobs": obj(jobs=listed(ref("Job")), **NEXT),
    "WouldAsk": obj(targets=INTEGER, agents=table(a("string", enum=["asked", "offline"]))),
    "Notifications": obj(
        configured=FLAG, fault=TEXT_OR_NONE, waiting=INTEGER, dead=INTEGER, last_error=TEXT_OR_NONE, groups=INTEGER,
        channels=OBJECT, settings=listed(CHANNEL),
        outbox=listed(obj(number=INTEGER, id=TEXT, channel=TEXT, state=TEXT, created=NUMBER, tries=INTEGER, due=NUMBER,
                          error=TEXT_OR_NONE)),
        **NEXT,
    ),
    "Routed": obj(labels=table(TEXT), visited=listed(OBJECT), to=listed(OBJECT)),
    "ChannelTest": obj(channel=CHANNEL, ok=a(["boolean", "null"]), said=TEXT_OR_NONE, took=NUMBER_OR_NONE),
    "Message": obj(id=TEXT, state=a("string", enum=["waiting", "dropped"])),
    "WebToken": obj("token", **TOKEN, token=TEXT_OR_NONE),
    "WebTokens": obj(tokens=listed(ref("WebToken")), **NEXT),
    "Audit": obj(audit=listed(obj(id=INTEGER, at=NUMBER, actor=TEXT, action=TEXT, subject=TEXT, address=TEXT,
                                  detail=TEXT)), **NEXT),
    "JoinToken": obj(token=TEXT_OR_NONE, address=TEXT, ttl=NUMBER),
    "Certificate": obj(certificate=TEXT_OR_NONE, renew_after=NUMBER_OR_NONE, ca=TEXT, signing_keys=TEXT, root=TEXT,
                       address=TEXT),
    "Ack": obj("owner until comment sticky", agent=TEXT, check_id=TEXT, action=a("string", enum=["set", "clear"]),
               owner=TEXT, until=NUMBER_OR_NONE, comment=TEXT, sticky=FLAG),
    "Passive": obj("version", fault=TEXT_OR_NONE, hosts=listed(OBJECT), checks=listed(OBJECT), text=TEXT_OR_NONE,
                   version=TEXT),
    "Event": obj(kind=a("string", enum=[*CHANGE_KINDS, "reset"]), received=NUMBER, agent=TEXT_OR_NONE,
                 check_id=TEXT_OR_NONE, document=OBJECT),
}  # fmt: skip
