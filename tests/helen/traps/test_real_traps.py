"""Tests Net-SNMP's snmptrap and snmpinform, `helen traps`, and a real Helen: states change, informs are confirmed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from click.testing import CliRunner
from helen_running import Program, Running, wait_until
from ports import free_port
from servers import program

from helen.cli.main import main

PASSIVE = """
[[check]]
host = "switch-1"
id = "link-*"
[[check]]
host = "switch-1"
id = "started"
"""
FILE = """
listen = ["127.0.0.1:{port}"]
communities = ["public"]
a_minute = 100000
at_once = 100000
[[user]]
name = "sha-aes"
auth = "sha"
auth_password = "proof of one"
privacy = "aes"
privacy_password = "cipher of one"
[[user]]
name = "sha512-aes256"
auth = "sha512"
auth_password = "proof of two"
privacy = "aes256"
privacy_password = "cipher of two"
[[user]]
name = "md5-des"
auth = "md5"
auth_password = "proof of three"
privacy = "des"
privacy_password = "cipher of three"
[[source]]
address = "127.0.0.1"
host = "switch-1"
[[trap]]
oid = "1.3.6.1.6.3.1.1.5.3"
check = "link-{{1.3.6.1.2.1.2.2.1.1}}"
status = "critical"
summary = "{{1.3.6.1.2.1.31.1.1.1.1}} is down"
[[trap]]
oid = "1.3.6.1.6.3.1.1.5.4"
check = "link-{{1.3.6.1.2.1.2.2.1.1}}"
status = "ok"
[[trap]]
oid = ["1.3.6.1.6.3.1.1.5.1", "1.3.6.1.4.1.8072.3.2.10.0.17"]
check = "started"
status = "warning"
[[trap]]
oid = "1.3.6.1.6.3.1.1.5.5"
check = "nobody declares it"
status = "warning"
"""
DOWN, UP = "1.3.6.1.6.3.1.1.5.3", "1.3.6.1.6.3.1.1.5.4"
SECONDS = 60.0


@frozen
class Scene:
    """Runs a Helen, and the command that receives traps for it."""

    helen: Running
    traps: Program
    port: int
    folder: Path

    def send(self, name: str, *words: str, fails: bool = False) -> None:
        """Run a program of Net-SNMP's, which reads no settings of this machine."""
        command = [program(name, "snmp"), *words]
        surroundings = {"PATH": os.environ["PATH"], "MIBS": "", "SNMPCONFPATH": str(self.folder)}
        surroundings["SNMP_PERSISTENT_DIR"] = str(self.folder / "snmp")
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=surroundings)
        assert (done.returncode != 0) == fails, done.stderr

    def link(self, name: str, trap: str, index: int, *how: str, fails: bool = False) -> None:
        values = [f"1.3.6.1.2.1.2.2.1.1.{index}", "i", str(index)]
        values += [f"1.3.6.1.2.1.31.1.1.1.1.{index}", "s", f"Gi1/0/{index}"]
        self.send(name, *how, f"127.0.0.1:{self.port}", "", trap, *values, fails=fails)

    def state(self, check: str) -> str | None:
        listed = self.helen.client.get("/api/v1/states?agent=switch-1")["states"]
        return next((each["status"] for each in listed if each["check_id"] == check), None)

    def becomes(self, check: str, status: str) -> None:
        wait_until(lambda: self.state(check) == status, f"{check} that is {status}", SECONDS)


def secure(user: str, auth: str, privacy: str, word: str) -> list[str]:
    proved = ["-a", auth, "-A", f"proof of {word}"]
    return ["-v", "3", "-u", user, "-l", "authPriv", *proved, "-x", privacy, "-X", f"cipher of {word}"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder, port = tmp_path_factory.mktemp("traps"), free_port(socket.SOCK_DGRAM)
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "passive.toml").write_text(PASSIVE)
    helen = Running(folder).up()
    path = folder / "traps.toml"
    path.write_text(FILE.format(port=port))
    words = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')", "traps"]
    traps = Program([*words, "--file", str(path), "--state", str(helen.state)], folder / "traps.log")
    try:
        wait_until(lambda: f"listening on 127.0.0.1:{port}" in traps.said, "a listener", SECONDS)
        yield Scene(helen, traps, port, folder)
    finally:
        traps.end()
        helen.end()


