"""Implement `helen checks`: the published checks, and sets of checks from elsewhere in a folder of checks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.failures import Failed, Missing
from helen.cli.base.options import chosen_helen, output, plain, print_json, table, which_helen
from helen.cli.base.private_key import read_key
from helen.cli.sets.assigned import assigned
from helen.cli.sets.shown import next_step, show_plan
from helen.cli.shown.check_list import show_checks
from helen.sets.check_set import SET_FILE, read_set, sign_set
from helen.sets.installing import files_to_push, install, locked, uninstall
from helen.sets.pins import Pins, read_pins
from helen.sets.plan import Agreed, Change, change_of
from helen.sets.refused import SetRefused
from helen.sets.set_folder import read_folder
from helen.sets.sources import read_source
from helen.sets.standing import standing_of
from helen.sets.tar_writer import tar_of
from helen.sets.trial import requirers, try_out

_FOLDER = click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
    help="The folder of checks that the sets lie in.",
)  # fmt: skip
_YES = click.option("--yes", is_flag=True, help="Do it without asking.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show all of it, and write nothing.")


class SetGroup(click.Group):
    """Makes refusals of sets the errors of a command, with exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises Failed with the sentence of a SetRefused."""
        try:
            return super().invoke(ctx)
        except SetRefused as error:
            raise Failed(str(error)) from error


@click.group(cls=SetGroup, invoke_without_command=True)
@output
@which_helen
@click.pass_context
def checks(ctx: click.Context, state: Path | None, url: str | None, token: str | None, as_json: bool) -> None:
    """List the published checks; add, update and remove sets of checks from elsewhere.

    Faults of other files in Helen's folder go to standard error.
    """
    ctx.obj = {"state": state, "url": url, "token": token}
    if ctx.invoked_subcommand is None:
        show_checks(Client(state, url, token).get("/api/v1/checks"), as_json)


@checks.command()
@click.argument("source")
@_FOLDER
@click.option("--author", metavar="ID", help="The id of the key that must have signed it; also accepts a new key.")
@click.option("--older", is_flag=True, help="Go back to an older version than the one that is there.")
@_DRY_RUN
@_YES
def add(source: str, folder: Path, author: str | None, older: bool, dry_run: bool, yes: bool) -> None:
    """Add a set of checks to a folder, or change its version.

    SOURCE is FILE.tar, or git+file:///FOLDER@TAG of a repository on this machine. The rights that it needs on hosts are
    shown before, and its recorded tests must pass. Nothing is published: `helen push` does that.

    Exit status 1: it is refused, or the answer was no.
    """
    place = read_source(source)
    found = read_set(place.files())
    pins, agreed = read_pins(folder), Agreed(author, older)
    change = change_of(found, pins, agreed)
    before = pins.sets.get(found.name)
    if change.is_empty and before is not None and before.digest == found.digest:
        echo(f"{found.name} {found.version} is there already, as it is pinned")
        return
    show_plan(found, str(place), pins, change, try_out(found, folder))
    if dry_run:
        echo("nothing was written")
        return
    confirm(f"Add {found.name} {found.version}?", yes)
    with locked(folder):
        pins = read_pins(folder)
        judge_same(change, change_of(found, pins, agreed))
        install(found, change, pins, str(place))
    next_step(folder, found, change)


@checks.command()
@click.argument("name")
@_FOLDER
@click.option("--offline", is_flag=True, help="Ask no Helen: look only at the assignments.toml beside the folder.")
@_DRY_RUN
@_YES
@which_helen
@click.pass_context
def remove(
    ctx: click.Context, /, name: str, folder: Path, offline: bool, dry_run: bool, yes: bool, **which: Any
) -> None:
    """Take the set NAME out of a folder.

    Exit status 1: one of its checks is assigned, another file needs one of its libraries, a file of it was changed, or
    the answer was no. 3: there is no such set.
    """
    pins = read_pins(folder)
    if name not in pins.sets:
        raise Missing(f"there is no set {name} in {folder}; there is {', '.join(sorted(pins.sets)) or 'none'}")
    client = None if offline else chosen_helen(ctx, which)
    judge_removable(name, pins, client)
    for each in sorted(pins.sets[name].files):
        echo(plain(f"- {each}"))
    if dry_run:
        echo("nothing was written")
        return
    confirm(f"Remove {name} {pins.sets[name].version}?", yes)
    with locked(folder):
        again = read_pins(folder)
        if again.sets.get(name) != pins.sets[name]:
            raise Failed("the folder has changed meanwhile: nothing was removed, say it again")
        judge_removable(name, again, client)  # once more: the question may have waited for hours
        pushed = files_to_push(again.sets[name].files)
        uninstall(name, again)
    words = " ".join(f"--remove {each}" for each in pushed)
    echo(f"Removed {name}. Tell the agents: helen push {words}")


def judge_removable(name: str, pins: Pins, client: Client | None) -> None:
    """Raise Failed if a file of this set was changed here, or is in use."""
    changed = [f"{each} was changed" for each in pins.worked_on(name)]
    if changed:
        raise Failed(f"{', '.join(changed)} since it was added: keep yours under another name first")
    judge_unused(name, pins, client)


def judge_unused(name: str, pins: Pins, client: Client | None) -> None:
    """Raise Failed if a check of this set is assigned, or a file of another needs a library of it."""
    files = set(pins.sets[name].files)
    names = {each.removesuffix(".lua") for each in files if "/" not in each}
    entries = assigned(names, pins.folder, client)
    if entries:
        raise Failed(f"{name} is in use: {'; '.join(entries)}. Take these away first")
    libraries = {each.removeprefix("lib/").removesuffix(".lua") for each in files if each.startswith("lib/")}
    needed_by = requirers(pins.folder, libraries, files) if libraries else []
    if needed_by:
        raise Failed(f"{', '.join(needed_by)} requires a library of {name}: change or remove that first")


def judge_same(shown: Change, now: Change) -> None:
    """Raise SetRefused if the folder has changed since the plan was shown."""
    if shown != now:
        raise SetRefused("the folder has changed meanwhile: nothing was written, say it again")


def confirm(question: str, yes: bool) -> None:
    """Put the question at the terminal, unless `yes`. Raises Failed if the answer is no, or there is no terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed("nothing was written: there is no terminal to ask at. Give --yes, or --dry-run to see it")
    if not click.confirm(plain(question)):
        raise Failed("nothing was written")


