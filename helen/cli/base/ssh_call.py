"""Call the system's `ssh` with `helen tunnel` as its way to an agent, and a host key that somebody vouches for."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from helen.cli.base.client import Client, Failed
from helen.cli.base.host_keys import Vouchers, alias, ca_of, default_file, known_line, learn

HELEN = (sys.executable, "-P", "-c", "from helen.cli.main import main; main(prog_name='helen')")
AGENT, USER = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}"), re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")


@frozen
class Which:
    """Names a Helen, and what is known of host keys: the options that `ssh_options` adds to a command."""

    state: Path | None
    url: str | None
    token: str | None
    known_hosts: Path | None
    ca: Path | None
    wanted: str | None


def ssh_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --known-hosts, --ca and --fingerprint to a command."""
    known = click.option(
        "--known-hosts",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The file of host keys; default: ~/.local/state/helen/known_hosts.",
    )
    ca = click.option(
        "--ca", type=click.Path(path_type=Path, dir_okay=False), help="A copy of Helen's STATE/ca/ca.pem."
    )
    wanted = click.option(
        "--fingerprint", "wanted", metavar="SHA256:...", help="The host key's, as somebody has read it on the machine."
    )
    return known(ca(wanted(command)))


def ssh_words(which: Which, user: str, name: str) -> list[str]:
    """Return the command line of ssh up to its destination. Raises Failed if the host key can't be trusted.

    `user` may be empty. The token goes into the environment, for `helen tunnel`.
    """
    if not AGENT.fullmatch(name) or not (user == "" or USER.fullmatch(user)):
        raise click.UsageError(f"{user}@{name} is no [USER@]AGENT" if user else f"{name!r} is no agent's name")
    file = (which.known_hosts or default_file()).absolute()
    line = known_line(file, name)
    if line is None or which.wanted is not None:
        vouchers = Vouchers(which.wanted, ca_of(which.state, which.ca))
        learn(Client(which.state, which.url, which.token), name, vouchers, line, file)
    way = [*HELEN, "tunnel", name, *(["--url", which.url] if which.url else ["--state", str(which.state)])]
    options = {
        "ProxyCommand": shlex.join(way).replace("%", "%%"), "HostKeyAlias": alias(name),
        "UserKnownHostsFile": f'"{file}"', "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no", "CheckHostIP": "no",
    }  # fmt: skip
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    if which.token:
        os.environ["HELEN_TOKEN"] = which.token
    return ["ssh", *given, f"{user}@{name}" if user else name]


def run_ssh(words: list[str]) -> None:
    """Become ssh. Raises Failed if there is none."""
    try:
        os.execvp(words[0], words)
    except FileNotFoundError as error:
        raise Failed("there is no ssh here: install OpenSSH's client") from error
