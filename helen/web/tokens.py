"""The tokens of the HTTP API over TCP: STATE/web.token, which opens everything."""

from __future__ import annotations

import secrets
from pathlib import Path

from helen.statedir import read_private, write_whole

TOKEN_BYTES = 32


def load_token(path: Path) -> str:
    """The token of STATE/web.token, made when it is missing. Blocks: at start only."""
    if not path.exists():
        write_whole(path, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
    return read_private(path).decode().strip()
