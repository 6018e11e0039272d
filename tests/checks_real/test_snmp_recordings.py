"""Test checks against recordings of a switch with 48 ports and of a Windows server, played by snmpsim in versions 1, 2c
and 3.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import frozen
from servers import Home

if TYPE_CHECKING:
    from conftest import Check

RECORDINGS = Path(__file__).parent / "recordings"
SWITCH, WINDOWS = "switch-of-48-ports", "windows-server"  # communities of versions 1 and 2c, and contexts of version 3
SECURE = {"version": "3", "user": "watch", "auth": "sha256", "auth_password": "proof of watch", "privacy": "aes",
          "privacy_password": "cipher of watch"}  # fmt: skip
MOST_DATAGRAMS, MOST_BYTES = 12, 1_472  # of one look at 48 ports, and of each
ONCE = {"wait": "20s", "retries": 0}  # nothing is asked again on a busy machine, where an answer may be late


class Relay:
    """Passes datagrams on to the simulator, and keeps the sizes of its answers in bytes: its log has lines by rows."""

    def __init__(self, port: int) -> None:
        self.sizes: list[int] = []
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self._back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._back.connect(("127.0.0.1", port))
        self.port = int(self._front.getsockname()[1])
        self._asker = ("127.0.0.1", 0)
        for run in (self._ask, self._answer):
            threading.Thread(target=run, daemon=True).start()

    def _ask(self) -> None:
        while (asked := self._front.recvfrom(65_535))[0]:
            self._asker = asked[1]
            self._back.send(asked[0])

    def _answer(self) -> None:
        while answer := self._back.recv(65_535):
            self.sizes.append(len(answer))
            self._front.sendto(answer, self._asker)


@frozen
class Player:
    """Run the simulator behind a relay that counts the bytes that it sends."""

    relay: Relay

    def where(self, recording: str, version: str) -> dict[str, Any]:
        """Return the arguments of a check that asks the device of a recording by a version."""
        own = {"context": recording, **SECURE} if version == "3" else {"version": version, "community": recording}
        return {"host": "127.0.0.1", "port": self.relay.port, **own}


@pytest.fixture(scope="module")
def player(home: Home) -> Player:
    """Start the simulator as the user of the tests, because another user may not be able to read this Python's
    modules.
    """
    folder = home.folder("snmpsim")
    words = [sys.executable, "-c", "from snmpsim.commands.responder import main; main()", "--logging-method=stdout",
             f"--cache-dir={folder}", "--v3-engine-id=auto", f"--data-dir={RECORDINGS}", f"--v3-user={SECURE['user']}",
             f"--v3-auth-key={SECURE['auth_password']}", "--v3-auth-proto=SHA256",
             f"--v3-priv-key={SECURE['privacy_password']}", "--v3-priv-proto=AES",
             "--agent-udpv4-endpoint=127.0.0.1:0"]  # fmt: skip
    own: dict[str, Any] = {}
    if os.geteuid() == 0:  # it asks to be told whom it becomes
        words += [f"--process-user={pwd.getpwuid(0).pw_name}", f"--process-group={grp.getgrgid(0).gr_name}"]
        own = {"user": 0, "group": 0}
    server = home.start(*words, folder=folder, **own)
    server.until(lambda: udp_port(server.process.pid))
    return Player(Relay(udp_port(server.process.pid)))


def udp_port(pid: int) -> int:
    """Return the port of a process that listens where the kernel chose, or 0 while there is none.

    A free port that is told to the simulator may be another one's by then: it says that it listens, and doesn't.
    """
    own = set[str]()
    with suppress(OSError):  # a descriptor is closed meanwhile, or the process has ended
        own = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[9]}]" in own:
            return int(fields[1].partition(":")[2], 16)
    return 0


@pytest.fixture(scope="module")
def check(checking: Any) -> Check:
    made: Check = checking()
    return made


@pytest.mark.parametrize("version", ["2c", "3"])
def test_48_ports_of_a_recorded_switch(player: Player, check: Check, version: str) -> None:
    """48 ports of a recorded switch take at most a dozen datagrams, each small enough for one piece, and have 64-bit
    counters.
    """
    player.relay.sizes.clear()
    found = check("snmp_interfaces", **player.where(SWITCH, version) | ONCE)
    assert (found.status, found.summary) == ("ok", "4 of 48 interfaces up"), found
    assert len([name for name in found.metrics if name.startswith("up{")]) == 48
    assert found.metrics["received{interface=Gi0/51}"] == 1179783651924
    assert 0 < len(player.relay.sizes) <= MOST_DATAGRAMS
    assert max(player.relay.sizes) <= MOST_BYTES


def test_the_same_by_version_1(player: Player, check: Check) -> None:
    """The ports of the switch are the same by version 1, with one row in a datagram."""
    found = check("snmp_interfaces", **player.where(SWITCH, "1"))
    assert (found.status, found.summary) == ("ok", "4 of 48 interfaces up"), found
    assert sum(value for name, value in found.metrics.items() if name.startswith("up{")) == 4


@pytest.mark.parametrize("version", ["1", "2c", "3"])
def test_services_of_a_recorded_windows_server(player: Player, check: Check, version: str) -> None:
    """Services of a recorded Windows server run, one that is not in the table does not, and one that must not run is
    critical.
    """
    where = player.where(WINDOWS, version)
    found = check("snmp_services", **where, running=["DHCP Server", "Windows *", "Remote Procedure Call (RPC)"])
    assert (found.status, found.summary) == ("ok", "49 services run"), found
    assert found.metrics["running{service=Windows Time}"] == 1 and found.metrics["services"] == 49
    found = check("snmp_services", **where, running=["Exchange *"], stopped=["DHCP Ser*"])
    assert (found.status, found.summary) == (
        "critical", "Exchange * does not run, DHCP Server runs and must not; 49 services run"
    ), found  # fmt: skip
    found = check("snmp_services", **player.where(SWITCH, version))
    assert (found.status, "tells no services" in found.summary) == ("unknown", True), found


def test_what_it_refuses(player: Player, check: Check) -> None:
    """Another community gets no answer, and a wrong proof is reported as such."""
    quick = {"wait": "200ms", "retries": 0}
    found = check("snmp_services", **player.where("nobody", "2c") | quick)
    assert (found.status, found.summary.endswith("another community")) == ("critical", True), found
    found = check("snmp_services", **player.where(WINDOWS, "3") | {"auth_password": "another password"})
    assert (found.status, "does not accept the proof" in found.summary) == ("critical", True), found
