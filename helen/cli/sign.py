"""Implement `helen sign`: a second person signs a set or a root in a file, without a Helen in reach."""

from __future__ import annotations

from pathlib import Path

import click

from equus_protocol import manifest
from equus_protocol.manifest import ManifestRefused
from groundwork.terminal import echo
from helen.cli.agent_upgrade import read_wheels
from helen.cli.base.offline_signing import LONGEST, SetFile, sign_file, wanted_of
from helen.cli.base.options import output, print_json
from helen.cli.base.pushed_files import read_files
from helen.cli.base.root_file import TYPE, RootFile, sign_root
from helen.cli.base.signing_record import open_keys
from helen.cli.base.staged_set import signing_options

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("held", metavar="SET", type=_FILE)
@click.argument("files", nargs=-1, type=_FILE)
@click.option("--key", "keys", type=click.Path(path_type=Path), multiple=True, required=True, help="A key that signs.")
@click.option("--agent", "wheels", type=_FILE, multiple=True, help="The wheel of Equus that goes out with the set.")
@signing_options
@output
def sign(
    held: Path, files: tuple[Path, ...], keys: tuple[Path, ...], wheels: tuple[Path, ...], removed: tuple[str, ...],
    first: bool, undone: bool, as_json: bool,
) -> None:  # fmt: skip
    """Sign SET, a file of `helen push --save`, after comparing it with your own FILES and your own record.

    The signature is added to SET itself; no Helen is needed. `helen push --signed SET` publishes it once enough have
    signed. A file of `helen keys rotate --save` is signed in the same way, without FILES.

    Exit status 1: the set is another than these files and the record say; nothing was signed.
    """
    with open_keys(keys) as private:
        next_command = "helen push --signed"
        if is_root(held):
            if files or removed or wheels:
                raise click.UsageError(
                    f"{held} holds a root, which has no files: leave out FILES, --remove and --agent"
                )
            sign_root(private, RootFile.read(held), first).write(held)
            next_command = "helen keys rotate --signed"
        else:
            brought = read_files(files)["files"].items()
            contents = {name: text.encode("utf-8", "surrogateescape") for name, text in brought}
            wanted = wanted_of(contents, removed, read_wheels(wheels), first, undone=undone)
            sign_file(private, SetFile.read(held), wanted).write(held)
        signers = [key.id for key in private]
    if as_json:
        print_json({"file": str(held), "signers": signers})
    else:
        echo(f"{held} is signed by {', '.join(signers)}. Once enough have signed: {next_command} {held}")


def is_root(path: Path) -> bool:
    """Return True if a file says that it holds a root; its readers judge the rest."""
    try:
        with path.open("rb") as file:
            return manifest.read_object(file.read(LONGEST)).get("type") == TYPE
    except (OSError, ManifestRefused):
        return False
