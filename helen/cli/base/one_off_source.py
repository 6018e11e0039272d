"""Make the body of POST /api/v1/once from a local .lua file: its text, its libraries, and signatures made here."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest, one_off
from groundwork.terminal import echo
from helen.agents.roster import unclaimed
from helen.cli.base.client import Client, Failed


def read_source(path: Path) -> dict[str, bytes]:
    """Return a check and the libraries of the folder `lib` beside it, `{NAME: BYTES}`.

    Raises Failed if the file has no name of a check, or if one can't be read.
    """
    if not manifest.FILE_NAME.fullmatch(path.name):
        raise Failed(f"{path.name!r}: a check's file is called NAME.lua, of letters, digits, _ . and -")
    files = {path.name: _read(path)}
    for library in sorted((path.parent / "lib").glob("*.lua")):
        if not library.name.startswith("."):
            files[f"lib/{library.name}"] = _read(library)
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error


def spelled_out(client: Client, on: Sequence[str]) -> list[str]:
    """Return patterns with the names of agents that fit only by a label that an operator has given to them.

    An agent holds a signed order against its name and its own labels. Helen does the same for orders that it signs.
    """
    if not any("=" in pattern for pattern in on):
        return list(on)
    found = client.get("/api/v1/agents?" + urlencode({"on": list(on)}, doseq=True))["agents"]
    return [*on, *unclaimed(on, ((each["name"], each.get("claimed", {})) for each in found))]


def show_order(
    check: str, files: Mapping[str, bytes], args: Mapping[str, Any], on: Sequence[str],
    keys: Sequence[Ed25519PrivateKey], expires: float,
) -> None:  # fmt: skip
    """Print to standard error what is signed; names of agents may have come from Helen. `expires`: unix seconds."""
    signers = ", ".join(manifest.key_id(key.public_key()) for key in keys)
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(expires))
    echo(f"{signers} signs an order: run {check} once on {', '.join(on)}, until {until}", err=True)
    for name, content in files.items():
        echo(f"  {name} {manifest.entry(content).sha256[:12]}", err=True)
    if args:
        echo(f"  with {json.dumps(dict(args))}", err=True)


def body_of(
    check: str,
    files: Mapping[str, bytes],
    args: Mapping[str, Any],
    on: Sequence[str],
    keys: Sequence[Ed25519PrivateKey] = (),
    life: float = one_off.LIFE,
) -> dict[str, Any]:
    """Return the body of the request: `{"order", "files"}`, signed here, if there are keys, so that Helen needs none.

    Without keys it is `{"check", "files", "args", "on", "life"}`; `life` is in seconds. Raises Failed if agents would
    refuse the order.
    """
    texts = {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}
    now = time.time()
    try:
        order = one_off.build(secrets.token_hex(16), check, files, args, on, now, now + life)
    except ValueError as error:
        raise Failed(str(error)) from error
    if not keys:
        return {"check": check, "files": texts, "args": dict(args), "on": list(on), "life": life}
    show_order(check, files, args, on, keys, now + life)
    return {"order": one_off.sign(order, keys).decode(), "files": texts}
