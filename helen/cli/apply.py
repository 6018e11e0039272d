"""`helen export`, `helen apply`: everything that an operator has declared, as files; a plan with its differences first.

Nothing is removed that the folder doesn't name, unless `--prune` says so, and parts that the folder doesn't have are
left alone in any case. What somebody else has changed since the plan was made is not overwritten.
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

from helen.cli import declared
from helen.cli.client import Client, Failed
from helen.cli.declared import CHECKS, DOCUMENTS, TOKENS, WINDOWS, Declared
from helen.cli.options import for_a_helen, output, plain, print_json, styled

CHANGES = 2  # exit status of --dry-run
PUSH_SECONDS = 300.0  # that judging a whole folder of checks, tests and all, may take
COLORS = {"+": "green", "-": "red", "~": "yellow", "!": "yellow"}

Perform = Callable[[bool], list[str]]  # with True nothing is to change; what there is to say of it


@frozen
class Change:
    """One thing that would be done. `sign`: + - ~; `lines`: the difference."""

    sign: str
    what: str
    lines: tuple[str, ...] = ()
    perform: Perform = field(default=lambda dry_run: [], repr=False)


@frozen
class Plan:
    """`extra`: what Helen has and the folder doesn't name; `notes`: what there is to know besides."""

    changes: tuple[Change, ...]
    extra: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@click.command("export")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Into a folder that holds other things, too.")
@output
@for_a_helen
def export(client: Client, folder: Path, force: bool, as_json: bool) -> None:
    """Write what is declared into DIR: assignments, notifications, passive checks, windows, tokens, checks.

    What `helen apply -f DIR` makes of it is no change. Files of an earlier export are brought up to date.
    """
    declared.judge_folder(folder, force)
    done = declared.write(folder, declared.fetch(client))
    if as_json:
        print_json({"folder": str(folder), "written": done})
        return
    for line in done:
        click.echo(plain(line))
    if not done:
        click.echo("nothing is different")


@click.command("apply")
@click.option("-f", "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
              required=True, help="As `helen export` writes it; parts that it lacks are left alone.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing: 0 for no change, 2 for changes.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--prune", is_flag=True, help="Remove what Helen has and DIR doesn't name.")
@click.option("--rings", help="How checks go out, as of `helen push`: 1%,10%,100%, or off for all agents at once.")
@click.option("--replace", is_flag=True, help="Take a rollout back that is under way, rather than wait for it.")
@output
@for_a_helen
def apply(
    client: Client, folder: Path, dry_run: bool, yes: bool, prune: bool, rings: str | None, replace: bool, as_json: bool
) -> None:
    """Bring Helen to what is declared in DIR. The plan is shown, and judged by her, before anything changes.

    Exit status: 0 it is so now, 1 it failed or was not wanted; with --dry-run 0 for no change and 2 for changes.
    """
    wanted = declared.read(folder)
    if wanted.is_empty:
        raise Failed(f"{folder} declares nothing: `helen export` writes such a folder")
    plan = make_plan(client, wanted, declared.fetch(client), prune, {"rings": rings, "replace": replace})
    warnings = [line for change in plan.changes for line in tried(change)]
    if as_json and dry_run:
        print_json(shown(plan, warnings))
    elif not as_json:
        show(plan, warnings)
    if dry_run:
        raise SystemExit(CHANGES if plan.changes else 0)
    if plan.changes and not yes:
        agree(plan)
    said = [line for change in plan.changes for line in done(change, as_json)]
    if as_json:
        print_json(shown(plan, warnings) | {"said": said})


def agree(plan: Plan) -> None:
    if not sys.stdin.isatty():
        raise Failed("nothing was changed: there is nobody to ask, so give --yes, or --dry-run to see the plan")
    if not click.confirm(f"Apply these {len(plan.changes)} changes?"):
        raise Failed("nothing was changed")


def tried(change: Change) -> list[str]:
    """What Helen says of it beforehand; what she would refuse ends it here."""
    try:
        return change.perform(True)
    except click.ClickException as error:
        raise Failed(f"nothing was changed. {change.what}: {error.message}") from error


def done(change: Change, is_quiet: bool) -> list[str]:
    try:
        said = change.perform(False)
    except click.ClickException as error:
        raise Failed(
            f"{change.what}: {error.message}. What is above it was done; apply again once it is mended"
        ) from error
    for line in (f"{change.what}: done", *said) if not is_quiet else ():
        click.echo(plain(line))
    return said


# ------------------------------------------------------------------------------------------------ the plan


