"""Implement `helen export` and `helen apply`: everything that operators have declared, as a folder of files.

plan_steps.py makes the plan that `apply` shows first, and plan.py carries it out.
"""

from __future__ import annotations

from pathlib import Path

import click

from groundwork.terminal import echo
from helen.cli.base import declared_files
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.declared.plan import CHANGES, carry_out, confirm, rehearse, show, shown
from helen.cli.declared.plan_steps import make_plan


@click.command("export")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write into a folder that holds other things as well.")
@output
@for_a_helen
def export(client: Client, folder: Path, force: bool, as_json: bool) -> None:
    """Write all that is declared into DIR: assignments, notifications, passive checks, windows, tokens, checks.

    `helen apply -f DIR` then finds no change. Files of an earlier export are brought up to date.
    """
    declared_files.judge_folder(folder, force)
    done = declared_files.write(folder, declared_files.fetch(client))
    if as_json:
        print_json({"folder": str(folder), "written": done})
        return
    for line in done:
        echo(plain(line))
    if not done:
        echo("nothing is different")


@click.command("apply")
@click.option("-f", "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
              required=True, help="Folder as `helen export` writes it; parts it lacks are left alone.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing: 0 for no change, 2 for changes.")
@click.option("--yes", is_flag=True, help="Apply the plan without asking.")
@click.option("--prune", is_flag=True, help="Remove everything that Helen has and DIR doesn't name.")
@click.option(
    "--rings",
    metavar="RINGS",
    help="Rings for changed checks, as in `helen push`: 1%,10%,100%, or off for all at once.",
)
@click.option("--replace", is_flag=True, help="Take back a rollout that is under way, instead of waiting for it.")
@output
@for_a_helen
def apply(
    client: Client, folder: Path, dry_run: bool, yes: bool, prune: bool, rings: str | None, replace: bool, as_json: bool
) -> None:
    """Bring Helen to the state that DIR declares. Helen checks the plan, and it is shown, before anything changes.

    Exit status: 0 the state is as declared, 1 it failed or was not confirmed; with --dry-run 0 for no change and 2 for
    changes.
    """
    wanted = declared_files.read(folder)
    if wanted.is_empty:
        raise Failed(f"{folder} declares nothing: `helen export` writes such a folder")
    plan = make_plan(client, wanted, declared_files.fetch(client), prune, {"rings": rings, "replace": replace})
    warnings = [line for change in plan.changes for line in rehearse(change)]
    if as_json and dry_run:
        print_json(shown(plan, warnings))
    elif not as_json:
        show(plan, warnings)
    if dry_run:
        raise SystemExit(CHANGES if plan.changes else 0)
    if plan.changes and not yes:
        confirm(plan, "Give --yes, or --dry-run to see the plan")
    said = [line for change in plan.changes for line in carry_out(change, as_json)]
    if as_json:
        print_json(shown(plan, warnings) | {"said": said})
