"""Submits and follows tasks, operates a broker, and runs a node.

With --state DIR (or ZEROTASK_STATE) a command calls the broker of that folder as its operator, through the control
socket, and sees the tasks of all clients. With --broker (or ZEROTASK_BROKER) it is a client, named by --client, and
sees that client's tasks. A broker is started by `twistd zerotask --state DIR`.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from groundwork.counts import count
from groundwork.duration_option import DurationOption
from groundwork.steady_reactor import use_monotonic_clock
from groundwork.terminal import echo
from scale0.config.keys import ANY, KeyFault, load_pair, stated_identity
from scale0.wire.reader import CurveClient, SocketError
from zerotask import errors, show
from zerotask.client import Client
from zerotask.errors import NoAnswer, RpcError
from zerotask.node.command import node
from zerotask.wire.calls import Rpc
from zerotask.wire.links import SocketLink

BROKER = "tcp://127.0.0.1:5555"
CONNECT_WAIT = 5.0  # seconds after which a broker that does not answer counts as not running
NOT_FOUND = (
    *(errors.TASK_UNKNOWN, errors.SCHEDULE_UNKNOWN, errors.CLIENT_UNKNOWN, errors.NODE_UNKNOWN, errors.EXPIRED),
)


@click.group(help=__doc__)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    envvar="ZEROTASK_STATE",
    help="Folder of a broker on this machine; act as its operator.",
)
@click.option(
    "--broker",
    metavar="ENDPOINT",
    envvar="ZEROTASK_BROKER",
    default=BROKER,
    show_default=True,
    help="Endpoint of a broker.",
)
@click.option("--curve-key", type=click.Path(path_type=Path), help="Your CURVE pair, as `scale0ctl keygen` writes it.")
@click.option("--broker-key", metavar="KEY", help="The broker's public CURVE key.")
@click.option(
    "--client", "name", metavar="NAME", help="Name of this client: tasks belong to it. Its key's name, or else `cli`."
)
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of output."
)
@click.pass_context
def main(
    context: click.Context,
    state: Path | None,
    broker: str,
    curve_key: Path | None,
    broker_key: str | None,
    name: str | None,
    output: str,
) -> None:
    """Keep the options for the command that follows; the module's text is the help."""
    security = _security(curve_key, broker_key)
    own = "" if curve_key is None else stated_identity(curve_key).replace(ANY, "")
    context.obj = {
        "state": state, "broker": broker, "security": security, "own": own, "name": name or own or "cli",
        "json": output == "json",
    }  # fmt: skip


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


