"""Lists nodes, drains them, and shows the state of a broker and the tasks that it lost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from groundwork.counts import count
from groundwork.terminal import echo
from zerotask import show
from zerotask.commands.broker_calls import operate


@click.command()
@click.pass_obj
def nodes(chosen: dict[str, Any]) -> None:
    """List the nodes, with their tasks and methods. For operators."""
    columns = ["node", "slots", "silent", "drained", "waiting", "tasks", "methods"]
    operate(chosen, "nodes", {}, lambda found: show.table(found, columns, chosen["json"]))


@click.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Give it tasks again.")
@click.pass_obj
def drain(chosen: dict[str, Any], name: str, undo: bool) -> None:
    """Give the node NAME no further task. For operators.

    This holds until --undo or the end of the broker. The node goes on with its tasks. Once
    `zerotask --state DIR nodes` shows none, it can be stopped.
    """
    text = f"{name} is given tasks again" if undo else f"{name} is given no further task"
    operate(chosen, "node_drain", {"node": name, "drain": not undo}, lambda done: echo(text))


@click.command()
@click.pass_obj
def broker(chosen: dict[str, Any]) -> None:
    """Print the broker's state, tasks, clients and nodes. For operators."""

    def tell(found: dict[str, Any]) -> None:
        sentences = [] if chosen["json"] else [name for name in ("trouble", "damage") if found.get(name)]
        show.fields({name: content for name, content in found.items() if name not in sentences}, chosen["json"])
        for name in sentences:
            echo(f"{name}: {found[name]}")

    operate(chosen, "broker_status", {}, tell)


@click.command()
@click.option("--forget", is_flag=True, help="Take all of them off the record: they were submitted again.")
@click.pass_obj
def damaged(chosen: dict[str, Any], forget: bool) -> None:
    """List the tasks that were lost with a damaged database. For operators.

    The damaged file lies beside the new one, as tasks.db.damaged-TIME.
    """
    if forget:
        operate(chosen, "damaged", {"forget": True}, lambda found: echo(f"{count(found, 'task')} forgotten"))
        return

    def tell(found: list[dict[str, Any]]) -> None:
        rows = [row | {"noticed": f"{datetime.fromtimestamp(row['noticed']):%Y-%m-%d %H:%M:%S}"} for row in found]
        show.table(found if chosen["json"] else rows, ["task_id", "noticed"], chosen["json"])

    operate(chosen, "damaged", {}, tell)
