"""Implement `helen push`: validate, sign and publish checks, and show how they arrive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli import agent_upgrade, rollout
from helen.cli.base.client import Client, Failed
from helen.cli.base.offline_signing import wanted_of
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.pushed_files import read_files
from helen.cli.base.rollout_plan import read_plan
from helen.cli.base.signing_record import open_keys
from helen.cli.base.staged_set import answer_of, publish_file, save_set, sign, signing_options
from helen.cli.rollout import CURRENT, follow

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
@click.option("--rings", metavar="RINGS", help="Order of agents: 1%,10%,100%, or role=canary,100%; off: all at once.")
@click.option("--canary", metavar="PERCENT", help="Share of the agents that runs it first: 1% is --rings 1%,100%.")
@click.option(
    "--gate", "gates", metavar="NAME=VALUE", multiple=True, help="Limit that each ring must keep, such as errors=5%."
)
@click.option("--replace", is_flag=True, help="Take back the rollout that is under way, if there is one.")
@click.option("--detach", is_flag=True, help="Return at once, without showing the rollout.")
@click.option("--dry-run", is_flag=True, help="Show what would be published, and to which agents first.")
@click.option(
    "--yes", is_flag=True, help="Publish though Helen was restored from a backup: agents may hold newer checks."
)
@click.option("--undo", is_flag=True, help="Go back to the set before the newest one.")
@signing_options
@click.option("--no-way-back", is_flag=True, help="Sign the push so that it can't be undone with --undo.")
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the set into this file for `helen sign`, in place of publishing it.",
)  # fmt: skip
@click.option(
    "--signed", type=click.Path(path_type=Path, exists=True, dir_okay=False), multiple=True,
    help="Publish a file of --save that enough people have signed; repeat it to join their signatures.",
)  # fmt: skip
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
    yes: bool,
    undo: bool,
    removed: tuple[str, ...],
    first: bool,
    undone: bool,
    no_way_back: bool,
    save: Path | None,
    signed: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Bring FILES into Helen's folder of checks and, ring by ring, to all agents.

    Tests beside a file (tests/NAME.lua) come along and must pass. With --key the set is built and signed here: each
    file in it must be one of FILES, or as the key has signed it before (its record lies in FILE.signed beside the key).

    Exit status 1: it was taken back, an agent can't use a file, or none runs it though some were there. 130: Ctrl-C,
    the rollout goes on.
    """
    plan = read_plan(rings, canary, gates)
    if signed and (files or wheels or keys or removed or undo or dry_run or save):
        raise click.UsageError("--signed publishes what is signed already: it goes with --rings and --gate alone")
    if undo and (files or wheels or dry_run or plan or replace or removed or save):
        raise click.UsageError(
            "--undo takes the whole set back at once: it goes with no FILES, --dry-run, --rings or --gate"
        )
    if wheels and (files or dry_run):
        raise click.UsageError("--agent goes out with the published set: push FILES by themselves, before or after")
    expected = 0
    with open_keys(keys) as private:
        if yes and not dry_run:
            client.post("/api/v1/push/confirm", patience=LINT_SECONDS)
        if undo:
            client.post("/api/v1/push/undo")
            raise SystemExit(wait_for_all(client, as_json))
        if signed:
            publish_file(client, signed, plan)
        else:
            expected = answer_of(client)["agents"] if wheels else 0  # an agent that tries it out is away meanwhile
            brought = read_files(files) | ({"remove": list(removed)} if removed else {})
            done = submit(client, brought, wheels, plan, {"dry_run": dry_run, "replace": replace})
            for warning in done.get("warnings", []) if not as_json else ():
                echo(plain(warning), err=True)
            state, rings = answer_of(client), done.get("plan", [])
            if dry_run:
                print_json(state | {"plan": rings}) if as_json else show_plan(state, files, rings)
                return
            contents = {name: text.encode("utf-8", "surrogateescape") for name, text in brought["files"].items()}
            wanted = wanted_of(contents, removed, agent_upgrade.read_wheels(wheels), first, no_way_back, undone)
            if save is not None:
                save_set(state["staged"], private, wanted, plan, save)
                return
            if state["staged"] is not None:
                sign(client, state["staged"], private, wanted, plan)
    if not detach:
        status = follow(client, as_json, expected)
        raise SystemExit(status if status or not wheels else agent_upgrade.follow(client, expected, as_json))
    shown = client.get(CURRENT)
    print_json(shown) if as_json else echo(f"version {shown['version']}: `helen rollout watch` shows progress")


def submit(
    client: Client, brought: dict[str, Any], wheels: tuple[Path, ...], plan: dict[str, Any], flags: dict[str, bool]
) -> dict[str, Any]:
    """Send wheels or files to Helen; return its answer, `{"warnings", "plan"}`, the latter for a dry run of files.

    `brought`: the body of a push as `read_files` returns it, perhaps with `remove`.
    """
    done: Any = {}
    if wheels:
        agent_upgrade.send(client, agent_upgrade.read_wheels(wheels), plan, LINT_SECONDS)
    elif brought["files"] or "remove" in brought:
        done = client.post("/api/v1/push", brought | plan | flags, LINT_SECONDS)
    if not isinstance(done, dict) or not all(isinstance(done.get(name, []), list) for name in ("warnings", "plan")):
        raise Failed("Helen's answer to the push can't be read: is this a Helen?")
    return done


def wait_for_all(client: Client, as_json: bool) -> int:
    """Wait until every connected agent has gone back, and return the exit status.

    Raises Failed if some have not after WATCH_SECONDS.
    """
    until = time.monotonic() + rollout.WATCH_SECONDS
    while True:
        state = client.get("/api/v1/push")
        if state["loaded"] >= state["agents"]:
            break
        if time.monotonic() >= until:
            waited = f"after {words_of(rollout.WATCH_SECONDS)} {state['loaded']} of {state['agents']}"
            raise Failed(f"{waited} agents run it; it goes on")
        time.sleep(rollout.LOOK_SECONDS)
    if as_json:
        print_json(state)
        return 0
    last = state["rollout"]
    echo(f"version {state['version']}: {state['loaded']} of {state['agents']} agents run it")
    echo(f"version {last['version']} was taken back: {plain(last['why'])}")
    echo(
        "the folder of checks stays as it is; files that were taken back wait there for a change (see `helen checks`)",
        err=True,
    )
    return 0


def show_plan(state: dict[str, Any], files: tuple[Path, ...], plan: list[dict[str, Any]]) -> None:
    """Print the rings of a dry run with their first members."""
    staged = state["staged"]
    if staged is not None:
        echo(f"version {staged['version']} waits for a signature: {count(len(staged['files']), 'file')}")
    for path in files:
        echo(f"{path.name}: fine")
    for ring in plan:
        names = ", ".join(ring["members"][:NAMED]) + (" ..." if ring["size"] > NAMED else "")
        named = f": {plain(names)}" if names else ""
        echo(f"ring {ring['number']} ({plain(ring['ring'])}): {count(ring['size'], 'agent')}{named}")
    echo(f"{count(state.get('agents', 0), 'agent')} would be told; published now: version {state['version']}")
