"""Implement `helen export` and `helen apply`: everything that operators have declared, as a folder of files.

`apply` makes a plan first and shows its differences. It removes nothing without `--prune`, and leaves parts alone that
the folder doesn't have. A part that changed after the plan was made is not overwritten: Helen refuses it by its tag.
"""

from __future__ import annotations

import difflib
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from attrs import field, frozen

from groundwork.counts import count
from groundwork.terminal import echo, styled
from helen.cli.base import declared_files
from helen.cli.base.client import Client, Failed
from helen.cli.base.declared_files import CHECKS, DOCUMENTS, TOKENS, WINDOWS, Declared
from helen.cli.base.options import for_a_helen, output, plain, print_json

CHANGES = 2  # exit status of --dry-run
PUSH_SECONDS = 300.0  # that judging a whole folder of checks, tests and all, may take
COLORS = {"+": "green", "-": "red", "~": "yellow", "!": "yellow"}

Perform = Callable[[bool], list[str]]  # takes `dry_run`, returns lines to print


@frozen
class Change:
    """Describe one step of a plan. `sign` is +, - or ~; `lines` show the difference; `perform` does it."""

    sign: str
    what: str
    lines: tuple[str, ...] = ()
    perform: Perform = field(default=lambda dry_run: [], repr=False)


@frozen
class Plan:
    """Hold the steps of an apply. `extra` names things that only Helen has; `notes` are sentences for people."""

    changes: tuple[Change, ...]
    extra: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


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
@click.option("--rings", help="Rings for changed checks, as in `helen push`: 1%,10%,100%, or off for all at once.")
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
        confirm(plan)
    said = [line for change in plan.changes for line in carry_out(change, as_json)]
    if as_json:
        print_json(shown(plan, warnings) | {"said": said})


def confirm(plan: Plan) -> None:
    """Ask at the terminal; raises Failed if the answer is no, or if there is no terminal to ask at."""
    if not sys.stdin.isatty():
        raise Failed("nothing was changed: there is no terminal to ask at. Give --yes, or --dry-run to see the plan")
    if not click.confirm(f"Apply {count(len(plan.changes), 'change')}?"):
        raise Failed("nothing was changed")


def rehearse(change: Change) -> list[str]:
    """Have Helen check one step without performing it, and return its warnings; raises Failed if it would refuse."""
    try:
        return change.perform(True)
    except click.ClickException as error:
        raise Failed(f"nothing was changed. {change.what}: {error.message}") from error


def carry_out(change: Change, is_quiet: bool) -> list[str]:
    """Perform one step and print its outcome; raises Failed if Helen refuses it, which leaves earlier steps done."""
    try:
        said = change.perform(False)
    except click.ClickException as error:
        raise Failed(
            f"{change.what}: {error.message}. The steps above it are done; mend it, then apply again"
        ) from error
    for line in (f"{change.what}: done", *said) if not is_quiet else ():
        echo(plain(line))
    return said


# ------------------------------------------------------------------------------------------------ the plan


def make_plan(client: Client, wanted: Declared, held: Declared, prune: bool, going: dict[str, Any]) -> Plan:
    """Return the steps from `held` to `wanted`. `going` is the body of a push: `{"rings": RINGS, "replace": BOOL}`.

    Checks come first, since assignments name them; tokens last.
    """
    changes: list[Change] = []
    extra: list[str] = []
    notes: list[str] = []
    if wanted.checks is not None and held.checks is not None:
        changes += check_changes(client, wanted.checks, held, prune, extra, going)
    for name in DOCUMENTS:
        if name in wanted.documents and wanted.documents[name] != held.documents.get(name, ""):
            changes.append(document_change(client, name, wanted.documents[name], held))
    if wanted.windows is not None and held.windows is not None:
        changes += window_changes(client, wanted.windows, held.windows, prune, extra, notes)
    if wanted.tokens is not None and held.tokens is not None:
        changes += token_changes(client, wanted.tokens, held.tokens, prune, extra)
    return Plan(tuple(changes), tuple(extra), tuple(notes))


