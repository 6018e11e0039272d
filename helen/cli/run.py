"""Implement `helen run`: have agents run a check now, and print an outcome for each of them."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import click

from groundwork.durations import parse_duration
from groundwork.terminal import echo
from helen.cli.base.client import Client, Missing
from helen.cli.base.one_off_source import body_of, read_source, spelled_out
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.private_key import read_key
from helen.queries.job_request import LONGEST_WAIT, order_life
from helen.queries.live_queries import MAX_ASKED_SECONDS

PATIENCE = 15.0  # seconds beyond the timeout in which Helen must have sent the outcome of every agent
BEAT_PATIENCE = 60.0  # seconds without a line about a job; Helen sends one every ten


@click.command()
@click.argument("check", required=False)
@click.option(
    "--source", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Instead of CHECK: a local .lua file. Agents run it once, and nothing of it is kept.",
)  # fmt: skip
@click.option(
    "--key", "keys", type=click.Path(path_type=Path), multiple=True,
    help="Sign the source with this private key, which Helen doesn't hold; repeat it where two must sign.",
)  # fmt: skip
@click.option(
    "--on",
    metavar="AGENTS",
    multiple=True,
    required=True,
    help="A name, a pattern (web*) or a label (role=web); repeatable.",
)
@click.option("--args", metavar="JSON", default="{}", help='Arguments of the check, such as {"path": "/srv"}.')
@click.option(
    "--timeout", metavar="DURATION", default="30s", show_default=True, help="Longest time that an answer may take."
)
@click.option("--wait-for-offline", metavar="DURATION", help="Ask agents that are away when they return, until then.")
@output
@for_a_helen
def run(
    client: Client, check: str | None, source: Path | None, keys: tuple[Path, ...], on: tuple[str, ...], args: str,
    timeout: str, wait_for_offline: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run CHECK now on agents, and print the answer of each; or a local file, with --source.

    With --wait-for-offline it is a job, which outlives this command and a restart of Helen: see `helen jobs`.

    Exit status 0: all have answered. 1: some have not. 3: there is no such agent, or none of them has such a check.
    """
    name, answer_seconds, wait = check_name(check, source, keys), read_timeout(timeout), 0.0
    if wait_for_offline is not None:
        wait = read_timeout(wait_for_offline, "--wait-for-offline", LONGEST_WAIT)
    body: dict[str, Any] = {"check": name, "on": list(on), "args": read_args(args)}
    jobs, query = "/api/v1/jobs", "/api/v1/runs"
    if source is not None:
        jobs, query = "/api/v1/jobs/once", "/api/v1/once"
        private, life = [read_key(key) for key in keys], read_life(wait, answer_seconds)
        named = spelled_out(client, on) if private else list(on)
        body = body_of(name, read_source(source), body["args"], named, private, life)
    body["timeout"] = timeout
    if wait_for_offline is not None:
        job = client.post(jobs, body | {"wait_for_offline": wait_for_offline})
        echo(f"job {job['id']}: `helen jobs follow {job['id']}` shows it again", err=True)
        conclude(client, name, *follow(client, job["id"], as_json), as_json)
    targets: list[dict[str, Any]] = []
    wanted = 0
    for line in client.stream(query, body, answer_seconds + PATIENCE):
        if "agent" not in line:
            wanted = line["targets"]
            continue
        targets.append(line)
        if not as_json:
            show(line)
    conclude(client, name, targets, wanted, as_json)


def check_name(check: str | None, source: Path | None, keys: tuple[Path, ...]) -> str:
    """Return the name of the check to run: CHECK, or that of the file.

    Raises UsageError if both or neither are given, or a key without a file.
    """
    if source is None and keys:
        raise click.UsageError("--key signs a local file: it goes with --source")
    if source is None and check is not None:
        return check
    if source is not None and check is None:
        return source.name.removesuffix(".lua")
    raise click.UsageError("give either a CHECK or --source FILE")


