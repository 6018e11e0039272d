"""The command `zerotask`: submit and follow tasks, look after a broker, run a node.

With `--state DIR` (or ZEROTASK_STATE) it speaks to the broker of that folder as its operator, through the control
socket; with `--broker` (or ZEROTASK_BROKER) it is a client like any other and sees its own tasks only. Exit status: 0
fine, 1 failed, 2 usage, 3 not found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from scale0.keys import KeyFault, load_pair
from scale0.reader import CurveClient, SocketError
from zerotask import errors, show
from zerotask.client import Client
from zerotask.errors import NoAnswer, RpcError
from zerotask.links import SocketLink
from zerotask.node_command import node
from zerotask.rpc import Rpc

BROKER = "tcp://127.0.0.1:5555"
CONNECT_WAIT = 5.0  # seconds until a broker that does not answer is called away
NOT_FOUND = (errors.TASK_UNKNOWN, errors.SCHEDULE_UNKNOWN, errors.CLIENT_UNKNOWN, errors.EXPIRED)


@click.group(help=__doc__)
@click.option(
    "--state", type=click.Path(path_type=Path), envvar="ZEROTASK_STATE", help="Folder of a broker on this machine."
)
@click.option("--broker", envvar="ZEROTASK_BROKER", default=BROKER, show_default=True, help="Endpoint of a broker.")
@click.option("--curve-key", type=click.Path(path_type=Path), help="Your CURVE pair, as `scale0ctl keygen` writes it.")
@click.option("--broker-key", help="The broker's public CURVE key.")
@click.option("--client", "name", default="cli", show_default=True, help="Name under which tasks are submitted.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def main(
    context: click.Context,
    state: Path | None,
    broker: str,
    curve_key: Path | None,
    broker_key: str | None,
    name: str,
    output: str,
) -> None:
    security = _security(curve_key, broker_key)
    context.obj = {"state": state, "broker": broker, "security": security, "name": name, "json": output == "json"}


def _security(curve_key: Path | None, broker_key: str | None) -> CurveClient | None:
    if (curve_key is None) != (broker_key is None):
        raise click.UsageError("--curve-key and --broker-key belong together")
    if curve_key is None or broker_key is None:
        return None
    try:
        pair = load_pair(curve_key)
    except KeyFault as error:
        raise click.UsageError(str(error)) from error
    return CurveClient(pair.public, pair.secret, broker_key)


main.add_command(node)


# ------------------------------------------------------------------------------------------------ tasks


def _json(context: click.Context, parameter: click.Parameter, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}") from error


@main.command()
@click.argument("method")
@click.option("--params", default="[]", callback=_json, help="JSON array or object.")
@click.option("--wait", type=float, help="Seconds to wait for the result, which is then printed.")
@click.option("--task-id", help="An id of your own; submitting it twice is submitting it once.")
@click.option("--priority", type=click.IntRange(0, 9))
@click.option("--delay", type=float)
@click.option("--time-limit", type=float)
@click.option("--max-attempts", type=int)
@click.option("--result-ttl", type=float)
@click.pass_obj
def submit(
    chosen: dict[str, Any], method: str, params: Any, wait: float | None, task_id: str | None, **options: Any
) -> None:
    """Submit a task; prints its id, or with --wait its result."""
    given = {name: value for name, value in options.items() if value is not None}

    async def work(client: Client) -> None:
        submitted = await client.submit(method, params, task_id, CONNECT_WAIT, **given)
        if wait is None:
            show.value(submitted, chosen["json"])
        else:
            show.value(await client.wait(submitted, wait), as_json=True)

    _as_client(chosen, work)


@main.command()
@click.argument("task_id")
@click.pass_obj
def status(chosen: dict[str, Any], task_id: str) -> None:
    """What is known of a task."""
    _ask(chosen, "task", "client_task_status", {"task_id": task_id}, lambda told: show.fields(told, chosen["json"]))


@main.command()
@click.argument("task_id")
@click.option("--wait", type=click.FloatRange(0, 60), default=0.0, help="Seconds to wait for it.")
@click.pass_obj
def result(chosen: dict[str, Any], task_id: str, wait: float) -> None:
    """The result of a task, as JSON."""
    asked = {"task_id": task_id, "wait": wait}
    _ask(chosen, "task_result", "client_task_result", asked, lambda told: show.value(told, as_json=True))


@main.command()
@click.argument("task_id")
@click.pass_obj
def cancel(chosen: dict[str, Any], task_id: str) -> None:
    """End a task for good."""

    def told(ended: bool) -> None:
        click.echo(f"{task_id} is cancelled" if ended else f"{task_id} had ended before")

    _ask(chosen, "task_cancel", "client_task_cancel", {"task_id": task_id}, told)


@main.command()
@click.argument("task_id")
@click.pass_obj
def retry(chosen: dict[str, Any], task_id: str) -> None:
    """Queue a failed task afresh."""
    _operate(chosen, "task_retry", {"task_id": task_id}, lambda told: click.echo(f"{task_id} is queued"))


@main.command()
@click.option("--state", "wanted", help="Only tasks in this state.")
@click.option("--method", help="Only tasks of this method.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.pass_obj
def tasks(chosen: dict[str, Any], wanted: str | None, method: str | None, limit: int) -> None:
    """Tasks of everybody, newest first."""
    asked = {"limit": limit} | ({"state": wanted} if wanted else {}) | ({"method": method} if method else {})
    columns = ["id", "method", "state", "attempts", "node", "client", "status"]
    _operate(chosen, "tasks", asked, lambda told: show.table(told, columns, chosen["json"]))


@main.command()
@click.pass_obj
def nodes(chosen: dict[str, Any]) -> None:
    """Nodes and what they work on."""
    columns = ["node", "slots", "silent", "tasks", "methods"]
    _operate(chosen, "nodes", {}, lambda told: show.table(told, columns, chosen["json"]))


@main.command()
@click.pass_obj
def broker(chosen: dict[str, Any]) -> None:
    """The broker at a glance."""
    _operate(chosen, "broker_status", {}, lambda told: show.fields(told, chosen["json"]))


# -------------------------------------------------------------------------------------------- schedules


@main.group()
def schedule() -> None:
    """Cron lines that submit tasks."""


@schedule.command("add")
@click.argument("name")
@click.argument("line")
@click.argument("method")
@click.option("--params", default="[]", callback=_json, help="JSON array or object.")
@click.option("--zone", default="UTC", show_default=True, help="IANA time zone of the line.")
@click.option("--catch-up", is_flag=True, help="Run once, late, what fell due while no broker was running.")
@click.pass_obj
def schedule_add(chosen: dict[str, Any], name: str, catch_up: bool, **given: Any) -> None:
    """Submit METHOD at the times of LINE ("minute hour day month weekday")."""
    asked = {"name": name, "catch_up": catch_up, **given}
    _operate(chosen, "schedule_add", asked, lambda told: click.echo(f"{name} is scheduled"))


@schedule.command("list")
@click.pass_obj
def schedule_list(chosen: dict[str, Any]) -> None:
    """All schedules, and which runs they missed."""
    columns = ["name", "line", "zone", "method", "catch_up", "missed"]
    _operate(chosen, "schedules", {}, lambda told: show.table(told, columns, chosen["json"]))


@schedule.command("remove")
@click.argument("name")
@click.pass_obj
def schedule_remove(chosen: dict[str, Any], name: str) -> None:
    """Forget a schedule; tasks that it submitted stay."""
    _operate(chosen, "schedule_remove", {"name": name}, lambda told: click.echo(f"{name} is removed"))


# ------------------------------------------------------------------------------------------ the broker


def _endpoint(chosen: dict[str, Any]) -> str:
    """The control socket of --state, else --broker."""
    if chosen["state"] is None:
        return str(chosen["broker"])
    try:
        run = json.loads((chosen["state"] / "run.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"no broker runs in {chosen['state']}: {error}") from error
    if not run["control"]:
        raise click.UsageError(f"the broker in {chosen['state']} has no control socket; its log says why")
    return str(run["control"])


def _ask(
    chosen: dict[str, Any], operator: str, client: str, asked: dict[str, Any], then: Callable[[Any], None]
) -> None:
    """As operator where --state says which broker, else as the client named by --client."""
    if chosen["state"] is not None:
        _operate(chosen, operator, asked, then)
        return

    async def work(link: Client) -> None:
        then(await link.call(client, asked, CONNECT_WAIT))

    _as_client(chosen, work)


def _operate(chosen: dict[str, Any], method: str, asked: dict[str, Any], then: Callable[[Any], None]) -> None:
    if chosen["state"] is None:
        raise click.UsageError("this is for operators: say --state DIR, the folder of the broker on this machine")
    endpoint = _endpoint(chosen)

    async def work(reactor: Any) -> None:
        rpc = Rpc(SocketLink(reactor, endpoint), reactor)
        rpc.start()
        then(await rpc.call(method, asked, timeout=CONNECT_WAIT + asked.get("wait", 0.0)))

    _react(work, endpoint)


def _as_client(chosen: dict[str, Any], work: Callable[[Client], Any]) -> None:
    endpoint = _endpoint(chosen)

    async def whole(reactor: Any) -> None:
        security = None if chosen["state"] else chosen["security"]
        client = Client(SocketLink(reactor, endpoint, security), reactor, chosen["name"])
        client.start()
        try:
            await work(client)
        finally:
            await client.stop()

    _react(whole, endpoint)


def _react(work: Callable[[Any], Any], endpoint: str) -> None:
    async def guarded(reactor: Any) -> None:
        try:
            await work(reactor)
        except RpcError as error:
            click.echo(f"zerotask: {error}", err=True)
            raise SystemExit(3 if error.code in NOT_FOUND else 1) from error
        except NoAnswer as error:
            click.echo(f"zerotask: no answer from {endpoint} ({error}); is the broker running?", err=True)
            raise SystemExit(1) from error
        except SocketError as error:
            click.echo(f"zerotask: {error}", err=True)
            raise SystemExit(2) from error

    react(lambda reactor: Deferred.fromCoroutine(guarded(reactor)))
