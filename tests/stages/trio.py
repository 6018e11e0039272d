"""Runs a Helen that keeps jobs with three real agents, for tests of pages that ask them and hold messages back."""

from __future__ import annotations

import signal
from pathlib import Path

from helen_running import EQUUS, Program, Running, pulse

GUARDED = """local check = { summary = "Looks at the processors", needs = { "cpu" }, args = {} }
function check.run(args, host)
  local cpu, code, text = host.cpu()
  if not cpu then return "unknown", text end
  return "ok", "processors are there"
end
return check
"""


class Trio:
    """Runs a Helen that keeps jobs, and three agents: one does all, one refuses what needs `cpu`, one is stopped at
    will.
    """

    def __init__(self, folder: Path) -> None:
        checks = folder / "checks"
        checks.mkdir()
        for name, status in (("pulse", "ok"), ("calm", "ok"), ("sick", "critical"), ("weak", "warning")):
            (checks / f"{name}.lua").write_text(pulse().replace('"ok"', f'"{status}"'))
        (checks / "guarded.lua").write_text(GUARDED)
        (folder / "policy.toml").write_text("[caps.cpu]\nallow = false\n")
        (folder / "policy.toml").chmod(0o600)
        self.helen = Running(folder, "--embed-zerotask").up()
        self.agents: dict[str, Program] = {}
        for name, words in (("web-1", ()), ("web-2", ("--policy", str(folder / "policy.toml"))), ("web-3", ())):
            token = self.helen.client.post("/api/v1/tokens", {"agent": name, "labels": {"role": "web"}})["token"]
            self.start(name, "--join", token, "--name", name, *words)

    def start(self, name: str, *words: str) -> None:
        usual = ("--server", self.helen.run["agents"], "--state", str(self.helen.folder / name))
        self.agents[name] = Program([*EQUUS, *words, *usual], self.helen.folder / f"{name}.log")

    def freeze(self, name: str) -> None:
        self.agents[name].process.send_signal(signal.SIGSTOP)

    def kill(self, name: str) -> None:
        self.agents[name].process.kill()
        self.agents[name].process.wait()

    def told(self) -> list[str]:
        """Return the checks of which people were told that they are not ok."""
        states = self.helen.client.get("/api/v1/states?all=true")["states"]
        return sorted(f"{each['agent']}/{each['check_id']}" for each in states if each["told"] != "ok")

    def end(self) -> None:
        for agent in self.agents.values():
            agent.process.kill()
            agent.process.wait()
        self.helen.end()
