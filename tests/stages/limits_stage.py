"""Runs a Helen with a fleet of two halves: a token is limited to one, and every name of the other is an odd word."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from helen_running import Running, wait_until
from web_client import Answer, Web, ask

SHOUT = """local check = { summary = "Says a word", needs = {}, every = "1s",
  args = { word = { type = "string", default = "tea", help = "what to say" } } }
function check.run(args, host)
  return "critical", args.word
end
return check
"""
ASSIGN = """
[judge]
attempts = 1

[[assign]]
check = "shout"
id = "kettle"
labels = { team = "shop" }
depends = ["zebra-7/ocelot"]

[[assign]]
check = "shout"
id = "ocelot"
agents = ["zebra-7"]
args = { word = "wombat" }
"""
PASSIVE = """
[hosts.web-nas]
labels = { team = "shop" }
[hosts.heron-3]
labels = { den = "stoat" }
[[check]]
host = "web-nas"
id = "smart"
[[check]]
host = "heron-3"
id = "lemur"
[[ping]]
host = "heron-3"
id = "badger"
every = "1d"
"""
NOTIFY = """
[channels.hook]
type = "webhook"
url = "http://127.0.0.1:9/"
[[route.routes]]
match = ["agent=zebra-*"]
channels = ["hook"]
[[route.routes]]
match = ["team=shop"]
channels = ["hook"]
"""
HIDDEN = ("zebra", "heron", "ocelot", "lemur", "badger", "wombat", "marmot", "stoat", "vault")
SUMMARY = "wombat of the heron"


class Halves:
    """Runs web-1 and web-nas of the team `shop`, to which tokens are limited, and zebra-7 and heron-3 outside of it."""

    def __init__(self, folder: Path) -> None:
        checks, state = folder / "checks", folder / "state"
        checks.mkdir(parents=True)
        (checks / "shout.lua").write_text(SHOUT)
        state.mkdir(mode=0o700)
        (state / "notifications.toml").write_text(NOTIFY)
        (state / "passive.toml").write_text(PASSIVE)
        self.helen = Running(folder, "--embed-zerotask").up()
        self.agents = [self.helen.agent("web-1", "team=shop"), self.helen.agent("zebra-7", "vault=marmot")]

    def furnish(self) -> None:
        """Give both halves states, holds, acknowledgements, windows, jobs, tokens and a rollout."""
        wait_until(lambda: len(self.admin("GET", "results").json["results"]) >= 2, "results")
        assert self.admin("PUT", "assignments", {"text": ASSIGN}).status == 200
        for host, check in (("web-nas", "smart"), ("heron-3", "lemur")):
            said = {"host": host, "check": check, "status": "critical", "summary": SUMMARY if host[0] == "h" else "hot"}
            assert self.admin("POST", "passive/results", said).status == 201
        wait_until(self.is_held, "hold by the hidden parent")
        for agent, check in (("zebra-7", "ocelot"), ("web-nas", "smart")):
            assert self.admin("POST", "acks", {"agent": agent, "check": check, "owner": "ann"}).status == 200
        for window in (
            {"id": "both", "agents": ["*"], "checks": ["kettle", "ocelot"], "comment": "new disks"},
            {"id": "marmot-only", "agents": ["zebra-7"], "comment": "of the vault"},
            {"id": "pairs", "keys": [["web-1", "kettle"], ["heron-3", "lemur"]]},
            {"id": "ours", "agents": ["web-1"]},
        ):
            assert self.admin("POST", "windows", {"kind": "downtime", "until": 3e9, **window}).status == 201
        waits = {"wait_for_offline": "1h", "check": "shout"}
        self.job = self.admin("POST", "jobs", waits | {"on": "web-1"}).json["id"]
        self.hidden_job = self.admin("POST", "jobs", waits | {"on": ["zebra-7", "web-1"]}).json["id"]
        for scope in ("read", "operate", "admin", "push"):
            self.make_token(f"all-{scope}", scope)
        self.admin("POST", "push", {"files": {"shout.lua": SHOUT + "-- new\n"}, "rings": "vault=marmot,100%"})

    def is_held(self) -> bool:
        """Return True once the visible check is held by its hidden parent."""
        answer = self.admin("GET", "states/web-1/kettle")
        return answer.status == 200 and "zebra-7/ocelot" in str(answer.json["held_by"])

    def make_token(self, name: str, scope: str, *on: str) -> str:
        """Make a token of the API and return its secret."""
        made = self.admin("POST", "web-tokens", {"name": name, "scopes": [scope], "on": list(on) or None})
        assert made.status == 201, made.raw
        return str(made.json["token"])

    def admin(self, method: str, path: str, body: Any = None) -> Answer:
        """Ask as the operator, by the control socket."""
        return ask(self.helen, method, path if path.startswith("/") else f"/api/v1/{path}", body)

    def limited(self, token: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Ask over TCP with a token."""
        raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        where = path if path.startswith("/") else f"/api/v1/{path}"
        return Web(self.helen).ask(method, where, raw, authorization=f"Bearer {token}", **headers)

    def rows(self, sql: str) -> list[Any]:
        """Return rows of helen.db."""
        with contextlib.closing(sqlite3.connect(self.helen.state / "helen.db")) as db:
            return db.execute(sql).fetchall()

    def end(self) -> None:
        """End all programs."""
        for program in (*self.agents, self.helen):
            program.end()


@contextlib.contextmanager
def two_halves(folder: Path) -> Iterator[Halves]:
    """Yield the furnished stage; it ends with the test."""
    stage = Halves(folder)
    try:
        stage.furnish()
        yield stage
    finally:
        stage.end()
