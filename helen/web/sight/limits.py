"""Says how each route treats a caller that is limited to some agents, and refuses what such a caller may not touch.

    parts.visible(request.caller)                              a predicate agent -> bool; None for no limit
    demand_agent(parts, request, action, "web-1")              raises Problem 403 for an agent out of sight

A route that has no row here is refused to limited callers: that nothing slips out, a new route is reviewed first.
"""

from __future__ import annotations

from collections.abc import Iterable

from groundwork.authority import AGENTS, Action, Caller, Target, decide
from helen.parts import Parts
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest

FILTERED = "filtered"  # it shows and touches the agents of the limit alone
PLAIN = "nothing of agents"  # what it answers and does is of no agent, or of the caller itself
REFUSED = "refused"  # it is about the whole fleet

V1 = "/api/v1"
MOST_PATTERNS = 100  # of one limit: each is tried on each agent
LONGEST = 300  # characters of a pattern

TABLE: tuple[tuple[str, str, str], ...] = (
    # how, methods, paths; those without a slash are behind /api/v1/
    (PLAIN, "GET", "/livez /readyz /healthz /login /s/<build>/<path:name> openapi.json me keys sessions web-tokens"),
    (PLAIN, "POST", "/login /logout sessions/links sessions/<session_id>/end web-tokens web-tokens/<name>/revoke"),
    (FILTERED, "GET", "/metrics status agents agents/<name> renewals results states states/<agent>/<path:check>"),
    (FILTERED, "GET", "recent explain/<agent>/<path:check> rows labels windows windows/<name> history events changes"),
    (FILTERED, "GET", "checks push rollouts rollouts/current jobs jobs/<job_id> jobs/<job_id>/follow drain passive"),
    (FILTERED, "GET", "targets"),
    (FILTERED, "GET", "mesh"),
    (FILTERED, "GET", "passive/keys/<host> passive/pings/<host>/<path:check> /api/v2/status /api/v2/receivers"),
    (FILTERED, "GET", "/api/v2/alerts /api/v2/alerts/groups /api/v2/silences /api/v2/silence/<name>"),
    (FILTERED, "GET", "rollouts/<int:version> /metrics/checks"),
    (FILTERED, "GET POST", "query query_range series query_exemplars"),
    (FILTERED, "GET", "label/<path:name>/values metadata rules status/buildinfo"),
    (FILTERED, "POST", "labels"),
    (FILTERED, "GET", "/ /checks/<agent>/<path:check> /checks/<agent>/<path:check>/why /agents /agents/<name> /about"),
    (FILTERED, "GET", "/windows /windows/new /windows/<name> /ask /mesh"),
    (PLAIN, "POST", "checks/lint"),
    (REFUSED, "GET", "/rollouts /rollouts/<int:version> code/<digest> /checks /author /author/<path:name>"),
    (FILTERED, "POST", "agents/<name>/revoke agents/<name>/forget agents/<name>/labels renewals/tokens windows"),
    (FILTERED, "POST", "agents/<name>/tunnel"),
    (FILTERED, "GET", "agents/<name>/host-key"),
    (FILTERED, "POST", "windows/<name>/cancel acks acks/clear acks/many acks/clear/many runs once jobs jobs/once"),
    (FILTERED, "POST", "jobs/<job_id>/cancel jobs/<job_id>/retry tokens certificates passive/results"),
    (FILTERED, "POST", "/v1/actions/process-check-result /events /api/v2/alerts /api/v2/silences"),
    (FILTERED, "DELETE", "/api/v2/silence/<name>"),
    (FILTERED, "GET POST", "/nrdp /nrdp/ /ping/<code> /ping/<code>/<rest> /ping/<code>/<name>/<signal>"),
    (REFUSED, "GET", "assignments checks/files audit notifications notifications/file forwards forwards/file tokens"),
    (REFUSED, "PUT", "assignments notifications/file forwards/file passive targets"),
    (REFUSED, "POST", "push push/signed push/agent push/confirm push/undo rollouts/pause rollouts/resume"),
    (REFUSED, "POST", "rollouts/undo rollouts/readmit keys drain drain/undo renewals notifications/route"),
    (REFUSED, "POST", "notifications/check notifications/test notifications/<name>/retry notifications/<name>/drop"),
    (REFUSED, "POST", "tokens/<token_id>/revoke"),
)  # fmt: skip
HOW: dict[str, str] = {
    f"{method} {path if path.startswith('/') else f'{V1}/{path}'}": how
    for how, methods, paths in TABLE for method in methods.split() for path in paths.split()
}  # fmt: skip


def target_of(parts: Parts, name: str) -> Target:
    """Return an agent as a target, with the labels that steer; one that is not known has none."""
    agent = parts.sessions.roster.agents.get(name)
    return Target(name, {} if agent is None else agent.labels)


def demand_agent(parts: Parts, request: ApiRequest, action: Action, name: str) -> None:
    """Raise Problem 403 for an agent that the caller's limit leaves out, whether there is one of this name or not."""
    refusal = decide(request.caller, action, target_of(parts, name))
    if refusal is not None:
        raise limited(refusal.why)


def limited(why: str) -> Problem:
    """Return the problem of what a limit leaves out: status 403."""
    return Problem(403, "limited", why)


def demand_review(caller: Caller, action: Action, name: str) -> None:
    """Raise Problem 403 if a caller is limited, and the route is not known to heed that."""
    if caller.on is not None and action.touches == AGENTS and HOW.get(name, REFUSED) == REFUSED:
        on = ", ".join(caller.on)
        raise limited(f"{caller.actor} is limited to {on}, and {name} is for callers without a limit")


def checked_limit(caller: Caller, given: Iterable[str]) -> tuple[str, ...] | None:
    """Return the limit of what this caller makes, a token or a session: its own, or some of its own patterns.

    Raises Problem for a pattern that can't be one, and for one that would widen the caller's limit.
    """
    wanted = tuple(dict.fromkeys(given))
    if len(wanted) > MOST_PATTERNS:
        raise bad_request(f"`on` has at most {MOST_PATTERNS} patterns")
    for pattern in wanted:
        if not pattern or len(pattern) > LONGEST or not pattern.isprintable() or pattern.startswith("="):
            raise bad_request(f"{pattern[:80]!r} is no pattern of agents: a name, web-*, or KEY=VALUE")
    if caller.on is None:
        return wanted or None
    wider = [pattern for pattern in wanted if pattern not in caller.on]
    if wider:
        own = ", ".join(caller.on)
        raise limited(f"{caller.actor} is limited to {own}: what it makes has these patterns or some of them")
    return wanted or caller.on


def is_within(on: tuple[str, ...] | None, caller: Caller) -> bool:
    """Return True if a limit is no wider than the caller's: it has some of the same patterns."""
    return caller.on is None or (on is not None and set(on) <= set(caller.on))
