"""Tests Uptime Kuma's database: each type of monitor, types without a counterpart, and files that are none."""

from __future__ import annotations

import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from equus.policy.policy_text import read_policy
from helen.importing import kuma, kuma_database
from helen.importing.folder import files
from helen.importing.found import Found, SourceError

# As Uptime Kuma 1.23 has it, without the columns that nobody reads here.
SCHEMA = """CREATE TABLE monitor (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(150), active BOOLEAN DEFAULT 1 NOT NULL, user_id INTEGER,
  interval INTEGER DEFAULT 20 NOT NULL, url TEXT, type VARCHAR(20), weight INTEGER DEFAULT 2000, hostname VARCHAR(255),
  port INTEGER, created_date DATETIME, keyword VARCHAR(255), maxretries INTEGER NOT NULL DEFAULT 0,
  ignore_tls BOOLEAN DEFAULT 0 NOT NULL, upside_down BOOLEAN DEFAULT 0 NOT NULL,
  maxredirects INTEGER DEFAULT 10 NOT NULL,
  accepted_statuscodes_json TEXT DEFAULT '["200-299"]' NOT NULL, dns_resolve_type VARCHAR(5),
  dns_resolve_server VARCHAR(255), retry_interval INTEGER DEFAULT 0 NOT NULL, push_token VARCHAR(20), method TEXT,
  body TEXT, headers TEXT, basic_auth_user TEXT, basic_auth_pass TEXT, docker_container VARCHAR(255), proxy_id INTEGER,
  expiry_notification BOOLEAN DEFAULT 1, auth_method VARCHAR(250), database_connection_string TEXT, timeout DOUBLE,
  json_path TEXT, expected_value VARCHAR(255), invert_keyword BOOLEAN DEFAULT 0 NOT NULL)"""


def of(tmp_path: Path, *monitors: dict[str, Any]) -> Found:
    path = tmp_path / "kuma.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(SCHEMA)
        for each in monitors:
            row = {"name": "It", "interval": 60, **each}
            places = ", ".join("?" for _ in row)
            database.execute(f"INSERT INTO monitor ({', '.join(row)}) VALUES ({places})", list(row.values()))
        database.commit()
    return kuma.convert(kuma_database.read(path), "kuma.db")


def only(found: Found) -> tuple[str, dict[str, Any]]:
    assert found.omitted == []
    return found.services[0].check, dict(found.services[0].args)


@pytest.mark.parametrize(
    ("monitor", "check", "args"),
    [
        ({"type": "http", "url": "https://www.example:8443/x?y=1", "method": "HEAD", "timeout": 12.5, "ignore_tls": 1},
         "http", {"url": "https://www.example:8443/x?y=1", "method": "HEAD", "status": ["2xx"], "redirects": 10,
                  "verify": False, "limit": "12.5s"}),
        ({"type": "keyword", "url": "http://a/", "keyword": "up", "maxredirects": 0,
          "headers": '{"Accept": "text/plain"}', "accepted_statuscodes_json": '["200", "300-399"]'},
         "http", {"url": "http://a/", "headers": ["Accept: text/plain"], "status": ["200", "3xx"], "redirects": 0,
                  "limit": "30s", "contains": "up"}),
        ({"type": "keyword", "url": "http://a/", "keyword": "down", "invert_keyword": 1, "interval": 20, "body": "{}"},
         "http", {"url": "http://a/", "body": "{}", "status": ["2xx"], "redirects": 10, "limit": "16s",
                  "lacks": "down"}),
        ({"type": "json-query", "url": "http://a/", "json_path": "$.data.state", "expected_value": "on"},
         "http", {"url": "http://a/", "status": ["2xx"], "redirects": 10, "limit": "30s", "json_path": "data.state",
                  "json_equals": "on"}),
        ({"type": "ping", "hostname": "10.0.0.1"}, "ping", {"host": "{address}"}),
        ({"type": "port", "hostname": "10.0.0.1", "port": 22}, "tcp", {"host": "{address}", "port": 22}),
        ({"type": "dns", "hostname": "example.org", "dns_resolve_type": "MX", "dns_resolve_server": "1.1.1.1, 8.8.8.8"},
         "dns", {"name": "example.org", "type": "MX", "server": "1.1.1.1"}),
        ({"type": "docker", "docker_container": "web"}, "docker", {"containers": ["web"]}),
        ({"type": "postgres", "database_connection_string": "postgres://mon:moon@db.example:5433/shop"}, "postgresql",
         {"host": "{address}", "port": 5433, "user": "mon", "database": "shop", "password": {"secret": "kuma-it"}}),
        ({"type": "mysql", "database_connection_string": "mysql://mon@db.example/shop"}, "mysql",
         {"host": "{address}", "user": "mon"}),
        ({"type": "redis", "database_connection_string": "rediss://db.example:6379"}, "redis",
         {"host": "{address}", "tls": "verify"}),
    ],
)  # fmt: skip
def test_types(tmp_path: Path, monitor: dict[str, Any], check: str, args: dict[str, Any]) -> None:
    found = of(tmp_path, monitor)
    assert only(found) == (check, args)
    assert "moon" not in str(files(found, "core"))


