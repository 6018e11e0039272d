"""Tests real processes whose wall clock is set, or that are stopped: runs go on, and nobody is alarmed for it."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helen_running import EQUUS, PATIENCE, Program, Running, pulse, wait_until
from ports import free_port
from shifted import Shift

from helen.cli.shown.status import clock_line

pytestmark = pytest.mark.integration
ASSIGNED = """
[judge]
attempts = 1
stale = "6s"
flap = false

[[assign]]
check = "word"
"""
PAGE = """#!/bin/sh
cat >> "$OUT"
echo >> "$OUT"
"""
TOLD = """
[channels.page]
type = "command"
argv = ["{folder}/page"]
environment = {{ OUT = "{folder}/told" }}
[route]
channels = "page"
group_wait = "0s"
group_interval = "1s"
"""


class Stage:
    """Runs a Helen and an agent of it, each with a clock of its own."""

    def __init__(self, folder: Path, ahead: float = 0.0) -> None:
        self.folder, self.home, self.listen = folder, folder / "helen", f"127.0.0.1:{free_port()}"
        self.shift, self.agents_shift = Shift(folder / "helens", ahead), Shift(folder / "agents")
        (self.home / "state").mkdir(parents=True)
        (self.home / "checks").mkdir()
        (self.home / "state" / "assignments.toml").write_text(ASSIGNED)
        (self.home / "state" / "notifications.toml").write_text(TOLD.format(folder=folder))
        (folder / "page").write_text(PAGE)
        (folder / "page").chmod(0o755)
        self.say("ok")
        self.agent: Program | None = None
        self.helen = self.start()

    def begin(self) -> None:
        """Start the agent, and wait for its first results."""
        token = self.helen.client.post("/api/v1/tokens", {"agent": "web-1"})["token"]
        flags = ["--server", self.helen.run["agents"], "--state", str(self.folder / "web-1"), "--join", token]
        log = self.folder / "web-1.log"
        self.agent = Program([*EQUUS, *flags, "--name", "web-1"], log, extra=self.agents_shift.variables)
        wait_until(lambda: self.results() > 2, "results")

    def start(self) -> Running:
        return Running(self.home, "--listen", self.listen, extra=self.shift.variables).up()

    def say(self, status: str) -> None:
        (self.home / "checks" / "word.lua").write_text(pulse(status).replace('return "ok"', f'return "{status}"'))

    def results(self) -> int:
        """Return how often the check ran, by the agent's own count of reports that Helen took."""
        return int(self.helen.client.get("/api/v1/status")["counts"]["reports"])

    def status(self) -> tuple[str, str | None]:
        found = self.helen.client.get("/api/v1/states/web-1/word")
        return found["status"], found["reason"]

    def watch(self, seconds: float, results: int = 0) -> None:
        """Look at the check for so long, and until so many results have come; it must be ok all the time."""
        before, until = self.results(), time.monotonic() + seconds
        while time.monotonic() < until or self.results() - before < results:
            assert time.monotonic() < until + PATIENCE, f"{self.results() - before} results of {results}"
            assert self.status() == ("ok", None)
            time.sleep(0.2)

    @property
    def told(self) -> list[str]:
        file = self.folder / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        alerts = [alert for line in lines if line for alert in json.loads(line)["alerts"]]
        return [f"{alert['what']} {alert['status']}" for alert in alerts if alert["agent"] != "web-2"]

    def end(self) -> None:
        if self.agent is not None:
            self.agent.end()
        self.helen.end()


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[list[Stage]]:
    """Yield a list; a stage that a test puts in ends with it."""
    made: list[Stage] = []
    yield made
    for stage in made:
        stage.end()


def test_helens_clock_was_ahead_and_is_put_right(stages: list[Stage], tmp_path: Path) -> None:
    """A check that breaks after the step is told at once; the log, the status and the figures have the step (F3)."""
    stage = Stage(tmp_path, ahead=7_200.0)
    stages.append(stage)
    stage.begin()
    stage.shift.to(0.0)
    wait_until(lambda: stage.status() == ("ok", None), "status")  # until then the agent seemed to be behind
    stage.watch(3.0, results=2)
    stage.say("critical")
    wait_until(lambda: stage.told, "message")
    assert stage.told[0] == "problem critical"
    clock = stage.helen.client.get("/api/v1/status")["clock"]
    assert clock["steps"] == {"back": 1, "ahead": 0}
    assert clock["last"]["stepped"] == pytest.approx(-7_200.0, abs=1.0)
    line = clock_line(clock, time.time())
    assert line is not None and re.fullmatch("clock: Helen's clock was set back by 2h, [0-9]+s ago", line)
    assert len(re.findall("the clock was set back by 7,200 s", stage.helen.program.said)) == 1


