"""Test HAProxy, NATS, Mosquitto and Unbound: right figures of a good server, the right verdict on a bad one."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from conftest import Check, Outcome
from ports import free_port
from servers import START_SECONDS, Home, Server, program

PASSWORD = "correct horse battery"


@frozen
class Up:
    """Hold a server that runs, and its port and socket."""

    server: Server
    port: int
    socket: Path


def haproxy(home: Home) -> Up:
    """Start one with two backends: a server that answers and one that does not; and none that does."""
    folder, port, spare = home.folder("haproxy"), free_port(), free_port()
    path = folder / "stats.sock"
    settings = home.write(folder / "haproxy.cfg", f"""
global
  stats socket {path} mode 600 level user
  maxconn 50
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend stats
  bind 127.0.0.1:{port}
  maxconn 10
  stats enable
  stats uri /stats
backend app
  server good 127.0.0.1:{port} check inter 50ms
  server gone 127.0.0.1:{spare} check inter 50ms fall 1
  server later 127.0.0.1:{spare} disabled
backend none
  server gone 127.0.0.1:{spare} check inter 50ms fall 1
""")  # fmt: skip
    server = home.start(program("haproxy", "haproxy"), "-db", "-f", settings, folder=folder)
    return Up(server.listening(port), port, path)


def nats(home: Home) -> Up:
    """Start one that takes four connections, with JetStream."""
    folder, port, page = home.folder("nats"), free_port(), free_port()
    lines = ["host: 127.0.0.1", f"port: {port}", f"http: 127.0.0.1:{page}", "max_connections: 4",
             f'jetstream {{ store_dir: "{folder}/store", max_file_store: 1048576 }}', ""]  # fmt: skip
    settings = home.write(folder / "nats.conf", "\n".join(lines))
    server = home.start(program("nats-server", "nats-server"), "-c", settings, folder=folder)
    return Up(server.listening(page).listening(port), page, folder / str(port))


def mosquitto(home: Home) -> Up:
    """Start one that lets in one account, with two retained messages of somebody's own."""
    folder, port = home.folder("mosquitto"), free_port()
    people = home.write(folder / "people", f"watch:{PASSWORD}\n")
    home.run(program("mosquitto_passwd", "mosquitto"), "-U", people, folder=folder)
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous false", f"password_file {people}", "sys_interval 1", ""]
    settings = home.write(folder / "mosquitto.conf", "\n".join(lines))
    server = home.start(program("mosquitto", "mosquitto"), "-c", settings, folder=folder)
    return Up(server.listening(port), port, folder / "none")


def unbound(home: Home) -> Up:
    """Start one that knows one name itself and asks nobody."""
    folder, port = home.folder("unbound"), free_port(socket.SOCK_DGRAM)
    path = folder / "control.sock"
    settings = home.write(folder / "unbound.conf", f"""
server:
  interface: 127.0.0.1
  port: {port}
  chroot: ""
  username: ""
  pidfile: ""
  directory: "{folder}"
  use-syslog: no
  num-threads: 1
  extended-statistics: yes
  local-zone: "." refuse
  local-data: "web.test. A 192.0.2.7"
remote-control:
  control-enable: yes
  control-interface: {path}
""")  # fmt: skip
    server = home.start(program("unbound", "unbound"), "-d", "-c", settings, folder=folder)
    return Up(server.listening(path), port, path)


@pytest.fixture(scope="module")
def up(home: Home) -> dict[str, Up]:
    """Return all of them, started side by side."""
    makers = (haproxy, nats, mosquitto, unbound)
    with ThreadPoolExecutor(len(makers)) as pool:
        started = {maker.__name__: pool.submit(maker, home) for maker in makers}
        return {name: one.result() for name, one in started.items()}


@pytest.fixture(scope="module")
def check(up: dict[str, Up], checking: Any) -> Check:
    """Return a sandbox that may use their sockets."""
    return checking([up["haproxy"].socket, up["unbound"].socket], {"good": PASSWORD, "bad": "another one"})


