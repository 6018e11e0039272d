"""Test Redis, memcached, PostgreSQL and MariaDB: right figures of a good server, the right verdict on a bad one."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from conftest import Check
from ports import free_port
from servers import Home, Server, certificate, program

PASSWORD, WRONG = "correct horse battery", "another one"
REDIS_PASSWORD = "correct-horse"  # a file of accounts has no quotes


# MariaDB without what costs time to make.
SMALL = ("--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0",
         "--innodb-doublewrite=OFF", "--performance-schema=OFF", "--skip-log-bin")  # fmt: skip


@frozen
class Up:
    """Hold a server that runs, and its port and socket."""

    server: Server
    port: int
    socket: Path
    ca: str = ""  # what makes its certificate a good one


def with_tls(home: Home, folder: Path) -> tuple[Path, Path, str]:
    """Write a certificate and its key, and return both paths and the certificate as text."""
    made, key = certificate(days=10)
    return home.write(folder / "tls.pem", made.decode()), home.write(folder / "tls.key", key.decode()), made.decode()


def postgresql(home: Home) -> Up:
    folder, port = home.folder("postgresql"), free_port()
    data = folder / "data"
    secret = home.write(folder / "password", PASSWORD)
    home.run(program("initdb", "postgresql"), "-D", data, "-U", "owner", "--pwfile", secret, "-A", "scram-sha-256",
             "-E", "UTF8", "--no-sync", "--no-instructions", folder=folder)  # fmt: skip
    logins = {"old": "md5", "told": "password", "idle": "trust", "owner": "scram-sha-256", "watch": "scram-sha-256"}
    lines = [f"host all {name} 127.0.0.1/32 {how}" for name, how in logins.items()]
    home.write(data / "pg_hba.conf", "\n".join(["local all all trust", *lines, ""]))
    pem, key, ca = with_tls(home, folder)
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder, "fsync": "off",
                "max_connections": 12, "superuser_reserved_connections": 2, "max_wal_senders": 0,
                "shared_buffers": "1MB", "wal_level": "minimal", "autovacuum": "off",
                "ssl": "on", "ssl_cert_file": pem, "ssl_key_file": key}  # fmt: skip
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    server = home.start(program("postgres", "postgresql"), "-D", data, *options, folder=folder)
    path = folder / f".s.PGSQL.{port}"
    server.listening(port)
    sql = f"""
        CREATE ROLE watch LOGIN PASSWORD '{PASSWORD}'; GRANT pg_monitor TO watch;
        CREATE ROLE told LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE idle LOGIN;
        SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD '{PASSWORD}';
    """
    server.until(lambda: "ready to accept connections" in server.said)
    home.run(program("psql", "postgresql"), "-h", folder, "-p", str(port), "-U", "owner", "-d", "postgres",
             "-v", "ON_ERROR_STOP=1", "-c", sql, folder=folder)  # fmt: skip
    return Up(server, port, path, ca)


def mariadb(home: Home) -> Up:
    folder, port = home.folder("mariadb"), free_port()
    data, path = folder / "data", folder / "mysqld.sock"
    data.mkdir(mode=0o700)
    home._own(data)
    # What mariadb-install-db does, less help texts and a program of another package.
    share = Path("/usr/share/mysql")
    tables = [(share / f"mysql_system_tables{part}.sql").read_text() for part in ("", "_data")]
    sql = "\n".join(["create database mysql;", "use mysql;", "SET @auth_root_socket=NULL;", *tables])
    mariadbd = program("mariadbd", "mariadb-server-core")
    home.run(mariadbd, "--no-defaults", "--bootstrap", f"--datadir={data}", *SMALL, folder=folder, input=sql)
    users = home.write(folder / "users.sql", f"""
