"""Implement `helen keys`, which shows and changes the keys that sign check sets."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from equus_protocol import manifest, roots
from equus_protocol.manifest import key_id
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.judged_root import judge_root, read_claim
from helen.cli.base.offline_signing import or_first, wanted_of
from helen.cli.base.options import chosen_helen, output, print_json, which_helen
from helen.cli.base.root_file import RootFile, keep_root
from helen.cli.base.signing_record import KeyFile, joined, open_keys
from helen.cli.base.staged_set import answer_of, sign
from helen.files.state_dir import StateError
from helen.keys import signing_keys

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(invoke_without_command=True)
@output
@which_helen
@click.pass_context
def keys(ctx: click.Context, state: Path | None, url: str | None, token: str | None, as_json: bool) -> None:
    """Show the keys that sign check sets; `helen keys rotate` changes them."""
    ctx.obj = {"state": state, "url": url, "token": token}
    if ctx.invoked_subcommand is None:
        found = Client(state, url, token).get("/api/v1/keys")
        print_json(found) if as_json else show(found)


@keys.command()
@click.option("--key", "signers", type=_FILE, multiple=True, help="A private key that signs now; repeatable.")
@click.option("--new", "fresh", type=_FILE, multiple=True, help="A key of the new root, private or public; repeatable.")
@click.option("--threshold", type=click.IntRange(1, manifest.MAX_SIGNATURES), help="Number of keys that must sign.")
@click.option("--first", is_flag=True, help="Begin the record of what --key signs: first use, or it was lost.")
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the new root into this file for `helen sign`, in place of sending it.",
)  # fmt: skip
@click.option("--signed", type=_FILE, help="Send a file of --save that enough people have signed.")
@output
@which_helen
@click.pass_context
def rotate(
    ctx: click.Context, /, signers: tuple[Path, ...], fresh: tuple[Path, ...], threshold: int | None, first: bool,
    save: Path | None, signed: Path | None, as_json: bool, **which: Any,
) -> None:  # fmt: skip
    """Replace the keys that sign check sets.

    Without options Helen replaces the key that it holds by a new one. With --key the keys lie elsewhere: the new root
    is built and signed here, by the present keys and by those of --new (without it, they stay). The changes against the
    root that these keys have signed last are shown before.
    """
    client = chosen_helen(ctx, which)
    if signed is not None:
        if signers or fresh or threshold is not None or save is not None:
            raise click.UsageError("--signed sends what is signed already: it goes alone")
        found = client.post("/api/v1/keys", {"root": RootFile.read(signed).envelope.decode()})
    elif not signers and not fresh and threshold is None:
        found = client.post("/api/v1/keys", {})
    else:
        found = rotate_here(client, signers, fresh, threshold, first, save)
    print_json(found) if as_json else show(found)


def rotate_here(
    client: Client, signers: tuple[Path, ...], fresh: tuple[Path, ...], threshold: int | None, first: bool,
    save: Path | None,
) -> dict[str, Any]:  # fmt: skip
    """Make the next root, sign it, and sign a set that waits for its keys; return the keys as `helen keys` shows them.

    `save`: the root is written there and not sent. Raises Failed if the root can't be made of these keys.
    """
    public, private = read_new(fresh)
    with open_keys([*signers, *private]) as held:
        present = {key.id: key.private.public_key() for key in held if key.path in signers}
        record = joined(held)
        answer = client.get("/api/v1/keys")
        claim = functools.partial(read_claim, answer, load_public_text)
        made = or_first(lambda said: judge_root(claim(), public, present, threshold, record, said), first)
        sent = keep_root(held, record, made)
        envelope = roots.sign(made.text, [key.private for key in held])
        if save is not None:
            RootFile(envelope).write(save)
            echo(f"{save} holds the root. The next person runs: helen sign {save} --key KEY", err=True)
            shown: dict[str, Any] = answer
            return shown
        client.post("/api/v1/keys", {"root": envelope.decode()})
        for key in held:
            key.save(evolve(sent, root=made.root, sent=None))
        able = [key for key in held if key.id in made.root.keys]
        if len(able) >= made.root.threshold:
            sign_what_waits(client, able)
    found: dict[str, Any] = client.get("/api/v1/keys")
    return found


def sign_what_waits(client: Client, able: list[KeyFile]) -> None:
    """Sign the set that waits for the keys of the new root, if these keys know each file of it; else say what to do."""
    staged = answer_of(client)["staged"]
    if staged is None:
        return
    is_new = all(key.record is None or not key.record.version for key in able)
    try:
        sign(client, staged, able, wanted_of({}, (), {}, first=is_new), {"rings": "off"})
    except Failed as failed:
        said = "The keys are changed, and the set that agents run still waits for their signatures"
        echo(f"{said}: {failed.message}. Then: helen push FILES --key FILE", err=True)


def read_new(paths: tuple[Path, ...]) -> tuple[dict[str, Ed25519PublicKey], list[Path]]:
    """Return the public halves of all key files by id, and the files of private keys; raises Failed for a bad file."""
    public: dict[str, Ed25519PublicKey] = {}
    private: list[Path] = []
    for path in paths:
        try:
            if b"PRIVATE KEY" in path.read_bytes()[: signing_keys.FILE_SIZE]:
                key = signing_keys.load_private(path)
                private.append(path)
                public[key_id(key.public_key())] = key.public_key()
            else:
                public |= signing_keys.load_public(path)
        except StateError as error:
            raise Failed(str(error).replace("--signing-keys", "--new")) from error
        except OSError as error:
            raise Failed(f"{path} can't be read: {error.strerror}") from error
    return public, private


def load_public_text(pem: str) -> Ed25519PublicKey:
    """Return the key of a PEM text that Helen sent; raises ValueError if it is none."""
    key = load_pem_public_key(pem.encode())
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("a key of Helen's is no Ed25519 key")
    return key


def show(found: dict[str, Any]) -> None:
    """Print the root's version, each key and its place, and the online key."""
    root = f"root {found['version']}" if found["version"] else "no root yet: `helen keys rotate --key FILE` makes one"
    echo(f"{root}; {found['threshold']} of {len(found['keys'])} keys must sign")
    for key in found["keys"]:
        echo(f"{key['id']}  {'held by Helen' if key['here'] else 'held elsewhere'}")
    echo(f"{found['online']['id']}  Helen's online key: it confirms daily which set is the newest, nothing else")
    if found["waiting"]:
        echo("The set that agents run is not signed by these keys yet: run `helen push --key FILE`", err=True)
