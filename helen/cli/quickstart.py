"""`helen quickstart`: a Helen and an agent on this machine, running until Ctrl-C; state is kept for the next time."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import click

from helen.cli.live import Live
from helen.cli.local import Local, free_port
from helen.settings import DEFAULT_PORT

LOOK_SECONDS = 0.25


@click.command()
@click.option("--state", type=click.Path(path_type=Path), envvar="HELEN_STATE", help="Folder for all that is kept.")
@click.option("--listen", metavar="HOST", default="127.0.0.1", show_default=True, help="Where other machines reach it.")
@click.option("--seconds", type=float, help="End by itself after so long.")
def quickstart(state: Path | None, listen: str, seconds: float | None) -> None:
    """Server and agent on this machine, in one go: real results within seconds, nothing to configure."""
    folder = state or default_folder()
    local = Local(folder)
    try:
        port, web = free_port(DEFAULT_PORT), free_port(DEFAULT_PORT + 1)
        local.start_helen(f"{listen}:{port}", f"127.0.0.1:{web}")
        local.start_agent(agent_name(), ["role=quickstart"])
        tell(local)
        watch(local, seconds)
    except KeyboardInterrupt:
        click.echo("\nstopping; `helen quickstart` goes on from here")
    finally:
        local.stop()


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
    click.echo(
        f"  signing key        {local.state / 'signing.key'} lies beside Helen; docs/security.rst: keep it elsewhere"
    )
    click.echo(f"  ask her            helen agents | checks | status | run --state {local.state}")
    click.echo("Ctrl-C stops it. Results as they come:\n")


def watch(local: Local, seconds: float | None) -> None:
    live = Live(local.client)
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        live.look()
        local.check_alive()
        time.sleep(LOOK_SECONDS)
