"""Submits and follows tasks, operates a broker, and runs a node.

With --state DIR (or ZEROTASK_STATE) a command calls the broker of that folder as its operator, through the control
socket, and sees the tasks of all clients. With --broker (or ZEROTASK_BROKER) it is a client, named by --client, and
sees that client's tasks. A broker is started by `twistd zerotask --state DIR`.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found.
"""

from __future__ import annotations

from pathlib import Path

import click

from groundwork.option_place import OptionsBefore
from scale0.config.keys import ANY, KeyFault, load_pair, stated_identity
from scale0.wire.reader import CurveClient
from zerotask.commands.broker_commands import broker as broker_status
from zerotask.commands.broker_commands import damaged, drain, nodes
from zerotask.commands.schedule_commands import schedule
from zerotask.commands.task_commands import cancel, result, retry, status, submit, tasks
from zerotask.node.command import node

BROKER = "tcp://127.0.0.1:5555"


@click.group(cls=OptionsBefore, help=__doc__)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
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


for _command in (submit, status, result, cancel, retry, tasks, nodes, drain, broker_status, damaged, schedule, node):
    main.add_command(_command)
