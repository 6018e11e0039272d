"""Submits, follows, cancels, retries and lists tasks."""

from __future__ import annotations

from typing import Any

import click

from groundwork.duration_option import DurationOption
from groundwork.terminal import echo
from zerotask import show
from zerotask.client import Client
from zerotask.commands.broker_calls import CONNECT_WAIT, as_client, call, operate
from zerotask.commands.task_options import params_option, task_options
from zerotask.tasks.task import STATES


class TaskState(click.Choice):  # type: ignore[type-arg]  # Choice[str] is a fault with click 8.1
    """Takes the state of a task; a folder is refused with the place where a folder belongs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the state. Raises BadParameter, which click shows, for anything else."""
        if "/" in value or value.startswith((".", "~")):
            typed = "`zerotask --state DIR tasks`"
            self.fail(f"{value} is no state of a task; if it is a broker's folder: {typed}", param, ctx)
        return str(super().convert(value, param, ctx))


@click.command()
@click.argument("method")
@params_option
@click.option("--wait", type=DurationOption(), help="Time to wait for the result, which is then printed.")
@click.option("--task-id", metavar="ID", help="Id of the task: submitted twice with it, it is still one task.")
@task_options
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

    as_client(chosen, work)


@click.command()
@click.argument("task_id")
@click.pass_obj
def status(chosen: dict[str, Any], task_id: str) -> None:
    """Print the state of a task. The last status that its node reported comes with it."""
    call(chosen, "task", "client_task_status", {"task_id": task_id}, lambda found: show.fields(found, chosen["json"]))


@click.command()
@click.argument("task_id")
@click.option("--wait", type=DurationOption(0, 60), default="0s", help="Time to wait for its end.")
@click.pass_obj
def result(chosen: dict[str, Any], task_id: str, wait: float) -> None:
    """Print the result of a task as JSON. Exit status 1 if it failed, or has not ended within --wait (at most 60s)."""
    params = {"task_id": task_id, "wait": wait}
    call(chosen, "task_result", "client_task_result", params, lambda found: show.value(found, as_json=True))


@click.command()
@click.argument("task_id")
@click.pass_obj
def cancel(chosen: dict[str, Any], task_id: str) -> None:
    """Cancel a task. It has failed then, and its node is told to stop."""

    def tell(ended: bool) -> None:
        echo(f"{task_id} is cancelled" if ended else f"{task_id} had ended before")

    call(chosen, "task_cancel", "client_task_cancel", {"task_id": task_id}, tell)


@click.command()
@click.argument("task_id")
@click.pass_obj
def retry(chosen: dict[str, Any], task_id: str) -> None:
    """Queue a failed task again, with all its attempts. For operators."""
    operate(chosen, "task_retry", {"task_id": task_id}, lambda done: echo(f"{task_id} is queued"))


@click.command()
@click.option("--state", "wanted", type=TaskState(STATES), help="Only tasks in this state.")
@click.option("--method", metavar="METHOD", help="Only tasks of this method.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most tasks to list.")
@click.pass_obj
def tasks(chosen: dict[str, Any], wanted: str | None, method: str | None, limit: int) -> None:
    """List the tasks of all clients, newest first. For operators."""
    params = {"limit": limit} | ({"state": wanted} if wanted else {}) | ({"method": method} if method else {})
    columns = ["id", "method", "state", "attempts", "node", "client", "status"]
    operate(chosen, "tasks", params, lambda found: show.table(found, columns, chosen["json"]))
