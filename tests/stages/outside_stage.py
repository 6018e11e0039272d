"""Starts a real Helen with an agent, and a receiver of its messages, for the tests of this folder; curl, and
commands.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from helen_running import Running, pulse, wait_until
from remotes import Receiver

from helen.cli.main import main

NOTIFY = """
[channels.hook]
type = "webhook"
url = "{url}/hook"
[route]
channels = "hook"
group_by = ["agent", "check"]
group_wait = "0s"
group_interval = "1s"
"""


class Stage:
    """Runs a Helen with an agent, and asks it with curl."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.folder, self.receiver = folder, receiver
        (folder / "checks").mkdir()
        (folder / "checks" / "pulse.lua").write_text(pulse())
        (folder / "state").mkdir(mode=0o700)
        (folder / "state" / "notifications.toml").write_text(NOTIFY.format(url=receiver.url))
        self.helen = Running(folder).up()
        self.agent = self.helen.agent("web-1")
        wait_until(lambda: self.state("web-1/pulse"), "result of the agent")

    @property
    def web(self) -> str:
        return f"http://{self.helen.run['web']}"

    def command(self, *words: str, fails: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == fails, done.output
        return str(done.output).strip()

    def curl(self, *words: str) -> tuple[int, str]:
        """Return the status and the body of curl's answer."""
        command = ["curl", "-sS", "-m", "20", "-w", "\\n%{http_code}", *words]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        body, _, status = said.rpartition("\n")
        return int(status), body

    def state(self, what: str) -> str | None:
        """Return the state of HOST/CHECK, such as `critical (stale)`, or None without one."""
        host, _, check = what.partition("/")
        for each in self.helen.client.get(f"/api/v1/states?agent={host}")["states"]:
            if each["check_id"] == check:
                return each["status"] + (f" ({each['reason']})" if each["reason"] else "")
        return None

    def becomes(self, what: str, state: str) -> None:
        wait_until(lambda: self.state(what) == state, f"{what} that is {state}")

    def latest(self, what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", what, "--output", "json"))
        return found

    def again(self) -> None:
        """End Helen, and start another one on the same state and the same port."""
        words = self.helen.program.process.args
        assert isinstance(words, list)
        self.helen.end()
        words[words.index("--listen") + 1] = self.helen.run["agents"]
        self.helen.program = type(self.helen.program)(words, self.folder / "again.log")
        self.helen.up()

    def told(self, check: str, what: str) -> dict[str, Any]:
        """Return the alert about a check that the receiver has got, once it has."""
        found: dict[str, Any] = wait_until(
            lambda: [
                alert for document in self.receiver.documents() for alert in document["alerts"]
                if alert["check"] == check and alert["what"] == what
            ], f"message about {check}", 20.0,
        )[-1]  # fmt: skip
        return found
