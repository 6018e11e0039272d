"""Implement `helen ssh`, which runs the system's `ssh` with `helen tunnel` as its way to an agent.

OpenSSH itself judges the host key: it has to be the one in a file of the caller's, where the first key of an agent is
written after the agent's own signature of it was judged. So nobody in between can show another one, and neither can a
Helen that was taken over later.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from equus_protocol.host_key import fault, fingerprint
from groundwork.atomic_write import write_durably
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import plain, which_helen

HELEN = (sys.executable, "-P", "-c", "from helen.cli.main import main; main(prog_name='helen')")
AGENT, USER = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}"), re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")
MAX_FILE = 1_048_576  # bytes of the file of host keys


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--known-hosts", type=click.Path(path_type=Path, dir_okay=False), help="The file of host keys.")
@click.option("--fingerprint", "wanted", help="Of the host key, SHA256:..., as somebody has read it on the machine.")
@click.argument("destination", metavar="[USER@]AGENT")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@which_helen
def ssh(
    state: Path | None, url: str | None, token: str | None, known_hosts: Path | None, wanted: str | None,
    destination: str, words: tuple[str, ...],
) -> None:  # fmt: skip
    """Log in on the machine of AGENT with the system's ssh, by the connection that the agent holds to Helen.

    WORDS are options of ssh, and a command, as ssh takes them behind its own destination. The agent's policy must have
    [shell] (docs/shell.rst). The host key of an agent is kept when it is seen for the first time, in
    ~/.local/state/helen/known_hosts, and must be the same from then on.

    Exit status: that of ssh; 1: the host key can't be trusted, or the agent lets nobody in; 3: no agent has that name.
    """
    user, at, name = destination.rpartition("@")
    if not AGENT.fullmatch(name) or not (user == "" or USER.fullmatch(user)):
        raise click.UsageError(f"{destination!r} is no [USER@]AGENT")
    file = (known_hosts or default_file()).absolute()
    line = known_line(file, name)
    if line is None or wanted is not None:
        line = learn(Client(state, url, token), name, wanted, ca_of(state), line, file)
    way = [*HELEN, "tunnel", name, *(["--url", url] if url else ["--state", str(state)])]
    options = {
        "ProxyCommand": shlex.join(way).replace("%", "%%"), "HostKeyAlias": alias(name),
        "UserKnownHostsFile": f'"{file}"', "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no", "CheckHostIP": "no",
    }  # fmt: skip
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    if token:
        os.environ["HELEN_TOKEN"] = token
    run_ssh(["ssh", *given, f"{user}{at}{name}", *words])


def run_ssh(words: list[str]) -> None:
    """Become ssh. Raises Failed if there is none."""
    try:
        os.execvp(words[0], words)
    except FileNotFoundError as error:
        raise Failed("there is no ssh here: install OpenSSH's client") from error


def alias(name: str) -> str:
    """Return the name of an agent in the file of host keys: no name of a machine ends so."""
    return f"{name}.helen"


def default_file() -> Path:
    """Return the file of host keys of this user."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "helen" / "known_hosts"


def ca_of(state: Path | None) -> bytes | None:
    """Return the CA of a Helen on this machine, PEM; None behind a URL, where only Helen itself could say it."""
    if state is None:
        return None
    try:
        return (state / "ca" / "ca.pem").read_bytes()
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


def learn(client: Client, name: str, wanted: str | None, ca: bytes | None, known: str | None, file: Path) -> str:
    """Return the host key that an agent has signed, and write it into the file if that has none.

    Raises Failed if there is none, if it is not the agent's, or not the one that is wanted or known.
    """
    shell: dict[str, Any] = client.get(f"/api/v1/agents/{quote(name, safe='')}").get("shell") or {}
    line = str(shell.get("host_key") or "")
    if not line:
        raise Failed(f"{name} lets nobody in: it is away, or its policy has no [shell] (docs/shell.rst)")
    shown = checked(name, line)
    if wanted is not None and shown != wanted:
        raise Failed(f"{name} shows the host key {shown}, and --fingerprint says {wanted}: do not log in")
    why = fault(name, line, str(shell.get("signature")), str(shell.get("certificate")).encode(), ca)
    if why is not None and wanted is None:
        raise Failed(f"{name} shows the host key {shown}, and {why}: read it on the machine, and say --fingerprint")
    if known is not None and known != line:
        raise Failed(
            f"{name} had another host key before. If it was set up anew: ssh-keygen -f {file} -R {alias(name)}"
        )
    if known is None:
        keep(file, f"{alias(name)} {line}")
        echo(f"helen: {plain(name)} has the host key {shown}, kept in {file}", err=True)
    return line


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