CREATE USER watch@'%' IDENTIFIED BY '{PASSWORD}';
CREATE USER watch@localhost IDENTIFIED BY '{PASSWORD}';
CREATE USER bare@localhost;
CREATE USER elsewhere@localhost IDENTIFIED VIA unix_socket;
GRANT REPLICA MONITOR ON *.* TO watch@localhost;
""")  # fmt: skip
    pem, key, ca = with_tls(home, folder)
    server = home.start(
        mariadbd, "--no-defaults", f"--datadir={data}", f"--socket={path}", f"--port={port}", f"--ssl-cert={pem}",
        "--bind-address=127.0.0.1", f"--pid-file={folder / 'pid'}", f"--init-file={users}", "--max-connections=10",
        f"--ssl-key={key}", *SMALL, folder=folder,
    )  # fmt: skip
    server.until(lambda: "ready for connections" in server.said)
    return Up(server, port, path, ca)


def redis(home: Home) -> Up:
    folder, port = home.folder("redis"), free_port()
    accounts = [f"user default on >{REDIS_PASSWORD} ~* &* +@all", f"user watch on >{REDIS_PASSWORD} +info +ping", ""]
    users = home.write(folder / "users.acl", "\n".join(accounts))
    lines = ["bind 127.0.0.1", f"port {port}", 'save ""', f"dir {folder}", f"aclfile {users}", "maxmemory 4mb", ""]
    settings = home.write(folder / "redis.conf", "\n".join(lines))
    server = home.start(program("redis-server", "redis-server"), settings, folder=folder)
    return Up(server.listening(port), port, folder / "none")


def memcached(home: Home) -> Up:
    folder, port = home.folder("memcached"), free_port()
    words = ("-l", "127.0.0.1", "-p", str(port), "-m", "8", "-U", "0")
    server = home.start(program("memcached", "memcached"), *words, folder=folder)
    return Up(server.listening(port), port, folder / "none")


@pytest.fixture(scope="module")
def up(home: Home) -> dict[str, Up]:
    """Start all four servers side by side, and return them by name."""
    makers = (postgresql, mariadb, redis, memcached)
    with ThreadPoolExecutor(len(makers)) as pool:
        started = {maker.__name__: pool.submit(maker, home) for maker in makers}
        return {name: one.result() for name, one in started.items()}


@pytest.fixture(scope="module")
def check(up: dict[str, Up], checking: Any) -> Check:
    """Return a check runner that may use the two sockets, and knows the passwords."""
    sockets = [up["postgresql"].socket, up["mariadb"].socket]
    return checking(sockets, {"good": PASSWORD, "bad": WRONG, "redis": REDIS_PASSWORD})


GOOD, BAD = {"secret": "good"}, {"secret": "bad"}


def once_it_counts(clients: int, name: str, ask: Callable[[], Any]) -> Any:
    """Ask until the server counts so many clients: it hears of the end of one later than that one does."""
    deadline = time.monotonic() + 60.0
    while (found := ask()).metrics.get(name) != clients and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


# ------------------------------------------------------------------------------------------------ PostgreSQL


def test_postgresql(up: dict[str, Up], check: Check) -> None:
    """PostgreSQL is asked over TCP with SCRAM, and its version, figures and units are right."""
    port = up["postgresql"].port
    found = once_it_counts(1, "connections", lambda: check("postgresql", port=port, user="watch", password=GOOD))
    assert (found.status, found.summary) == ("ok", f"version {version(up)}, primary, 1 of 10 connections"), found
    assert found.metrics["connections"] == 1
    assert found.metrics["connections_used"] == 10
    assert 0 < found.metrics["uptime"] < 600
    assert found.metrics["size{database=postgres}"] > 5_000_000
    assert found.metrics["commits"] > 0
    assert 0 < found.metrics["transaction_age"] < 100_000
    assert found.metrics["waiting"] == 0
    assert (found.units["size"], found.units["commits"], found.units["uptime"]) == ("B", "c", "s")
    assert "lag" not in found.metrics


def version(up: dict[str, Up]) -> str:
    """Return the version that the program prints of itself."""
    done = Home.run(None, program("postgres", "postgresql"), "--version", folder=up["postgresql"].server.folder)
    return done.split()[2]


@pytest.mark.parametrize("user", ["old", "told", "idle"])
def test_postgresql_logins(up: dict[str, Up], check: Check, user: str) -> None:
    """PostgreSQL is asked with MD5, with a plain password over loopback and without one, and by a user outside of
    pg_monitor.
    """
    port = up["postgresql"].port
    found = once_it_counts(1, "connections", lambda: check("postgresql", port=port, user=user, password=GOOD))
    assert found.status == "ok", found
    assert found.metrics["connections"] == 1


def test_postgresql_over_its_socket(up: dict[str, Up], check: Check) -> None:
    """PostgreSQL is reached over its socket without a password, where pg_hba trusts it."""
    found = check("postgresql", socket=str(up["postgresql"].socket), user="watch")
    assert found.status == "ok", found


@pytest.mark.parametrize("user", ["watch", "old", "told"])
def test_postgresql_with_a_wrong_password(up: dict[str, Up], check: Check, user: str) -> None:
    """A wrong password is critical in the server's own words, without the password."""
    found = check("postgresql", port=up["postgresql"].port, user=user, password=BAD)
    assert (found.status, found.metrics) == ("critical", {})
    assert found.summary == f'the server refuses: password authentication failed for user "{user}" (28P01)'


