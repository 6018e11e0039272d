"""The two tools that write: `plan` has Helen run a change dry and gives it an id, and `confirm` does what has the id.

What is confirmed is what was planned, byte for byte: the id stands for the whole request, which is kept here, and a
call of `confirm` has nothing but the id. It is done once: the id goes with it to Helen as Idempotency-Key, so that one
whose answer was lost may be confirmed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import click
from attrs import define, field, frozen

from groundwork.counts import count
from helen.cli.assign import Change, entry, planned, without
from helen.cli.base.client import Client
from helen.cli.base.failures import Failed
from helen.cli.downtimes import caller_name, window_body
from helen.cli.mcp.arguments import Field
from helen.cli.mcp.looking import Given, seconds
from helen.cli.mcp.tool_calls import PATIENCE, Tool, ToolCalls

MOST_PLANS = 20  # that wait for their confirmation; of more the oldest is forgotten
LASTS = 600.0  # seconds for which a plan can be confirmed
ID = "confirmation"


@frozen
class Write:
    """Holds one request that changes something. `body` is JSON; with `tag` it is refused if the file has changed."""

    method: str
    path: str
    body: str
    tag: str = ""

    @classmethod
    def post(cls, path: str, body: Given) -> Write:
        return cls("POST", path, json.dumps(body))

    def send(self, client: Client, key: str = "", dry_run: bool = False) -> Any:
        """Send it, and return Helen's answer. Raises as the client does."""
        body = json.loads(self.body) | ({"dry_run": True} if dry_run else {})
        if self.method == "PUT":
            return client.put(self.path, body, self.tag)
        return client.post(self.path, body, PATIENCE, {"idempotency-key": key} if key else None)

    def shown(self) -> Given:
        return {"method": self.method, "path": self.path, "body": json.loads(self.body)}


@define
class Plans:
    """Keeps the writes that wait for their confirmation, by their ids. `steady`: monotonic seconds."""

    steady: Callable[[], float] = time.monotonic
    _waiting: dict[str, tuple[float, Write]] = field(factory=dict)

    def keep(self, write: Write) -> str:
        """Return the id by which this write, and no other one, can be confirmed."""
        while len(self._waiting) >= MOST_PLANS:
            del self._waiting[next(iter(self._waiting))]
        name = token_hex(16)
        self._waiting[name] = self.steady() + LASTS, write
        return name

    def find(self, name: str) -> Write:
        """Return the write of an id. Raises UsageError if there is none, or if it is too old."""
        until, write = self._waiting.get(name, (0.0, None))
        if write is None or self.steady() > until:
            self.drop(name)
            raise click.UsageError(f"nothing waits for this confirmation: a plan is good for {LASTS:g} s, and once")
        return write

    def drop(self, name: str) -> None:
        self._waiting.pop(name, None)

    def plan(self, calls: ToolCalls, given: Given) -> tuple[str, Any]:
        """Have Helen run a change dry, and answer with what it would do."""
        write, more = PLANNERS[given["change"]](calls.client, given)
        preview = write.send(calls.client, dry_run=True)
        document = {ID: self.keep(write), "request": write.shown(), "preview": preview} | more
        return (
            f"Nothing is changed yet: `confirm` with `{ID}` sends exactly this request, within {LASTS:g} s.",
            document,
        )

    def confirm(self, calls: ToolCalls, given: Given) -> tuple[str, Any]:
        """Do what was planned, once."""
        name = given[ID]
        write = self.find(name)
        try:
            done = write.send(calls.client, name)
        except Failed as error:
            if error.status is None:  # it is not known whether it was done
                raise Failed(f"{error.message}. Confirm it again: with this id it is done once") from error
            self.drop(name)
            raise
        except click.ClickException:
            self.drop(name)
            raise
        self.drop(name)
        return "Done.", done


# ---------------------------------------------------------------------------------------------- what can be planned


def demand(given: Given, *names: str) -> None:
    """Raise UsageError unless all of these are given."""
    if missing := [name for name in names if name not in given]:
        raise click.UsageError(f"change {given['change']} needs {', '.join(missing)}")


