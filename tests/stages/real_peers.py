"""Runs programs of others on free ports of loopback: Alertmanager, the mail server chasquid, and rsyslog."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from remotes import wait_for

MAIL_USER, MAIL_PASSWORD = "helen@example.org", "correct-horse"
CHASQUID = """
hostname: "localhost"
submission_address: "127.0.0.1:0"
mail_delivery_agent_bin: "/bin/sh"
mail_delivery_agent_args: "-c"
mail_delivery_agent_args: "cat > {folder}/mails/new.$$ && mv {folder}/mails/new.$$ {folder}/mails/$$.eml"
data_dir: "{folder}/data"
mail_log_path: "<stderr>"
"""
RSYSLOG = """
global(workDirectory="{folder}")
module(load="imtcp")
module(load="mmpstrucdata")
input(type="imtcp" address="127.0.0.1" port="0" listenPortFileName="{folder}/port")
template(name="fields" type="list" option.jsonf="on") {{
  property(outname="priority" name="pri" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="program" name="app-name" format="jsonf")
  property(outname="process" name="procid" format="jsonf")
  property(outname="event" name="msgid" format="jsonf")
  property(outname="text" name="msg" format="jsonf")
  property(outname="fields" name="$!rfc5424-sd!helen@32473" format="jsonf")
}}
action(type="mmpstrucdata")
action(type="omfile" file="{folder}/out" template="fields")
"""
ALERTMANAGER = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


def program(name: str, package: str) -> str:
    """Return the path of a program; without it a test fails, and says what is missing."""
    found = shutil.which(name)
    assert found, f"{name} is missing: apt-get install {package}"
    return found


class Peer:
    """Runs a process that listens somewhere."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.log = folder / "log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)
        try:
            self.port: int = wait_for(self._port, f"port of {words[0]}")
        except AssertionError:
            self.end()
            raise

    def _port(self) -> int | None:
        """Return the port by asking the kernel, so that none has to be chosen beforehand."""
        assert self.process.poll() is None, self.log.read_text()
        sockets = set()
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(link))
            except OSError:  # closed meanwhile
                continue
        for line in Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                return int(local.partition(":")[2], 16)
        return None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def an_alertmanager(folder: Path) -> Peer:
    (folder / "am.yml").write_text(ALERTMANAGER)
    words = [program("prometheus-alertmanager", "prometheus-alertmanager"), "--config.file=am.yml"]
    return Peer(
        folder, [*words, "--storage.path=data", "--web.listen-address=127.0.0.1:0", "--cluster.listen-address="]
    )


def a_mail_server(folder: Path, certificate: bytes, key: bytes) -> Peer:
    """Start a mail server with one user, whose mails become files of `mails`."""
    chasquid = program("chasquid", "chasquid")
    for name in ("certs/localhost", "domains/example.org", "data", "mails"):
        (folder / name).mkdir(parents=True)
    (folder / "certs/localhost/fullchain.pem").write_bytes(certificate)
    (folder / "certs/localhost/privkey.pem").write_bytes(key)
    (folder / "chasquid.conf").write_text(CHASQUID.format(folder=folder))
    add = ["chasquid-util", f"-C={folder}", "user-add", MAIL_USER, f"--password={MAIL_PASSWORD}"]
    subprocess.run(add, check=True, capture_output=True)
    return Peer(folder, [chasquid, f"-config_dir={folder}"])


def mails(folder: Path, count: int) -> list[Any]:
    """Return the mails in their order, once there are so many."""
    return wait_for(lambda: found if len(found := sorted((folder / "mails").glob("*.eml"))) >= count else None, "mail")


def a_log_server(folder: Path) -> Peer:
    """Writes the parts of each message, as rsyslog has read them, to `out`: JSON, one in a line."""
    (folder / "rsyslog.conf").write_text(RSYSLOG.format(folder=folder))
    return Peer(folder, [program("rsyslogd", "rsyslog"), "-n", "-f", "rsyslog.conf", "-i", str(folder / "pid")])
