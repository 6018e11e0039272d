"""Implement `helen quickstart`: a Helen and an agent on this machine, until Ctrl-C; state is kept for the next time.

Both start at the same time: identities and ports are made before, and the first checks are run at once.
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

from groundwork.terminal import echo
from helen.cli.base.failures import Failed
from helen.cli.local import first_checks
from helen.cli.local.processes import START_SECONDS, TRUSTED, Local, address_of, listening, until_stopped
from helen.files.state_dir import StateError
from helen.settings.settings import DEFAULT_PORT

if TYPE_CHECKING:
    from helen.cli.local.live_results import LiveResults

LOOK_SECONDS = 0.25
SOON_SECONDS = 0.03  # between two looks while everything starts


@click.command()
@click.option("--state", type=click.Path(path_type=Path), help="Folder for Helen's state and the agent's.")
@click.option("--listen", metavar="HOST", default="127.0.0.1", show_default=True, help="Address for other machines.")
@click.option("--seconds", type=float, help="End after this many seconds, instead of with Ctrl-C.")
def quickstart(state: Path | None, listen: str, seconds: float | None) -> None:
    """Start server and agent on this machine, in one go: results within seconds, nothing to configure.

    Both keep their state for the next time, in ~/.local/state/helen or in --state. HELEN_STATE is not looked at: it
    names the state of one Helen, which lies in a folder of this one.
    """
    began = time.monotonic()
    local = Local(state or default_folder())
    name = agent_name()
    with until_stopped():
        try:
            start(local, name, listen)
            live: LiveResults = importlib.import_module("helen.cli.local.live_results").LiveResults(local.client, began)
            show_places(local, link(local))
            first_results(local, live, name)
            watch(local, live, None if seconds is None else began + seconds)
        except KeyboardInterrupt:
            echo("\nstopping; `helen quickstart` goes on from here")
        finally:
            local.stop()


def start(local: Local, name: str, listen: str) -> None:
    """Start Helen and the agent side by side; return once Helen answers. Raises Failed if the folder can't be used."""
    with listening(listen, DEFAULT_PORT) as agents, listening("127.0.0.1", DEFAULT_PORT + 1) as web:
        try:
            local.start_helen_behind(agents, web, listen, lambda: make_identities(local, name, listen))
        except OSError as error:
            raise Failed(f"{local.folder} can't be used: {error.strerror}. Give another --state") from error
        local.start_agent(name, ["role=quickstart"], address_of(agents, listen).replace("0.0.0.0", "127.0.0.1"))
    local.wait_for_helen()


def make_identities(local: Local, name: str, listen: str) -> None:
    """Make keys, identities and the first checks; raises Failed if a Helen runs there already."""
    provision = importlib.import_module("helen.cli.local.provision")  # by now Helen's own imports are on their way
    try:
        provision.provision(local.state, local.folder / name, name, listen)
    except StateError as error:
        raise Failed(str(error)) from error


def first_results(local: Local, live: LiveResults, name: str) -> None:
    """Run the first checks as soon as the agent has them; the others come by their schedule.

    Raises Failed if the agent doesn't get them within START_SECONDS.
    """
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
    """Return True once the agent runs the published set."""
    with contextlib.suppress(Failed):
        found = local.client.get(f"/api/v1/agents?on={name}")["agents"]
        return bool(found and found[0]["current"])
    return False


def default_folder() -> Path:
    """Return the folder for state, by the XDG convention."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "helen"


def agent_name() -> str:
    """Return this host's name, changed where an agent's name may not have its characters."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in socket.gethostname().lower()).strip("-._")
    return name.replace("..", ".")[:63] or "localhost"


def show_places(local: Local, pages: str) -> None:
    """Print addresses, files, and the next commands; `pages` is a link for a browser."""
    if not str(local.run["agents"]).endswith(f":{DEFAULT_PORT}"):
        echo(f"Port {DEFAULT_PORT} is taken here, so this Helen has another one.")
    echo(f"Helen listens on {local.run['agents']}; its HTTP API is http://{local.run['web']}/api/v1/status")
    echo(f"  in a browser       {pages}")
    echo(f"                     good once, for two minutes; another one: helen open --state {local.state}")
    echo(f"  token of the API   {local.state / 'web.token'}")
    echo(f"  another machine    helen token --state {local.state}")
    echo(f"  labels             trusted as agents give them: {', '.join(TRUSTED)}; all others come with the token")
    echo(f"  your own checks    put NAME.lua into {local.state / 'checks'}: all agents run it within seconds")
    echo(f"  signing key        {local.state / 'signing.key'}: a person who has it decides what all agents run")
    echo("                     `helen keys rotate --new FILE` replaces it by a key that is kept elsewhere")
    echo(f"  ask Helen          helen agents | checks | status | top | run --state {local.state}")
    echo("Ctrl-C stops it. Results as they come:\n")


def link(local: Local) -> str:
    """Return a link to the pages, for a person who may change checks as well."""
    make_link = importlib.import_module("helen.cli.base.session_link").make_link
    return str(make_link(local.client, ("operate", "push"))["url"])


def watch(local: Local, live: LiveResults, until: float | None) -> None:
    """Print results until Ctrl-C, or until the monotonic time `until`."""
    while until is None or time.monotonic() < until:
        live.look()
        local.check_alive()
        time.sleep(LOOK_SECONDS)
