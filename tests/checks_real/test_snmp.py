"""Test Net-SNMP's snmpd: each proof and cipher that it has, a switch of 48 ports, refusals, and a stopped device."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from attrs import frozen
from ports import free_port
from servers import Home, Server, program

if TYPE_CHECKING:
    from conftest import Check

USERS = {  # by the arguments: what snmpd calls the same
    ("md5", "des"): "MD5 {} DES {}",
    ("sha", "aes"): "SHA {} AES {}",
    ("sha224", "aes"): "SHA-224 {} AES {}",
    ("sha256", "aes192"): "SHA-256 {} AES-192 {}",
    ("sha384", "aes256"): "SHA-384 {} AES-256 {}",
    ("sha512", "aes"): "SHA-512 {} AES {}",
    ("sha", "aes256"): "SHA {} AES-256 {}",
}
PORTS = 48
# Tells snmpd (PING, get and getnext on standard input) what the lines below its end say: OID, type, value. Perl, since
# each Debian has it: the user that runs snmpd can't reach the Python of each developer.
TABLES = """#!/usr/bin/perl
use strict;
sub key { join ".", map { sprintf "%010d", $_ } grep { length } split /\\./, shift }
my (%said, @order);
while (<DATA>) { my ($oid, @said) = split " ", $_, 3; $said{key($oid)} = join "\\n", ".$oid", @said; }
@order = sort keys %said;
$| = 1;
while (my $word = <STDIN>) {
  chomp $word;
  if ($word eq "PING") { print "PONG\\n"; next; }
  my $asked = key(scalar <STDIN> =~ s/\\s//gr);
  my ($found) = $word eq "get" ? $asked : grep { $_ gt $asked } @order;
  print defined $found && $said{$found} || "NONE\\n";
}
__DATA__
"""


def tables() -> str:
    """Return the interfaces of a switch as a script for snmpd."""
    plain, wide, lines = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1", []
    for port in range(1, PORTS + 1):
        columns = {
            f"{plain}.7": "integer 1", f"{plain}.8": f"integer {2 if port == 13 else 1}",
            **{f"{plain}.{number}": f"counter {port}" for number in (13, 14, 19, 20)},
            f"{wide}.1": f"string Gi1/0/{port}", f"{wide}.6": f"counter64 {10**14 + port}",
            f"{wide}.10": f"counter64 {2 * 10**14 + port}", f"{wide}.15": "gauge 1000",
            f"{wide}.18": f"string room {port} by the window", f"{wide}.19": "timeticks 0",
        }  # fmt: skip
        lines += [f"{column}.{10_100 + port} {said}\n" for column, said in columns.items()]
    return TABLES + "".join(lines)


@frozen
class Up:
    """Hold a device that runs, and its port."""

    server: Server
    port: int


def password(kind: str, auth: str, privacy: str) -> str:
    return f"{kind} of {auth} and {privacy}"


def user(auth: str, privacy: str) -> str:
    return f"{auth}-{privacy}"


def quoted(text: str) -> str:
    return f'"{text}"'


@pytest.fixture(scope="module")
def up(home: Home) -> Up:
    """Start a snmpd as a user, with the tables of a switch instead of this machine's."""
    folder, port = home.folder("snmpd"), free_port(socket.SOCK_DGRAM)
    script = home.write(folder / "tables", tables(), 0o755)
    lines = [f"agentAddress udp:127.0.0.1:{port}", "rocommunity seven-words 127.0.0.1", "sysName switch-7"]
    lines += [f"pass_persist .1.3.6.1.2.1.2.2.1 {script}", f"pass_persist .1.3.6.1.2.1.31.1.1.1 {script}"]
    for (auth, privacy), words in USERS.items():
        secrets = (quoted(password(kind, auth, privacy)) for kind in ("proof", "cipher"))
        lines.append(f"createUser {user(auth, privacy)} {words.format(*secrets)}")
        lines.append(f"rouser {user(auth, privacy)} authpriv")
    settings = home.write(folder / "snmpd.conf", "\n".join([*lines, ""]))
    without = "-ifTable,ifXTable,interface,smux"
    command = ["/usr/bin/env", f"SNMP_PERSISTENT_DIR={folder}", "MIBS=", program("snmpd", "snmpd"), "-f", "-Lo", "-C",
               "-c", str(settings), "-I", without, "-p", str(folder / "pid")]  # fmt: skip
    server = home.start(*command, folder=folder)
    return Up(server.until(lambda: "NET-SNMP version" in server.said), port)


def secure(up: Up, auth: str, privacy: str) -> dict[str, Any]:
    """Return the arguments for a user with these algorithms."""
    own = {"version": "3", "user": user(auth, privacy), "auth": auth, "privacy": privacy}
    proof, cipher = (password(kind, auth, privacy) for kind in ("proof", "cipher"))
    return own | {"host": "127.0.0.1", "port": up.port, "auth_password": proof, "privacy_password": cipher}


@pytest.fixture(scope="module")
def check(checking: Any) -> Check:
    return checking(secrets={"device": "seven-words"})


def test_a_switch(up: Up, check: Check) -> None:
    """A switch with 48 ports is read by version 2c, with its community as a secret, and by version 1."""
    where = {"host": "127.0.0.1", "port": up.port, "community": {"secret": "device"}}
    found = check("snmp_interfaces", **where)
    assert (found.status, found.summary) == ("ok", "47 of 48 interfaces up"), found
    assert found.metrics["received{interface=Gi1/0/48}"] == 10**14 + 48
    assert found.metrics["up{interface=Gi1/0/13}"] == 0
    found = check("snmp_interfaces", **where, up=["Gi1/0/1*"])
    assert (found.status, found.summary) == ("critical", "Gi1/0/13 is down; 47 of 48 interfaces up"), found
    found = check("snmp_value", **where, oid="IF-MIB::ifAlias", each=True, expect=["room *"], version="1")
    assert (found.status, found.summary) == ("ok", "48 values"), found


@pytest.mark.parametrize(("auth", "privacy"), list(USERS))
def test_proofs_and_ciphers(up: Up, check: Check, auth: str, privacy: str) -> None:
    """Each proof and cipher of snmpd is accepted, and a wrong password for it is critical."""
    args = secure(up, auth, privacy)
    oid = "sysName"
    found = check("snmp_value", **args, oid=oid, expect=["switch-7"])
    assert (found.status, found.summary) == ("ok", "switch-7"), found
    found = check("snmp_value", **args | {"auth_password": "another password"}, oid=oid)
    assert (found.status, "does not accept the proof" in found.summary) == ("critical", True), found


def test_tables_that_are_encrypted(up: Up, check: Check) -> None:
    """The 48 ports are read encrypted, and a wrong password of the cipher gets no answer."""
    args = secure(up, "sha", "aes")
    found = check("snmp_interfaces", **args)
    assert (found.status, found.summary) == ("ok", "47 of 48 interfaces up"), found
    wrong = args | {"privacy_password": "another password", "wait": "200ms", "retries": 0}
    found = check("snmp_interfaces", **wrong)
    assert (found.status, found.summary.endswith("another privacy_password")) == ("critical", True), found


def test_the_device_itself(up: Up, check: Check) -> None:
    """The device gives its name, its uptime and the memory of this machine."""
    calm = dict.fromkeys(("uptime_warn", "cpu_warn", "storage_warn", "storage_crit"), "0:")
    found = check("snmp_device", host="127.0.0.1", port=up.port, community="seven-words", **calm)
    assert (found.status, found.summary.startswith("switch-7: up for ")) == ("ok", True), found
    assert 0 < found.metrics["uptime"] < 3600
    assert 0 < found.metrics["memory_used{memory=Physical memory}"] <= 100


def test_another_community(up: Up, check: Check) -> None:
    """A device with another community does not answer, and the summary hints at it."""
    found = check("snmp_value", host="127.0.0.1", port=up.port, oid="1.3.6.1.2.1.1.5.0", wait="200ms", retries=1)
    assert (found.status, found.summary) == (
        "critical",
        f"127.0.0.1:{up.port} did not answer within 0.2 s, asked 2 times; nor does a device that has another community",
    )


def test_when_it_has_stopped(up: Up, check: Check) -> None:
    """A stopped server is critical; this test is the last one here, because it ends the server."""
    up.server.stop()
    found = check("snmp_device", host="127.0.0.1", port=up.port)
    assert (found.status, found.metrics) == ("critical", {}), found
