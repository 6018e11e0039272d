"""Test chasquid, OpenSSH, dnsmasq and chrony: they greet, answer and know the time, or the check says what is wrong."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from conftest import Check
from ports import free_port
from servers import Home, Server, certificate, program

import helen_checks


@frozen
class Up:
    """Hold a server that runs, and its port and certificate."""

    server: Server
    port: int
    ca: str = ""  # what makes its certificate a good one


def chasquid(home: Home) -> Up:
    """Start a mail server that replaces no other one where it is installed."""
    folder, port = home.folder("chasquid"), free_port()
    for name in ("certs", "certs/mail.example.test", "domains", "domains/example.test", "data"):
        home.folder(f"chasquid/{name}")
    made, key = certificate(days=10)
    home.write(folder / "certs/mail.example.test/fullchain.pem", made.decode())
    home.write(folder / "certs/mail.example.test/privkey.pem", key.decode())
    lines = ['hostname: "mail.example.test"', f'smtp_address: "127.0.0.1:{port}"', 'submission_address: "127.0.0.1:0"',
             f'data_dir: "{folder}/data"', 'mail_log_path: "<stderr>"', ""]  # fmt: skip
    home.write(folder / "chasquid.conf", "\n".join(lines))
    server = home.start(program("chasquid", "chasquid"), f"-config_dir={folder}", folder=folder)
    return Up(server.listening(port), port, made.decode())


def sshd(home: Home) -> Up:
    folder, port = home.folder("sshd"), free_port()
    key = folder / "key"
    home.run(program("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-f", key, folder=folder)
    settings = home.write(
        folder / "sshd.conf", f"ListenAddress 127.0.0.1:{port}\nHostKey {key}\nPidFile {folder}/pid\nUsePAM no\n"
    )
    server = home.start(program("sshd", "openssh-server"), "-D", "-e", "-f", settings, folder=folder)
    return Up(server.listening(port), port)


def dnsmasq(home: Home) -> Up:
    folder, port = home.folder("dnsmasq"), free_port()
    records = [*(f"--host-record=web.example.test,{address}" for address in ("192.0.2.7", "192.0.2.8", "2001:db8::7")),
               "--mx-host=example.test,mail.example.test,10", "--txt-record=example.test,v=spf1 -all",
               "--cname=www.example.test,web.example.test", "--local=/example.test/"]  # fmt: skip
    server = home.start(
        program("dnsmasq", "dnsmasq-base"), "--keep-in-foreground", "--conf-file=/dev/null", f"--port={port}",
        "--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts", f"--pid-file={folder}/pid",
        "--user=", *records, folder=folder,
    )  # fmt: skip
    return Up(server.listening(port), port)


def _chrony(home: Home, name: str, *lines: str) -> Up:
    folder, port = home.folder(name), free_port(socket.SOCK_DGRAM)
    own = [f"port {port}", "bindaddress 127.0.0.1", "allow 127.0.0.1", "cmdport 0", "bindcmdaddress /"]
    settings = home.write(folder / "chrony.conf", "\n".join([*own, f"pidfile {folder}/pid", *lines, ""]))
    server = home.start(program("chronyd", "chrony"), "-x", "-U", "-d", "-f", settings, folder=folder)
    return Up(server.until(lambda: "chronyd version" in server.said), port)


def chrony(home: Home) -> Up:
    """Start a time server that trusts its own clock."""
    return _chrony(home, "chrony", "local stratum 3")


def lost(home: Home) -> Up:
    """Start a time server without any source."""
    return _chrony(home, "lost")


@pytest.fixture(scope="module")
def up(home: Home) -> dict[str, Up]:
    """Start all servers side by side, and return them by name."""
    makers = (chasquid, sshd, dnsmasq, chrony, lost)
    with ThreadPoolExecutor(len(makers)) as pool:
        started = {maker.__name__: pool.submit(maker, home) for maker in makers}
        return {name: one.result() for name, one in started.items()}


@pytest.fixture(scope="module")
def check(checking: Any) -> Check:
    return checking()


def test_a_mail_server(up: dict[str, Up], check: Check) -> None:
    """The mail server greets by its name and offers STARTTLS, and its certificate is judged; another server is
    critical.
    """
    where = {"host": "127.0.0.1", "port": up["chasquid"].port}
    found = check("smtp", starttls=True, **where)
    assert (found.status, found.summary.startswith("mail.example.test ESMTP chasquid")) == ("ok", True), found
    assert 0 < found.metrics[f"time{{host=127.0.0.1,port={where['port']}}}"] < 2
    assert check("smtp", warn="0:0", **where).status == "warning"
    found = check("tls_certificate", starttls="smtp", ca=up["chasquid"].ca, warn="9:", **where)
    assert found.status == "ok", found
    assert 9.9 < found.metrics[f"days_left{{host=127.0.0.1,port={where['port']}}}"] <= 10
    found = check("smtp", host="127.0.0.1", port=up["sshd"].port)
    assert (found.status, "is no ready mail server" in found.summary) == ("critical", True), found


def test_an_ssh_server(up: dict[str, Up], check: Check) -> None:
    """The SSH server has its version, and another version or another server is critical."""
    port = up["sshd"].port
    found = check("ssh_banner", host="127.0.0.1", port=port, expect="OpenSSH_")
    assert (found.status, found.summary.startswith("OpenSSH_")) == ("ok", True), found
    found = check("ssh_banner", host="127.0.0.1", port=port, expect="dropbear")
    assert (found.status, found.summary.endswith("not dropbear")) == ("critical", True), found
    found = check("ssh_banner", host="127.0.0.1", port=up["chasquid"].port)
    assert (found.status, "is no SSH server" in found.summary) == ("critical", True), found


def test_a_name_server(up: dict[str, Up], check: Check) -> None:
    """Addresses, mail servers and texts are compared as they were given, and a missing name is critical."""
    where = {"server": "127.0.0.1", "port": up["dnsmasq"].port}
    found = check("dns", name="web.example.test", expect=["192.0.2.7"], **where)
    assert found.status == "ok", found
    assert check("dns", name="web.example.test", type="AAAA", expect=["2001:db8::7"], **where).status == "ok"
    assert check("dns", name="example.test", type="MX", expect=["mail.example.test"], **where).status == "ok"
    found = check("dns", name="example.test", type="MX", expect=["10 Mail.Example.TEST."], exact=True, **where)
    assert found.status == "ok"
    assert check("dns", name="web.example.test", type="AAAA", expect=["2001:DB8:0::0007"], **where).status == "ok"
    assert check("dns", name="example.test", type="TXT", expect=["v=spf1 -all"], **where).status == "ok"
    assert check("dns", name="www.example.test", expect=["192.0.2.7"], **where).status == "ok"
    found = check("dns", name="web.example.test", expect=["192.0.2.9"], **where)
    assert found.status == "critical", found
    found = check("dns", name="nowhere.example.test", **where)
    assert (found.status, "NXDOMAIN" in found.summary) == ("critical", True), found


def test_a_time_server(up: dict[str, Up], check: Check) -> None:
    """A clock that is compared with itself is off by next to nothing, and a server without a source is reported."""
    port = up["chrony"].port
    found = check("ntp", host="127.0.0.1", port=port)
    assert found.status == "ok", found
    assert abs(found.metrics["offset{host=127.0.0.1}"]) < 0.1
    assert found.metrics["stratum{host=127.0.0.1}"] == 3
    assert 0 <= found.metrics["root_dispersion{host=127.0.0.1}"] < 1
    assert check("ntp", host="127.0.0.1", port=port, stratum_warn="1:2").status == "warning"
    found = check("clock", server="127.0.0.1", port=port)
    assert (found.status, found.metrics["stratum"]) == ("ok", 3), found
    found = check("ntp", host="127.0.0.1", port=up["lost"].port)
    assert (found.status, found.summary) == ("critical", "127.0.0.1 does not know the time itself")


def test_by_the_command(up: dict[str, Up], tmp_path: Path) -> None:
    """`equus run` prints what a plugin would, and exits with the state."""
    command = [sys.executable, "-c", "from equus.main import main; main(prog_name='equus')", "run", "ssh_banner",
               "--checks", helen_checks.FOLDER, "--args"]  # fmt: skip
    for port, status in ((up["sshd"].port, 0), (up["chasquid"].port, 2)):
        words = [*command, json.dumps({"host": "127.0.0.1", "port": port})]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done
        assert ("OpenSSH_" in done.stdout, "|" in done.stdout) == (status == 0, True)


def test_when_they_have_stopped(up: dict[str, Up], check: Check) -> None:
    """A stopped server is critical for each check; this test is the last one here, because it ends the servers."""
    for one in up.values():
        one.server.stop()
    for name, server in (("smtp", "chasquid"), ("ssh_banner", "sshd"), ("tcp", "sshd")):
        found = check(name, host="127.0.0.1", port=up[server].port)
        assert (found.status, found.summary) == ("critical", f"127.0.0.1:{up[server].port} refused the connection")
    found = check("ntp", host="127.0.0.1", port=up["chrony"].port)
    assert (found.status, found.metrics) == ("critical", {}), found
    found = check("dns", name="web.example.test", server="127.0.0.1", port=up["dnsmasq"].port)
    assert (found.status, found.metrics) == ("critical", {}), found