def until(ask: Callable[[], Outcome], look: Callable[[Outcome], bool]) -> Outcome:
    """Ask until the server has seen what was done to it."""
    deadline = time.monotonic() + START_SECONDS
    while not look(found := ask()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_haproxy(up: dict[str, Up], check: Check) -> None:
    """Servers of HAProxy are counted by state and a backend without one is critical, from the page and from the
    socket.
    """
    url = f"http://127.0.0.1:{up['haproxy'].port}/stats;csv"
    found = until(lambda: check("haproxy", url=url), lambda found: found.metrics["servers_down"] == 2)
    assert (found.status, found.summary) == (
        "critical",
        "no server is left for none, app/gone, none/gone are down, 1 server up, 2 down, 1 in maintenance",
    )
    assert found.metrics["sessions_used{proxy=stats,side=frontend}"] == 10
    assert found.metrics["queue{proxy=app,side=backend}"] == 0
    assert (found.units["received"], found.units["sessions_used"]) == ("B", "%")
    found = check("haproxy", socket=str(up["haproxy"].socket), ignore=["none", "app/gone"], backends=["app"])
    assert (found.status, found.summary) == ("ok", "1 server up, 0 down, 1 in maintenance"), found
    assert check("haproxy", url=url, ignore=["none"]).status == "warning"
    found = check("haproxy", url=url.replace(";csv", ""))
    assert (found.status, found.metrics) == ("unknown", {}), found


def test_nats(up: dict[str, Up], check: Check) -> None:
    """NATS gives its connections, how many of them it allows, and the use of JetStream."""
    url, port = f"http://127.0.0.1:{up['nats'].port}", int(up["nats"].socket.name)
    found = check("nats", url=url)
    assert (found.status, found.metrics["connections"]) == ("ok", 0), found
    assert found.metrics["jetstream_used{storage=file}"] == 0
    assert found.summary.startswith("version 2.")
    with ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            client.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        found = until(lambda: check("nats", url=url), lambda found: found.metrics["connections"] == 4)
        assert (found.status, found.metrics["connections_used"]) == ("critical", 100), found
    found = check("nats", url=f"http://127.0.0.1:{up['haproxy'].port}")
    assert found.status in ("unknown", "critical"), found


def mqtt_login(name: str) -> bytes:
    """Return the packet with which a client of MQTT 3.1.1 logs in."""
    texts = (text.encode() for text in (name, "watch", PASSWORD))
    rest = b"\0\4MQTT\4\xc2\0\x78" + b"".join(len(text).to_bytes(2, "big") + text for text in texts)
    return bytes((0x10, len(rest))) + rest


def test_mosquitto(up: dict[str, Up], check: Check) -> None:
    """Mosquitto accepts a login, gives its own figures and a retained message, and refuses a wrong password."""
    where = {"host": "127.0.0.1", "port": up["mosquitto"].port, "user": "watch", "password": {"secret": "good"}}
    found = check("mqtt", **where)
    assert (found.status, found.summary.startswith("mosquitto version 2.")) == ("ok", True), found
    with ExitStack() as stack:
        for number in range(3):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", where["port"]), timeout=60))
            client.sendall(mqtt_login(f"reader-{number}"))
            assert client.recv(4) == b"\x20\x02\0\0"
        found = until(lambda: check("mqtt", **where), lambda found: found.metrics["clients"] >= 3)
    assert found.metrics["clients"] in (3, 4), found  # the check may have been one when they were counted
    assert found.metrics["received_messages"] >= 3, found
    assert (found.units["received"], found.units["received_messages"], found.units["clients"]) == ("B", "c", "clients")
    topic = "$SYS/broker/uptime"  # of a broker that has just begun there is none
    found = until(lambda: check("mqtt", topic=topic, value_crit="1000", **where), lambda found: found.status == "ok")
    assert (found.status, 0 <= found.metrics[f"value{{topic={topic}}}"] < 600) == ("ok", True), found
    found = check("mqtt", topic="home/attic", **where)
    assert (found.status, found.summary.startswith("home/attic has no retained message")) == ("critical", True), found
    found = check("mqtt", **where | {"password": {"secret": "bad"}})
    assert (found.status, found.metrics) == ("critical", {}), found
    assert found.summary.startswith("the broker refuses the connection: "), found


def test_unbound(up: dict[str, Up], check: Check) -> None:
    """Each query to Unbound is counted, and a socket of another program is reported."""
    path, port = str(up["unbound"].socket), up["unbound"].port
    first = check("unbound", socket=path)
    assert (first.status, first.metrics["servfail"]) == ("ok", 0), first
    for name, status in (("web.test", "ok"), ("elsewhere.test", "critical")):
        assert check("dns", name=name, server="127.0.0.1", port=port).status == status
    found = check("unbound", socket=path)
    assert found.metrics["queries"] - first.metrics["queries"] == 2, found
    assert found.metrics["servfail_share"] == 0
    assert 0 < found.metrics["uptime"] < 600
    found = check("unbound", socket=str(up["haproxy"].socket))
    assert found.status in ("unknown", "critical"), found


def test_when_they_have_stopped(up: dict[str, Up], check: Check) -> None:
    """A stopped server is critical for each check; this test is the last one here, because it ends the servers."""
    for name, path in (("haproxy", "/stats;csv"), ("nats", "")):
        up[name].server.stop()
        found = check(name, url=f"http://127.0.0.1:{up[name].port}{path}")
        assert (found.status, found.summary) == ("critical", f"127.0.0.1:{up[name].port} refused the connection")
    up["mosquitto"].server.stop()
    found = check("mqtt", host="127.0.0.1", port=up["mosquitto"].port)
    assert (found.status, found.summary) == ("critical", f"127.0.0.1:{up['mosquitto'].port} refused the connection")
    up["unbound"].server.stop()
    found = check("unbound", socket=str(up["unbound"].socket))
    assert (found.status, found.metrics) == ("critical", {}), found
