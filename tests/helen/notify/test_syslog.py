"""Tests the channel `syslog`: its lines by RFC 5424, and what a log server gets of them over each way."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import telling
from attrs import evolve
from authorities import an_authority
from hypothesis import given
from hypothesis import strategies as st
from telling import WALL, Pump, alert

from helen.notify.channels.channel import Channel
from helen.notify.channels.syslog import Syslog
from helen.notify.config import NotificationsError, read
from helen.notify.messages import Message
from helen.notify.sending import send
from helen.notify.syslog_lines import MAX_DATAGRAM, MAX_MESSAGE, framed, line

FIRES = evolve(alert("db-1/disk"), owner='the "storage" team]', runbook="https://wiki/\\disk")
# The grammar of RFC 5424, section 6, for one element.
GRAMMAR = re.compile(
    rb"<([1-9][0-9]{0,2}|0)>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128})"
    rb' ([!-~]{1,32}) \[([!#-<>-\\^-~]{1,32})((?: [!#-<>-\\^-~]{1,32}="(?:[^"\\\]]|\\["\\\]])*")*)\](?: (.*))?',
    re.DOTALL,
)


def fields(message: bytes) -> dict[str, str]:
    """Return the fields of a line that follows the grammar, without their escapes."""
    found = GRAMMAR.fullmatch(message)
    assert found, message
    pairs = re.findall(rb' ([^ =]+)="((?:[^"\\\]]|\\.)*)"', found[8])
    return {name.decode(): re.sub(r"\\(.)", r"\1", value.decode()) for name, value in pairs}


def test_a_line() -> None:
    """A line has all its parts, and escapes what would end a field."""
    assert line(FIRES, True, "daemon", "helen-1", 42) == (
        b"<26>1 2027-01-15T08:00:00.000Z helen-1 helen 42 PROBLEM "
        b'[helen@32473 agent="db-1" check="disk" status="critical" what="problem" why="so it is"'
        b' began="2027-01-15T08:00:00.000Z" owner="the \\"storage\\" team\\]" runbook="https://wiki/\\\\disk"]'
        b" db-1/disk CRITICAL: words"
    )
    assert fields(line(FIRES, True, "daemon", "h", 1))["owner"] == 'the "storage" team]'


@pytest.mark.parametrize(
    ("facility", "status", "fires", "priority"),
    [
        ("kern", "critical", True, 2), ("daemon", "warning", True, 28), ("local7", "unknown", True, 187),
        ("local0", "stale", True, 131), ("local0", "ok", False, 133), ("user", "critical", False, 13),
        ("cron", "ok", True, 77),
    ],
)  # fmt: skip
def test_priorities(facility: str, status: str, fires: bool, priority: int) -> None:
    """A priority is the facility times eight, plus crit, err or warning; the end of a problem is a notice."""
    message = line(evolve(FIRES, status=status), fires, facility, "h", 1)
    assert message.startswith(b"<%d>1 " % priority)
    assert (b" RECOVERY [" in message, b" PROBLEM [" in message) == (not fires, fires)


TEXT = (
    st.text(max_size=50) | st.text('"\\]\n\x1b\u2028', max_size=600) | st.text("\N{PILE OF POO}\ud800", max_size=3_000)
)


@given(summary=TEXT, why=TEXT, owner=TEXT, runbook=TEXT, host=TEXT, most=st.sampled_from([MAX_MESSAGE, MAX_DATAGRAM]))
def test_any_text_makes_a_sound_line(summary: str, why: str, owner: str, runbook: str, host: str, most: int) -> None:
    """Any text makes one line of UTF-8 within its length, by the grammar, with all fields that are not empty."""
    hostile = evolve(FIRES, summary=summary, why=why, owner=owner, runbook=runbook)
    message = line(hostile, True, "daemon", host, 1, most)
    assert len(message) <= most
    assert message.decode().isprintable()
    found = fields(message)
    assert (found["agent"], found["check"]) == ("db-1", "disk")
    assert set(found) == {"agent", "check", "status", "what", "began"} | {
        name for name, text in (("why", why), ("owner", owner), ("runbook", runbook)) if text
    }


# ---------------------------------------------------------------------------------------------- over the wire


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    monkeypatch.setattr("helen.notify.channels.syslog.os.getpid", lambda: 42)
    monkeypatch.setattr("helen.notify.channels.syslog.socket.gethostname", lambda: "helen-1")


OVER = evolve(alert("db-1/load", "recovery", "ok"), summary="fine")


def told(pump: Pump, via: Syslog, timeout: float = 20.0, fresh: frozenset[str] = frozenset()) -> str:
    return telling.told(pump, via, Message("id1", "g", "x", "r", {}, WALL, (FIRES, OVER), fresh), timeout)


class LogServer:
    """Takes one connection after the other; `got` is what came over each that has ended."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.got: list[bytes] = []
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.news = threading.Semaphore(0)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                if self._context is not None:
                    connection = self._context.wrap_socket(connection, server_side=True)
                with connection, connection.makefile("rb") as stream:
                    self.got.append(stream.read())
                    if isinstance(connection, ssl.SSLSocket):
                        connection.unwrap()  # RFC 5425, 4.4: it answers the end with its own
                self.news.release()

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(20.0)


@pytest.fixture
def server() -> Iterator[LogServer]:
    server = LogServer()
    yield server
    server.end()


BOTH = [line(FIRES, True, "daemon", "helen-1", 42), line(OVER, False, "daemon", "helen-1", 42)]


