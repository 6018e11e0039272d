"""Names the actions that a caller can ask Helen for over HTTP: what each takes, and what it touches. Values only.

A route declares its action, on the Unix socket and on TCP alike; its scope follows (docs/api.rst shows it). Actions
through Scale0 and ZeroTask are named in scale0/wire/actions.py and zerotask/wire/actions.py, and the same function
decides: groundwork/authority.py.
"""

from __future__ import annotations

from groundwork.authority import AGENTS, FLEET, NOTHING, Action

OPEN = Action("open", None)  # probes, the login, the description of the API
SUBMIT = Action("submit", None)  # results from outside: the route knows the keys of those that report

TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # scope, what is touched, names
    ("metrics", AGENTS, ("metrics",)),
    ("metrics", NOTHING, ("session-look", "session-link", "session-end")),
    ("read", AGENTS, ("read",)),
    ("read", FLEET, ("details", "fleet-look")),
    ("operate", AGENTS, ("run", "job", "job-cancel", "job-retry", "ack", "ack-clear", "window", "window-cancel")),
    ("operate", AGENTS, ("report", "tunnel")),
    ("operate", FLEET, ("notify-test", "notify-retry", "notify-drop")),
    ("push", AGENTS, ("once",)),
    ("push", NOTHING, ("lint",)),
    ("push", FLEET, ("push", "push-signed", "push-confirm", "push-undo", "check-files")),
    ("push", FLEET, ("rollout-pause", "rollout-resume", "rollout-undo")),
    ("admin", AGENTS, ("revoke", "forget", "label", "agent-tokens", "token", "certificate", "host-key", "ping-urls")),
    ("admin", FLEET, ("tokens", "token-revoke", "targets", "forwards")),
    ("admin", FLEET, ("push-agent", "keys", "assign", "notifications", "notifications-file", "passive")),
    ("admin", FLEET, ("drain", "drain-undo", "renewals", "audit", "sessions-of-all")),
    ("admin", NOTHING, ("web-tokens", "web-token", "web-token-revoke")),
)
ACTIONS: dict[str, Action] = {
    name: Action(name, scope, touches) for scope, touches, names in TABLE for name in names
}  # fmt: skip
# Judged within a route: code that is in no set, results from outside, sentences of a probe, sessions of other callers.
ONCE, REPORT, DETAILS, AUDIT, ALL_SESSIONS = (
    ACTIONS[name] for name in ("once", "report", "details", "audit", "sessions-of-all")
)


def named(name: str | None, checks_caller: bool = False) -> Action:
    """Return an action by its name; None is that of a route which is open to all, or which `checks_caller` itself.

    Raises ValueError, for the one who declares a route, if there is no such action.
    """
    if name is None:
        return SUBMIT if checks_caller else OPEN
    if name not in ACTIONS:
        raise ValueError(f"{name!r} is no action: helen/actions.py lists them, and is the place for a new one")
    return ACTIONS[name]
