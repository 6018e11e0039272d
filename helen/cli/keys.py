"""`helen keys`: who signs sets of checks, and how those who do are changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from equus_protocol import manifest, roots
from equus_protocol.manifest import key_id
from helen import signing
from helen.cli.client import Client, Failed
from helen.cli.options import chosen_helen, output, print_json, which_helen
from helen.cli.push import read_key, sign
from helen.statedir import StateError

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
@click.option("--key", "signers", type=_FILE, multiple=True, help="A private key that signs now; repeat it for two.")
@click.option("--new", "fresh", type=_FILE, multiple=True, help="A key from now on, private or public; repeatable.")
@click.option("--threshold", type=click.IntRange(1, manifest.MAX_SIGNATURES), help="How many of them must sign a set.")
@output
@which_helen
@click.pass_context
def rotate(
    ctx: click.Context, /, signers: tuple[Path, ...], fresh: tuple[Path, ...], threshold: int | None, as_json: bool,
    **which: Any,
) -> None:  # fmt: skip
    """Let other keys sign check sets from now on.

    Without options Helen, if she holds the key, makes herself a new one and forgets the old one. With --key the keys
    lie elsewhere: the new root is signed here, by the keys of now and by those of --new (without it, they stay).
    """
    client = chosen_helen(ctx, which)
    if not signers and not fresh and threshold is None:
        found = client.post("/api/v1/keys", {})
    else:
        found = rotate_here(client, [read_key(path) for path in signers], fresh, threshold)
    print_json(found) if as_json else show(found)


def rotate_here(
    client: Client, signers: list[Ed25519PrivateKey], fresh: tuple[Path, ...], threshold: int | None
) -> dict[str, Any]:
    """Make the root that follows, sign it, and sign anew what waits for its keys."""
    now = client.get("/api/v1/keys")
    public, private = read_new(fresh)
    public = public or [load_public_text(key["pem"]) for key in now["keys"]]
    most = min(now["threshold"], len(public)) if threshold is None else threshold
    try:
        text = roots.build(now["version"] + 1, public, most, load_public_text(now["online"]["pem"]))
    except ValueError as error:
        raise Failed(str(error)) from error
    everybody = {key_id(key.public_key()): key for key in (*signers, *private)}
    client.post("/api/v1/keys", {"root": manifest.sign(text, everybody.values()).decode()})
    state = client.get("/api/v1/push")
    named = {key_id(key) for key in public}
    able = [key for name, key in everybody.items() if name in named]
    if state["staged"] is not None and len(able) >= most:
        sign(client, state, able, {"rings": "off"})
    found: dict[str, Any] = client.get("/api/v1/keys")
    return found


def read_new(paths: tuple[Path, ...]) -> tuple[list[Ed25519PublicKey], list[Ed25519PrivateKey]]:
    """The public halves of all, and the private ones that are there."""
    public: dict[str, Ed25519PublicKey] = {}
    private: list[Ed25519PrivateKey] = []
    for path in paths:
        try:
            if b"PRIVATE KEY" in path.read_bytes()[: signing.FILE_SIZE]:
                key = signing.load_private(path)
                private.append(key)
                public[key_id(key.public_key())] = key.public_key()
            else:
                public |= signing.load_public(path)
        except StateError as error:
            raise Failed(str(error).replace("--signing-keys", "--new")) from error
        except OSError as error:
            raise Failed(f"{path} can't be read: {error.strerror}") from error
    return list(public.values()), private


def load_public_text(pem: str) -> Ed25519PublicKey:
    key = load_pem_public_key(pem.encode())
    assert isinstance(key, Ed25519PublicKey)
    return key


def show(found: dict[str, Any]) -> None:
    root = f"root {found['version']}" if found["version"] else "no root yet: `helen keys rotate --key FILE` makes one"
    click.echo(f"{root}; {found['threshold']} of {len(found['keys'])} must sign")
    for key in found["keys"]:
        click.echo(f"{key['id']}  {'lies beside Helen' if key['here'] else 'lies elsewhere'}")
    click.echo(f"{found['online']['id']}  Helen's online key: it says daily which set is the newest, and no more")
    if found["waiting"]:
        click.echo("What agents run is not signed by these keys yet: run `helen push --key FILE`", err=True)
