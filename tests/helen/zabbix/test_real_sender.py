"""Tests Debian's zabbix_sender, `helen zabbix`, and a real Helen; then senders that are none."""

from __future__ import annotations

import json
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
from helen_running import PATIENCE, Program, Running, wait_until
from ports import free_port
from servers import program

from helen.cli.main import main
from helen.cli.zabbix.packets import HEADER, packet

PASSIVE = """
[[check]]
host = "nas"
id = "raid-*"
[[check]]
host = "nas"
id = "backup"
"""
FILE = """
listen = ["127.0.0.1:{port}"]
a_minute = 100000
at_once = 100000
[[source]]
address = "127.0.0.1"
hosts = ["nas", "elsewhere"]
[[item]]
key = "raid.state"
check = "raid-{{1}}"
states = {{ "clean" = "ok", "*" = "critical" }}
[[item]]
key = "backup.age"
check = "backup"
warning = "90000"
unit = "s"
"""


@frozen
class Scene:
    """Runs a Helen, and the command that takes values for it."""

    helen: Running
    zabbix: Program
    port: int
    folder: Path

    def send(self, *words: str, given: str = "", status: int = 0) -> str:
        """Run zabbix_sender, and return what it prints."""
        command = [program("zabbix_sender", "zabbix-agent"), "-z", "127.0.0.1", "-p", str(self.port), "-vv", *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=2 * PATIENCE)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def state(self, check: str) -> dict[str, Any]:
        """Return the state of a check, once Helen has judged its result."""

        def look() -> Any:
            listed = self.helen.client.get("/api/v1/states?agent=nas")["states"]
            return next((each for each in listed if each["check_id"] == check), None)

        found: dict[str, Any] = wait_until(look, check)
        return found

    def becomes(self, check: str, status: str) -> None:
        wait_until(lambda: self.state(check)["status"] == status, f"{check} that is {status}")

    def talk(self, sent: bytes, ends: bool = False) -> Any:
        """Send bytes, and return the JSON of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as link:
            link.sendall(sent)
            if ends:
                link.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: link.recv(65_536), b""))
        return json.loads(said[HEADER.size :])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder, port = tmp_path_factory.mktemp("zabbix"), free_port()
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "passive.toml").write_text(PASSIVE)
    helen = Running(folder).up()
    path = folder / "zabbix.toml"
    path.write_text(FILE.format(port=port))
    words = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')", "zabbix"]
    zabbix = Program([*words, "--file", str(path), "--state", str(helen.state)], folder / "zabbix.log")
    wait_until(lambda: "listening on" in zabbix.said, "zabbix that listens")
    yield Scene(helen, zabbix, port, folder)
    zabbix.end()
    helen.end()


def test_a_value_becomes_a_state(scene: Scene) -> None:
    """A value by the command line becomes a state, then another one; a number is a figure of its result."""
    said = scene.send("-s", "nas", "-k", "raid.state[md0]", "-o", "degraded")
    assert "processed: 1; failed: 0; total: 1" in said
    scene.becomes("raid-md0", "critical")
    scene.send("-s", "nas", "-k", "raid.state[md0]", "-o", "clean")
    scene.becomes("raid-md0", "ok")
    scene.send("-s", "nas", "-k", "backup.age", "-o", "100000")
    scene.becomes("backup", "warning")
    [metric] = scene.helen.client.get("/api/v1/recent?agent=nas&check=backup")["results"][0]["metrics"]
    assert (metric["name"], metric["value"], metric["unit"], metric["warn"]) == ("backup.age", 100_000.0, "s", "90000")


def test_many_values_and_those_that_fail(scene: Scene) -> None:
    """More than 250 lines are two packets; a host of others, an unknown key and an undeclared host fail:
    exit status 2.
    """
    lines = [f"nas raid.state[s{number % 5}] clean" for number in range(300)]
    lines += ["db-9 raid.state[md0] clean", "nas cpu.load 5", "elsewhere raid.state[md0] clean"]
    said = scene.send("-i", "-", given="\n".join(lines) + "\n", status=2)
    assert "processed: 250; failed: 0; total: 250" in said
    assert "processed: 50; failed: 3; total: 53" in said
    scene.becomes("raid-s4", "ok")


def test_a_value_of_a_time_comes_twice(scene: Scene) -> None:
    """A value that comes twice is processed both times and is one result; one of long ago moves no state."""
    scene.send("-s", "nas", "-k", "raid.state[old]", "-o", "clean")
    scene.becomes("raid-old", "ok")
    for _ in range(2):
        assert "processed: 1; failed: 0" in scene.send("-T", "-i", "-", given="nas raid.state[old] 1500000000 failed\n")
    scene.send("-s", "nas", "-k", "raid.state[after]", "-o", "clean")
    scene.becomes("raid-after", "ok")
    assert scene.state("raid-old")["status"] == "ok"
    listed = scene.helen.client.get("/api/v1/recent?agent=nas&check=raid-old")["results"]
    assert [each["status"] for each in listed] == ["critical", "ok"]


@pytest.mark.parametrize(("sent", "ends", "said"), [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", False, "does not begin with ZBXD"),
    (b"ZBX", True, "ends after 3 of 13 bytes"),
    (b"ZBXD\x03" + b"\xff" * 8, False, "it is compressed"),
    (b"ZBXD\x01" + b"\xff" * 8, False, "says to have 4294967295"),
    (HEADER.pack(b"ZBXD", 1, 10, 0) + b"{", True, "ends after 1 of 10 bytes"),
    (HEADER.pack(b"ZBXD", 1, 4, 0) + b"\xff\x00{[", False, "can't be read"),
    (packet({"request": "active checks", "host": "nas"}), False, "no `sender data`"),
])  # fmt: skip
def test_what_is_no_sender_is_told_why(scene: Scene, sent: bytes, ends: bool, said: str) -> None:
    """A peer that is no sender is told why, and the next one is served."""
    answered = scene.talk(sent, ends)
    assert (answered["response"], said in answered["info"]) == ("failed", True), answered
    assert "processed: 0; failed: 0" in scene.talk(packet({"request": "sender data", "data": []}))["info"]


def test_helen_is_away(scene: Scene) -> None:
    """The sender exits with 1, and is to send again; a file with a fault changes nothing, and SIGTERM ends it."""
    nobody = scene.folder / "nobody"
    nobody.mkdir()
    port = free_port()
    path = scene.folder / "other.toml"
    path.write_text(FILE.format(port=port))
    words = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')", "zabbix"]
    other = Program([*words, "--file", str(path), "--state", str(nobody)], scene.folder / "other.log")
    try:
        wait_until(lambda: "listening on" in other.said, "zabbix that listens")
        there = Scene(scene.helen, other, port, scene.folder)
        said = there.send("-s", "nas", "-k", "raid.state[md0]", "-o", "clean", status=1)
        assert "Helen is away: send it again later" in said
        path.write_text("nonsense")
        other.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the file stays as it was" in other.said, "refusal of the file")
        other.process.send_signal(signal.SIGTERM)
        assert other.wait() == 0
        assert f"no Helen runs on {nobody}" in other.said
    finally:
        other.end()


def test_only_the_file(tmp_path: Path) -> None:
    """The option `--check` reads the file and ends, and asks no Helen: 0, or 2 with its faults. Without it one is
    needed.
    """
    path = tmp_path / "zabbix.toml"
    path.write_text(FILE.format(port=1))
    words = ["zabbix", "--file", str(path), "--check"]
    no_helen = {"HELEN_STATE": None, "HELEN_URL": None}
    done = CliRunner().invoke(main, words, env=no_helen)
    assert (done.exit_code, done.output) == (0, f"{path}: 1 source, 2 items\n")
    done = CliRunner().invoke(main, words[:-1], env=no_helen)
    assert (done.exit_code, "no Helen is named: give --state DIR" in done.output) == (2, True)
    path.write_text("a_minute = 0")
    done = CliRunner().invoke(main, words, env=no_helen)
    assert (done.exit_code, "a_minute is 0" in done.output) == (2, True)
