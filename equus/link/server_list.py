"""Read and keep the list of other Helens that our Helen has sent; they are tried when ours is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.logger import Logger

from equus.identity.identity import split_certificates
from equus.settings import MAX_SERVERS, Server, SettingsError, parse_server

FILE = "servers.json"

log = Logger()


class ServersRefused(Exception):
    """Says that the list can't be used; the text says why. The one before stays."""


def parse(blob: bytes) -> tuple[Server, ...]:
    """Return the servers of a JSON list `[{"address", "name", "ca"}, ...]`. Raises ServersRefused if it has a fault."""
    try:
        document = json.loads(blob)
    except (ValueError, RecursionError) as error:
        raise ServersRefused(f"the list of servers is not JSON: {error}") from error
    if not isinstance(document, list) or len(document) > MAX_SERVERS:
        raise ServersRefused(f"the list of servers is not a list of at most {MAX_SERVERS}")
    return tuple(_read(item) for item in document)


def _read(item: Any) -> Server:
    if not isinstance(item, dict) or not isinstance(item.get("address"), str):
        raise ServersRefused(f"a server without an address: {item!r}"[:200])
    try:
        server = parse_server(item["address"])
        named = parse_server(item["name"]).host if isinstance(item.get("name"), str) and item["name"] else server.host
    except SettingsError as error:
        raise ServersRefused(str(error)) from error
    ca = item.get("ca")
    if isinstance(ca, str) and split_certificates(ca.encode("utf-8", "replace")):
        return evolve(server, verify=named, ca=ca)
    return evolve(server, verify=named)


def load(state: Path) -> tuple[Server, ...]:
    """Return the list that was kept; none if there is none.

    One that can't be read is logged and counts as none, since the configured servers come first anyway.
    """
    try:
        return parse((state / FILE).read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ServersRefused) as error:
        log.error("{path} can't be read ({why}): only configured servers are tried", path=FILE, why=error)
        return ()
