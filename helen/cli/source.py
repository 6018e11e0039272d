"""A local .lua file as what POST /api/v1/once takes: its text, its libraries, and signatures that are made here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest, once
from helen.cli.client import Failed


def read_source(path: Path) -> dict[str, bytes]:
    """The check, and the libraries of the folder `lib` beside it. Raises Failed."""
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


def body_of(
    check: str,
    files: Mapping[str, bytes],
    args: Mapping[str, Any],
    on: Sequence[str],
    keys: Sequence[Ed25519PrivateKey] = (),
    life: float = once.LIFE,
) -> dict[str, Any]:
    """The body of the request; with keys it is signed here, and Helen need not hold any."""
    texts = {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}
    now = time.time()
    try:
        order = once.build(secrets.token_hex(16), check, files, args, on, now, now + life)
    except ValueError as error:
        raise Failed(str(error)) from error
    if not keys:
        return {"check": check, "files": texts, "args": dict(args), "on": list(on), "life": life}
    return {"order": manifest.sign(order, keys).decode(), "files": texts}
