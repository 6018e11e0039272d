"""Signs, saves and publishes a set that Helen has staged because it holds no key for it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from equus_protocol import manifest
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.judged_set import Wanted
from helen.cli.base.offline_signing import SetFile, has_published, sign_staged
from helen.cli.base.options import plain
from helen.cli.base.signing_record import KeyFile


def signing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --remove, --first and --undone, by which an operator says what a signed set may differ in."""

    @click.option("--remove", "removed", metavar="NAME", multiple=True, help="A file that leaves the set; repeatable.")
    @click.option("--first", is_flag=True, help="Begin the record of what --key signs: first use, or it was lost.")
    @click.option("--undone", is_flag=True, help="The set that --key has signed last was undone: go on from before it.")
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **kwargs)

    return wrapped


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


def sign(client: Client, staged: Any, keys: Sequence[KeyFile], wanted: Wanted, plan: dict[str, Any]) -> None:
    """Sign a staged set and its undo, and send the signatures; raises Failed without a key, or for another set.

    `staged` is that of `GET /api/v1/push`, `plan` the rings and gates of read_plan.
    """
    if not keys:
        raise Failed("the set is staged, and Helen holds no key to sign it: run `helen push --key FILE`")
    new, undo, record = sign_staged(keys, staged, wanted)
    client.post("/api/v1/push/signed", {"manifest": new.decode(), "undo": undo.decode()} | plan)
    has_published(keys, record)
