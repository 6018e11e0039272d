"""Runs `zerotask node`, which serves the functions of modules, each call in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, cast

import click
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import ILogObserver, globalLogBeginner, textFileLogObserver

from groundwork.duration_option import DurationOption
from groundwork.safe_log import guard_log
from groundwork.steady_reactor import use_monotonic_clock
from groundwork.terminal import echo
from scale0.wire.reader import SocketError
from zerotask.functions import LoadError
from zerotask.node.node import STOP_WAIT, Node
from zerotask.node.worker_processes import WorkerProcesses
from zerotask.tasks.connections import is_name
from zerotask.wire.links import SocketLink


@click.command()
@click.option("--broker", metavar="ENDPOINT", help="The broker; default: the one given before the command.")
@click.option(
    "--module",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Module with functions marked by @zerotask.functions.task; repeatable.",
)
@click.option("--entry-points", is_flag=True, help="Also serve the functions that installed packages offer.")
@click.option("--name", metavar="NAME", help="The node's id; default: its key's name, host and process id.")
@click.option(
    "--slots",
    type=click.IntRange(1, 1000),
    default=os.cpu_count() or 1,
    show_default=True,
    help="Tasks to work on at once.",
)
@click.option(
    "--stop-wait",
    type=DurationOption(),
    default=f"{STOP_WAIT:g}s",
    show_default=True,
    help="Time in which running calls may end after SIGTERM.",
)
@click.pass_obj
def node(
    chosen: dict[str, Any],
    broker: str | None,
    modules: tuple[str, ...],
    entry_points: bool,
    name: str | None,
    slots: int,
    stop_wait: float,
) -> None:
    """Serve functions as a node. Each call runs in a process of its own.

    Runs until SIGTERM or SIGINT: then it claims no more, lets running calls end for --stop-wait, and gives back the
    others, which costs them no attempt. A second signal ends the wait. Exit status 1 if the functions cannot be loaded
    or the endpoint cannot be used.
    """
    name = name or _own_name(chosen.get("own", ""))
    if not is_name(name):
        raise click.UsageError("--name takes 1 to 128 characters of A-Za-z0-9._:-")
    # Twisted declares the interface with zope.interface, which mypy does not read.
    observer = cast(ILogObserver, textFileLogObserver(sys.stderr))
    guard_log()
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)

    def start(reactor: Any) -> Deferred[None]:
        """Run the node; the Deferred never fires, since the process ends by a signal."""
        use_monotonic_clock(reactor)
        link = SocketLink(reactor, broker or chosen["broker"], chosen["security"])
        processes = WorkerProcesses(reactor, list(modules), entry_points)
        return Deferred.fromCoroutine(_run(reactor, link, processes, name, slots, stop_wait))

    react(start)


async def _run(
    reactor: Any, link: SocketLink, processes: WorkerProcesses, name: str, slots: int, stop_wait: float
) -> None:
    """Load the functions and serve them until the reactor stops; raise SystemExit if that cannot begin."""
    try:
        served = await processes.load()
        one = Node(link, reactor, name, served, processes.run, processes.cancel, slots)
        one.on_connected.subscribe(lambda: _say(f"Node {name} serves {', '.join(sorted(served))}"))
        one.start()
    except (LoadError, SocketError) as error:
        echo(f"zerotask: {error}", err=True)
        await processes.stop()
        raise SystemExit(1) from error
    reactor.addSystemEventTrigger("before", "shutdown", _leave, reactor, one, processes, stop_wait)
    await Deferred()


def _leave(reactor: Any, one: Node, processes: WorkerProcesses, wait: float) -> Deferred[Any]:
    """Stop the node, then its processes. From now on a further signal ends the wait for running calls, and we say so:
    two signals of which the first was not seen yet are one."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: reactor.callFromThread(one.stop_waiting))
    if wait > 0 and one.is_working:
        _say(f"Node {one.name} claims no more. Running calls have {wait:g} s to end; a further signal ends that time.")
    return one.stop(wait).addCallback(lambda _: processes.stop())


def _say(text: str) -> None:
    """Print a line, or nothing where the output is closed: the node still does its work and gives it back."""
    with suppress(OSError):
        echo(text)


def _own_name(of_key: str) -> str:
    """Return host and process id, behind the name of our key where we have one: the key may use no other."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in socket.gethostname())
    return f"{of_key}:{host}"[:110] + f":{os.getpid()}" if of_key else f"{host[:100]}:{os.getpid()}"