def read_life(wait: float, timeout: float) -> float:
    """Return the seconds for which an order must be good; `wait` and `timeout` are in seconds.

    Raises BadParameter if that is more than an agent accepts.
    """
    try:
        return order_life(wait, timeout)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait-for-offline") from error


def follow(client: Client, job_id: str, as_json: bool) -> tuple[list[dict[str, Any]], int]:
    """Return the outcome of each target of a job, printed as it comes, and the number of targets."""
    targets: list[dict[str, Any]] = []
    wanted = 0
    for line in client.stream(f"/api/v1/jobs/{quote(job_id, safe='')}/follow", None, BEAT_PATIENCE):
        if "agent" in line:
            targets.append(line)
            if not as_json:
                show(line)
        elif "job" in line:
            wanted = line["targets"]
        elif line.get("why"):
            echo(f"{line['state']}: {plain(line['why'])}", err=True)
    return targets, wanted


def conclude(client: Client, check: str, targets: list[dict[str, Any]], wanted: int, as_json: bool) -> NoReturn:
    """Print the counts, and end with the exit status; raises Missing if no agent has such a check."""
    counted = account(targets, wanted, as_json)
    answers = [target["result"] for target in targets if target["outcome"] == "answered"]
    if answers and all(answer.get("reason") == "unknown-check" for answer in answers):
        raise Missing(unknown_check(client, check))
    raise SystemExit(0 if counted["answered"] == len(targets) else 1)


def account(
    targets: list[dict[str, Any]], wanted: int, as_json: bool, more: Mapping[str, Any] | None = None
) -> Counter[str]:
    """Print every target as JSON, with the keys of `more` beside, or the count of each outcome; return the counts.

    Raises ClickException if outcomes are missing.
    """
    if len(targets) < wanted:
        missing = f"the outcomes of {wanted - len(targets)} of {wanted} agents are missing"
        raise click.ClickException(f"Helen closed the connection too early: {missing}. Ask again")
    targets.sort(key=lambda target: target["agent"])
    counted = Counter(target["outcome"] for target in targets)
    if as_json:
        print_json({"targets": targets, **(more or {})})
    else:
        echo(", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items())))
    return counted


def unknown_check(client: Client, check: str) -> str:
    """Return the sentence for a check that no agent knows: it isn't loaded yet, or names like it."""
    published = [each["name"] for each in client.get("/api/v1/checks")["checks"]]
    if check in published:
        return f"{check} is published, but none of these agents has it yet: see `helen status AGENT`"
    near = difflib.get_close_matches(check, published, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`helen checks` lists them."
    return f"no check is called {check!r}. {hint}"


def read_args(text: str) -> dict[str, Any]:
    """Return the arguments `{NAME: VALUE}` of --args; raises BadParameter if the text is no JSON object."""
    try:
        args = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"this is no JSON: {error}", param_hint="--args") from error
    if not isinstance(args, dict):
        raise click.BadParameter('write a JSON object such as {"path": "/"}', param_hint="--args")
    return args


def read_timeout(text: str, option: str = "--timeout", most: float = MAX_ASKED_SECONDS) -> float:
    """Return the seconds of a duration; raises BadParameter if it is none, or more than `most` seconds."""
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
    if not 0 < value <= most:
        said = f"{text} is not a time above 0 and at most {most:g} s: give one such as 30s"
        raise click.BadParameter(said, param_hint=option)
    return value


def show(target: dict[str, Any]) -> None:
    """Print one agent's outcome as a line, and the output of the check beneath it."""
    result = target["result"] or {}
    status = result.get("status", target["outcome"]).upper()
    text = result.get("summary") or target.get("why") or result.get("reason") or ""
    echo(f"{plain(target['agent'])}: {status} {plain(text)}".rstrip())
    for line in (result.get("output") or "").splitlines()[:20]:
        echo(f"    {plain(line.expandtabs())}")