@checks.command("list")
@_FOLDER
@output
def list_(folder: Path, as_json: bool) -> None:
    """List the sets of a folder. Each of their files is held against its pinned hash.

    Exit status 1: a file was changed, or is gone.
    """
    pins = read_pins(folder)
    faults = {name: pins.faults(name) for name in sorted(pins.sets)}
    if as_json:
        print_json({"sets": [_document(name, pins) | {"faults": faults[name]} for name in faults]})
    else:
        rows = [_row(name, pins, ", ".join(faults[name]) or "as pinned") for name in faults]
        table(["SET", "VERSION", "SIGNED BY", "FILES", "STATE"], rows)
    raise SystemExit(1 if any(faults.values()) else 0)


@checks.command()
@_FOLDER
@output
def outdated(folder: Path, as_json: bool) -> None:
    """Look for newer versions of the sets of a folder.

    It looks where each came from; in a repository, for the highest tag.

    A branch or a commit is looked at itself. Exit status 1: there is a newer version, or only an older one, or a set
    can't be looked at.
    """
    pins = read_pins(folder)
    found = {name: standing_of(name, pin) for name, pin in sorted(pins.sets.items())}
    if as_json:
        each = [_document(name, pins) | {"newest": one.newest, "state": one.words} for name, one in found.items()]
        print_json({"sets": each})
    else:
        rows = [[name, pins.sets[name].version, one.newest or "?", one.words] for name, one in found.items()]
        table(["SET", "VERSION", "NEWEST", "STATE"], rows)
    raise SystemExit(0 if all(one.is_current for one in found.values()) else 1)


def _document(name: str, pins: Pins) -> dict[str, Any]:
    pin = pins.sets[name]
    return {"name": name, "version": pin.version, "digest": pin.digest, "key": pin.key_id, "source": pin.source}


def _row(name: str, pins: Pins, state: str) -> list[Any]:
    pin = pins.sets[name]
    return [name, pin.version, pin.key_id, len(pin.files), state]


@checks.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The author's private key, Ed25519.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the archive here, to hand on.")
def sign(folder: Path, key: Path, out: Path | None) -> None:
    """Sign the set in FOLDER as its author; set.toml gets both.

    Its checks must pass `equus lint`, with their tests. Exit status 1: they don't, or a file can't be written.
    """
    files = read_folder(folder)
    text = sign_set(files, read_key(key))
    found = read_set({**files, SET_FILE: text})
    trial = try_out(found, folder)
    _write(folder / SET_FILE, text)
    if out is not None:
        _write(out, tar_of({**files, SET_FILE: text}, f"{found.name}-{found.version}"))
    echo(plain(f"{found.name} {found.version}: {count(trial.tests, 'test')} pass; signed by {found.key_id}"))


def _write(path: Path, content: bytes) -> None:
    try:
        write_durably(path, content, PUBLIC)
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror}") from error
