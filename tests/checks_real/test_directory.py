"""Test OpenLDAP: a login in plain text on this host and inside TLS, searches, and the refusal of a wrong password."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen
from conftest import Check
from ports import free_port
from servers import Home, Server, certificate, program

PASSWORD = "correct horse battery"
BASE = "dc=example,dc=org"
ENTRIES = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: cn=watch,{BASE}
objectClass: person
cn: watch
sn: watch
userPassword: {PASSWORD}

dn: cn=Ann (Sales),{BASE}
objectClass: person
cn: Ann (Sales)
sn: Ann
"""


@frozen
class Up:
    """Hold a server that runs, and its ports; `ca` is the authority of its certificate."""

    server: Server
    port: int
    tls: int
    ca: str


def slapd(home: Home) -> Up:
    """Start one with three entries."""
    folder, port, tls = home.folder("slapd"), free_port(), free_port()
    home.folder("slapd/data")
    made, key = certificate(days=10)
    home.write(folder / "tls.pem", made.decode())
    home.write(folder / "tls.key", key.decode())
    settings = home.write(folder / "slapd.conf", f"""
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
TLSCertificateFile {folder}/tls.pem
TLSCertificateKeyFile {folder}/tls.key
database mdb
suffix "{BASE}"
rootdn "cn=root,{BASE}"
directory {folder}/data
maxsize 1048576
dbnosync
""")  # fmt: skip
    entries = home.write(folder / "entries.ldif", ENTRIES)
    home.run(program("slapadd", "slapd"), "-q", "-f", settings, "-l", entries, folder=folder)
    urls = f"ldap://127.0.0.1:{port}/ ldaps://127.0.0.1:{tls}/"
    server = home.start(program("slapd", "slapd"), "-d", "0", "-f", settings, "-h", urls, folder=folder)
    return Up(server.listening(port).listening(tls), port, tls, made.decode())


@pytest.fixture(scope="module")
def up(home: Home) -> Up:
    """Return the server."""
    return slapd(home)


@pytest.fixture(scope="module")
def check(up: Up, checking: Any) -> Check:
    """Return a sandbox that knows two passwords."""
    return checking((), {"good": PASSWORD, "bad": "another one"})


GOOD = {"user": f"cn=watch,{BASE}", "password": {"secret": "good"}}


def test_it_answers(up: Up, check: Check) -> None:
    """The directory answers with its own entry, entries below a base, one by its name, or none, which is critical."""
    where = {"host": "127.0.0.1", "port": up.port}
    found = check("ldap", **where)
    assert (found.status, found.summary.startswith("it answers, in ")) == ("ok", True), found
    entries = f"entries{{host=127.0.0.1,port={up.port}}}"
    assert check("ldap", base=BASE, **where).metrics[entries] == 3
    assert check("ldap", base=BASE, filter="(objectClass=person)", **where).metrics[entries] == 2
    assert check("ldap", base=BASE, filter=r"(cn=Ann \28Sales\29)", **where).metrics[entries] == 1
    found = check("ldap", base=BASE, filter="(cn=Bob)", **where)
    assert (found.status, found.metrics[entries]) == ("critical", 0), found
    found = check("ldap", base="dc=elsewhere", **where)
    assert (found.status, found.summary) == ("critical", "the server refuses the search: there is no such entry"), found


@pytest.mark.parametrize(
    "how", [{"tls": "off"}, {"tls": "on", "starttls": True}, {"tls": "verify", "host": "localhost"}]
)
def test_a_login(up: Up, check: Check, how: dict[str, Any]) -> None:
    """A good password logs in and a wrong one is refused, in plain text, with STARTTLS and with TLS."""
    port = up.tls if how["tls"] == "verify" else up.port
    words = {"host": "127.0.0.1", "port": port, "ca": up.ca, "base": BASE} | GOOD | how
    found = check("ldap", **words)
    assert (found.status, found.summary.startswith(f"logged in, 3 entries below {BASE}")) == ("ok", True), found
    found = check("ldap", **words | {"password": {"secret": "bad"}})
    assert (found.status, found.metrics) == ("critical", {}), found
    assert found.summary == "the server refuses the login: name or password are wrong"


def test_when_it_has_stopped(up: Up, check: Check) -> None:
    """A stopped server is critical; this test is the last one here, because it ends the server."""
    up.server.stop()
    found = check("ldap", host="127.0.0.1", port=up.port)
    assert (found.status, found.summary) == ("critical", f"127.0.0.1:{up.port} refused the connection")
