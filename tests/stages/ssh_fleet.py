"""Runs a Helen and an agent whose machine people may log in on, and `helen ssh` to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import openssh
from helen_running import EQUUS, Program, Running, environment, wait_until
from openssh import keygen
from web_client import ask

HELEN = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')"]
POLICY = '[shell]\nallow = true\nusers = ["root"]\nauthorized_keys = "{keys}"\n'


class Fleet:
    """Runs a Helen, and the agent web-1 with a policy that lets root in.

    `more`: lines of its [shell]; `helen`: one that runs already.
    """

    def __init__(self, folder: Path, more: str = "", helen: Running | None = None) -> None:
        self.folder, self.key, self.known = folder, keygen(folder / "id"), folder / "state of mine" / "known_hosts"
        (folder / "keys").write_text((folder / "id.pub").read_text())
        self.policy = folder / "policy.toml"
        self.text = POLICY.format(keys=folder / "keys") + more
        self.policy.write_text(self.text)
        self.helen = helen or Running(folder).up()
        token = self.helen.client.post("/api/v1/tokens", {"agent": "web-1"})["token"]
        words = [*EQUUS, "--server", self.helen.run["agents"], "--state", str(folder / "web-1"), "--join", token]
        self.agent = Program([*words, "--name", "web-1", "--policy", str(self.policy)], folder / "web-1.log")
        wait_until(self.shell, "host key of the agent")

    def shell(self) -> dict[str, str]:
        answer = ask(self.helen, "GET", "/api/v1/agents/web-1")
        return answer.json["shell"] if answer.status == 200 else {}

    def options(self) -> list[str]:
        return openssh.options(self.key)

    def config(self, folder: Path, *more: str) -> Path:
        """Write a configuration of ssh into a folder, as docs/shell.rst shows it; `more`: lines of its host."""
        way = " ".join([sys.executable, "-c", "'from helen.cli.main import main; main()'", "tunnel", "%n"])
        lines = [
            f"ProxyCommand {way} --state {self.helen.state}", "Hostname %h.helen", "BatchMode yes",
            f'UserKnownHostsFile "{self.known}"', f"IdentityFile {self.key}", "StrictHostKeyChecking yes", *more,
        ]  # fmt: skip
        written = folder / "config"
        written.write_text("Host web-*\n" + "".join(f"    {line}\n" for line in lines))
        return written

    def ssh(self, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        at = ["--state", str(self.helen.state), "--known-hosts", str(self.known)]
        return openssh.run([*HELEN, "ssh", *at, *words], data, environment())

    def end(self) -> None:
        self.agent.end()
        self.helen.end()
