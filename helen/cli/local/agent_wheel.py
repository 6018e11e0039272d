"""Implement `helen agent-wheel`: make a wheel with the agent alone, for `helen push --agent`."""

from __future__ import annotations

from pathlib import Path

import click

from groundwork.figures import figure
from groundwork.terminal import echo
from helen.library.agent_only import agent_only
from helen.library.agent_wheels import NotAnEquus


@click.command("agent-wheel")
@click.argument("wheel", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("agent"), show_default=True,
    help="Folder for the new wheel, which has the same name.",
)  # fmt: skip
def agent_wheel(wheel: Path, out: Path) -> None:
    """Make a wheel with the agent alone from WHEEL, the wheel of the whole product.

    It needs no running Helen. Send it out with `helen push --agent`.
    """
    target = out / wheel.name
    if target.resolve() == wheel.resolve():
        raise click.UsageError(f"--out {out} is the folder of {wheel.name} itself: name another one")
    try:
        content = agent_only(wheel.read_bytes())
        out.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    except (NotAnEquus, OSError) as error:
        raise click.ClickException(str(error)) from error
    echo(f"{target}: {figure(len(content), 'B')}, of {figure(wheel.stat().st_size, 'B')} with the server")