def test_postgresql_that_is_not_as_expected(up: dict[str, Up], check: Check) -> None:
    """A missing password, an unknown database and a server that is no standby are critical with their reasons."""
    port = up["postgresql"].port
    assert check("postgresql", port=port, user="watch").summary == "the server wants a password for watch"
    found = check("postgresql", port=port, user="watch", password=GOOD, database="nowhere")
    assert (found.status, found.summary) == (
        "critical",
        'the server refuses: database "nowhere" does not exist (3D000)',
    )
    found = check("postgresql", port=port, user="watch", password=GOOD, replica=True)
    assert found.status == "critical" and found.summary.endswith("it should be a standby")


def once_there_is_room(port: int, said: bytes, greeted: Callable[[bytes], bool]) -> socket.socket:
    """Connect until the server lets one in: for a moment it counts clients that are gone."""
    deadline = time.monotonic() + 60.0
    while True:
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(said)
        heard = b""
        while not greeted(heard):
            if not (more := connection.recv(4096)):
                break
            heard += more
        else:
            return connection
        connection.close()
        assert time.monotonic() < deadline, heard
        time.sleep(0.05)


def idle_in_postgresql(port: int) -> socket.socket:
    """Return a connection that is logged in to PostgreSQL and idle."""
    words = b"user\0idle\0database\0postgres\0\0"
    said = struct.pack(">II", len(words) + 8, 196608) + words
    return once_there_is_room(port, said, lambda heard: heard.endswith(b"Z\0\0\0\5I"))


def idle_in_mariadb(port: int) -> socket.socket:
    """Return a connection that MariaDB greeted and that is idle; an error in place of a greeting begins with 0xff."""
    return once_there_is_room(port, b"", lambda heard: len(heard) > 4 and heard[4] != 0xFF)


def test_postgresql_that_is_full(up: dict[str, Up], check: Check) -> None:
    """Nine of ten connections to PostgreSQL are a warning, ten are critical, and a transaction that stays open
    is seen.
    """
    port = up["postgresql"].port
    with ExitStack() as stack:
        held = [stack.enter_context(idle_in_postgresql(port)) for _ in range(8)]
        held[0].sendall(b"Q\0\0\0\nBEGIN\0")
        assert held[0].recv(4096)
        words = {"port": port, "user": "watch", "password": GOOD}
        found = once_it_counts(9, "connections", lambda: check("postgresql", oldest_warn="0:0", **words))
        assert (found.status, found.metrics["connections"]) == ("warning", 9), found
        assert found.metrics["oldest_transaction"] > 0
        held += [stack.enter_context(idle_in_postgresql(port)) for _ in range(2)]
        found = check("postgresql", port=port, user="watch", password=GOOD)
        assert (found.status, "connection slots are reserved" in found.summary) == ("critical", True), found
    assert once_it_counts(1, "connections", lambda: check("postgresql", **words)).metrics["connections"] == 1


# ------------------------------------------------------------------------------------------------ MariaDB


def test_mariadb(up: dict[str, Up], check: Check) -> None:
    """MariaDB is asked over TCP with mysql_native_password, and its figures and units are right."""
    port = up["mariadb"].port
    found = once_it_counts(1, "connections", lambda: check("mysql", port=port, user="watch", password=GOOD))
    assert found.status == "ok", found
    assert re.fullmatch(r"version [\d.]+-MariaDB\S*, 1 of 10 connections", found.summary), found
    assert (found.metrics["connections"], found.metrics["connections_used"]) == (1, 10)
    assert found.metrics["running"] >= 1
    assert 0 <= found.metrics["uptime"] < 600
    before = found.metrics["queries"]
    found = check("mysql", port=up["mariadb"].port, user="watch", password=GOOD)
    assert found.metrics["queries"] - before == 3  # the second of one run, and both of the next
    assert found.metrics["aborted_clients"] == 0
    assert (found.units["queries"], found.units["sent"], found.units["uptime"]) == ("c", "B", "s")