def test_traps_of_all_versions(scene: Scene) -> None:
    """States go down and up again by version 2c and by 3 with each cipher; version 1 says that the
    device has started.
    """
    ways = [["-v", "2c", "-c", "public"], secure("sha-aes", "SHA", "AES", "one"),
            secure("sha512-aes256", "SHA-512", "AES-256", "two"), secure("md5-des", "MD5", "DES", "three")]  # fmt: skip
    for index, how in enumerate(ways):
        scene.link("snmptrap", DOWN, index, *how)
        scene.becomes(f"link-{index}", "critical")
    for index, how in enumerate(ways):
        scene.link("snmptrap", UP, index, *how)
        scene.becomes(f"link-{index}", "ok")
    scene.send("snmptrap", "-v", "1", "-c", "public", f"127.0.0.1:{scene.port}", "", "192.0.2.9", "0", "0", "")
    scene.becomes("started", "warning")


@pytest.mark.parametrize("index", [10, 11])
def test_informs_are_confirmed(scene: Scene, index: int) -> None:
    """An inform of version 2c is confirmed, and one of 3, whose sender finds the receiver; Helen has the
    state by then.
    """
    how = ["-v", "2c", "-c", "public"] if index == 10 else secure("sha512-aes256", "SHA-512", "AES-256", "two")
    scene.link("snmpinform", DOWN, index, *how, "-t", "10", "-r", "1")
    scene.becomes(f"link-{index}", "critical")
    shown = CliRunner().invoke(main, ["status", f"switch-1/link-{index}", "--state", str(scene.helen.state)]).output
    assert f"Gi1/0/{index} is down" in shown


def test_what_nobody_declares(scene: Scene) -> None:
    """An inform of an undeclared sender or with a wrong password is never confirmed, and the reason is told."""
    once = ["-t", "1", "-r", "0"]
    where = f"127.0.0.1:{scene.port}"
    scene.send("snmpinform", "-v", "2c", "-c", "public", *once, where, "", "1.3.6.1.6.3.1.1.5.5", fails=True)
    wrong = secure("sha-aes", "SHA", "AES", "two")
    scene.link("snmpinform", DOWN, 12, *wrong, *once, fails=True)
    scene.link("snmptrap", DOWN, 12, "-v", "2c", "-c", "private")
    scene.link("snmptrap", DOWN, 13, "-v", "2c", "-c", "public")
    scene.becomes("link-13", "critical")
    assert scene.state("link-12") is None


def test_another_file_and_the_end(scene: Scene) -> None:
    """A fault in the file changes nothing at SIGHUP, and a good file counts at once. SIGTERM ends it. (The last test
    here.)
    """
    path = scene.folder / "traps.toml"
    path.write_text("listne = 5")
    scene.traps.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the file stays as it was" in scene.traps.said, "a fault", SECONDS)
    scene.link("snmptrap", DOWN, 20, "-v", "2c", "-c", "public")
    scene.becomes("link-20", "critical")
    path.write_text(FILE.format(port=scene.port).replace('"public"', '"changed"'))
    scene.traps.process.send_signal(signal.SIGHUP)
    wait_until(lambda: f"read {path} anew" in scene.traps.said, "another file", SECONDS)
    scene.link("snmptrap", UP, 20, "-v", "2c", "-c", "changed")
    scene.becomes("link-20", "ok")
    scene.link("snmptrap", DOWN, 20, *secure("sha-aes", "SHA", "AES", "one"))
    scene.becomes("link-20", "critical")
    scene.traps.process.send_signal(signal.SIGTERM)
    assert scene.traps.process.wait(SECONDS) == 0
    kept = json.loads((scene.helen.state / "traps.senders").read_text())
    assert {engine[:10] for engine, _, _ in kept} == {"80001f8880"}  # Net-SNMP's, with something of chance behind it
    told: Any = scene.traps.said
    assert " taken" in told
    assert "not taken by Helen (switch-1/nobody declares it" in told
