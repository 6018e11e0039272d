"""Runs a real Helen and a real agent as processes on loopback; they end with the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patience import Patience
from ports import free_port

from helen.cli.base.client import Client

PATIENCE = 60.0  # seconds; a busy machine, and an interpreter that starts
TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
TWIST = [sys.executable, "-c", "from twisted.application.twist._twist import Twist; Twist.main()"]
EQUUS = [sys.executable, "-c", "from equus.main import main; main(prog_name='equus')"]

PULSE = """local check = {{
  summary = "Says a word",
  needs = {{}},
  every = "{every}",
  args = {{ word = {{ type = "string", default = "{word}", help = "what to say" }} }},
}}
function check.run(args, host)
  return "ok", args.word
end
return check
"""


def pulse(word: str = "hello", every: str = "1s") -> str:
    """Return the source of a check that says a word."""
    return PULSE.format(word=word, every=every)


ENDLESS = """local check = { summary = "Never ends", needs = {}, timeout = "60s", args = {} }
function check.run(args, host)
  while true do end
end
return check
"""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of this process, less the variables that would be settings of Helen or of Equus."""
    unwanted = ("HELEN_", "EQUUS_", "NOTIFY_", "LISTEN_", "WATCHDOG_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return kept | {"PYTHONUNBUFFERED": "1"} | dict(extra or {})


def wait_until(look: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Return what `look` returns once that is true."""
    bound = Patience(patience)
    while not (found := look()):
        assert bound.lasts(), f"no {what} within {patience:g} s"
        time.sleep(0.02)
    return found


class Program:
    """Runs one process; its output goes to a file."""

    def __init__(self, words: list[str], log: Path, extra: Mapping[str, str] | None = None, **options: Any) -> None:
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(extra), **options
            )

    @property
    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait(self, patience: float = PATIENCE) -> int:
        return self.process.wait(patience)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
            self.process.kill()
            self.process.wait()


class Running:
    """Runs a Helen on a state directory, with a folder of its own for checks."""

    def __init__(self, folder: Path, *options: str, runner: list[str] | None = None, **more: Any) -> None:
        self.folder, self.state, self.checks = folder, folder / "state", folder / "checks"
        self.checks.mkdir(parents=True, exist_ok=True)
        listen, web = (f"127.0.0.1:{free_port()}" for _ in range(2))  # which it has again if it is started again
        flags = ["--state", str(self.state), "--listen", listen, "--web", web]
        flags += ["--checks", str(self.checks), "--name", "localhost", *options]
        words = [*(runner or [*TWISTD, "-n", "--pidfile="]), "helen", *flags]
        self.program = Program(words, folder / "helen.log", **more)

    def up(self) -> Running:
        """Wait until Helen accepts connections."""
        self.run = wait_until(self._run_file, "run.json")
        return self

    def _run_file(self) -> dict[str, Any] | None:
        assert self.program.process.poll() is None, self.program.said
        with contextlib.suppress(OSError, ValueError):
            run: dict[str, Any] = json.loads((self.state / "run.json").read_text())
            return run if run["pid"] == self.program.process.pid else None
        return None

    @property
    def client(self) -> Client:
        return Client(self.state)

    def agent(self, name: str, *labels: str, claims: Sequence[str] = (), policy: Path | None = None) -> Program:
        """Start a real agent, enrolled by a token that gives it labels; `claims` are those that it says of itself."""
        asked = {"agent": name, "labels": dict(label.split("=", 1) for label in labels)}
        token = self.client.post("/api/v1/tokens", asked)["token"]
        words = [*EQUUS, "--server", self.run["agents"], "--state", str(self.folder / name), "--join", token]
        words += ["--policy", str(policy)] if policy else []
        words += ["--name", name, *(word for label in claims for word in ("--label", label))]
        return Program(words, self.folder / f"{name}.log")

    def signal(self, number: signal.Signals) -> None:
        self.program.process.send_signal(number)

    def end(self) -> None:
        self.program.end()


@contextlib.contextmanager
def a_fleet_of_one(folder: Path) -> Iterator[Running]:
    """Yield a Helen with `pulse` and the agent web-1, which has run it."""
    checks = folder / "checks"
    checks.mkdir(parents=True)
    (checks / "pulse.lua").write_text(pulse())
    (checks / "endless.lua").write_text(ENDLESS)
    helen = Running(folder).up()
    agent = None
    try:
        agent = helen.agent("web-1", "role=web", claims=["rack=7"])
        wait_until(lambda: helen.client.get("/api/v1/results")["results"], "result of the agent")
        yield helen
    finally:
        if agent is not None:
            agent.end()
        helen.end()
