"""Tests a real Helen and agent by the command line: from a check's word to a decision, over a restart and a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helen_running import Running, wait_until

from helen.cli.main import main
from helen.evaluation import replay
from helen.evaluation.evaluator import OUTPUTS

pytestmark = pytest.mark.integration

WORD = """local check = { summary = "Says what it is told", needs = {}, every = "1s",
  args = { state = { type = "string", default = "ok", help = "its status" } } }
function check.run(args, host)
  return args.state, "it is " .. args.state
end
return check
"""
BROKEN = '[judge]\nattempts = 2\n[[assign]]\ncheck = "word"\nargs = { state = "critical" }\n'


class Stage:
    """Asks a running Helen for the tests."""

    def __init__(self, helen: Running) -> None:
        self.helen = helen

    def state(self) -> dict[str, Any]:
        listed = self.helen.client.get("/api/v1/states?agent=web-1")["states"]
        return next((each for each in listed if each["check_id"] == "word"), {"status": None, "kind": None})

    def wait_for(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        found: dict[str, Any] = wait_until(lambda: what(state) and state if (state := self.state()) else None, "state")
        return found

    def command(self, *words: str, fails: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == fails, done.output
        return str(done.output)

    def explained(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("explain", "web-1/word", "--output", "json"))
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("judged")
    (folder / "checks").mkdir()
    (folder / "checks" / "word.lua").write_text(WORD)
    stage = Stage(Running(folder).up())
    agent = None
    try:
        agent = stage.helen.agent("web-1", "role=web")
        stage.wait_for(lambda state: state["status"] == "ok")
        stage.helen.client.put("/api/v1/assignments", {"text": BROKEN})
        stage.wait_for(lambda state: state["status"] == "critical" and state["kind"] == "hard")
        yield stage
    finally:
        if agent is not None:
            agent.end()
        stage.helen.end()


def test_commands(stage: Stage) -> None:
    """A problem is shown, acknowledged, silenced, and told again when all of that is over."""
    assert "CRITICAL" in stage.command("status", "web-1")
    assert stage.command("ack", "web-1/word", "--owner", "eva", "--for", "1h") == "web-1/word: acknowledged by eva\n"
    stage.wait_for(lambda state: state["acknowledged"] is not None)
    assert "CRITICAL acknowledged" in stage.command("status", "web-1/word")
    assert "covers 2 checks on 1 agent" in stage.command("silence", "--on", "web-*", "--for", "1h", "--id", "quiet")
    stage.wait_for(lambda state: state["held_by"] != [])
    assert "quiet" in stage.command("windows")
    stage.command("ack", "web-1/word", "--clear", "--owner", "eva")
    stage.wait_for(lambda state: state["acknowledged"] is None)
    stage.command("silence", "--cancel", "quiet")
    stage.wait_for(lambda state: state["held_by"] == [])
    told = "due: still, critical (silence quiet has been cancelled"
    wait_until(lambda: any(line["text"].startswith(told) for line in stage.explained()["why_no_alert"]), told)


def test_what_commands_refuse(stage: Stage) -> None:
    """A command refuses with a sentence, and the exit status of docs/commands.rst."""
    assert "not known to be broken" in stage.command("ack", "web-1/equus:link", fails=1)
    assert "nobody has acknowledged" in stage.command("ack", "web-1/word", "--clear", fails=1)
    assert "nothing is known of web-1/none" in stage.command("ack", "web-1/none", fails=3)
    assert "nothing is known of web-1/none" in stage.command("explain", "web-1/none", fails=3)
    assert "is no AGENT/CHECK" in stage.command("explain", "web-1", fails=2)
    assert "it has no end" in stage.command("downtime", "--on", "web-1", fails=2)
    assert "Europe/Berlin" in stage.command("downtime", "--daily", "01:00-02:00", "--zone", "Nowhere", fails=1)
    assert "no downtime or silence" in stage.command("silence", "--cancel", "none", fails=3)
    assert "is no time" in stage.command("explain", "web-1/word", "--at", "noon", fails=2)
    preview = stage.command("downtime", "--daily", "22:00-06:00", "--zone", "Europe/Berlin", "--dry-run")
    assert preview.count(" to ") == 10
    assert "quiet" not in stage.command("windows")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_restarts_leave_the_timeline_as_it_was(stage: Stage, end: signal.Signals) -> None:
    """State, since when and what was told are the same; no number is used twice, and none is left out."""
    before = stage.state()
    helen = stage.helen
    helen.signal(end)
    helen.program.wait()
    stage.helen = Running(helen.folder).up()
    after = stage.wait_for(lambda state: state["status"] == "critical")
    assert after == before
    assert stage.explained()["state"]["since"] == before["since"]
    numbers = [json.loads(past.document)["number"] for past in outputs(stage.helen) if past.check_id == "word"]
    assert numbers == list(range(len(numbers)))


def outputs(helen: Running) -> list[Any]:
    """Return transitions, flaps and decisions that are in closed segments."""
    return [past for past in replay.since(helen.state / "history", 0) if past.kind in OUTPUTS]
