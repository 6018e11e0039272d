"""Calls a broker for a command: as its operator through the control socket, or as a client through its endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from groundwork.steady_reactor import use_monotonic_clock
from groundwork.terminal import echo
from scale0.wire.reader import SocketError
from zerotask import errors
from zerotask.client import Client
from zerotask.errors import NoAnswer, RpcError
from zerotask.wire.calls import Rpc
from zerotask.wire.links import SocketLink

CONNECT_WAIT = 5.0  # seconds after which a broker that does not answer counts as not running
NOT_FOUND = (
    *(errors.TASK_UNKNOWN, errors.SCHEDULE_UNKNOWN, errors.CLIENT_UNKNOWN, errors.NODE_UNKNOWN, errors.EXPIRED),
)


def endpoint_of(chosen: dict[str, Any]) -> str:
    """Return the control socket of --state, or else --broker. Raises UsageError if the broker cannot be found."""
    if chosen["state"] is None:
        return str(chosen["broker"])
    try:
        run = json.loads((chosen["state"] / "run.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"no broker runs in {chosen['state']}: {error}") from error
    if not run["control"]:
        raise click.UsageError(f"the broker in {chosen['state']} has no control socket; its log says why")
    return str(run["control"])


def call(
    chosen: dict[str, Any], operator: str, client: str, params: dict[str, Any], then: Callable[[Any], None]
) -> None:
    """Call the method for operators if --state names a broker, or else the method for clients."""
    if chosen["state"] is not None:
        operate(chosen, operator, params, then)
        return

    async def work(link: Client) -> None:
        then(await link.call(client, params, CONNECT_WAIT))

    as_client(chosen, work)


def operate(chosen: dict[str, Any], method: str, params: dict[str, Any], then: Callable[[Any], None]) -> None:
    """Call a method for operators, and give its answer to `then`; raises UsageError without --state."""
    if chosen["state"] is None:
        words = click.get_current_context().command_path.partition(" ")[2]
        typed = f"`zerotask --state DIR {words}`"
        raise click.UsageError(f"this is for operators: {typed}, where DIR is the folder of the broker on this machine")
    endpoint = endpoint_of(chosen)

    async def work(reactor: Any) -> None:
        rpc = Rpc(SocketLink(reactor, endpoint), reactor)
        rpc.start()
        then(await rpc.call(method, params, timeout=CONNECT_WAIT + params.get("wait", 0.0)))

    on_reactor(work, endpoint)


def as_client(chosen: dict[str, Any], work: Callable[[Client], Any]) -> None:
    """Do work with a client of the broker that --state or --broker names."""
    endpoint = endpoint_of(chosen)

    async def connected(reactor: Any) -> None:
        """Connect as a client, work, and disconnect."""
        security = None if chosen["state"] else chosen["security"]
        client = Client(SocketLink(reactor, endpoint, security), reactor, chosen["name"])
        client.start()
        try:
            await work(client)
        finally:
            await client.stop()

    on_reactor(connected, endpoint)


def on_reactor(work: Callable[[Any], Any], endpoint: str) -> None:
    """Run work on the reactor; raises SystemExit with the exit status once it has ended."""

    async def guarded(reactor: Any) -> None:
        """Work, and turn errors into a sentence: raises SystemExit with the exit status."""
        use_monotonic_clock(reactor)
        try:
            await work(reactor)
        except RpcError as error:
            echo(f"zerotask: {error}", err=True)
            raise SystemExit(3 if error.code in NOT_FOUND else 1) from error
        except NoAnswer as error:
            echo(f"zerotask: no answer from {endpoint} ({error}); is the broker running?", err=True)
            raise SystemExit(1) from error
        except SocketError as error:
            echo(f"zerotask: {error}", err=True)
            raise SystemExit(2) from error

    react(lambda reactor: Deferred.fromCoroutine(guarded(reactor)))