def test_helens_clock_was_ahead_before_it_started_anew(stages: list[Stage], tmp_path: Path) -> None:
    """A time that was stored by the wrong clock holds up no message (F3)."""
    stage = Stage(tmp_path, ahead=7_200.0)
    stages.append(stage)
    stage.begin()
    stage.helen.end()
    stage.shift.to(0.0)
    stage.helen = stage.start()
    wait_until(lambda: stage.results() > 2, "results")
    stage.say("critical")
    wait_until(lambda: stage.told, "message")
    assert stage.told[0] == "problem critical"
    assert re.search("is [0-9,]+ s ahead of this machine's clock", stage.helen.program.said)
    assert stage.helen.client.get("/api/v1/status")["clock"]["steps"]["back"] == 1


@pytest.mark.adversary(57)
def test_a_step_ahead_and_a_sleep_alarm_nobody(stages: list[Stage], tmp_path: Path) -> None:
    """A step ahead and a sleep count against no check, and no link is cut for them (F4)."""
    stage = Stage(tmp_path)
    stages.append(stage)
    stage.begin()
    wait_until(lambda: stage.status() == ("ok", None), "status")
    stage.shift.to(7_200.0)
    stage.watch(8.0, results=5)
    stage.helen.signal(signal.SIGSTOP)
    time.sleep(11.0)
    stage.helen.signal(signal.SIGCONT)
    wait_until(lambda: stage.helen.client.get("/api/v1/status")["clock"]["slept"] > 9.0, "sleep")
    stage.watch(8.0)
    assert stage.told == []
    assert "Helen stood still for 1" in stage.helen.program.said
    assert stage.helen.program.said.count("connected from") == 1


@pytest.mark.adversary(56)
@pytest.mark.parametrize("by", [-7_200.0, 7_200.0])
def test_an_agents_clock_is_set(stages: list[Stage], tmp_path: Path, by: float) -> None:
    """The agent's runs go on each second, none is missed, and its check is never stale (F1)."""
    stage = Stage(tmp_path)
    stages.append(stage)
    stage.begin()
    assert stage.agent is not None
    wait_until(lambda: stage.status() == ("ok", None), "status")
    before = stage.agent.said  # a run was due before its code had come, perhaps
    stage.agents_shift.to(by)
    stage.watch(9.0, results=7)
    assert "did not happen" not in stage.agent.said.removeprefix(before)
    assert stage.told == []


@pytest.mark.parametrize("ahead", [90.0, 5 * 86_400.0])
def test_a_clock_that_was_set_ahead_while_helen_was_away(stages: list[Stage], tmp_path: Path, ahead: float) -> None:
    """A maintenance and an acknowledgement go on, nothing expires, and the step is told: it is no long stop."""
    stage = Stage(tmp_path)
    stages.append(stage)
    stage.begin()
    stage.say("critical")
    wait_until(lambda: stage.told, "message")
    client = stage.helen.client
    until = time.time() + 70.0
    client.post("/api/v1/windows", {"kind": "downtime", "id": "w", "agents": ["web-1"], "until": until})
    client.post("/api/v1/acks", {"agent": "web-1", "check": "word", "owner": "kim", "until": until})
    token = client.post("/api/v1/tokens", {"agent": "web-2", "ttl": 80.0})["token"]
    stage.helen.end()
    stage.shift.to(ahead)
    stage.helen = stage.start()
    assert re.search(f"the clock was set ahead by {ahead:,.0f} s while Helen was not running", stage.helen.program.said)
    clock = stage.helen.client.get("/api/v1/status")["clock"]
    assert (clock["steps"], clock["held"]) == ({"back": 0, "ahead": 1}, pytest.approx(ahead, abs=1.0))
    assert clock["last"]["stepped"] == pytest.approx(ahead, abs=1.0)
    windows = stage.helen.client.get("/api/v1/windows")["windows"]
    assert [(each["id"], each["active"]) for each in windows] == [("w", True)]
    assert windows[0]["until"] == pytest.approx(until + ahead, abs=1.0)
    state = stage.helen.client.get("/api/v1/states/web-1/word")
    assert state["acknowledged"]["until"] == pytest.approx(until + ahead, abs=1.0)
    assert stage.told == ["problem critical"]
    late = Program(
        [*EQUUS, "--server", stage.listen, "--state", str(tmp_path / "web-2"), "--join", token, "--name", "web-2"],
        tmp_path / "web-2.log", extra=stage.shift.variables,
    )  # fmt: skip
    try:
        wait_until(lambda: stage.helen.client.get("/api/v1/status")["agents"]["connected"] == 2, "second agent")
        # A repeat that was not due for hours is not due because of the step; the second agent took its time to come.
        assert stage.told == ["problem critical"]
    finally:
        late.end()
