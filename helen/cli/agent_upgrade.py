"""Send the wheels of a newer Equus for `helen push --agent`, and show how many agents confirm that they run it."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equus_protocol import pieces
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import plain, print_json

AT_ONCE = 5 * 1024 * 1024  # bytes of wheels in one request: 6.7 MiB in base64, of the 8 MiB that it holds
UPGRADE_SECONDS = 90.0  # after the set is loaded: a trial of 60 s, its end, and a reconnect
LOOK_SECONDS = 0.2
HOSTS_CHOICE = "denied:"  # how the refusal of a host begins whose policy does not allow upgrades


def read_wheels(paths: tuple[Path, ...]) -> dict[str, bytes]:
    """Return the wheels by file name; raises Failed if one can't be read."""
    try:
        return {path.name: path.read_bytes() for path in paths}
    except OSError as error:
        raise Failed(f"{error.filename} can't be read: {error.strerror}") from error


def send(client: Client, wheels: Mapping[str, bytes], plan: dict[str, Any], seconds: float) -> None:
    """Send wheels to Helen, in several requests if one can't hold them. `seconds`: the time for each answer."""
    large = [name for name, content in wheels.items() if len(content) > pieces.PIECE]
    if large:
        note = f"{', '.join(large)} is longer than 1 MiB: agents of version 0.1.0 can't take it (helen agent-wheel)"
        echo(note, err=True)
    groups = list(_groups(wheels))
    for number, group in enumerate(groups, 1):
        encoded = {name: base64.b64encode(content).decode() for name, content in group.items()}
        more = {"more": True} if number < len(groups) else plan
        client.post("/api/v1/push/agent", {"wheels": encoded} | more, seconds)


def _groups(wheels: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    if sum(map(len, wheels.values())) <= AT_ONCE:
        yield dict(wheels)
        return
    group: dict[str, bytes] = {}
    for name, content in pieces.split(wheels).items():
        if group and sum(map(len, group.values())) + len(content) > AT_ONCE:
            yield group
            group = {}
        group[name] = content
    yield group


def follow(client: Client, expected: int, as_json: bool) -> int:
    """Print how many agents run the newer Equus until all have answered; return the exit status of `helen push`.

    `expected`: the agents that were connected before. Raises Failed if none runs it, or if some don't answer within
    UPGRADE_SECONDS.
    """
    until, told, upgrade = time.monotonic() + UPGRADE_SECONDS, "", dict[str, Any]()
    while True:
        shown = client.get("/api/v1/push")
        upgrade, expected = shown.get("upgrade") or {}, max(expected, shown["agents"])
        if not upgrade:
            raise Failed("no newer Equus is on its way any more: it was taken back")
        running, refused = upgrade["running"], upgrade["refused"]
        said = f"Equus {plain(upgrade['version'])}: {running} of {expected} agents run it"
        said += f", {len(refused)} refused it" if refused else ""
        if said != told and not as_json:
            echo(said)
        told = said
        if running + len(refused) >= expected or time.monotonic() >= until:
            break
        time.sleep(LOOK_SECONDS)
    if as_json:
        print_json({"event": "upgrade", "agents": expected, **upgrade})
    for name, why in sorted(refused.items()):
        echo(f"{plain(name)} does not run it: {plain(why)}", err=True)
    if not running:
        raise Failed(f"no agent has confirmed that it runs Equus {upgrade['version']}")
    if running + len(refused) < expected:
        waited = f"after {words_of(UPGRADE_SECONDS)} {running} of {expected} agents run Equus {upgrade['version']}"
        raise Failed(f"{waited}; it goes on")
    return 1 if any(not why.startswith(HOSTS_CHOICE) for why in refused.values()) else 0