def make_plan(client: Client, wanted: Declared, held: Declared, prune: bool, going: dict[str, Any]) -> Plan:
    """Checks come first, since assignments name them; tokens last. `going` says how a push goes out."""
    changes: list[Change] = []
    extra: list[str] = []
    notes: list[str] = []
    if wanted.checks is not None and held.checks is not None:
        changes += of_checks(client, wanted.checks, held, prune, extra, going)
    for name in DOCUMENTS:
        if name in wanted.documents and wanted.documents[name] != held.documents.get(name, ""):
            changes.append(of_document(client, name, wanted.documents[name], held))
    if wanted.windows is not None and held.windows is not None:
        changes += of_windows(client, wanted.windows, held.windows, prune, extra, notes)
    if wanted.tokens is not None and held.tokens is not None:
        changes += of_tokens(client, wanted.tokens, held.tokens, prune, extra)
    return Plan(tuple(changes), tuple(extra), tuple(notes))


def of_document(client: Client, name: str, text: str, held: Declared) -> Change:
    before = held.documents.get(name, "")

    def put(dry_run: bool) -> list[str]:
        body = {"text": text, "dry_run": dry_run}
        answer = client.put(DOCUMENTS[name], body, held.tags[name])
        unknown = answer.get("unknown_checks", []) if not dry_run else []
        return [f"warning: no published check is called {each}" for each in unknown]

    return Change("~" if before else "+", name, difference(before, text), put)


def of_checks(
    client: Client, wanted: dict[str, str], now: Declared, prune: bool, extra: list[str], going: dict[str, Any]
) -> Iterator[Change]:
    """One push for all of them: they go out together."""
    held, tag = now.checks or {}, now.tags[CHECKS]
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
        yield f"+ {name}, {len(now.splitlines())} lines"
        return
    yield f"~ {name}"
    yield from (f"    {line}" for line in difference(before, now))


def of_windows(
    client: Client, wanted: declared.Windows, held: declared.Windows, prune: bool, extra: list[str], notes: list[str]
) -> Iterator[Change]:
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


def of_tokens(
    client: Client, wanted: dict[str, Any], held: dict[str, Any], prune: bool, extra: list[str]
) -> Iterator[Change]:
    for name, token in sorted(wanted.items()):
        if name not in held:
            yield Change("+", f"token {name}", (f"+ scopes: {', '.join(token['scopes'])}",), _make(client, token))
        elif not declared.is_same_token(token, held[name]):
            raise Failed(
                f"{TOKENS}: the token {name!r} has other scopes or another end, which can't be changed:"
                f" `helen web-token revoke {name}`, then apply makes a new one"
            )
    for name in sorted(held.keys() - wanted.keys()):
        if prune:
            yield Change("-", f"token {name}", (), _revoke(client, name))
        else:
            extra.append(f"token {name}")


def _make(client: Client, token: dict[str, Any]) -> Perform:
    def post(dry_run: bool) -> list[str]:
        lasting = None if token.get("expires") is None else max(1.0, token["expires"] - time.time())
        body = {"name": token["name"], "scopes": token["scopes"], "expires": lasting, "dry_run": dry_run}
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
    """A unified one, without its head."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=2)
    return tuple(lines)[2:] or (("~ only the ends of its lines are different",) if before != now else ())


def fields(before: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    """Field by field."""
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
    changes = [{"action": c.sign, "what": c.what, "lines": list(c.lines)} for c in plan.changes]
    return {"changes": changes, "extra": list(plan.extra), "notes": list(plan.notes), "warnings": warnings}


def show(plan: Plan, warnings: list[str]) -> None:
    for change in plan.changes:
        click.echo(styled(plain(f"{change.sign} {change.what}"), fg=COLORS[change.sign], bold=True))
        for line in change.lines:
            color = COLORS.get(line.strip()[:1])
            click.echo(f"    {plain(line)}" if color is None else f"    {styled(plain(line), fg=color)}")
    for text in (*plan.notes, *warnings):
        click.echo(plain(text), err=True)
    if plan.extra:
        listed = ", ".join(plan.extra[:10]) + (f" and {len(plan.extra) - 10} more" if len(plan.extra) > 10 else "")
        click.echo(f"not in the folder, and left alone without --prune: {plain(listed)}", err=True)
    counts = {sign: sum(change.sign == sign for change in plan.changes) for sign in "+~-"}
    if plan.changes:
        click.echo(f"{counts['+']} to add, {counts['~']} to change, {counts['-']} to remove")
    else:
        click.echo("no change")