def _task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a task to a command."""
    for option in (
        click.option("--result-ttl", type=DurationOption(), help="Keep the result so long; default: 24h."),
        click.option("--max-attempts", type=int, help="Attempts before it has failed; default: 3."),
        click.option("--time-limit", type=DurationOption(), help="Longest time of one attempt; default: 1h."),
        click.option("--delay", type=DurationOption(), help="Time before it may run; default: 0s."),
        click.option("--priority", type=click.IntRange(0, 9), help="9 goes first; default: 4."),
    ):
        command = option(command)
    return command


params_option = click.option(
    "--params",
    metavar="JSON",
    default="[]",
    callback=_json,
    help="Array or object of the function's parameters; default: [].",
)


@main.command()
@click.argument("method")
@params_option
@click.option("--wait", type=DurationOption(), help="Time to wait for the result, which is then printed.")
@click.option("--task-id", metavar="ID", help="Id of the task: submitted twice with it, it is still one task.")
@_task_options
@click.pass_obj
def submit(
    chosen: dict[str, Any], /, method: str, params: Any, wait: float | None, task_id: str | None, **options: Any
) -> None:
    """Submit a task that calls METHOD.

    It prints the task's id, or with --wait its result. A node's own policy for METHOD has other defaults.

    Durations are written as 500ms, 30s, 5m or 2h; 30 is seconds. Exit status 1 if the task failed, or has not ended
    within --wait.
    """
    given = {name: value for name, value in options.items() if value is not None}

    async def work(client: Client) -> None:
        """Submit, and wait if that is wanted."""
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
    """Print the state of a task. The last status that its node reported comes with it."""
    _call(chosen, "task", "client_task_status", {"task_id": task_id}, lambda found: show.fields(found, chosen["json"]))


@main.command()
@click.argument("task_id")
@click.option("--wait", type=DurationOption(0, 60), default="0s", help="Time to wait for its end.")
@click.pass_obj
def result(chosen: dict[str, Any], task_id: str, wait: float) -> None:
    """Print the result of a task as JSON. Exit status 1 if it failed, or has not ended within --wait (at most 60s)."""
    params = {"task_id": task_id, "wait": wait}
    _call(chosen, "task_result", "client_task_result", params, lambda found: show.value(found, as_json=True))


@main.command()
@click.argument("task_id")
@click.pass_obj
def cancel(chosen: dict[str, Any], task_id: str) -> None:
    """Cancel a task. It has failed then, and its node is told to stop."""

    def tell(ended: bool) -> None:
        echo(f"{task_id} is cancelled" if ended else f"{task_id} had ended before")

    _call(chosen, "task_cancel", "client_task_cancel", {"task_id": task_id}, tell)


@main.command()
@click.argument("task_id")
@click.pass_obj
def retry(chosen: dict[str, Any], task_id: str) -> None:
    """Queue a failed task again, with all its attempts. For operators."""
    _operate(chosen, "task_retry", {"task_id": task_id}, lambda done: echo(f"{task_id} is queued"))


@main.command()
@click.option(
    "--state", "wanted", metavar="STATE", help="Only tasks in this state: queued, assigned, running, finished, failed."
)
@click.option("--method", metavar="METHOD", help="Only tasks of this method.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most tasks to list.")
@click.pass_obj
def tasks(chosen: dict[str, Any], wanted: str | None, method: str | None, limit: int) -> None:
    """List the tasks of all clients, newest first. For operators."""
    params = {"limit": limit} | ({"state": wanted} if wanted else {}) | ({"method": method} if method else {})
    columns = ["id", "method", "state", "attempts", "node", "client", "status"]
    _operate(chosen, "tasks", params, lambda found: show.table(found, columns, chosen["json"]))


@main.command()
@click.pass_obj
def nodes(chosen: dict[str, Any]) -> None:
    """List the nodes, with their tasks and methods. For operators."""
    columns = ["node", "slots", "silent", "drained", "waiting", "tasks", "methods"]
    _operate(chosen, "nodes", {}, lambda found: show.table(found, columns, chosen["json"]))


@main.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Give it tasks again.")
@click.pass_obj
def drain(chosen: dict[str, Any], name: str, undo: bool) -> None:
    """Give the node NAME no further task. For operators.

    This holds until --undo or the end of the broker. The node goes on with its tasks. Once
    `zerotask nodes` shows none, it can be stopped.
    """
    text = f"{name} is given tasks again" if undo else f"{name} is given no further task"
    _operate(chosen, "node_drain", {"node": name, "drain": not undo}, lambda done: echo(text))


@main.command()
@click.pass_obj
def broker(chosen: dict[str, Any]) -> None:
    """Print the broker's state, tasks, clients and nodes. For operators."""

    def tell(found: dict[str, Any]) -> None:
        sentences = [] if chosen["json"] else [name for name in ("trouble", "damage") if found.get(name)]
        show.fields({name: content for name, content in found.items() if name not in sentences}, chosen["json"])
        for name in sentences:
            echo(f"{name}: {found[name]}")

    _operate(chosen, "broker_status", {}, tell)


@main.command()
@click.option("--forget", is_flag=True, help="Take all of them off the record: they were submitted again.")
@click.pass_obj
def damaged(chosen: dict[str, Any], forget: bool) -> None:
    """List the tasks that were lost with a damaged database. For operators.

    The damaged file lies beside the new one, as tasks.db.damaged-TIME.
    """
    if forget:
        _operate(chosen, "damaged", {"forget": True}, lambda found: echo(f"{count(found, 'task')} forgotten"))
        return

    def tell(found: list[dict[str, Any]]) -> None:
        rows = [row | {"noticed": f"{datetime.fromtimestamp(row['noticed']):%Y-%m-%d %H:%M:%S}"} for row in found]
        show.table(found if chosen["json"] else rows, ["task_id", "noticed"], chosen["json"])

    _operate(chosen, "damaged", {}, tell)


