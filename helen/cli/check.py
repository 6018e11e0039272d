"""Implement `helen check new` and `helen check dry-run`: a check before it is published."""

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
from groundwork.figures import figure
from groundwork.terminal import echo, styled
from helen.cli import run
from helen.cli.base.client import Client, Failed
from helen.cli.base.metric_rows import HEADINGS, metric_rows
from helen.cli.base.one_off_source import body_of, read_source, spelled_out
from helen.cli.base.options import for_a_helen, output, plain, table
from helen.cli.base.private_key import read_key
from helen.cli.local.processes import EQUUS
from helen.library import check_template

BROKEN = frozenset({"load-error", "crashed", "bad-arguments"})  # reasons for which the code could not be judged
LINT_SECONDS = 20.0  # that the linter may take once the answers are there
AROUND = 2  # lines shown before and behind the one with a fault


@click.group()
def check() -> None:
    """Write a new check, and try it on agents without publishing it."""


# ---------------------------------------------------------------------------------------------------- new


@check.command()
@click.argument("name")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
    help="The folder of checks; tests go to tests/ in it.",
)  # fmt: skip
def new(name: str, folder: Path) -> None:
    """Write NAME.lua and tests/NAME.lua. They are a small check that works, to begin from.

    Beside them come definitions for editors, as `equus lua-meta` writes them.

    Exit status 1: one of the files exists already.
    """
    name = name.removesuffix(".lua")
    if not FILE_NAME.fullmatch(f"{name}.lua") or "/" in name:
        raise click.BadParameter("a check's name has 1 to 63 letters, digits, _ . and -", param_hint="NAME")
    files = {
        folder / f"{name}.lua": check_template.check_of(name),
        folder / "tests" / f"{name}.lua": check_template.TESTS,
    }
    there = [str(path) for path in files if path.exists()]
    if there:
        raise Failed(f"{there[0]} exists already: nothing was written")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        raise Failed(f"{error.filename} can't be written: {error.strerror}") from error
    source, tests = files
    echo(f"Wrote {source} and {tests}.")
    echo(f"  lint it             equus lint {source}")
    echo(f"  run its tests       equus test {name} --checks {folder}")
    echo(f"  try it on an agent  helen check dry-run {source} --agent NAME")
    echo(f"  publish it          helen push {source}")
    define(folder)


def define(folder: Path) -> None:
    """Write the definitions by which an editor completes checks. Without them the check is there all the same."""
    words = [sys.executable, "-c", EQUUS, "lua-meta", str(folder)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    echo(plain(done.stdout.strip() or "No definitions for editors were written."))
    if done.returncode:
        echo(plain(done.stderr.strip()), err=True)


# ---------------------------------------------------------------------------------------------------- dry-run


@check.command("dry-run")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--agent", "agents", metavar="NAME", multiple=True, help="An agent by name; repeatable.")
@click.option("--on", metavar="PATTERN", multiple=True, help="Agents by pattern (web*), or by label (role=web).")
@click.option("--args", metavar="JSON", default="{}", help='Arguments of the check, such as {"path": "/srv"}.')
@click.option(
    "--timeout", metavar="DURATION", default="30s", show_default=True, help="Longest time that an answer may take."
)
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
    """Run the local FILE on agents now, without publishing it. No result is kept.

    Exit status 0: all agents have answered. 1: some have not, or could not run it. 3: there is no such agent.
    """
    if not agents and not on:
        raise click.UsageError("no agent is named: give --agent NAME, or --on PATTERN")
    patience = run.read_timeout(timeout) + run.PATIENCE
    name, files = file.name.removesuffix(".lua"), read_source(file)
    private = [read_key(key) for key in keys]
    named = spelled_out(client, [*agents, *on]) if private else [*agents, *on]
    body = body_of(name, files, run.read_args(args), named, private) | {"timeout": timeout}
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
        echo(plain(note), err=True)
    run.account(targets, wanted, as_json, {"lint": notes})
    raise SystemExit(1 if broken or any(target["outcome"] != "answered" for target in targets) else 0)


@contextlib.contextmanager
def lint_running(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `equus lint` while agents run the code: it finds mistakes in branches that this run doesn't take."""
    words = [sys.executable, "-c", EQUUS, "lint", "--no-tests", "--output", "json", str(file)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as linting:
        try:
            yield linting
        finally:
            linting.kill()


def lint_notes(linting: subprocess.Popen[bytes], file: Path) -> list[str]:
    """Return a line for each finding; none if the linter could not run, since the agents have run the code."""
    try:
        said, _ = linting.communicate(timeout=LINT_SECONDS)
        found = json.loads(said)["files"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return []
    problems = [problem for report in found.values() for problem in report["problems"]]
    return [f"{file}:{each['line']}: {each['severity']}: {each['text']}" for each in problems]


def show(target: dict[str, Any], file: Path) -> None:
    """Print one agent's result: status, summary, the place of a fault, metrics, output, and cost."""
    result = target["result"]
    if result is None or target["outcome"] != "answered":
        echo(f"{plain(target['agent'])}: {target['outcome'].upper()} {plain(target.get('why') or '')}".rstrip())
        return
    echo(f"{plain(target['agent'])}: {result['status'].upper()} {plain(result.get('summary') or '')}".rstrip())
    if result.get("reason"):
        echo(f"    reason: {plain(result['reason'])}")
    show_place(result, file)
    rows = metric_rows(result.get("metrics") or ())
    if rows:
        table([f"    {HEADINGS[0]}", *HEADINGS[1:]], [[f"    {name}", *rest] for name, *rest in rows])
    for line in (result.get("output") or "").splitlines():
        echo(f"    | {plain(line.expandtabs())}")
    echo(f"    {cost(result)}")


def show_place(result: dict[str, Any], file: Path) -> None:
    """Print the lines of the file around the one that a fault names."""
    found = re.match(rf"{re.escape(file.name)}:(\d+):", result.get("summary") or "")
    if found is None or result.get("reason") not in BROKEN:
        return
    lines, fault = file.read_text("utf-8", "replace").splitlines(), int(found[1])
    for at in range(max(1, fault - AROUND), min(len(lines), fault + AROUND) + 1):
        text = f"{'>' if at == fault else ' '} {at:4}  {plain(lines[at - 1].expandtabs())}"
        echo("    " + (styled(text, fg="red") if at == fault else text))


def cost(result: dict[str, Any]) -> str:
    """Return the cost of a run as text: time, CPU and memory, as far as the result has them."""
    parts = [("took", "took_ms", "ms"), ("CPU", "cpu_ms", "ms"), ("memory", "peak_kib", "KiB")]
    known = [f"{label} {figure(result[key], unit)}" for label, key, unit in parts if result.get(key) is not None]
    return f"{', '.join(known) or 'no figures'}; nothing is kept"