@pytest.mark.parametrize(
    ("monitor", "why"),
    [
        ({"type": "steam"}, "no shipped check does what its type 'steam' does"),
        ({"type": "ping", "hostname": "a", "active": 0}, "it is paused there"),
        ({"type": "ping", "hostname": "a", "upside_down": 1}, "it is upside down"),
        ({"type": "ping", "hostname": "a", "proxy_id": 3}, "goes through a proxy"),
        ({"type": "ping", "hostname": "a", "interval": 0}, "its interval is '0'"),
        ({"type": "port", "hostname": "a", "port": 70_000}, "its port is '70000'"),
        ({"type": "port", "hostname": "a"}, "its port is '0'"),
        ({"type": "http", "url": "http://[::1"}, "no URL with a host"),
        ({"type": "http", "url": ""}, "no URL with a host"),
        ({"type": "http", "url": "http://a/", "basic_auth_user": "me"}, "it logs in"),
        ({"type": "http", "url": "http://a/", "headers": '{"X-Api-Key": "1"}'}, "'X-Api-Key' may be a secret"),
        ({"type": "http", "url": "http://a/", "headers": "["}, "its headers are no table"),
        ({"type": "http", "url": "http://a/", "method": "BREW"}, "its method is 'BREW'"),
        ({"type": "http", "url": "http://a/", "accepted_statuscodes_json": '["200-250"]'}, "'200-250' is neither"),
        ({"type": "http", "url": "http://a/", "accepted_statuscodes_json": "{}"}, "which is no list"),
        ({"type": "json-query", "url": "http://a/", "json_path": "$sum(a.b)"}, "is more than a path"),
        ({"type": "keyword", "url": "http://a/"}, "it has no keyword"),
        ({"type": "dns", "hostname": "a", "dns_resolve_type": "CAA"}, "asks for 'CAA'"),
        ({"type": "docker"}, "it names no container"),
        ({"type": "redis", "database_connection_string": "redis://a:port"}, "a port that is none"),
    ],
)
def test_monitors_that_are_not_taken(tmp_path: Path, monitor: dict[str, Any], why: str) -> None:
    found = of(tmp_path, monitor)
    assert (found.total, found.services) == (1, [])
    [(name, reason)] = found.omitted
    assert name == "It"
    assert why in reason