# -------------------------------------------------------------------------------------------- schedules


@main.group()
def schedule() -> None:
    """Add, list and remove schedules, for operators. A schedule is a cron line that submits tasks."""


@schedule.command("add")
@click.argument("name")
@click.argument("line")
@click.argument("method")
@params_option
@click.option("--zone", metavar="ZONE", default="UTC", show_default=True, help="IANA time zone of the line.")
@click.option("--catch-up", is_flag=True, help="Run the latest run that fell due while no broker was running.")
@_task_options
@click.pass_obj
def schedule_add(chosen: dict[str, Any], /, name: str, catch_up: bool, **given: Any) -> None:
    """Submit METHOD at the times of a cron LINE. It is "minute hour day month weekday"."""
    params = {"name": name, "catch_up": catch_up} | {key: value for key, value in given.items() if value is not None}
    _operate(chosen, "schedule_add", params, lambda done: echo(f"{name} is scheduled"))


@schedule.command("list")
@click.pass_obj
def schedule_list(chosen: dict[str, Any]) -> None:
    """List the schedules, with their next and missed runs.

    AHEAD is a time up to which a schedule was run while the broker's clock was ahead: those times are not run again.
    """
    columns = ["name", "line", "zone", "next", "method", "catch_up", "missed", "ahead"]

    def tell(found: list[dict[str, Any]]) -> None:
        rows = found if chosen["json"] else [_with_times(row) for row in found]
        show.table(rows, columns, chosen["json"])

    _operate(chosen, "schedules", {}, tell)


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return a schedule with its times written in its own zone."""
    zone = ZoneInfo(row["zone"])

    def written(time: float | None) -> str | None:
        return None if time is None else f"{datetime.fromtimestamp(time, zone):%Y-%m-%d %H:%M %Z}"

    return row | {
        "next": written(row.get("next")),
        "ahead": written(row.get("ahead")),
        "missed": [written(time) for time in row["missed"]],
    }


@schedule.command("remove")
@click.argument("name")
@click.pass_obj
def schedule_remove(chosen: dict[str, Any], name: str) -> None:
    """Remove a schedule; tasks that it has submitted stay."""
    _operate(chosen, "schedule_remove", {"name": name}, lambda done: echo(f"{name} is removed"))


# ------------------------------------------------------------------------------------------ the broker


def _endpoint(chosen: dict[str, Any]) -> str:
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


def _call(
    chosen: dict[str, Any], operator: str, client: str, params: dict[str, Any], then: Callable[[Any], None]
) -> None:
    """Call the method for operators if --state names a broker, or else the method for clients."""
    if chosen["state"] is not None:
        _operate(chosen, operator, params, then)
        return

    async def work(link: Client) -> None:
        then(await link.call(client, params, CONNECT_WAIT))

    _as_client(chosen, work)


def _operate(chosen: dict[str, Any], method: str, params: dict[str, Any], then: Callable[[Any], None]) -> None:
    if chosen["state"] is None:
        raise click.UsageError("this is for operators: give --state DIR, the folder of the broker on this machine")
    endpoint = _endpoint(chosen)

    async def work(reactor: Any) -> None:
        rpc = Rpc(SocketLink(reactor, endpoint), reactor)
        rpc.start()
        then(await rpc.call(method, params, timeout=CONNECT_WAIT + params.get("wait", 0.0)))

    _react(work, endpoint)


def _as_client(chosen: dict[str, Any], work: Callable[[Client], Any]) -> None:
    endpoint = _endpoint(chosen)

    async def connected(reactor: Any) -> None:
        """Connect as a client, work, and disconnect."""
        security = None if chosen["state"] else chosen["security"]
        client = Client(SocketLink(reactor, endpoint, security), reactor, chosen["name"])
        client.start()
        try:
            await work(client)
        finally:
            await client.stop()

    _react(connected, endpoint)


def _react(work: Callable[[Any], Any], endpoint: str) -> None:
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
