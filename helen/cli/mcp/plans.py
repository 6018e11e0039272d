"""Offer the two tools that write: `plan` has Helen run a change dry, `confirm` does the one with the plan's id.

The confirmed change is the planned one, byte for byte: the id stands for the whole request, which is kept here, and a
call of `confirm` has nothing but the id. It is done once, and may be confirmed again until it is known to be done or
refused: the id of a POST is its Idempotency-Key, and an assignment, a PUT, is bound to the ETag of the file that it
replaces.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import click
from attrs import define, field

from groundwork.counts import count
from helen.cli.assign import Change, entry, parted, planned
from helen.cli.base.client import Client
from helen.cli.downtimes import caller_name, window_body
from helen.cli.mcp.arguments import Field
from helen.cli.mcp.looking import Given, seconds
from helen.cli.mcp.marked_data import Whole
from helen.cli.mcp.tool_calls import Tool, ToolCalls, Uncertain
from helen.cli.mcp.writes import Write, is_refusal

MOST_PLANS = 20  # that wait for their confirmation; of more the oldest is forgotten
LASTS = 600.0  # seconds for which a plan can be confirmed
ID = "confirmation"
NOT_KNOWN = (
    f"It is not known whether it was done, for the reason in the data. `confirm` with the same `{ID}` is safe: it is"
    " done once."
)
REFUSED_LATER = (
    "This time nothing was done, for the reason in the data; it is not known whether it was done by a `confirm` before."
    " Look, then plan it anew if need be."
)


@define
class Plans:
    """Keeps the writes that wait for their confirmation, by their ids. `steady`: monotonic seconds."""

    steady: Callable[[], float] = time.monotonic
    _waiting: dict[str, tuple[float, Write]] = field(factory=dict)
    _tried: set[str] = field(factory=set)  # ids of those that may have been done

    def keep(self, write: Write) -> str:
        """Return the id by which this write, and no other one, can be confirmed."""
        while len(self._waiting) >= MOST_PLANS:
            self.drop(next(iter(self._waiting)))
        name = token_hex(16)
        self._waiting[name] = self.steady() + LASTS, write
        return name

    def find(self, name: str) -> Write:
        """Return the write of an id. Raises UsageError if there is none, or if it is too old; Uncertain after a try."""
        until, write = self._waiting.get(name, (0.0, None))
        if write is None or self.steady() > until:
            was_tried = name in self._tried
            self.drop(name)
            error = click.UsageError(f"nothing waits for this confirmation: a plan is good for {LASTS:g} s, and once")
            raise Uncertain(REFUSED_LATER, error) if was_tried else error
        return write

    def drop(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._tried.discard(name)

    def plan(self, calls: ToolCalls, given: Given) -> tuple[str, Any]:
        """Have Helen run a change dry, and answer with what it would do."""
        write, more = PLANNERS[given["change"]](calls.client, given)
        request = write.shown() if write.method == "PUT" else Whole(write.shown())
        preview = write.send(calls.client, dry_run=True)
        document = {ID: self.keep(write)} | more | {"request": request, "preview": preview}
        return (
            f"Nothing is changed yet: `confirm` with `{ID}` sends exactly this request, within {LASTS:g} s.",
            document,
        )

    def confirm(self, calls: ToolCalls, given: Given) -> tuple[str, Any]:
        """Do what was planned, once. Raises Uncertain, and keeps the plan, if it may have been done."""
        name = given[ID]
        write = self.find(name)
        try:
            done = write.do(calls.client, name)
        except click.ClickException as error:
            if not is_refusal(error):
                self._tried.add(name)
                raise Uncertain(NOT_KNOWN, error) from error
            was_tried = name in self._tried
            self.drop(name)
            raise (Uncertain(REFUSED_LATER, error) if was_tried else error) from error
        self.drop(name)
        return "Done.", done


# ---------------------------------------------------------------------------------------------- what can be planned


def demand(given: Given, *names: str) -> None:
    """Raise UsageError unless all of these are given."""
    if missing := [name for name in names if not given.get(name)]:
        raise click.UsageError(f"change {given['change']} needs {', '.join(missing)}")


def _one_label_of_each_key(labels: list[str]) -> None:
    """Raise UsageError for two labels of one key: the second one would stand in place of the first."""
    keys = [each.partition("=")[0] for each in labels if "=" in each]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise click.UsageError(f"on has two labels of one key, {', '.join(twice)}: an agent has one value of it")


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
    _one_label_of_each_key(given["on"])
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
        text, entries = parted(current["text"], given["check"], given.get("id"))
    else:
        demand(given, "on")
        _one_label_of_each_key(given["on"])
        args = json.dumps(given["args"]) if "args" in given else None
        entries = entry(given["check"], tuple(given["on"]), args, given.get("id"), every=given.get("every"))
        text = current["text"].rstrip("\n") + "\n\n" + entries
    verb = "removes" if given["change"] == "unassign" else "adds"
    shown = {verb: Whole(entries)}  # of a long file the request shows no more than the beginning
    changes = planned(client, current["text"], text)
    write = Write("PUT", "/api/v1/assignments", json.dumps({"text": text.lstrip("\n")}), tag)
    return write, shown | {"would_change": count(len(changes), "agent"), "agents": _shown(changes)}


def _shown(changes: list[Change]) -> list[Given]:
    return [{"agent": each.agent, "gains": each.gains, "loses": each.loses} for each in changes]


PLANNERS: dict[str, Callable[[Client, Given], tuple[Write, Given]]] = {
    "ack": _ack, "ack-clear": _ack, "downtime": _window, "silence": _window, "window-cancel": _cancel,
    "assign": _assign, "unassign": _assign,
}  # fmt: skip
FIELDS = {
    "change": Field("What is to be changed.", needed=True, choices=tuple(PLANNERS)),
    "agent": Field("ack, ack-clear: the agent."), "check": Field("ack, ack-clear, assign, unassign: the check."),
    "on": Field(
        "downtime, silence, assign: agents of one of the names and patterns (web-*), and of all labels (role=web): of"
        " web-* and role=db, those that both hold for.", "array",
    ),
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
