"""Tests arguments that look like passwords: found by name, by form and by chance, and never repeated in the warning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tomlkit

from helen.assignments.assignments_text import read
from helen.assignments.password_arguments import MAX_DEPTH, password_warnings

SUSPECT = [
    ("password", "x"), ("db_password", "hunter2"), ("apiKey", "k"), ("api-key", "k"), ("Authorization", "x"),
    ("auth_token", "t"), ("snmp_community", "public"), ("PASSWD", "x"), ("note", "Bearer abcdef123"),
    ("url", "https://anna:geheim@example.com/"), ("dsn", "postgresql://u:p@db/x"), ("line", "Basic YW5uYTpnZWhlaW0="),
    ("key", "-----BEGIN PRIVATE KEY-----"), ("query", "a=1&token=abc"), ("x", "gH7kQ29sLmZ0xVb4TyRw"),
]  # fmt: skip
SOUND = [
    ("path", "/var/lib/something-long/and/more"), ("url", "https://example.com:8443/status?x=1"), ("host", "db-1"),
    ("sha256", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"), ("user", "monitoring"),
    ("tokens", "10:"), ("keyspace", "users"), ("match", "passwords are here"), ("password", ""), ("warn", "90"),
    ("author", "anna"), ("words", "this is a sentence with some words in it"), ("secretary", "bert"),
]  # fmt: skip


def of_args(**args: object) -> list[str]:
    return password_warnings(read(tomlkit.dumps({"assign": [{"check": "http", "id": "web", "args": args}]})))


@pytest.mark.parametrize(("name", "value"), SUSPECT)
def test_suspects(name: str, value: str) -> None:
    """A password is found at the top, in a table and in a list; the warning has the name, and not the value (F45)."""
    for args, place in (
        ({name: value}, name),
        ({"headers": {name: value}}, f"headers.{name}"),
        ({name: [value]}, name),
    ):
        (warning,) = of_args(**args)
        assert f'web: the argument "{place}" looks like a password' in warning and 'secret = "NAME"' in warning
        assert len(value) < 6 or value not in warning


@pytest.mark.parametrize(("name", "value"), SOUND)
def test_others(name: str, value: str) -> None:
    """Words, paths, checksums, and names that only begin like a password's are no passwords."""
    assert of_args(**{name: value, "headers": {name: [value]}}) == []


def test_a_reference_is_what_should_stand_there() -> None:
    """A reference is no password, since the secret itself is on the agent's machine, nor is a number."""
    deep: object = "x"
    for _ in range(12):
        deep = {"password": deep}
    assert of_args(password={"secret": "redis"}, headers={"Authorization": {"secret": "api"}}, pin_password=5) == []
    assert of_args(tree=deep) == []


def nested(depth: int, make: Callable[[object], object]) -> object:
    value: object = "Bearer abcdef123"
    for _ in range(depth):
        value = make(value)
    return value


@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: {"x": inner}], ids=["lists", "tables"])
def test_how_deep_is_looked(make: Callable[[object], object]) -> None:
    """Tables and lists count alike for the depth, with the argument's own table; deeper values are passed over."""
    assert len(of_args(x=nested(MAX_DEPTH - 1, make))) == 1
    assert of_args(x=nested(MAX_DEPTH, make)) == []
