"""Tests `helen ssh` at a Helen that does not have the agent: it goes through the brokers to the one that does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import openssh
import pytest
from helen_running import Running, environment, wait_until
from mesh_stage import Stage, network_key
from ssh_fleet import HELEN, Fleet
from web_client import ask

pytestmark = pytest.mark.integration
PATIENCE = 90.0


class Two:
    """Runs h1 and h2 with one key; web-1 is connected to h2, and h1 has never seen it."""

    def __init__(self, stage: Stage) -> None:
        self.stage, key = stage, network_key(stage.folder)
        broker = stage.broker("b1").up()
        self.h1, self.h2 = (
            stage.helen(
                name, "--scale0", broker.run["backend"], "--scale0-identity", name, "--network-key", str(key),
                plain=False,
            ).up()
            for name in ("h1", "h2")
        )  # fmt: skip
        wait_until(lambda: self.knows(self.h1, "h2"), "h2 at h1", PATIENCE)
        wait_until(lambda: list((self.h1.state / "ca" / "trusted").glob("*.pem")), "CA of h2 at h1", PATIENCE)
        folder = stage.folder / "ssh"
        folder.mkdir()
        self.fleet = Fleet(folder, helen=self.h2)

    def knows(self, helen: Running, other: str) -> bool:
        shared = helen.client.get("/api/v1/status")["network"]["shared"]
        return other in shared["helens"]

    def ssh(self, *words: str, data: bytes = b"") -> Any:
        at = ["--state", str(self.h1.state), "--known-hosts", str(self.fleet.folder / "known")]
        return openssh.run([*HELEN, "ssh", *at, *words], data, environment())


def test_a_login_by_way_of_another_helen(stage: Stage, tmp_path: Path) -> None:
    """The agent's host key is learnt and judged by the shared CAs; megabytes pass both ways; both audits have it."""
    two = Two(stage)
    try:
        words = ("root@web-1", *two.fleet.options())
        data = os.urandom(3_000_000)
        done = two.ssh(*words, "--", "cat; exit 7", data=data)
        assert (done.returncode, done.stdout == data) == (7, True), done.stderr
        assert b"web-1 has the host key SHA256:" in done.stderr
        first, second = audit(two.h1), audit(two.h2)
        assert [row["actor"] for row in first] == ["operator", "operator"]
        assert [row["actor"] for row in second] == ["h1", "h1"]
        assert second[-1]["subject"] == "web-1 ssh for operator"
        unknown = two.ssh("root@web-9", *two.fleet.options(), "true")
        assert unknown.returncode == 3
        two.fleet.agent.end()
        wait_until(lambda: two.ssh(*words, "true").returncode != 0, "agent that is away", PATIENCE)
    finally:
        two.fleet.agent.end()


def audit(helen: Running) -> list[dict[str, Any]]:
    """Return the entries of tunnels, the newest first, once both are there."""

    def entries() -> list[dict[str, Any]]:
        rows = ask(helen, "GET", "/api/v1/audit?limit=100").json["audit"]
        return [row for row in rows if row["action"].startswith("tunnel")]

    wait_until(lambda: len(entries()) == 2, "entries of the beginning and the end", PATIENCE)
    return entries()