def test_a_folder_of_many(tmp_path: Path) -> None:
    """Monitors of one address are checks of one target; groups are none; a push is a ping."""
    found = of(
        tmp_path,
        {"name": "All", "type": "group"},
        {"name": "Web", "type": "http", "url": "https://WWW.example/", "maxretries": 2, "retry_interval": 20},
        {"name": "Web up", "type": "ping", "hostname": "www.example"},
        {"name": "Night/ly", "type": "push", "interval": 86_400},
    )
    assert found.total == 3
    made = files(found, "probe")
    assert tomllib.loads(made["targets.toml"])["target"] == [
        {"name": "www.example", "address": "www.example", "via": ["probe"]}
    ]
    entries = tomllib.loads(made["assignments.toml"])["assign"]
    assert [(each["id"], each["targets"], each["attempts"], each.get("retry")) for each in entries] == [
        ("Web", ["www.example"], 3, "20s"), ("Web-up", ["www.example"], 1, None),
    ]  # fmt: skip
    assert tomllib.loads(made["passive.toml"])["ping"] == [{"id": "Night_ly", "every": "1d", "grace": "1d"}]
    assert "tell of certificates that end there" in made["import.txt"]
    policy = read_policy(made["policy/probe.toml"].encode(), "policy.toml")
    assert policy.grants["http"]["names"] == ("www.example",)
    assert [(str(each.cidr), each.ports) for each in policy.grants["http"]["networks"]] == [
        ("0.0.0.0/0", ((443, 443),)), ("::/0", ((443, 443),)),
    ]  # fmt: skip


def test_the_policy_grants_what_is_looked_at(tmp_path: Path) -> None:
    """The policy grants an address alone with its port, all networks only beside names, and the socket of Docker."""
    found = of(
        tmp_path,
        {"name": "a", "type": "port", "hostname": "10.0.0.1", "port": 22},
        {"name": "b", "type": "redis", "database_connection_string": "redis://10.0.0.1"},
        {"name": "c", "type": "ping", "hostname": "2001:db8::1"},
        {"name": "d", "type": "dns", "hostname": "example.org", "dns_resolve_server": "1.1.1.1"},
        {"name": "e", "type": "docker", "docker_container": "w"},
    )
    grants = read_policy(files(found, "probe")["policy/probe.toml"].encode(), "policy.toml").grants
    reached = {
        name: [(str(each.cidr), [low for low, _ in each.ports]) for each in grants[name]["networks"]]
        for name in ("tcp", "icmp", "dns")
    }
    assert reached == {
        "tcp": [("10.0.0.1/32", [22, 6379])], "icmp": [("2001:db8::1/128", [])], "dns": [("1.1.1.1/32", [53])],
    }  # fmt: skip
    assert grants["unix"]["paths"] == ("/run/docker.sock",)


def test_a_check_of_docker_runs_on_the_agent(tmp_path: Path) -> None:
    [entry] = tomllib.loads(
        files(of(tmp_path, {"type": "docker", "docker_container": "w"}), "probe")["assignments.toml"]
    )["assign"]
    assert (entry["agents"], entry["check"]) == (["probe"], "docker")


def test_older_columns(tmp_path: Path) -> None:
    """A version that lacks a column has no value in it; the file is left as it is, and may be read-only."""
    path = tmp_path / "kuma.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE monitor (id INTEGER, name TEXT, type TEXT, hostname TEXT)")
        database.execute("INSERT INTO monitor VALUES (1, 'a', 'ping', '10.0.0.1')")
        database.commit()
    path.chmod(0o400)
    before = path.read_bytes()
    assert only(kuma.convert(kuma_database.read(path), "x")) == ("ping", {"host": "{address}"})
    assert path.read_bytes() == before


def test_files_that_are_no_kuma(tmp_path: Path) -> None:
    path = tmp_path / "kuma.db"
    with pytest.raises(SourceError, match="is no file"):
        kuma_database.read(path)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    with pytest.raises(SourceError, match="can't be read as a database"):
        kuma_database.read(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    with pytest.raises(SourceError, match="no database of Uptime Kuma"):
        kuma_database.read(path)


def test_a_view_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kuma_database, "MAX_STEPS", 100_000)
    path = tmp_path / "kuma.db"
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    endless += " SELECT x AS id, 'a' AS name, 'b' AS type FROM n"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE VIEW monitor AS {endless}")
    with pytest.raises(SourceError, match="interrupted"):
        kuma_database.read(path)