def test_mariadb_over_its_socket(up: dict[str, Up], check: Check) -> None:
    """MariaDB is reached over its socket with a password and without one."""
    path = str(up["mariadb"].socket)
    assert check("mysql", socket=path, user="watch", password=GOOD).status == "ok"
    assert check("mysql", socket=path, user="bare").status == "ok"


def test_mariadb_that_is_not_as_expected(up: dict[str, Up], check: Check) -> None:
    """A wrong password, an account of another kind and a server that is no replica are critical."""
    port = up["mariadb"].port
    found = check("mysql", port=port, user="watch", password=BAD)
    assert (found.status, found.summary) == (
        "critical", "the server refuses: Access denied for user 'watch'@'localhost' (using password: YES) (1045)"
    )  # fmt: skip
    found = check("mysql", socket=str(up["mariadb"].socket), user="elsewhere", password=GOOD)
    assert (found.status, found.metrics, "Access denied for user 'elsewhere'" in found.summary) == (
        "critical",
        {},
        True,
    )
    found = check("mysql", port=port, user="watch", password=GOOD, replica=True)
    assert (found.status, found.summary.endswith(", it is no replica")) == ("critical", True), found
    found = check("mysql", port=port, user="bare", replica=True)
    assert found.status == "critical" and "you need" in found.summary, found


def test_mariadb_that_is_full(up: dict[str, Up], check: Check) -> None:
    """Nine of ten connections to MariaDB are a warning, and ten are critical."""
    port = up["mariadb"].port
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(idle_in_mariadb(port))
        words = {"port": port, "user": "watch", "password": GOOD}
        found = once_it_counts(9, "connections", lambda: check("mysql", **words))
        assert (found.status, found.metrics["connections"]) == ("warning", 9), found
        for _ in range(3):
            assert stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)).recv(4)
        found = check("mysql", port=port, user="watch", password=GOOD)
        assert (found.status, found.summary) == ("critical", "the server refuses: Too many connections (1040)")
    assert once_it_counts(1, "connections", lambda: check("mysql", **words)).metrics["connections"] == 1


@pytest.mark.parametrize(("name", "server"), [("postgresql", "postgresql"), ("mysql", "mariadb")])
def test_inside_tls(up: dict[str, Up], check: Check, name: str, server: str) -> None:
    """TLS accepts any certificate, or verifies it by its authority, and nothing of the login is sent to an unverified
    server.
    """
    one = up[server]
    login: dict[str, Any] = {"host": "localhost", "port": one.port, "user": "watch", "password": GOOD}
    assert check(name, tls="on", **login).status == "ok"
    found = check(name, tls="verify", ca=one.ca, **login)
    assert found.status == "ok", found
    found = check(name, tls="verify", **login)
    assert (found.status, found.metrics) == ("critical", {})
    assert "certificate not accepted: self-signed certificate" in found.summary, found


# ------------------------------------------------------------------------------------------------ queries of one's own


@pytest.mark.parametrize(("server", "name"), [("postgresql", "postgresql"), ("mysql", "mariadb")])
def test_a_query_of_ones_own(up: dict[str, Up], check: Check, server: str, name: str) -> None:
    """A query gives a figure for each row, and its fault is reported in the words of the server."""
    words = {"server": server, "port": up[name].port, "user": "watch", "password": GOOD}
    query = "SELECT 'a' AS n, 1.5 AS value UNION ALL SELECT 'b', 40 ORDER BY n"
    found = check("sql_query", query=query, label="n", warn="10", **words)
    assert (found.status, found.metrics["value{n=a}"], found.metrics["value{n=b}"]) == ("warning", 1.5, 40), found
    assert found.summary.startswith("b 40, in ")
    found = check("sql_query", query="SELECT 1 AS x WHERE 1 = 0", rows_crit="0", **words)
    assert (found.status, found.metrics["rows"]) == ("ok", 0), found
    found = check("sql_query", query="SELECT nothing FROM nowhere", **words)
    assert (found.status, found.summary.startswith("the server refuses: ")) == ("critical", True), found
    found = check("sql_query", query="CREATE TABLE mine (x int)", **words)
    assert (found.status, found.metrics) == ("critical", {}), found
    found = check("sql_query", query="SELECT 1", **words | {"password": BAD})
    assert (found.status, found.metrics) == ("critical", {}), found