def document_change(client: Client, name: str, text: str, held: Declared) -> Change:
    """Return the step that replaces one settings file, such as assignments.toml."""
    before = held.documents.get(name, "")

    def put(dry_run: bool) -> list[str]:
        body = {"text": text, "dry_run": dry_run}
        answer = client.put(DOCUMENTS[name], body, held.tags[name])
        unknown = answer.get("unknown_checks", []) if not dry_run else []
        warnings = answer.get("warnings", []) if not dry_run else []
        return [
            *(f"warning: no published check is called {each}" for each in unknown),
            *map("warning: {}".format, warnings),
        ]

    return Change("~" if before else "+", name, difference(before, text), put)


def check_changes(
    client: Client, wanted: dict[str, str], current: Declared, prune: bool, extra: list[str], going: dict[str, Any]
) -> Iterator[Change]:
    """Yield one push for all changed checks, so that they go out together."""
    held, tag = current.checks or {}, current.tags[CHECKS]
    changed = sorted(name for name, text in wanted.items() if held.get(name) != text)
    gone = sorted(held.keys() - wanted.keys())
    if not prune:
        extra += [f"{CHECKS}/{name}" for name in gone]
        gone = []
    if not changed and not gone:
        return
    lines = [line for name in changed for line in _file(name, held.get(name), wanted[name])]
    lines += [f"- {name}" for name in gone]
    tests = {name.removeprefix("tests/"): wanted[name] for name in changed if name.startswith("tests/")}
    files = {name for name in (*changed, *tests) if name in wanted and not name.startswith("tests/")}
    body = {"files": {name: wanted[name] for name in sorted(files)}, "tests": tests} | going

    def push(dry_run: bool) -> list[str]:
        more = body | {"remove": gone, "dry_run": dry_run}
        answer = client.post("/api/v1/push", more, PUSH_SECONDS, {"if-match": tag})
        return [str(warning) for warning in answer["warnings"]] if dry_run else []

    yield Change("~", CHECKS, tuple(lines), push)


def _file(name: str, before: str | None, now: str) -> Iterator[str]:
    if before is None:
        yield f"+ {name}, {count(len(now.splitlines()), 'line')}"
        return
    yield f"~ {name}"
    yield from (f"    {line}" for line in difference(before, now))


def window_changes(
    client: Client,
    wanted: declared_files.Windows,
    held: declared_files.Windows,
    prune: bool,
    extra: list[str],
    notes: list[str],
) -> Iterator[Change]:
    """Yield the steps for downtimes and silences; one that is over already is a note, not a step."""
    now = time.time()
    for name, window in sorted(wanted.items()):
        before = held.get(name)
        if before == window:
            continue
        if before is None and window.get("until") is not None and window["until"] <= now:
            notes.append(f"{WINDOWS}: {window['kind']} {name} is over")
            continue
        yield Change(
            "+" if before is None else "~", f"{window['kind']} {name}", fields(before or {}, window),
            _open(client, window, before is None),
        )  # fmt: skip
    for name in sorted(held.keys() - wanted.keys()):
        what = f"{held[name]['kind']} {name}"
        if prune:
            yield Change("-", what, fields(held[name], {}), _cancel(client, name))
        else:
            extra.append(what)


def _open(client: Client, window: dict[str, Any], is_new: bool) -> Perform:
    path = f"/api/v1/windows/{quote(window['id'], safe='')}"
    tag = "" if is_new else client.get_tagged(path)[1]

    def post(dry_run: bool) -> list[str]:
        more = {"if-none-match": "*"} if is_new else {"if-match": tag}
        client.post("/api/v1/windows", window | {"dry_run": dry_run}, more=more)
        return []

    return post


def _cancel(client: Client, name: str) -> Perform:
    path = f"/api/v1/windows/{quote(name, safe='')}"
    tag = client.get_tagged(path)[1]

    def post(dry_run: bool) -> list[str]:
        client.post(f"{path}/cancel", {"dry_run": dry_run}, more={"if-match": tag})
        return []

    return post


