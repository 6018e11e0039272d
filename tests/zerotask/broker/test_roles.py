"""Tests what is Helen's among tasks: who may submit it, and who may work on it."""

from __future__ import annotations

from typing import Any

import pytest

from groundwork.authority import ALL, SCOPES
from zerotask import errors
from zerotask.wire.actions import serving, submitting

TASKS: dict[str, set[str]] = {
    "equus.check": {"operate", "admin"},
    "equus.check.helen-1": {"operate", "admin"},
    "equus.push": {"push", "admin"},
    "equus.anything": {"push", "admin"},
    "mdp:equus.web-1": {"operate", "admin"},
    "mdp:equus.check": {"operate", "admin"},
    "mdp:helen.h1": {"admin"},
    "mdp:zerotask.broker": {"admin"},
    "add": {"", *SCOPES},
    "equus": {"", *SCOPES},
    "mdp:echo": {"", *SCOPES},
    "pipeline.report": {"read", "operate", "push", "admin"},
    "pipeline.run": {"admin"},
    "pipeline.compact": {"admin"},
    "pipeline.anything": {"admin"},
    "pipeline": {"", *SCOPES},
    "mdp:pipeline.report": {"", *SCOPES},
}


@pytest.mark.parametrize("method", TASKS)
@pytest.mark.parametrize("role", ["", *SCOPES])
def test_a_task_of_helens_takes_a_role(bench: Any, method: str, role: str) -> None:
    """Plain tasks stay as they are; a key without a role, and none at all, publish nothing and ask no agent (F37)."""
    bench.ask("c", "client_connect", "c")
    roles = (role,) if role else ()
    told = bench.ask("c", "client_new_task", "c", method, [], "t", roles=roles)
    if role in TASKS[method]:
        assert told == "t"
        return
    assert told[0] == errors.UNAUTHORISED and f'`role = "{submitting(method).scope}"`' in told[1]
    assert bench.ask("op", "tasks", operator=True) == []


@pytest.mark.parametrize(
    "method",
    ["equus.check", "equus.push", "equus.*", "equus.check.h1", "e*", "*", "pipeline.report", "pipeline.*", "pipe*"],
)
def test_only_a_helen_works_on_tasks_of_helens(bench: Any, method: str) -> None:
    """A node that is no Helen can neither claim such a task nor be offered one, or it would answer for every agent
    (F38).
    """
    assert bench.ask("n", "node_connect", node_id="n", methods=[method])[0] == errors.UNAUTHORISED
    assert bench.ask("n", "node_connect", node_id="n", methods=["plain"]) == "n"
    bench.ask("c", "client_connect", "c")
    wanted = "pipeline.compact" if method.startswith("pipe") else "equus.push"
    bench.ask("c", "client_new_task", "c", wanted, {}, "t", roles=("admin",))
    assert bench.ask("n", "node_task_request", "t")[0] == errors.UNAUTHORISED
    assert bench.ask("h", "node_connect", node_id="h", methods=[method], roles=ALL) == "h"
    assert bench.ask("h", "node_task_request", "t", roles=("helen",))["method"] == wanted


def test_a_helen_learns_who_submitted(bench: Any) -> None:
    """A Helen is given the client's name and its key's with a task, for its audit (F37)."""
    bench.broker.state.name_of_key = {"K": "ops"}.get
    bench.ask("c", "client_connect", "boss", key="K")
    bench.ask("c", "client_new_task", "boss", "equus.push", {}, "t", key="K", roles=("push",))
    bench.ask("h", "node_connect", node_id="h", roles=("helen",))
    given = bench.ask("h", "node_task_request", task_id="t", details=True, roles=("helen",))
    assert (given["client"], given["key"]) == ("boss", "ops")


def test_a_wildcard_that_reaches_no_task_of_helens_is_plain() -> None:
    """A prefix that covers no method of Helen's is plain, such as Titanic's own and those that only look alike."""
    assert [serving(method).scope for method in ("mdp:*", "equusx*", "add", "equus", "equ", "pipelines*")] == [None] * 6
    assert [serving(method).scope for method in ("", "*", "equus*", "equus.*", "equus.x")][1:] == ["helen"] * 4
