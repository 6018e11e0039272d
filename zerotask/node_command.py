"""`zerotask node`: serve the functions of modules, each call in a child process."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import globalLogBeginner, textFileLogObserver

from scale0.reader import SocketError
from zerotask.children import Children
from zerotask.functions import LoadError
from zerotask.links import SocketLink
from zerotask.node import Node
from zerotask.roster import is_name


@click.command()
@click.option("--broker", help="Endpoint of the broker; otherwise the one given before the command.")
@click.option("--module", "modules", multiple=True, help="Module with functions marked by @zerotask.functions.task.")
@click.option("--entry-points", is_flag=True, help="Also serve what installed packages offer.")
@click.option("--name", help="The node's id; made of host and process unless given.")
@click.option("--slots", type=click.IntRange(1, 1000), default=os.cpu_count() or 1, show_default=True)
@click.pass_obj
def node(
    chosen: dict[str, Any],
    broker: str | None,
    modules: tuple[str, ...],
    entry_points: bool,
    name: str | None,
    slots: int,
) -> None:
    """A node that serves functions, each call in a process of its own."""
    name = name or _own_name()
    if not is_name(name):
        raise click.UsageError("--name takes 1 to 128 characters of A-Za-z0-9._:-")
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)

    async def work(reactor: Any) -> None:
        children = Children(reactor, list(modules), entry_points)
        try:
            served = await children.load()
            one = Node(
                SocketLink(reactor, broker or chosen["broker"], chosen["security"]),
                reactor,
                name,
                served,
                children.run,
                children.cancel,
                slots,
            )
            one.on_connected = lambda: click.echo(f"Node {name} serves {', '.join(sorted(served))}")
            one.start()
        except (LoadError, SocketError) as error:
            click.echo(f"zerotask: {error}", err=True)
            await children.stop()
            raise SystemExit(1) from error
        reactor.addSystemEventTrigger("before", "shutdown", lambda: one.stop().addCallback(lambda _: children.stop()))
        await Deferred()

    react(lambda reactor: Deferred.fromCoroutine(work(reactor)))


def _own_name() -> str:
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in socket.gethostname())
    return f"{host[:100]}:{os.getpid()}"