def token_changes(
    client: Client, wanted: dict[str, Any], held: dict[str, Any], prune: bool, extra: list[str]
) -> Iterator[Change]:
    """Yield the steps for tokens; raises Failed if a token differs, since Helen can't change one."""
    for name, token in sorted(wanted.items()):
        if name not in held:
            yield Change("+", f"token {name}", tuple(_shown(token)), _make(client, token))
        elif not declared_files.is_same_token(token, held[name]):
            raise Failed(
                f"{TOKENS}: the token {name!r} has other scopes, another limit or another end, which can't be changed:"
                f" `helen web-token revoke {name}`, then apply makes a new one"
            )
    for name in sorted(held.keys() - wanted.keys()):
        if prune:
            yield Change("-", f"token {name}", (), _revoke(client, name))
        else:
            extra.append(f"token {name}")


def _shown(token: dict[str, Any]) -> Iterator[str]:
    """Give the lines that a new token is shown with."""
    yield f"+ scopes: {', '.join(token['scopes'])}"
    if "on" in token:
        yield f"+ on: {', '.join(token['on'])}"


def _make(client: Client, token: dict[str, Any]) -> Perform:
    def post(dry_run: bool) -> list[str]:
        lasting = None if token.get("expires") is None else max(1.0, token["expires"] - time.time())
        body = {"name": token["name"], "scopes": token["scopes"], "expires": lasting, "dry_run": dry_run}
        body |= {"on": token["on"]} if "on" in token else {}
        made = client.post("/api/v1/web-tokens", body)
        return [] if dry_run else [f"token {token['name']}, shown this once: {made['token']}"]

    return post


def _revoke(client: Client, name: str) -> Perform:
    def post(dry_run: bool) -> list[str]:
        client.post(f"/api/v1/web-tokens/{quote(name, safe='')}/revoke", {"dry_run": dry_run})
        return []

    return post


# ------------------------------------------------------------------------------------------------ shown


def difference(before: str, now: str) -> tuple[str, ...]:
    """Return the lines of a unified diff, without its head."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=2)
    return tuple(lines)[2:] or (("~ only the ends of its lines are different",) if before != now else ())


def fields(before: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    """Return the difference between two windows, a line for each field."""
    lines = []
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            lines += [f"- {name}: {_value(name, before[name])}"] if name in before else []
            lines += [f"+ {name}: {_value(name, now[name])}"] if name in now else []
    return tuple(lines)


def _value(name: str, value: Any) -> str:
    if name in ("begin", "until"):
        return datetime.fromtimestamp(value, UTC).isoformat(" ", "seconds")
    return json.dumps(value, ensure_ascii=False)


def shown(plan: Plan, warnings: list[str]) -> dict[str, Any]:
    """Return the plan for --output json: `{"changes": [{"action", "what", "lines"}], "extra", "notes", "warnings"}`."""
    changes = [{"action": c.sign, "what": c.what, "lines": list(c.lines)} for c in plan.changes]
    return {"changes": changes, "extra": list(plan.extra), "notes": list(plan.notes), "warnings": warnings}


def show(plan: Plan, warnings: list[str]) -> None:
    """Print the plan: each step with its difference, then notes, and the counts of steps."""
    for change in plan.changes:
        echo(styled(plain(f"{change.sign} {change.what}"), fg=COLORS[change.sign], bold=True))
        for line in change.lines:
            color = COLORS.get(line.strip()[:1])
            echo(f"    {plain(line)}" if color is None else f"    {styled(plain(line), fg=color)}")
    for text in (*plan.notes, *warnings):
        echo(plain(text), err=True)
    if plan.extra:
        listed = ", ".join(plan.extra[:10]) + (f" and {len(plan.extra) - 10} more" if len(plan.extra) > 10 else "")
        echo(f"not in the folder, and left alone without --prune: {plain(listed)}", err=True)
    counts = {sign: sum(change.sign == sign for change in plan.changes) for sign in "+~-"}
    if plan.changes:
        echo(f"{counts['+']} to add, {counts['~']} to change, {counts['-']} to remove")
    else:
        echo("no change")