def test_over_tcp(pump: Pump, server: LogServer) -> None:
    """A message over TCP has its length; a change sends only the alerts that have changed."""
    via = Syslog("tcp", "127.0.0.1", server.port)
    assert told(pump, via) == "ok 2 sent over tcp"
    assert told(pump, via, fresh=frozenset((OVER.key,))) == "ok 1 sent over tcp"
    for _ in range(2):
        assert server.news.acquire(timeout=30.0)
    assert server.got == [b"".join(map(framed, BOTH)), framed(BOTH[1])]
    assert framed(BOTH[1]).startswith(b"%d <29>1 " % len(BOTH[1]))


def test_over_tls(pump: Pump, tmp_path: Path) -> None:
    """A server whose certificate is unknown is told nothing."""
    ca, both = an_authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server = LogServer(context)
    try:
        via = Syslog("tls", "127.0.0.1", server.port, ca=str(ca))
        assert told(pump, via) == "ok 2 sent over tls"
        assert server.news.acquire(timeout=30.0)
        assert server.got == [b"".join(map(framed, BOTH))]
        said = told(pump, evolve(via, ca=None))
        assert said.startswith(f"failed no connection to 127.0.0.1 port {server.port}: ") and "verify failed" in said
        assert told(pump, evolve(via, ca="/nowhere")).startswith("failed the authority /nowhere can't be read")
        (tmp_path / "no.pem").write_text("no certificate")
        assert told(pump, evolve(via, ca=str(tmp_path / "no.pem"))).startswith("failed the authority ")
        assert len(server.got) == 1
    finally:
        server.end()


def test_as_datagrams(pump: Pump, tmp_path: Path) -> None:
    """A datagram goes by UDP and to a socket of this machine; nobody is told whether it arrived, and we say so."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unix,
    ):
        udp.bind(("127.0.0.1", 0))
        unix.bind(str(tmp_path / "log"))
        for way, via in (
            (udp, Syslog("udp", "127.0.0.1", udp.getsockname()[1])), (unix, Syslog("unix", str(tmp_path / "log"))),
        ):  # fmt: skip
            way.settimeout(30.0)
            assert told(pump, via) == f"ok 2 sent; {via.via} tells nobody whether they arrived"
            assert [way.recv(65_536) for _ in range(2)] == BOTH


def test_nobody_there(pump: Pump, tmp_path: Path) -> None:
    """A server that is not there gives a sentence, and the message is tried again later."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    said = told(pump, Syslog("tcp", "127.0.0.1", port))
    assert said.startswith(f"failed no connection to 127.0.0.1 port {port}: ") and "refused" in said
    said = told(pump, Syslog("unix", str(tmp_path / "none")))
    assert said == f"failed {tmp_path / 'none'} can't be sent to: [Errno 2] No such file or directory"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection, reads and says nothing
        tls = Syslog("tls", "127.0.0.1", silent.getsockname()[1])
        assert told(pump, tls, 1.0) == "failed not handed over within 1 s"


# ---------------------------------------------------------------------------------------------- its settings


def test_its_settings() -> None:
    """An address may have a port or not, and IPv6 stands in brackets."""
    text = "".join(
        f'[channels.c{number}]\ntype = "syslog"\nto = "{to}"\n'
        for number, to in enumerate(("udp://logs", "tcp://logs:6601", "tls://[2001:db8::1]", "unix:/dev/log"))
    )
    found = [each.settings for each in read(text).channels.values()]
    assert found == [
        Syslog("udp", "logs", 514), Syslog("tcp", "logs", 6601), Syslog("tls", "2001:db8::1", 6514),
        Syslog("unix", "/dev/log"),
    ]  # fmt: skip
    assert [each.show()["url"] for each in found] == [
        "udp://logs:514", "tcp://logs:6601", "tls://[2001:db8::1]:6514", "unix:/dev/log",
    ]  # fmt: skip
    (one,) = read('[channels.c]\ntype="syslog"\nto="tls://x"\nfacility="local3"\nca="/ca.pem"\n').channels.values()
    assert one.settings.show() == {"url": "tls://x:6514", "facility": "local3", "ca": "/ca.pem"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'to is missing: write "udp://HOST[:514]"'),
        ('to="logs"', "to is 'logs'"),
        ('to="tcp://logs:0"', "to is 'tcp://logs:0'"),
        ('to="tcp://logs:65536"', "to is 'tcp://logs:65536'"),
        ('to="tcp://user@logs"', "to is 'tcp://user@logs'"),
        ('to="unix:dev/log"', "to is 'unix:dev/log'"),
        ('to="udp://x"\nfacility="local9"', "facility is 'local9'"),
        ('to="udp://x"\nca="/x"', "ca is for tls://, and to is udp://x"),
    ],
)
def test_faults_of_its_settings(text: str, fault: str) -> None:
    """A fault of a setting is told with what to write instead."""
    with pytest.raises(NotificationsError) as caught:
        read(f'[channels.c]\ntype="syslog"\n{text}\n')
    assert fault in str(caught.value)


def test_a_host_that_no_certificate_names(pump: Pump) -> None:
    """A host name with a label of more than 63 characters gives a sentence, not an error of another library's."""
    long = "x" * 80
    assert told(pump, Syslog("tls", long, 6514)).startswith(f"failed {long} is no name that a certificate can have")


def test_what_has_not_changed_is_not_sent(pump: Any) -> None:
    """An alert that came along for the text of others is not sent."""
    given = Message("id1", "g", "x", "r", {}, WALL, (FIRES,), frozenset(("other/check",)))
    found = pump.run(send(pump.reactor, Channel("x", Syslog("udp", "127.0.0.1", 9), 5.0), given, ""))
    assert found.text == "0 sent; udp tells nobody whether they arrived"
