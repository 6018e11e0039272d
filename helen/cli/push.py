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
from helen.cli import rollout
from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen, output, plain, print_json
from helen.cli.rollout import CURRENT, follow
from helen.gate_limits import read_limits
from helen.rings import read_fraction, read_rings
from helen.statedir import StateError

NAMED = 5  # members of a ring that a dry run names
LINT_SECONDS = 75.0  # that Helen has for an answer: twice the start of a linter, on a machine that is busy


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
@click.option("--rings", metavar="RINGS", help="Who runs it first: 1%,10%,100%, or role=canary,100%; off: all at once.")
@click.option("--canary", metavar="PERCENT", help="The share of the agents that runs it first: 1% is --rings 1%,100%.")
@click.option(
    "--gate", "gates", metavar="NAME=VALUE", multiple=True, help="What a ring must keep to, such as errors=5%."
)
@click.option("--replace", is_flag=True, help="Take back the rollout that is under way, if there is one.")
@click.option("--detach", is_flag=True, help="Don't watch how it goes.")
@click.option("--dry-run", is_flag=True, help="Say what would be published, and to whom first, and change nothing.")
@click.option("--undo", is_flag=True, help="Go back to the set before the newest one.")
@output
@for_a_helen
def push(
    client: Client,
    files: tuple[Path, ...],
    keys: tuple[Path, ...],
    wheels: tuple[Path, ...],
    rings: str | None,
    canary: str | None,
    gates: tuple[str, ...],
    replace: bool,
    detach: bool,
    dry_run: bool,
    undo: bool,
    as_json: bool,
) -> None:
    """Bring FILES into Helen's folder of checks and, ring by ring, to all agents.

    Tests that lie beside a file (tests/NAME.lua) come along and must pass. Without FILES the folder is taken as it is:
    that is how a staged set is signed with --key. Exit status 1: it was taken back, or an agent can't use a file.
    """
    plan = read_plan(rings, canary, gates)
    if undo and (files or wheels or dry_run or plan or replace):
        raise click.UsageError(
            "--undo goes back as a whole and at once: it takes no FILES, --dry-run, --rings or --gate"
        )
    if wheels and (files or dry_run):
        raise click.UsageError("--agent goes out with the published set: push FILES by themselves, before or after")
    private = [read_key(key) for key in keys]
    done: dict[str, Any] = {"warnings": []}
    if undo:
        client.post("/api/v1/push/undo")
    elif wheels:
        client.post("/api/v1/push/agent", {"wheels": read_wheels(wheels)} | plan, LINT_SECONDS)
    elif files:
        done = client.post(
            "/api/v1/push", read_files(files) | plan | {"dry_run": dry_run, "replace": replace}, LINT_SECONDS
        )
    for warning in done["warnings"] if not as_json else ():
        click.echo(plain(warning), err=True)
    state = client.get("/api/v1/push")
    if state["staged"] is not None and not dry_run and not undo:
        sign(client, state, private, plan)
    if dry_run:
        print_json(state | {"plan": done.get("plan", [])}) if as_json else show_plan(state, files, done.get("plan", []))
        return
    if undo:
        raise SystemExit(wait_for_all(client, as_json))
    if not detach:
        raise SystemExit(follow(client, as_json))
    shown = client.get(CURRENT)
    print_json(shown) if as_json else click.echo(f"version {shown['version']}: `helen rollout watch` shows how it goes")


def read_plan(rings: str | None, canary: str | None, gates: tuple[str, ...]) -> dict[str, Any]:
    """What of it was said, for the API; whatever can't be is found out before anything is sent."""
    if rings is not None and canary is not None:
        raise click.UsageError("--canary is short for --rings: give one of them")
    said: dict[str, Any] = {}
    try:
        if rings is not None:
            read_rings(rings)
            said["rings"] = rings
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rings") from error
    try:
        if canary is not None:
            read_fraction(canary)
            said["canary"] = canary
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--canary") from error
    named = dict(gate.partition("=")[::2] for gate in gates)
    try:
        read_limits(named)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--gate") from error
    return said | ({"gates": named} if named else {})


def wait_for_all(client: Client, as_json: bool) -> int:
    """Until every connected agent has gone back."""
    until = time.monotonic() + rollout.WATCH_SECONDS
    while True:
        state = client.get("/api/v1/push")
        if state["loaded"] >= state["agents"]:
            break
        if time.monotonic() >= until:
            waited = f"after {rollout.WATCH_SECONDS:g} s {state['loaded']} of {state['agents']}"
            raise Failed(f"{waited} agents run it; it goes on")
        time.sleep(rollout.LOOK_SECONDS)
    if as_json:
        print_json(state)
        return 0
    last = state["rollout"]
    click.echo(f"version {state['version']}: {state['loaded']} of {state['agents']} agents run it")
    click.echo(f"version {last['version']} was taken back: {plain(last['why'])}")
    click.echo(
        "the folder of checks stays as it is; what was taken back waits there for a change (`helen checks` lists it)",
        err=True,
    )
    return 0


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


def sign(client: Client, state: dict[str, Any], private: list[Ed25519PrivateKey], plan: dict[str, Any]) -> None:
    """Bring the signatures for what is staged: for the set, and for its undoing."""
    if not private:
        raise Failed("the set is staged, and Helen holds no key to sign it: run `helen push --key FILE`")
    staged = state["staged"]
    new, back = (manifest.sign(staged[name].encode(), private).decode() for name in ("manifest", "undo"))
    client.post("/api/v1/push/signed", {"manifest": new, "undo": back} | plan)


def show_plan(state: dict[str, Any], files: tuple[Path, ...], plan: list[dict[str, Any]]) -> None:
    staged = state["staged"]
    if staged is not None:
        click.echo(f"version {staged['version']} waits for a signature: {len(staged['files'])} files")
    for path in files:
        click.echo(f"{path.name}: fine")
    for ring in plan:
        names = ", ".join(ring["members"][:NAMED]) + (" ..." if ring["size"] > NAMED else "")
        named = f": {plain(names)}" if names else ""
        click.echo(f"ring {ring['number']} ({plain(ring['ring'])}): {ring['size']} agents{named}")
    click.echo(f"{state.get('agents', 0)} agents would be told; published now: version {state['version']}")
