"""Test IMAP and POP3 of Dovecot with a login, in plain text on this host and inside TLS, and refusals of wrong
passwords.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from attrs import frozen
from conftest import Check
from ports import free_port
from servers import Home, Server, certificate, program, user

PASSWORD = 'correct "horse" \\battery'
PORTS = ("imap", "imaps", "pop3", "pop3s")


@frozen
class Up:
    """Hold a server that runs, and its ports; `ca` is the authority of its certificate."""

    server: Server
    ports: dict[str, int]
    ca: str


def dovecot(home: Home) -> Up:
    """Start one with an account whose mailbox has two messages, one of them read."""
    folder, ports = home.folder("dovecot"), {name: free_port() for name in PORTS}
    made, key = certificate(days=10)
    home.write(folder / "tls.pem", made.decode())
    home.write(folder / "tls.key", key.decode())
    for name in ("mail", "mail/watch", "mail/watch/new", "mail/watch/cur", "mail/watch/tmp"):
        home.folder(f"dovecot/{name}")
    home.write(folder / "mail/watch/new/1700000000.1.host", "Subject: one\n\nHello\n")
    home.write(folder / "mail/watch/cur/1700000000.2.host:2,S", "Subject: two\n\nHello\n")
    who = user().get("user", os.getuid())
    home.write(
        folder / "accounts", f"watch:{{PLAIN}}{PASSWORD}:{who}:{user().get('group', os.getgid())}::{folder}/mail\n"
    )
    listeners = "".join(
        f"service {kind}-login {{\n  chroot =\n"
        f"  inet_listener {kind} {{\n    address = 127.0.0.1\n    port = {ports[kind]}\n  }}\n"
        f"  inet_listener {kind}s {{\n    address = 127.0.0.1\n    port = {ports[kind + 's']}\n    ssl = yes\n  }}\n"
        "}\n"
        for kind in ("imap", "pop3")
    )
    name = "nobody" if os.geteuid() == 0 else os.environ.get("USER", "nobody")
    settings = home.write(folder / "dovecot.conf", f"""
protocols = imap pop3
base_dir = {folder}/run
state_dir = {folder}/state
log_path = /dev/stderr
default_internal_user = {name}
default_login_user = {name}
default_internal_group = nogroup
first_valid_uid = 1
disable_plaintext_auth = no
ssl_cert = <{folder}/tls.pem
ssl_key = <{folder}/tls.key
mail_location = maildir:{folder}/mail/%u
service anvil {{
  chroot =
}}
{listeners}
passdb {{
  driver = passwd-file
  args = scheme=PLAIN {folder}/accounts
}}
userdb {{
  driver = passwd-file
  args = {folder}/accounts
}}
""")  # fmt: skip
    server = home.start(program("dovecot", "dovecot-imapd"), "-F", "-c", settings, folder=folder)
    for port in ports.values():
        server.listening(port)
    return Up(server, ports, made.decode())


@pytest.fixture(scope="module")
def up(home: Home) -> Up:
    """Return the server."""
    return dovecot(home)


@pytest.fixture(scope="module")
def check(up: Up, checking: Any) -> Check:
    """Return a sandbox that knows two passwords."""
    return checking((), {"good": PASSWORD, "bad": "another one"})


GOOD = {"user": "watch", "password": {"secret": "good"}}


def test_they_greet(up: Up, check: Check) -> None:
    """Without an account the greeting is ok, and that of another protocol is critical."""
    for kind in ("imap", "pop3"):
        found = check(kind, host="127.0.0.1", port=up.ports[kind])
        assert (found.status, found.summary.startswith("Dovecot")) == ("ok", True), found
    found = check("imap", host="127.0.0.1", port=up.ports["pop3"])
    assert (found.status, "is no ready IMAP server" in found.summary) == ("critical", True), found


@pytest.mark.parametrize(
    "how",
    [
        {"tls": "off"},
        {"tls": "on", "starttls": True},
        {"tls": "verify", "starttls": True, "host": "localhost"},
        {"tls": "verify", "host": "localhost"},
    ],
)
def test_a_login(up: Up, check: Check, how: dict[str, Any]) -> None:
    """Messages are counted after a login in plain text, with STARTTLS and with TLS."""
    for kind, fresh in (("imap", 1), ("pop3", None)):
        secure = how["tls"] != "off" and not how.get("starttls")
        port = up.ports[kind + "s" if secure else kind]
        found = check(kind, **({"host": "127.0.0.1", "port": port, "ca": up.ca} | how | GOOD))
        place = f"{{host={how.get('host', '127.0.0.1')},port={port}}}"
        assert (found.status, found.metrics["messages" + place]) == ("ok", 2), found
        assert found.metrics.get("unseen" + place) == fresh
        assert found.units["messages"] == "messages"


def test_what_is_refused(up: Up, check: Check) -> None:
    """A wrong password, a missing mailbox and an unknown certificate are critical."""
    wrong = {"user": "watch", "password": {"secret": "bad"}}
    found = check("imap", host="127.0.0.1", port=up.ports["imap"], mailbox="Old", **GOOD)
    assert (found.status, found.summary.startswith("the server refuses the mailbox Old: ")) == ("critical", True), found
    found = check("imap", host="localhost", port=up.ports["imaps"], tls="verify", **GOOD)
    assert (found.status, found.metrics) == ("critical", {}), found
    found = check("imap", host="127.0.0.1", port=up.ports["imap"], **wrong)
    assert (found.status, found.summary.startswith("the server refuses the login: ")) == ("critical", True), found


def test_when_it_has_stopped(up: Up, check: Check) -> None:
    """A stopped server is critical; this test is the last one here, because it ends the server."""
    up.server.stop()
    for kind in ("imap", "pop3"):
        found = check(kind, host="127.0.0.1", port=up.ports[kind])
        assert (found.status, found.summary) == ("critical", f"127.0.0.1:{up.ports[kind]} refused the connection")
