"""Calls OpenSSH's programs with a key of their own, and with nothing of the user's configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

PATIENCE = 120.0  # seconds; a busy machine, and an interpreter that starts


def keygen(path: Path, *more: str) -> Path:
    """Make a new key without a passphrase, and return its path."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), *more]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    return path


def options(key: Path, **more: object) -> list[str]:
    """Return options of ssh, scp and sftp: this key alone, no question, and `more`, by their names in ssh_config."""
    given = {
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "BatchMode": "yes",
        "PasswordAuthentication": "no",
        **more,
    }
    return [
        "-F",
        "none",
        "-i",
        str(key),
        *(word for name, value in given.items() for word in ("-o", f"{name}={value}")),
    ]


def run(
    words: list[str], data: bytes = b"", environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, with its input and both outputs."""
    return subprocess.run(words, input=data, capture_output=True, timeout=PATIENCE, check=False, env=dict(environment))
