"""Implement `helen traps`, which receives notifications of SNMP devices and reports them to Helen."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import click

from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.listening import Counts, handle_signals, listen, read_file
from helen.cli.base.options import which_helen
from helen.cli.traps.listener import Listener
from helen.cli.traps.security import Security
from helen.cli.traps.senders import SendersUnreadable
from helen.cli.traps.trap_file import TrapFile, read

SENDERS = "traps.senders"  # in Helen's state directory, unless the file names another one
# An engine id by RFC 3411: no enterprise (0), and octets that follow.
OWN_ENGINE = bytes.fromhex("8000000005")
BOOTS_EPOCH = 1_700_000_000  # unix seconds: the number of starts is the time of the start, so that it only grows


@click.command()
@click.option("--file", "path", type=click.Path(path_type=Path), required=True, help="What traps mean: docs/traps.rst.")
@click.option("--check", "only_check", is_flag=True, help="Read the file, and end: no Helen is asked.")
@which_helen
def traps(path: Path, only_check: bool, **which: Any) -> None:
    """Receive traps and informs of SNMP, and report them as passive results of the hosts that they come from.

    Ctrl-C or SIGTERM ends it; what waits for Helen is given to it before. SIGHUP has it read the file anew.
    """
    config = read_file(path, read)
    if only_check:
        parts = (config.sources, "source"), (config.meanings, "trap"), (config.users, "user")
        echo(f"{path}: {', '.join(count(len(each), word) for each, word in parts)}")
        return
    client, security = Client(**which), security_of(config)
    security.senders.path = config.senders or (client.state and client.state / SENDERS)
    try:
        security.senders.load()
    except SendersUnreadable as fault:
        echo(str(fault), err=True)
    listener = Listener(config, security, client, Counts(lambda text: echo(text, err=True)), time.monotonic)

    def again() -> None:
        """Take another file. Addresses to listen on and the file of senders stay."""
        config = read_file(path, read)
        listener.take(config, security_of(config))

    handle_signals(listener.ended, path, again)
    listen(listener, config.listen)


def security_of(config: TrapFile) -> Security:
    """Return what opens messages: with the file's engine id, or one that is this machine's."""
    boots = max(1, int(time.time()) - BOOTS_EPOCH)
    return Security(config.communities, config.users, config.engine or own_engine(), boots, time.monotonic)


def own_engine() -> bytes:
    """Return an engine id that is the same at each start on this machine."""
    try:
        machine = Path("/etc/machine-id").read_bytes()
    except OSError:
        machine = os.uname().nodename.encode()
    return OWN_ENGINE + hashlib.sha256(b"helen traps\0" + machine).digest()[:8]
