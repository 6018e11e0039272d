"""Make shipped checks of the monitors of Uptime Kuma, by their type. Pure.

Each function returns the check's name and its arguments, and raises NotUnderstood with the reason if there is no such
check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from groundwork.counts import count
from helen.importing.found import NotUnderstood

MAX_LIMIT = 30.0  # seconds, as the check `http` takes
MAX_REDIRECTS = 10
MAX_HEADERS = 50
_METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS")
_RANGE = re.compile(r"([1-5])00-\1?99")
_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
_SECRET = re.compile(r"auth|token|key|cookie|secret|passw", re.IGNORECASE)

Monitor = Mapping[str, Any]
Made = tuple[str, dict[str, Any]]


def text(monitor: Monitor, key: str) -> str:
    """Return a column as text, "" for none."""
    value = monitor.get(key)
    return value.strip() if isinstance(value, str) else "" if value is None else str(value)


def number(monitor: Monitor, key: str, low: float, high: float, otherwise: float) -> float:
    """Return a column as a number in a range. Raises NotUnderstood if it isn't one."""
    value = otherwise if monitor.get(key) in (None, "") else monitor[key]
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if not low <= found <= high:
        raise NotUnderstood(f"its {key} is {str(value)[:40]!r}: {low:g} to {high:g} is expected")
    return found


def address_of(monitor: Monitor) -> str:
    """Return the host that a monitor looks at, "" for none. Raises NotUnderstood for a URL without one."""
    url = text(monitor, "url") or text(monitor, "database_connection_string")
    if text(monitor, "type") in ("http", "keyword", "json-query", "postgres", "mysql", "redis"):
        try:
            host = urlsplit(url).hostname
        except ValueError:
            host = None
        if not host:
            raise NotUnderstood("it has no URL with a host")
        return host
    return text(monitor, "hostname") if text(monitor, "type") in ("ping", "port", "dns") else ""


def made(monitor: Monitor, secret: str) -> Made:
    """Return the check for a monitor; `secret` is the name under which agents keep its password, if it has one."""
    kind = text(monitor, "type")
    if kind not in MAKERS:
        raise NotUnderstood(f"no shipped check does what its type {kind[:40]!r} does")
    if monitor.get("upside_down"):
        raise NotUnderstood("it is upside down: no check is turned round")
    if monitor.get("proxy_id"):
        raise NotUnderstood("it goes through a proxy, and checks don't")
    return MAKERS[kind](monitor, secret)


def _http(monitor: Monitor, secret: str) -> Made:
    if text(monitor, "auth_method") not in ("", "none") or text(monitor, "basic_auth_user"):
        raise NotUnderstood("it logs in: write its entry with a header that is a secret, docs/secrets.rst")
    method = text(monitor, "method") or "GET"
    if method not in _METHODS:
        raise NotUnderstood(f"its method is {method[:20]!r}; the check http has {', '.join(_METHODS)}")
    args: dict[str, Any] = {"url": text(monitor, "url")}
    args |= {"method": method} if method != "GET" else {}
    args |= {"body": text(monitor, "body")} if text(monitor, "body") else {}
    args |= {"headers": _headers(text(monitor, "headers"))} if text(monitor, "headers") else {}
    args["status"] = _statuses(text(monitor, "accepted_statuscodes_json"))
    args["redirects"] = int(min(MAX_REDIRECTS, number(monitor, "maxredirects", 0, 1_000, 10)))
    args |= {"verify": False} if monitor.get("ignore_tls") else {}
    limit = number(monitor, "timeout", 0, 86_400, 0) or 0.8 * number(monitor, "interval", 1, 1e9, 60)
    args["limit"] = f"{min(MAX_LIMIT, max(1.0, limit)):g}s"
    return "http", args


def _keyword(monitor: Monitor, secret: str) -> Made:
    name, args = _http(monitor, secret)
    if not text(monitor, "keyword"):
        raise NotUnderstood("it has no keyword")
    return name, args | {"lacks" if monitor.get("invert_keyword") else "contains": text(monitor, "keyword")}


