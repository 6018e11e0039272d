"""`helen quickstart`: a Helen and an agent on this machine, running until Ctrl-C; state is kept for the next time.

Both start at the same moment: identities and the agents' port are made before, the first checks are asked at once.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from helen.cli import first_checks
from helen.cli.failures import Failed
from helen.cli.local import START_SECONDS, Local, address_of, listening, until_stopped
from helen.ports import DEFAULT_PORT
from helen.statedir import StateError

if TYPE_CHECKING:
    from helen.cli.live import Live

LOOK_SECONDS = 0.25
SOON_SECONDS = 0.03  # between two looks while everything starts


@click.command()
@click.option("--state", type=click.Path(path_type=Path), envvar="HELEN_STATE", help="Folder for all that is kept.")
@click.option("--listen", metavar="HOST", default="127.0.0.1", show_default=True, help="Where other machines reach it.")
@click.option("--seconds", type=float, help="End by itself after so long.")
def quickstart(state: Path | None, listen: str, seconds: float | None) -> None:
    """Server and agent on this machine, in one go: real results within seconds, nothing to configure."""
    began = time.monotonic()
    local = Local(state or default_folder())
    name = agent_name()
    with until_stopped():
        try:
            start(local, name, listen)
            live: Live = importlib.import_module("helen.cli.live").Live(local.client, began)
            tell(local)
            first_results(local, live, name)
            watch(local, live, None if seconds is None else began + seconds)
        except KeyboardInterrupt:
            click.echo("\nstopping; `helen quickstart` goes on from here")
        finally:
            local.stop()


def start(local: Local, name: str, listen: str) -> None:
    """Helen and the agent, side by side; returns once Helen answers."""
    with listening(listen, DEFAULT_PORT) as agents, listening("127.0.0.1", DEFAULT_PORT + 1) as web:
        try:
            local.start_helen_behind(agents, web, listen, lambda: lay_out(local, name, listen))
        except OSError as error:
            raise Failed(f"{local.folder} can't be used: {error.strerror}. Give another --state") from error
        local.start_agent(name, ["role=quickstart"], address_of(agents, listen).replace("0.0.0.0", "127.0.0.1"))
    local.wait_for_helen()


def lay_out(local: Local, name: str, listen: str) -> None:
    """Keys, identities and the first checks."""
    provision = importlib.import_module("helen.cli.provision")  # by now Helen's own imports are on their way
    try:
        provision.provision(local.state, local.folder / name, name, listen)
    except StateError as error:
        raise Failed(str(error)) from error


def first_results(local: Local, live: Live, name: str) -> None:
    """Ask as soon as the agent has its first checks; the others come by their schedule."""
    until = time.monotonic() + START_SECONDS
    while not has_checks(local, name):
        local.check_alive()
        if time.monotonic() > until:
            raise Failed(f"the agent did not get its checks within {START_SECONDS:g} s; its log is {local.log(name)}")
        time.sleep(SOON_SECONDS)
    for file in first_checks.FIRST:
        live.ask(name, file.removesuffix(".lua"))
    first_checks.complete(local.state / "checks")


def has_checks(local: Local, name: str) -> bool:
    with contextlib.suppress(Failed):
        found = local.client.get(f"/api/v1/agents?on={name}")["agents"]
        return bool(found and found[0]["current"])
    return False


def default_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "helen"


def agent_name() -> str:
    """This host's name as an agent may have it."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in socket.gethostname().lower()).strip("-._")
    return name.replace("..", ".")[:63] or "localhost"


def tell(local: Local) -> None:
    """Where things are, and what to do next."""
    click.echo(f"Helen listens on {local.run['agents']}; her HTTP API is http://{local.run['web']}/api/v1/status")
    click.echo(f"  token of the API   {local.state / 'web.token'}")
    click.echo(f"  another machine    helen token --state {local.state}")
    click.echo(f"  your own checks    put NAME.lua into {local.state / 'checks'}: all agents run it within seconds")
    click.echo(f"  signing key        {local.state / 'signing.key'}: whoever has it decides what all agents run")
    click.echo("                     `helen keys rotate --new FILE` hands that to a key that lies elsewhere")
    click.echo(f"  ask her            helen agents | checks | status | top | run --state {local.state}")
    click.echo("Ctrl-C stops it. Results as they come:\n")


def watch(local: Local, live: Live, until: float | None) -> None:
    while until is None or time.monotonic() < until:
        live.look()
        local.check_alive()
        time.sleep(LOOK_SECONDS)