# ------------------------------------------------------------------------------------------------ Redis and memcached


def talk(port: int, said: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(said)
        return connection.recv(4096)


def test_redis(up: dict[str, Up], check: Check) -> None:
    """Redis is asked with a password as an account that may only read figures, and its memory is judged as it
    fills up.
    """
    port, secret = up["redis"].port, {"secret": "redis"}
    words = {"port": port, "user": "watch", "password": secret, "warn": "70"}
    found = once_it_counts(1, "clients", lambda: check("redis", **words))
    assert found.status == "ok", found
    assert found.summary.startswith("version ") and ", master, " in found.summary
    assert found.metrics["clients"] == 1
    assert 0 < found.metrics["memory"] < 4_194_304
    assert found.metrics["commands"] >= 1
    word = REDIS_PASSWORD.encode()
    said = b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n" % (len(word), word)
    for number in range(12):
        value = b"x" * 200_000
        assert talk(port, said + b"*3\r\n$3\r\nSET\r\n$2\r\nk%x\r\n$%d\r\n%s\r\n" % (number, len(value), value))
    found = check("redis", port=port, password=secret, warn="60", crit="70")
    assert (found.status, found.metrics["memory_used"] > 70) == ("critical", True), found


def test_redis_with_a_wrong_password(up: dict[str, Up], check: Check) -> None:
    """Redis refuses a wrong password and a missing one, and both are critical."""
    port = up["redis"].port
    found = check("redis", port=port, password=BAD)
    assert (found.status, found.summary) == (
        "critical", "the server refuses: WRONGPASS invalid username-password pair or user is disabled."
    )  # fmt: skip
    found = check("redis", port=port)
    assert (found.status, found.summary) == ("critical", "the server refuses: NOAUTH Authentication required.")


def test_memcached(up: dict[str, Up], check: Check) -> None:
    """memcached gives the items, hits and misses that were counted, and its memory is judged as it fills up."""
    port = up["memcached"].port
    assert talk(port, b"set a 0 0 3\r\nabc\r\n") == b"STORED\r\n"
    assert talk(port, b"get a\r\n").startswith(b"VALUE a")
    assert talk(port, b"get b\r\n") == b"END\r\n"
    found = check("memcached", port=port, warn="50")
    assert found.status == "ok", found
    assert (found.metrics["items"], found.metrics["hits"], found.metrics["misses"], found.metrics["sets"]) == (
        1,
        1,
        1,
        1,
    )
    assert found.units["memory"] == "B"
    for number in range(7):
        talk(port, b"set k%d 0 0 900000\r\n%s\r\n" % (number, b"x" * 900_000))
    found = check("memcached", port=port, warn="50")
    assert (found.status, found.metrics["memory_used"] > 50) == ("warning", True), found


# ------------------------------------------------------------------------------------------------ gone


def test_each_takes_the_other_for_something_else(up: dict[str, Up], check: Check) -> None:
    """A wrong port is critical with a sentence, and gives no figure."""
    ports = {name: one.port for name, one in up.items()}
    assert check("redis", port=ports["postgresql"]).summary == f"port {ports['postgresql']} is no Redis server"
    found = check("memcached", port=ports["postgresql"])
    assert (found.status, "is no memcached server" in found.summary) == ("critical", True), found
    found = check("postgresql", port=ports["mariadb"], user="watch")
    assert (found.status, found.summary) == ("critical", "that is no PostgreSQL server")


def test_when_they_have_stopped(up: dict[str, Up], check: Check) -> None:
    """A stopped server is critical for each check; this test is the last one here, because it ends the servers."""
    for one in up.values():
        one.server.stop()
    for name, one in up.items():
        found = check("mysql" if name == "mariadb" else name, port=one.port)
        assert (found.status, found.metrics) == ("critical", {})
        assert found.summary.endswith(f"127.0.0.1:{one.port} refused the connection") or "::1" in found.summary
    for name in ("postgresql", "mariadb"):
        found = check("mysql" if name == "mariadb" else name, socket=str(up[name].socket))
        assert found.status == "critical", found
