"""Tests with a real Helen and agent that totals and lists are of judged states, and of existing checks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helen_running import Program, Running, wait_until

from helen.cli.main import main

pytestmark = pytest.mark.integration

WORD = """local check = { summary = "Says what it is told", needs = {}, every = "1s", timeout = "1s",
  args = { state = { type = "string", default = "ok", help = "its status" } } }
function check.run(args, host)
  return args.state, "it is " .. args.state
end
return check
"""
SLOW = WORD.replace('"1s", timeout = "1s"', '"1h", timeout = "1s"')
ENTRIES = {
    "good": 'check = "word"\nid = "good"\n',
    "bad": 'check = "word"\nid = "bad"\nargs = { state = "critical" }\n',
    "worse": 'check = "word"\nid = "worse"\nargs = { state = "warning" }\n',
}


class Stage:
    """Run Helen with one agent and entries of this test."""

    def __init__(self, folder: Path) -> None:
        self.helen = Running(folder)
        (folder / "checks" / "word.lua").write_text(WORD)
        self.helen.up()
        self.assign("good", "bad", "worse")
        self.agent: Program = self.helen.agent("web-1")

    def assign(self, *entries: str) -> None:
        text = '[judge]\nattempts = 1\naway = "1s"\nstale = "2s"\n'
        text += "".join(f"[[assign]]\n{ENTRIES[entry]}" for entry in entries)
        self.helen.client.put("/api/v1/assignments", {"text": text})

    def wait_for(self, **counts: int) -> None:
        """Wait for these totals, of all and of the one agent."""
        wanted = dict.fromkeys(("ok", "warning", "critical", "unknown"), 0) | counts
        wait_until(lambda: self.totals() == [wanted, wanted], f"totals {counts}")

    def totals(self) -> list[dict[str, int]]:
        agents = self.helen.client.get("/api/v1/agents")["agents"]
        return [self.helen.client.get("/api/v1/status")["checks"], *(agent["checks"] for agent in agents)]

    def command(self, *words: str, fails: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == fails, done.output
        return str(done.output)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("judged"))
    try:
        stage.wait_for(ok=1, warning=1, critical=1)
        yield stage
    finally:
        stage.agent.end()
        stage.helen.end()


def test_a_retired_check_leaves_every_list(stage: Stage) -> None:
    """A critical check that is retired leaves every list, and `helen explain` answers from the history (F30)."""
    assert "bad" in stage.command("status", "web-1")
    stage.assign("good", "worse")
    stage.wait_for(ok=1, warning=1)
    assert "bad" not in stage.command("status", "web-1")
    assert "critical" not in stage.command("agents")
    assert "runs no check 'bad'" in stage.command("status", "web-1/bad", fails=3)
    wait_until(
        lambda: "bad" not in {each["check_id"] for each in stage.helen.client.get("/api/v1/results")["results"]}, "end"
    )
    explained: dict[str, Any] = json.loads(stage.command("explain", "web-1/bad", "--output", "json"))
    assert any("critical to unknown: it is not scheduled" in line["text"] for line in explained["why_state"])
    assert "nothing is known of web-1/none" in stage.command("explain", "web-1/none", fails=3)


def test_a_removed_file_takes_its_checks_along(stage: Stage) -> None:
    """A removed file takes a check that a pattern names out of the list, and other checks stay (F30)."""
    (stage.helen.checks / "slow.lua").write_text(SLOW)
    ENTRIES["slow"] = 'check = "s*"\nstale = "1h"\n'
    stage.assign("good", "worse", "slow")
    wait_until(lambda: "slow " in stage.command("status", "web-1"), "the new check")
    (stage.helen.checks / "slow.lua").unlink()
    wait_until(lambda: "slow " not in stage.command("status", "web-1"), "end of it")
    stage.wait_for(ok=1, warning=1)
    stage.assign("good", "worse")


def test_what_is_not_heard_of_is_not_ok(stage: Stage) -> None:
    """All checks of an agent that ended are unknown, in totals and lists (F20)."""
    stage.agent.end()
    stage.wait_for(unknown=2)
    assert "checks: 2 unknown" in stage.command("status")
    assert "2 unknown" in stage.command("agents")
    shown = stage.command("status", "web-1")
    assert ("OK" in shown, shown.count("UNKNOWN (agent-away)")) == (False, 2)


def test_a_check_without_a_result_is_in_the_list(stage: Stage) -> None:
    """A check assigned while its agent is away is listed as unknown without a result (F20)."""
    stage.assign("good", "worse", "bad")
    stage.wait_for(unknown=3)
    assert "no result yet" in stage.command("status", "web-1")
    assert "UNKNOWN" in stage.command("status", "web-1/bad")
    assert json.loads(stage.command("status", "web-1/bad", "--output", "json"))["status"] == "unknown"