def _ack(client: Client, given: Given) -> tuple[Write, Given]:
    demand(given, "agent", "check")
    body: Given = {"agent": given["agent"], "check": given["check"], "owner": caller_name()}
    if given["change"] == "ack-clear":
        return Write.post("/api/v1/acks/clear", body), {}
    until = time.time() + seconds("lasts", given["lasts"]) if "lasts" in given else None
    return Write.post("/api/v1/acks", body | {"comment": given.get("comment"), "until": until}), {}


def _window(client: Client, given: Given) -> tuple[Write, Given]:
    demand(given, "on", "lasts")
    lasting, later = seconds("lasts", given["lasts"]), seconds("begins_in", given.get("begins_in", "0s"))
    names = [each for each in given["on"] if "=" not in each]
    labels = [each for each in given["on"] if "=" in each]
    body = window_body(
        tuple(names), tuple(given.get("checks", ())), tuple(labels), lasting, later, None, None, None,
        f"mcp-{token_hex(4)}", given.get("comment", ""),
    )  # fmt: skip
    return Write.post("/api/v1/windows", {"kind": given["change"], **body}), {}


def _cancel(client: Client, given: Given) -> tuple[Write, Given]:
    demand(given, "id")
    return Write.post(f"/api/v1/windows/{quote(given['id'], safe='')}/cancel", {"author": caller_name()}), {}


def _assign(client: Client, given: Given) -> tuple[Write, Given]:
    demand(given, "check")
    current, tag = client.get_tagged("/api/v1/assignments")
    if given["change"] == "unassign":
        text = without(current["text"], given["check"], given.get("id"))
    else:
        demand(given, "on")
        args = json.dumps(given["args"]) if "args" in given else None
        added = entry(given["check"], tuple(given["on"]), args, given.get("id"), every=given.get("every"))
        text = current["text"].rstrip("\n") + "\n\n" + added
    changes = planned(client, current["text"], text)
    write = Write("PUT", "/api/v1/assignments", json.dumps({"text": text.lstrip("\n")}), tag)
    return write, {"agents": _shown(changes), "would_change": count(len(changes), "agent")}


def _shown(changes: list[Change]) -> list[Given]:
    return [{"agent": each.agent, "gains": each.gains, "loses": each.loses} for each in changes]


PLANNERS: dict[str, Callable[[Client, Given], tuple[Write, Given]]] = {
    "ack": _ack, "ack-clear": _ack, "downtime": _window, "silence": _window, "window-cancel": _cancel,
    "assign": _assign, "unassign": _assign,
}  # fmt: skip
FIELDS = {
    "change": Field("What is to be changed.", needed=True, choices=tuple(PLANNERS)),
    "agent": Field("ack, ack-clear: the agent."), "check": Field("ack, ack-clear, assign, unassign: the check."),
    "on": Field("downtime, silence, assign: agents by name, pattern (web-*) or label (role=web).", "array"),
    "checks": Field("downtime, silence: checks by name or pattern; left out: all.", "array"),
    "lasts": Field("downtime, silence, ack: how long, such as 2h."),
    "begins_in": Field("downtime, silence: after so long; left out: at once."),
    "comment": Field("ack, downtime, silence: the reason."),
    "id": Field("window-cancel: of the window. assign, unassign: of the entry."),
    "every": Field("assign: the interval, such as 1m."), "args": Field("assign: arguments of the check.", "object"),
}  # fmt: skip


def writing(plans: Plans) -> tuple[Tool, ...]:
    """Return the tools that write."""
    return (
        Tool("plan", "Run a change dry: show what it would do, and change nothing.", FIELDS, plans.plan, writes=True),
        Tool(
            "confirm", "Do what a plan has shown. Ask the person whom you work for before, each time.",
            {ID: Field(f"`{ID}` of the plan.", needed=True)}, plans.confirm, writes=True, changes=True,
        ),
    )  # fmt: skip
