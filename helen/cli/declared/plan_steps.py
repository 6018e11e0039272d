"""Make the steps from what Helen has to what a folder declares: checks, settings files, windows and tokens.

Nothing is removed without `prune`, and parts that the folder doesn't have are left alone. A part that changed after the
plan was made is not overwritten: Helen refuses it by its tag.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from groundwork.counts import count
from helen.cli.base import declared_files
from helen.cli.base.client import Client, Failed
from helen.cli.base.declared_files import CHECKS, DOCUMENTS, TOKENS, WINDOWS, Declared
from helen.cli.declared.plan import Change, Perform, Plan

PUSH_SECONDS = 300.0  # that judging a whole folder of checks, tests and all, may take


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
