"""Keep the host keys of agents for OpenSSH: a key is written down once somebody vouches for it, and must stay the same.

Three can vouch for it: the CA of a Helen on this machine, or of a file that the caller has; a fingerprint that somebody
has read on the machine; or the caller, who is asked. A Helen behind a URL alone can't.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from attrs import frozen

from equus_protocol.host_key import fault, fingerprint
from groundwork.atomic_write import write_durably
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import plain

MAX_FILE = 1_048_576  # bytes of the file of host keys, and of one with CAs


@frozen
class Vouchers:
    """Says who vouches for a host key that is not known yet: a fingerprint, CAs in PEM, or neither of them."""

    wanted: str | None = None
    ca: bytes | None = None


def alias(name: str) -> str:
    """Return the name of an agent in the file of host keys: no name of a machine ends so."""
    return f"{name}.helen"


def default_file() -> Path:
    """Return the file of host keys of this user."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "helen" / "known_hosts"


def ca_of(state: Path | None, file: Path | None) -> bytes | None:
    """Return the CAs of a file that the caller has, PEM, or those that a Helen on this machine trusts, else None.

    Raises Failed if the file can't be read.
    """
    if file is not None:
        try:
            with open(file, "rb") as opened:
                return opened.read(MAX_FILE)
        except OSError as error:
            raise Failed(f"--ca: {file} can't be read: {error.strerror}") from error
    if state is None:
        return None
    files = [state / "ca" / "ca.pem", *sorted((state / "ca" / "trusted").glob("*.pem"))]  # those of other Helens, too
    try:
        return b"\n".join(file.read_bytes() for file in files)
    except OSError:
        return None


def known_line(file: Path, name: str) -> str | None:
    """Return the host key of an agent that the file has, None if it has none. Raises Failed if it can't be read."""
    try:
        with open(file, "rb") as opened:
            text = opened.read(MAX_FILE).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed(f"{file} can't be read: {error.strerror}") from error
    rows = (line.split() for line in text.splitlines())
    return next((" ".join(row[1:3]) for row in rows if len(row) >= 3 and row[0] == alias(name)), None)


def learn(client: Client, name: str, vouchers: Vouchers, known: str | None, file: Path) -> str:
    """Return the host key that an agent has signed, and write it into the file if that has none.

    Raises Failed if there is none, if nobody vouches for it, or if it is not the one that is wanted or known.
    """
    shell: dict[str, Any] = client.get(f"/api/v1/agents/{quote(name, safe='')}/host-key")["shell"]
    line = str(shell.get("host_key") or "")
    if not line:
        raise Failed(f"{name} lets nobody in: it is away, or its policy has no [shell] (docs/shell.rst)")
    shown = checked(name, line)
    if vouchers.wanted is not None and shown != vouchers.wanted:
        raise Failed(f"{name} shows the host key {shown}, and --fingerprint says {vouchers.wanted}: do not log in")
    why = fault(name, line, str(shell.get("signature")), str(shell.get("certificate")).encode(), vouchers.ca)
    if why is not None and vouchers.wanted is None:
        raise Failed(f"{name} shows the host key {shown}, and {why}: read it on the machine, and say --fingerprint")
    if known is not None and known != line:
        raise Failed(
            f"{name} had another host key before. If it was set up anew: ssh-keygen -f {file} -R {alias(name)}"
        )
    if known is None:
        if vouchers.wanted is None and vouchers.ca is None:
            ask_caller(name, shown)
        keep(file, f"{alias(name)} {line}")
        echo(f"helen: {plain(name)} has the host key {shown}, kept in {file}", err=True)
    return line


def ask_caller(name: str, shown: str) -> None:
    """Ask whether a host key is right that Helen alone vouches for. Raises Failed unless the answer is `yes`."""
    how = "`ssh-keygen -lf STATE/ssh_host_key.pub` on the machine shows it"
    if not sys.stdin.isatty():
        raise Failed(
            f"{name} shows the host key {shown}, and nobody but Helen vouches for it: {how}; say --fingerprint, or give"
            " --ca FILE, a copy of Helen's STATE/ca/ca.pem"
        )
    echo(f"helen: {plain(name)} has the host key {shown}, seen for the first time.", err=True)
    echo(f"helen: nobody but Helen vouches for it, and a Helen that was taken over would lie: {how}.", err=True)
    if click.prompt("Is it that one? yes or no", default="no", err=True) != "yes":
        raise Failed(f"the host key of {name} is not trusted, so nothing was sent")


def checked(name: str, line: str) -> str:
    """Return the fingerprint of a host key's line. Raises Failed if it is none: it goes into a file that ssh reads."""
    parts = line.split(" ")
    try:
        if len(parts) != 2 or parts[0] != "ssh-ed25519":
            raise ValueError
        return fingerprint(base64.b64decode(parts[1], validate=True))
    except ValueError:
        raise Failed(f"{name} shows a host key that can't be read") from None


def keep(file: Path, line: str) -> None:
    """Add a line to the file of host keys. Raises Failed if it can't be written."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = file.read_bytes() if file.exists() else b""
        write_durably(file, before + line.encode() + b"\n")
    except OSError as error:
        raise Failed(f"{file} can't be written: {error.strerror}") from error
