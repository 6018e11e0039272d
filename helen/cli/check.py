"""`helen check new` and `helen check dry-run`: a check before anybody runs it."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from equus_protocol.manifest import FILE_NAME
from helen.cli import run, scaffold
from helen.cli.client import Client, Failed
from helen.cli.local import EQUUS
from helen.cli.options import for_a_helen, output, plain, styled, table
from helen.cli.push import read_key
from helen.cli.show import number
from helen.cli.source import body_of, read_source

BROKEN = frozenset({"load-error", "crashed", "bad-arguments"})  # reasons for which the code could not be judged
LINT_SECONDS = 20.0  # that the linter may take once the answers are there
AROUND = 2  # lines shown before and behind the one with a fault


@click.group()
def check() -> None:
    """Begin a check, and try it on agents before anybody runs it."""


# ---------------------------------------------------------------------------------------------------- new


@check.command()
@click.argument("name")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
    help="The folder of checks; tests go to tests/ in it.",
)  # fmt: skip
def new(name: str, folder: Path) -> None:
    """Write NAME.lua and tests/NAME.lua, to begin from."""
    name = name.removesuffix(".lua")
    if not FILE_NAME.fullmatch(f"{name}.lua") or "/" in name:
        raise click.BadParameter("a check is called by up to 63 letters, digits, _ . and -", param_hint="NAME")
    files = {folder / f"{name}.lua": scaffold.check_of(name), folder / "tests" / f"{name}.lua": scaffold.TESTS}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise Failed(f"{there[0]} is there already")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        raise Failed(f"{error.filename} can't be written: {error.strerror}") from error
    source, tests = files
    click.echo(f"Wrote {source} and {tests}.")
    click.echo(f"  look it over    equus lint {source}")
    click.echo(f"  its tests       equus test {name} --checks {folder}")
    click.echo(f"  on an agent     helen check dry-run {source} --agent NAME")
    click.echo(f"  for everybody   helen push {source}")


# ---------------------------------------------------------------------------------------------------- dry-run


@check.command("dry-run")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--agent", "agents", metavar="NAME", multiple=True, help="An agent by name; repeatable.")
@click.option("--on", metavar="PATTERN", multiple=True, help="Agents by pattern (web*), or by label (role=web).")
@click.option("--args", default="{}", help="Arguments of the check, a JSON object.")
@click.option("--timeout", default="30", show_default=True, help="How long an answer may take.")
@click.option(
    "--key", "keys", type=click.Path(path_type=Path), multiple=True,
    help="Sign with this private key, which Helen doesn't hold; repeat it where two must sign.",
)  # fmt: skip
@output
@for_a_helen
def dry_run(
    client: Client, file: Path, agents: tuple[str, ...], on: tuple[str, ...], args: str, timeout: str,
    keys: tuple[Path, ...], as_json: bool,
) -> None:  # fmt: skip
    """Run the local FILE on agents now, without pushing it. Nothing of it is kept.

    Exit status 0: all have answered. 1: some have not, or could not run it. 3: there is no such agent.
    """
    if not agents and not on:
        raise click.UsageError("on which agents? Give --agent NAME, or --on PATTERN")
    patience = run.read_timeout(timeout) + run.PATIENCE
    name, files = file.name.removesuffix(".lua"), read_source(file)
    private = [read_key(key) for key in keys]
    body = body_of(name, files, run.read_args(args), [*agents, *on], private) | {"timeout": timeout}
    targets, wanted = [], 0
    with lint_running(file) as linting:
        for line in client.stream("/api/v1/once", body, patience):
            if "agent" not in line:
                wanted = line["targets"]
                continue
            targets.append(line)
            if not as_json:
                show(line, file)
        notes = lint_notes(linting, file)
    broken = any((target["result"] or {}).get("reason") in BROKEN for target in targets)
    for note in notes if not as_json else ():
        click.echo(plain(note), err=True)
    run.account(targets, wanted, as_json, {"lint": notes})
    raise SystemExit(1 if broken or any(target["outcome"] != "answered" for target in targets) else 0)


@contextlib.contextmanager
def lint_running(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`equus lint`, while agents run the code: it sees mistakes on ways that this run does not take."""
    words = [sys.executable, "-c", EQUUS, "lint", "--no-tests", "--output", "json", str(file)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as linting:
        try:
            yield linting
        finally:
            linting.kill()


def lint_notes(linting: subprocess.Popen[bytes], file: Path) -> list[str]:
    """A line for each thing that it found; none where it could not run, since the agents have judged the code."""
    try:
        said, _ = linting.communicate(timeout=LINT_SECONDS)
        found = json.loads(said)["files"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return []
    problems = [problem for report in found.values() for problem in report["problems"]]
    return [f"{file}:{each['line']}: {each['severity']}: {each['text']}" for each in problems]


def show(target: dict[str, Any], file: Path) -> None:
    """All that one agent has to say of it."""
    result = target["result"]
    if result is None or target["outcome"] != "answered":
        click.echo(f"{plain(target['agent'])}: {target['outcome'].upper()} {plain(target.get('why') or '')}".rstrip())
        return
    click.echo(f"{plain(target['agent'])}: {result['status'].upper()} {plain(result.get('summary') or '')}".rstrip())
    if result.get("reason"):
        click.echo(f"    reason: {plain(result['reason'])}")
    show_place(result, file)
    rows = [
        [f"    {metric['name']}", number(metric["value"]), *(metric.get(key) for key in ("unit", "warn", "crit")),
         ", ".join(f"{key}={value}" for key, value in metric.get("labels", {}).items())]
        for metric in result.get("metrics") or ()
    ]  # fmt: skip
    if rows:
        table(["    METRIC", "VALUE", "UNIT", "WARN", "CRIT", "LABELS"], rows)
    for line in (result.get("output") or "").splitlines():
        click.echo(f"    | {plain(line.expandtabs())}")
    click.echo(f"    {cost(result)}")


def show_place(result: dict[str, Any], file: Path) -> None:
    """The lines of the file around the one that a fault names."""
    found = re.match(rf"{re.escape(file.name)}:(\d+):", result.get("summary") or "")
    if found is None or result.get("reason") not in BROKEN:
        return
    lines, fault = file.read_text("utf-8", "replace").splitlines(), int(found[1])
    for at in range(max(1, fault - AROUND), min(len(lines), fault + AROUND) + 1):
        text = f"{'>' if at == fault else ' '} {at:4}  {plain(lines[at - 1].expandtabs())}"
        click.echo("    " + (styled(text, fg="red") if at == fault else text))


def cost(result: dict[str, Any]) -> str:
    """What the run took, as far as it is told."""
    parts = [("took", "took_ms", "ms"), ("CPU", "cpu_ms", "ms"), ("memory", "peak_kib", "KiB")]
    told = [f"{word} {result[key]:g} {unit}" for word, key, unit in parts if result.get(key) is not None]
    return f"{', '.join(told) or 'no figures'}; nothing is kept"
