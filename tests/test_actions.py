"""Tests one authorisation: every entry names an action, and one function decides on it."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import Any

import pytest
from sources import nodes_of

from groundwork.authority import ALL, FLEET, INCLUDES, NOTHING, ROLES, SCOPES, Action, Caller, Target, decide, fits
from helen import actions
from helen.cluster.scale0_backend import AGENT_SERVICE
from helen.web.routes.registry import ROUTES
from scale0.wire import actions as network
from scale0.wire import options
from scale0.wire.management_commands import COMMANDS
from zerotask.wire import actions as tasks
from zerotask.wire import methods

ROOT = Path(__file__).parents[1]


def entries() -> dict[str, Any]:
    """Return all that can be asked for, with its action: HTTP and control socket, Scale0, its management, ZeroTask."""
    found: dict[str, Any] = {f"HTTP {route.name}": route.does for route in ROUTES}
    found |= {f"Scale0 {command}": network.COMMANDS.get(command) for command in options.TO_BROKER}
    found |= {f"management {command.name}": command.action for command in COMMANDS}
    found |= {f"ZeroTask {name}": method.action for name, method in methods.METHODS.items()}
    for service in (f"{AGENT_SERVICE}web-1", "helen", "helen.h1", network.TASKS, "echo"):
        found |= {f"offer {service}": network.offering(service), f"ask {service}": network.asking(service)}
    for method in (
        "equus.check",
        "equus.check.h1",
        "equus.push",
        "mdp:equus.web-1",
        "pipeline.report",
        "pipeline.run",
        "add",
    ):
        found |= {f"submit {method}": tasks.submitting(method), f"serve {method}": tasks.serving(method)}
    return found


def test_every_entry_has_an_action() -> None:
    """Each new route, command or method names an action, and a command that is gone leaves none behind."""
    assert [name for name, action in entries().items() if not isinstance(action, Action)] == []
    assert set(network.COMMANDS) == set(options.TO_BROKER)


def test_one_name_is_one_action() -> None:
    """An action that several entries offer takes the same scope at each: publishing, asking an agent, looking."""
    by_name: dict[str, set[str | None]] = {}
    for action in entries().values():
        by_name.setdefault(action.name, set()).add(action.scope)
    assert {name: scopes for name, scopes in by_name.items() if len(scopes) > 1} == {}
    found = entries()
    for pair in (
        ("HTTP POST /api/v1/push", "submit equus.push"),
        ("HTTP POST /api/v1/runs", "submit equus.check"),
        ("HTTP POST /api/v1/runs", f"ask {AGENT_SERVICE}web-1"),
        ("HTTP GET /api/v1/status", "ask helen.h1"),
    ):
        assert (found[pair[0]].name, found[pair[0]].scope) == (found[pair[1]].name, found[pair[1]].scope)


def test_no_action_is_left_over() -> None:
    """Each named action is that of some route, and the audit knows a route by its action."""
    used = {route.does for route in ROUTES} | {actions.REPORT, actions.DETAILS, actions.ALL_SESSIONS}
    assert set(actions.ACTIONS.values()) - used == set()
    other = {(route.does.name, route.action) for route in ROUTES if route.action not in (None, route.does.name)}
    assert other == {("once", "job"), ("ack", "ack-many"), ("ack-clear", "ack-clear-many")}


def test_an_unknown_action_is_told_to_the_one_who_declares_it() -> None:
    with pytest.raises(ValueError, match="is no action: helen/actions"):
        actions.named("operate")


def test_scopes_are_compared_in_one_place() -> None:
    """No entry looks at scopes by itself, or an action would have two."""
    asking = {}
    for package in ("helen", "scale0", "zerotask"):
        for path in (ROOT / package).rglob("*.py"):
            calls = [node for node in nodes_of(path.read_text()) if isinstance(node, ast.Call)]
            found = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "may"]
            if found:
                asking[str(path.relative_to(ROOT))] = len(found)
    assert asking == {}


@pytest.mark.parametrize("role", ROLES)
def test_a_scope_includes_what_it_says(role: str) -> None:
    for scope in (*ROLES, None):
        refusal = decide(Caller("x", (role,)), Action("deed", scope))
        assert (refusal is None) is (scope is None or scope in ROLES[role])
        assert refusal is None or (refusal.scope == scope and f"`{scope}`" in refusal.why)
    assert set(SCOPES) == set(INCLUDES) and set(ALL) == set(ROLES)


def test_an_operator_is_no_program() -> None:
    """A caller with `admin` answers for no agent, and a Helen publishes and revokes nothing."""
    assert decide(Caller("x", ("admin",)), network.OFFER_AGENT) is not None
    for action in (actions.ACTIONS["push"], actions.ACTIONS["revoke"], network.CHECK):
        assert decide(Caller("h", ("helen",)), action) is not None


WEB, DB = Target("web-1", {"team": "shop", "site": "a"}), Target("db-1", {"team": "db"})


@pytest.mark.parametrize(
    ("on", "web", "db"),
    [
        (None, True, True), ((), False, False), (("web-*",), True, False), (("web-1", "db-?"), True, True),
        (("team=db",), False, True), (("team=*",), True, True), (("site=*",), True, False), (("no=*",), False, False),
        (("*",), True, True), (("=x",), False, False),
    ],
)  # fmt: skip
def test_a_caller_may_be_limited_to_agents(on: tuple[str, ...] | None, web: bool, db: bool) -> None:
    """A caller may be limited by names and labels; then it touches neither other agents nor all of them,
    at any scope.
    """
    caller = Caller("x", ("admin",), on=on)
    for target, may in ((WEB, web), (DB, db)):
        assert (decide(caller, actions.ACTIONS["revoke"], target) is None) is may
        assert (decide(caller, Action("look", None, NOTHING), target)) is None
    refusal = decide(caller, Action("all", "read", FLEET))
    assert (refusal is None) is (on is None) and (refusal is None or refusal.scope == "")


def test_what_fits_no_pattern_is_refused() -> None:
    """A caller with any limit touches an agent only if one of its patterns fits it."""
    dice = random.Random(37)
    words = ["web", "db", "*", "?", "team", "=", "-", "1", "[", "]", ""]
    for _ in range(2_000):
        on = tuple("".join(dice.choices(words, k=dice.randrange(4))) for _ in range(dice.randrange(3)))
        target = dice.choice((WEB, DB))
        refused = decide(Caller("x", ("operate",), on=on), actions.ACTIONS["run"], target)
        assert (refused is None) is any(fits(pattern, target) for pattern in on)