def _json_query(monitor: Monitor, secret: str) -> Made:
    name, args = _http(monitor, secret)
    path = text(monitor, "json_path").removeprefix("$.")
    if not _PATH.fullmatch(path):
        raise NotUnderstood(f"its query {path[:60]!r} is more than a path: write `json_path` by hand")
    if text(monitor, "json_path_operator") not in ("", "=="):
        raise NotUnderstood(f"its operator is {text(monitor, 'json_path_operator')[:20]!r}: write json_crit by hand")
    return name, args | {"json_path": path, "json_equals": text(monitor, "expected_value")}


def _headers(given: str) -> list[str]:
    try:
        table = json.loads(given)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or len(table) > MAX_HEADERS:
        raise NotUnderstood(f"its headers are no table of {count(MAX_HEADERS, 'header')} at most")
    for name in table:
        if _SECRET.search(name):
            raise NotUnderstood(f"its header {name[:40]!r} may be a secret: write it as one, docs/secrets.rst")
    return [f"{name}: {value}" for name, value in table.items()]


def _statuses(given: str) -> list[str]:
    try:
        listed = json.loads(given or '["200-299"]')
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list) or not listed:
        raise NotUnderstood(f"its accepted statuses are {given[:60]!r}, which is no list")
    found = []
    for each in map(str, listed):
        if match := _RANGE.fullmatch(each):
            found.append(f"{match[1]}xx")
        elif re.fullmatch(r"[1-5]\d\d", each):
            found.append(each)
        else:
            raise NotUnderstood(f"its accepted status {each[:20]!r} is neither one status nor a hundred of them")
    return found


def _ping(monitor: Monitor, secret: str) -> Made:
    return "ping", {"host": "{address}"}


def _port(monitor: Monitor, secret: str) -> Made:
    return "tcp", {"host": "{address}", "port": int(number(monitor, "port", 1, 65_535, 0))}


def _dns(monitor: Monitor, secret: str) -> Made:
    kind = text(monitor, "dns_resolve_type") or "A"
    if kind not in ("A", "AAAA", "MX", "TXT", "NS", "CNAME", "SOA", "PTR"):
        raise NotUnderstood(f"it asks for {kind[:20]!r}, which the check dns doesn't")
    server = text(monitor, "dns_resolve_server").partition(",")[0].strip()
    args: dict[str, Any] = {"name": text(monitor, "hostname"), "type": kind}
    return "dns", args | ({"server": server} if server else {})


def _docker(monitor: Monitor, secret: str) -> Made:
    if not (container := text(monitor, "docker_container")):
        raise NotUnderstood("it names no container")
    return "docker", {"containers": [container]}


def _database(check: str, port: int) -> Callable[[Monitor, str], Made]:
    """Return a maker for databases: their account, and the password as a secret."""

    def make(monitor: Monitor, secret: str) -> Made:
        url = urlsplit(text(monitor, "database_connection_string"))
        args: dict[str, Any] = {"host": "{address}"}
        try:
            args |= {"port": url.port} if url.port and url.port != port else {}
        except ValueError:
            raise NotUnderstood("its connection string has a port that is none") from None
        args |= {"user": url.username} if url.username else {}
        args |= {"database": url.path.strip("/")} if check == "postgresql" and url.path.strip("/") else {}
        args |= {"tls": "verify"} if url.scheme == "rediss" else {}
        return check, args | ({"password": {"secret": secret}} if url.password else {})

    return make


MAKERS: Mapping[str, Callable[[Monitor, str], Made]] = {
    "http": _http, "keyword": _keyword, "json-query": _json_query, "ping": _ping, "port": _port, "dns": _dns,
    "docker": _docker, "postgres": _database("postgresql", 5432), "mysql": _database("mysql", 3306),
    "redis": _database("redis", 6379),
}  # fmt: skip
