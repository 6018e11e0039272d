"""Implement `helen zabbix`, which takes values of `zabbix_sender`, and reports them to Helen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.listening import Counts, handle_signals, listen, read_file
from helen.cli.base.options import which_helen
from helen.cli.zabbix.item_file import ItemFile, read
from helen.cli.zabbix.listener import Listener


@click.command()
@click.option(
    "--file", "path", type=click.Path(path_type=Path), required=True, help="What values mean: docs/zabbix.rst."
)
@click.option("--check", "only_check", is_flag=True, help="Read the file, and end: no Helen is asked.")
@which_helen
def zabbix(path: Path, only_check: bool, **which: Any) -> None:
    """Take values of `zabbix_sender`, and report them as passive results of the hosts that they name.

    Ctrl-C or SIGTERM ends it. SIGHUP has it read the file anew.
    """
    config = read_file(path, read)
    if only_check:
        echo(f"{path}: {count(len(config.sources), 'source')}, {count(len(config.items), 'item')}")
        return
    listener = Listener(config, Client(**which), Counts(lambda text: echo(text, err=True)), time.monotonic)

    def again() -> ItemFile:
        listener.take(read_file(path, read))
        return listener.config

    handle_signals(listener.ended, path, again)
    listen(listener, config.listen)
