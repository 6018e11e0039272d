"""`helen push`: validate, sign, publish, and watch it arrive."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest
from helen import signing
from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen, output, plain, print_json
from helen.rollout import read_fraction
from helen.statedir import StateError

WATCH_SECONDS = 60.0  # that a push is watched; it goes on without us
LOOK_SECONDS = 0.2


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--key",
    "keys",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Sign with this private key, which Helen doesn't hold; repeat it where two must sign.",
)
@click.option(
    "--agent",
    "wheels",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="A wheel of a newer Equus, which goes out with the set; hosts take it if their policy allows it.",
)
@click.option("--canary", metavar="PERCENT", help="The share of the agents that runs it first, such as 1%.")
@click.option("--dry-run", is_flag=True, help="Say what would be published, and change nothing.")
@click.option("--undo", is_flag=True, help="Go back to the set before the newest one.")
@output
@for_a_helen
def push(
    client: Client,
    files: tuple[Path, ...],
    keys: tuple[Path, ...],
    wheels: tuple[Path, ...],
    canary: str | None,
    dry_run: bool,
    undo: bool,
    as_json: bool,
) -> None:
    """Bring FILES into Helen's folder of checks and to all agents.

    Tests that lie beside a file (tests/NAME.lua) come along and must pass. Without FILES the folder is taken as it is:
    that is how a staged set is signed with --key.
    """
    if undo and (files or wheels or dry_run or canary):
        raise click.UsageError("--undo goes back as a whole and at once: it takes no FILES, --dry-run or --canary")
    if wheels and (files or dry_run):
        raise click.UsageError("--agent goes out with the published set: push FILES by themselves, before or after")
    private = [read_key(key) for key in keys]
    if canary is not None:
        read_canary(canary)
    if undo:
        client.post("/api/v1/push/undo")
        click.echo(
            "the folder of checks stays as it is, and the next push or change publishes all of it: mend it first",
            err=True,
        )
    elif wheels:
        client.post("/api/v1/push/agent", {"wheels": read_wheels(wheels), "canary": canary})
    elif files:
        done = client.post("/api/v1/push", read_files(files) | {"canary": canary, "dry_run": dry_run})
        for warning in done["warnings"] if not as_json else ():
            click.echo(plain(warning), err=True)
    state = client.get("/api/v1/push")
    if state["staged"] is not None and not dry_run:
        state = sign(client, state, private, canary)
    if dry_run:
        print_json(state) if as_json else show_plan(state, files)
        return
    watch(client, state["version"], as_json)


def read_files(files: tuple[Path, ...]) -> dict[str, Any]:
    """What the API wants: the text of each file and of the tests beside it."""
    contents: dict[str, str] = {}
    tests: dict[str, str] = {}
    for path in files:
        name = f"lib/{path.name}" if path.absolute().parent.name == "lib" else path.name
        contents[name] = read_text(path)
        beside = path.parent / "tests" / path.name
        if beside.exists():
            tests[path.name] = read_text(beside)
    return {"files": contents, "tests": tests}


def read_wheels(paths: tuple[Path, ...]) -> dict[str, str]:
    try:
        return {path.name: base64.b64encode(path.read_bytes()).decode() for path in paths}
    except OSError as error:
        raise Failed(f"{error.filename} can't be read: {error.strerror}") from error


def read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error


def read_key(path: Path) -> Ed25519PrivateKey:
    """Before anything is sent: a set should not be staged for a key that can't be read."""
    try:
        return signing.load_private(path)
    except StateError as error:
        raise Failed(str(error)) from error


def read_canary(text: str) -> float:
    try:
        return read_fraction(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--canary") from error


def sign(client: Client, state: dict[str, Any], private: list[Ed25519PrivateKey], canary: str | None) -> dict[str, Any]:
    """Bring the signatures for what is staged: for the set, and for its undoing."""
    if not private:
        raise Failed("the set is staged, and Helen holds no key to sign it: run `helen push --key FILE`")
    staged = state["staged"]
    new, back = (manifest.sign(staged[name].encode(), private).decode() for name in ("manifest", "undo"))
    client.post("/api/v1/push/signed", {"manifest": new, "undo": back, "canary": canary})
    answer: dict[str, Any] = client.get("/api/v1/push")
    return answer


def show_plan(state: dict[str, Any], files: tuple[Path, ...]) -> None:
    staged = state["staged"]
    if staged is not None:
        click.echo(f"version {staged['version']} waits for a signature: {len(staged['files'])} files")
    for path in files:
        click.echo(f"{path.name}: fine")
    click.echo(f"{state.get('agents', 0)} agents would be told; published now: version {state['version']}")


def watch(client: Client, version: int | None, as_json: bool) -> None:
    """Say how it goes until every connected agent runs the set, or something keeps it from that."""
    until = time.monotonic() + WATCH_SECONDS
    said = ""
    while True:
        state = client.get("/api/v1/push")
        line = progress(state)
        if line != said and not as_json:
            click.echo(line)
        said = line
        ring = state["ring"]
        over = ring is None or ring["state"] != "open"
        if over and state["loaded"] >= state["agents"]:
            break
        if time.monotonic() >= until:
            raise Failed(f"after {WATCH_SECONDS:g} s {state['loaded']} of {state['agents']} agents run it; it goes on")
        time.sleep(LOOK_SECONDS)
    if as_json:
        print_json(state)
    for agent, broken in state["kept_old"].items():
        for file, error in broken.items():
            click.echo(f"{plain(agent)} keeps the old {plain(file)}: {plain(error)}", err=True)
    undone = state["ring"] is not None and state["ring"]["state"] == "undo" and state["version"] != version
    raise SystemExit(1 if state["kept_old"] or undone else 0)


def progress(state: dict[str, Any]) -> str:
    line = f"version {state['version']}: {state['loaded']} of {state['agents']} agents run it"
    ring = state["ring"]
    if ring is not None and ring["state"] == "open":
        line += f" (first ring: {len(ring['confirmed'])} of {len(ring['members'])} confirmed)"
    elif ring is not None and ring["state"] == "undo":
        line += f" (version {ring['version']} was taken back: {plain(ring['why'])})"
    return line
