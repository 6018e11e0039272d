"""Implement `helen push`: validate, sign and publish checks, and show how they arrive."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest
from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli import agent_upgrade, rollout
from helen.cli.base.client import Client, Failed
from helen.cli.base.judged_set import Wanted
from helen.cli.base.offline_signing import SetFile, has_published, sign_staged, wanted_of
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.pinned import judge_pinned
from helen.cli.base.signing_record import KeyFile, open_keys
from helen.cli.rollout import CURRENT, follow
from helen.files.state_dir import StateError
from helen.keys import signing_keys
from helen.rollout.gate_limits import read_limits
from helen.rollout.rings import read_fraction, read_rings

NAMED = 5  # members of a ring that a dry run names
LINT_SECONDS = 75.0  # that Helen has for an answer: twice the start of a linter, on a machine that is busy


def signing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --remove, --first and --undone, by which an operator says what a signed set may differ in."""

    @click.option("--remove", "removed", metavar="NAME", multiple=True, help="A file that leaves the set; repeatable.")
    @click.option("--first", is_flag=True, help="Begin the record of what --key signs: first use, or it was lost.")
    @click.option("--undone", is_flag=True, help="The set that --key has signed last was undone: go on from before it.")
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **kwargs)

    return wrapped


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


def answer_of(client: Client) -> dict[str, Any]:
    """Return the answer of `GET /api/v1/push`; raises Failed if it is none."""
    state = client.get("/api/v1/push")
    if not isinstance(state, dict) or not {"staged", "agents", "version"} <= state.keys():
        raise Failed("Helen's answer about the push can't be read: is this a Helen?")
    return state


def save_set(staged: Any, keys: Sequence[KeyFile], wanted: Wanted, plan: dict[str, Any], path: Path) -> None:
    """Write a staged set, signed by the keys that are given, into a file for `helen sign`; raises Failed."""
    if staged is None:
        raise Failed("nothing waits for a signature: Helen has published it, or nothing has changed")
    if keys:
        new, undo, _ = sign_staged(keys, staged, wanted)
    else:
        new, undo = (manifest.seal(str(staged[name]).encode(), []) for name in ("manifest", "undo"))
    SetFile(new, undo, plan).write(path)
    by = ", ".join(key.id for key in keys) or "no key yet"
    echo(f"{path} holds the set, signed by {by}. The next person runs: helen sign {path} FILES --key KEY")


def publish_file(client: Client, paths: Sequence[Path], plan: dict[str, Any]) -> None:
    """Publish the set of files that people have signed, with the signatures of all; raises Failed."""
    found = [SetFile.read(path) for path in paths]
    whole = functools.reduce(SetFile.merged, found)
    chosen = {**whole.plan, **plan}
    for name, value in chosen.items() if whole.plan else ():
        echo(plain(f"{name}, {'as you say' if name in plan else 'as the file says'}: {json.dumps(value)}"), err=True)
    body = {"manifest": whole.new.decode(), "undo": whole.undo.decode()}
    client.post("/api/v1/push/signed", chosen | body)


def read_plan(rings: str | None, canary: str | None, gates: tuple[str, ...]) -> dict[str, Any]:
    """Return the options for the API, `{"rings", "canary", "gates"}`, each only if it was given.

    Raises UsageError or BadParameter for a value that can't be used, before anything is sent.
    """
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


def read_files(files: tuple[Path, ...]) -> dict[str, Any]:
    """Return the body of a push, `{"files": {NAME: TEXT}, "tests": {NAME: TEXT}}`, with the tests beside the files."""
    contents: dict[str, str] = {}
    tests: dict[str, str] = {}
    for path in files:
        name = f"lib/{path.name}" if path.absolute().parent.name == "lib" else path.name
        judge_pinned(path.absolute().parents[name.count("/")], {name, f"tests/{name}"})
        contents[name] = read_text(path)
        beside = path.parent / "tests" / path.name
        if beside.exists():
            tests[path.name] = read_text(beside)
    return {"files": contents, "tests": tests}


def read_text(path: Path) -> str:
    """Return a file's text, with bytes that are no UTF-8 as surrogates; raises Failed if it can't be read."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error


def read_key(path: Path) -> Ed25519PrivateKey:
    """Return a private signing key; raises Failed if the file is none.

    Callers read keys before anything is sent, so that no set is staged for a key that can't be used.
    """
    try:
        return signing_keys.load_private(path)
    except StateError as error:
        raise Failed(str(error)) from error


def sign(client: Client, staged: Any, keys: Sequence[KeyFile], wanted: Wanted, plan: dict[str, Any]) -> None:
    """Sign a staged set and its undo, and send the signatures; raises Failed without a key, or for another set.

    `staged` is that of `GET /api/v1/push`, `plan` the rings and gates of read_plan.
    """
    if not keys:
        raise Failed("the set is staged, and Helen holds no key to sign it: run `helen push --key FILE`")
    new, undo, record = sign_staged(keys, staged, wanted)
    client.post("/api/v1/push/signed", {"manifest": new.decode(), "undo": undo.decode()} | plan)
    has_published(keys, record)


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
